//! What `blkparse` prints: `major,minor cpu number time pid action rwbs sector + count [process]`.
//!
//! A request passes several actions: it is queued (Q), inserted (I), issued (D), completed (C). One of them is counted, the first of
//! these that the beginning of the trace has. Each device is a file.

use super::{LineReader, Stop};
use crate::trace::files::Files;
use crate::trace::request::{Op, Request, Span, number, seconds, words};

pub(in crate::trace) struct Blkparse {
    action: u8,
    /// The tables at the end have begun.
    is_over: bool,
    nr_discards: u64,
}

const ACTIONS: [u8; 4] = *b"QIDC";
/// Bytes of a sector, whatever the device has.
const SECTOR: u64 = 512;

/// The action that is counted in a trace that begins with these lines.
pub(in crate::trace) fn action_in<'a>(lines: impl Iterator<Item = &'a [u8]>) -> u8 {
    let found = lines
        .filter_map(|line| {
            let action = words(line).nth(5)?;
            ACTIONS.iter().position(|known| action == [*known])
        })
        .min();
    ACTIONS[found.unwrap_or(0)]
}

impl Blkparse {
    pub(in crate::trace) fn new(action: u8) -> Blkparse {
        Blkparse {
            action,
            is_over: false,
            nr_discards: 0,
        }
    }
}

impl LineReader for Blkparse {
    fn line(
        &mut self,
        line: &[u8],
        files: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        if self.is_over {
            return Ok(());
        }
        let mut words = words(line);
        let mut next = || words.next().ok_or("fewer words than blkparse writes");
        let device = next()?;
        // `CPU0 (8,0):` and `Total (8,0):` stand above tables.
        if (device.starts_with(b"CPU") || device == b"Total") && line.ends_with(b":") {
            self.is_over = true;
            return Ok(());
        }
        let (major, minor) = split_at(device, b',').ok_or("no device, such as 8,0")?;
        number(major)?;
        number(minor)?;
        number(next()?)?;
        number(next()?)?;
        let time = seconds(next()?)?;
        number(next()?)?;
        let action = next()?;
        if !(1..=2).contains(&action.len()) || !action.iter().all(u8::is_ascii_alphabetic) {
            return Err(Stop::Bad("an action that blkparse does not have"));
        }
        if action != [self.action] {
            return Ok(());
        }
        let kind = next()?;
        let is = |letter| kind.contains(&letter);
        let op = match () {
            () if is(b'D') => {
                self.nr_discards += 1;
                return Ok(());
            }
            () if is(b'W') => Op::Write,
            () if is(b'R') => Op::Read,
            () => return Ok(()),
        };
        let place = next()?;
        // A flush has no place, only the name of its process.
        if place.starts_with(b"[") || place.starts_with(b"(") {
            return Ok(());
        }
        let sector = number(place)?;
        if next()? != b"+" {
            return Err(Stop::Bad("no `+ count` after the sector"));
        }
        let count = number(next()?)?;
        if count == 0 && is(b'F') {
            return Ok(());
        }
        let bytes = |sectors: u64| {
            sectors
                .checked_mul(SECTOR)
                .ok_or("a sector that no device has")
        };
        requests.push(Request {
            span: Span::bytes(bytes(sector)?, bytes(count)?)?,
            file: files.number(device)?,
            op,
            time: Some(time),
        });
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.action != b'Q' {
            let action = char::from(self.action);
            notes.push(format!(
                "no request is seen when it is queued (Q): those with action {action} are counted, \
                 which may be merged"
            ));
        }
        if self.nr_discards > 0 {
            notes.push(format!("{} discards are left out", self.nr_discards));
        }
        notes
    }
}

fn split_at(word: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|&byte| byte == separator)?;
    Some((&word[..at], &word[at + 1..]))
}
