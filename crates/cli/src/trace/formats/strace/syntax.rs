//! A line's parts: process, time, name, arguments, result.

use crate::trace::request::{Bad, number, seconds};

/// What comes before the call.
#[derive(Debug)]
pub(super) struct Head<'l> {
    /// 0 where strace names none.
    pub(super) process: u64,
    pub(super) time: Option<Time>,
    pub(super) rest: &'l [u8],
}

/// A time in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Time {
    /// Since 1970 (`-ttt`).
    Since(u64),
    /// Since midnight (`-t`, `-tt`).
    OfDay(u64),
    /// Since the line before (`-r`).
    Elapsed(u64),
}

/// What the line tells after that.
#[derive(Debug)]
pub(super) enum Rest<'l> {
    /// Nothing of a call: a signal, or words of strace itself.
    Aside,
    /// The process has ended.
    Ended,
    Call(&'l [u8]),
    /// The other half of a call.
    Resumed {
        name: &'l [u8],
        text: &'l [u8],
    },
}

/// Times before this many seconds are differences: the clock showed it in 1973.
const FIRST_OF_CLOCK: u64 = 100_000_000_000_000_000;

pub(super) fn head(line: &[u8]) -> Result<Head<'_>, Bad> {
    let mut head = Head {
        process: 0,
        time: None,
        rest: line.trim_ascii_start(),
    };
    if let Some(rest) = head.rest.strip_prefix(b"[pid") {
        let end = rest.iter().position(|&byte| byte == b']');
        let end = end.ok_or("`[pid` without its end")?;
        head.process = number(rest[..end].trim_ascii())?;
        head.rest = rest[end + 1..].trim_ascii_start();
    }
    // A process and a time are numbers; the name of a call is not.
    while head.rest.first().is_some_and(u8::is_ascii_digit) {
        let end = head.rest.iter().position(|&byte| byte == b' ');
        let (word, rest) = head.rest.split_at(end.ok_or("a number, and no call")?);
        if word.contains(&b':') {
            head.time = Some(Time::OfDay(of_day(word)?));
        } else if word.contains(&b'.') {
            let time = seconds(word)?;
            head.time = Some(match time {
                time if time < FIRST_OF_CLOCK => Time::Elapsed(time),
                time => Time::Since(time),
            });
        } else {
            let word = number(word)?;
            // `-ttt` of old versions, and `-f -ttt`, tell whole seconds never: the first number is the process.
            if head.process != 0 {
                return Err("two numbers before the call");
            }
            head.process = word;
        }
        head.rest = rest.trim_ascii_start();
    }
    Ok(head)
}

/// `12:34:56` or `12:34:56.789012`.
fn of_day(word: &[u8]) -> Result<u64, Bad> {
    let mut parts = word.split(|&byte| byte == b':');
    let (Some(hours), Some(minutes), Some(rest), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("a time that is not of a day");
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let rest = seconds(rest)?;
    if hours > 23 || minutes > 59 || rest > 61_000_000_000 {
        return Err("a time that is not of a day");
    }
    Ok((hours * 3600 + minutes * 60) * 1_000_000_000 + rest)
}

pub(super) fn rest(rest: &[u8]) -> Result<Rest<'_>, Bad> {
    if rest.starts_with(b"+++ ") {
        return Ok(Rest::Ended);
    }
    const ASIDE: [&[u8]; 3] = [b"--- ", b"strace: ", b"Process "];
    if ASIDE.iter().any(|words| rest.starts_with(words)) {
        return Ok(Rest::Aside);
    }
    if let Some(resumed) = rest.strip_prefix(b"<... ") {
        const RESUMED: &[u8] = b" resumed>";
        let at = find(resumed, RESUMED).ok_or("`<...` of no call")?;
        return Ok(Rest::Resumed {
            name: &resumed[..at],
            text: &resumed[at + RESUMED.len()..],
        });
    }
    Ok(Rest::Call(rest))
}

/// A call: `name(arguments) = result`.
#[derive(Debug, Default)]
pub(super) struct Call<'l> {
    pub(super) name: &'l [u8],
    arguments: [&'l [u8]; Call::MOST],
    nr: usize,
    /// What comes after the equals sign.
    result: &'l [u8],
}

impl<'l> Call<'l> {
    /// No call has more arguments.
    const MOST: usize = 8;

    pub(super) fn parse(text: &'l [u8]) -> Result<Call<'l>, Bad> {
        let (name, mut rest) = name(text)?;
        let mut call = Call {
            name,
            ..Call::default()
        };
        loop {
            let end = argument_end(rest)?;
            let argument = rest[..end].trim_ascii();
            if call.nr < Call::MOST && !(argument.is_empty() && rest[end] == b')') {
                call.arguments[call.nr] = argument;
                call.nr += 1;
            }
            let ended = rest[end] == b')';
            rest = &rest[end + 1..];
            if ended {
                break;
            }
        }
        let result = rest.trim_ascii_start().strip_prefix(b"=");
        call.result = result.ok_or("a call without a result")?.trim_ascii_start();
        Ok(call)
    }

    pub(super) fn argument(&self, at: usize) -> Result<&'l [u8], Bad> {
        match self.arguments[..self.nr].get(at) {
            Some(argument) => Ok(argument),
            None => Err("fewer arguments than the call has"),
        }
    }

    /// What the call has returned; None if it has failed, or nobody saw it return.
    pub(super) fn returned(&self) -> Result<Option<u64>, Bad> {
        if self.result.starts_with(b"-") || self.result.starts_with(b"?") {
            return Ok(None);
        }
        // An address is of no interest.
        if self.result.starts_with(b"0x") {
            return Ok(Some(0));
        }
        let end = self.result.iter().position(|byte| !byte.is_ascii_digit());
        number(&self.result[..end.unwrap_or(self.result.len())]).map(Some)
    }

    /// The path that `-y` tells of a returned descriptor.
    pub(super) fn returned_path(&self) -> Option<&'l [u8]> {
        let at = self.result.iter().position(|byte| !byte.is_ascii_digit())?;
        path_in(&self.result[at..])
    }
}

/// The name of the call that `text` begins with, and what comes after the parenthesis.
pub(super) fn name(text: &[u8]) -> Result<(&[u8], &[u8]), Bad> {
    let end = text.iter().position(|&byte| byte == b'(');
    let (name, rest) = text.split_at(end.ok_or("no call of the system")?);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || !name.iter().all(is_name) {
        return Err("no call of the system");
    }
    Ok((name, &rest[1..]))
}

/// A descriptor, with its path if `-y` tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fd<'l> {
    pub(super) nr: u32,
    pub(super) path: Option<&'l [u8]>,
}

/// `3` or `3</path>`; None for `-1` and for `AT_FDCWD`.
pub(super) fn fd(argument: &[u8]) -> Result<Option<Fd<'_>>, Bad> {
    if argument.starts_with(b"-") || argument.starts_with(b"AT_FDCWD") {
        return Ok(None);
    }
    let end = argument.iter().position(|byte| !byte.is_ascii_digit());
    let end = end.unwrap_or(argument.len());
    let nr = number(&argument[..end])?;
    Ok(Some(Fd {
        nr: u32::try_from(nr).map_err(|_| "a descriptor that no process has")?,
        path: path_in(&argument[end..]),
    }))
}

/// What stands between `<` and `>`.
fn path_in(text: &[u8]) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"<")?;
    let end = angle_end(inside)?;
    Some(&inside[..end])
}

/// The text of a quoted argument, as strace has written it.
pub(super) fn quoted(argument: &[u8]) -> Option<&[u8]> {
    let inside = argument.strip_prefix(b"\"")?;
    let end = quote_end(inside)?;
    Some(&inside[..end])
}

/// Where an argument ends: at a comma or a parenthesis outside of quotes, brackets and paths.
fn argument_end(text: &[u8]) -> Result<usize, Bad> {
    let mut at = 0;
    let mut depth = 0_u32;
    while let Some(&byte) = text.get(at) {
        let inside = &text[at + 1..];
        match byte {
            b'"' => at += 1 + quote_end(inside).ok_or("a quote without its end")?,
            // A path comes after a number or a name; `<<` and `<=` do not occur there.
            b'<' if at > 0 && is_word(text[at - 1]) => {
                at += 1 + angle_end(inside).ok_or("a path without its end")?;
            }
            b'/' if inside.starts_with(b"*") => {
                at += 1 + find(inside, b"*/").ok_or("a comment without its end")? + 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b',' if depth == 0 => return Ok(at),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Err("a call that does not end")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The place of the closing quote.
fn quote_end(inside: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match inside.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The place of the closing `>` of a path. strace writes those of a path itself as numbers; devices have another pair inside, and
/// sockets arrows.
fn angle_end(inside: &[u8]) -> Option<usize> {
    let mut depth = 0_u32;
    let is_path = inside.first() == Some(&b'/');
    for (at, &byte) in inside.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if !is_path && at > 0 && inside[at - 1] == b'-' => {}
            b'>' if depth == 0 => return Some(at),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window == word)
}
