//! What `strace` prints: the calls of a program, one a line, of which those that transfer bytes of regular files are requests.
//!
//! | module | what |
//! |---|---|
//! | [`syntax`] | a line's parts: process, time, name, arguments, result |
//! | [`descriptors`] | which descriptor of which process is at which position of which file |
//! | [`calls`] | what each call does to these |
//!
//! A call that is interrupted by others in the trace (`<unfinished ...>`, `<... NAME resumed>`) counts when it resumes. What is read
//! and written is what the call has returned, not what it has asked for.

mod calls;
mod descriptors;
mod syntax;

use rustc_hash::FxHashMap;

use self::calls::Calls;
use self::syntax::{Head, Rest};
use super::{LineReader, Stop};
use crate::trace::files::Files;
use crate::trace::request::Request;

#[derive(Default)]
pub(in crate::trace) struct Strace {
    calls: Calls,
    /// Calls that have not returned, by process.
    unfinished: FxHashMap<u64, Vec<u8>>,
    unfinished_bytes: usize,
    clock: Clock,
}

/// The most bytes of calls that have not returned.
const MOST_UNFINISHED: usize = 64 << 20;
const UNFINISHED: &[u8] = b"<unfinished ...>";

impl LineReader for Strace {
    fn line(
        &mut self,
        line: &[u8],
        files: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        let Head {
            process,
            time,
            rest,
        } = syntax::head(line)?;
        let time = time.map(|time| self.clock.nanoseconds(time));
        match syntax::rest(rest)? {
            Rest::Aside => {}
            Rest::Ended => {
                self.calls.end(process);
                self.take_unfinished(process);
            }
            Rest::Call(text) => match text.strip_suffix(UNFINISHED) {
                Some(text) => {
                    let text = text.trim_ascii_end();
                    self.take_unfinished(process);
                    if self.unfinished_bytes + text.len() > MOST_UNFINISHED {
                        return Err(Stop::Bad("too many calls that do not return"));
                    }
                    self.calls.begin(process, text);
                    self.unfinished_bytes += text.len();
                    self.unfinished.insert(process, text.to_vec());
                }
                None => self.calls.call(process, time, text, files, requests)?,
            },
            Rest::Resumed { name, text } => {
                let Some(mut whole) = self.take_unfinished(process) else {
                    // The trace has begun in the middle of the call.
                    return Ok(());
                };
                if !whole.starts_with(name) {
                    return Err(Stop::Bad(
                        "another call resumes than the one that was interrupted",
                    ));
                }
                whole.extend_from_slice(text);
                // A call that is interrupted once more, as one that ends with its process is.
                if whole.ends_with(UNFINISHED) {
                    return Ok(());
                }
                self.calls.call(process, time, &whole, files, requests)?;
            }
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.calls.notes()
    }
}

impl Strace {
    fn take_unfinished(&mut self, process: u64) -> Option<Vec<u8>> {
        let text = self.unfinished.remove(&process)?;
        self.unfinished_bytes -= text.len();
        Some(text)
    }
}

/// From what strace prints as time to one that does not go back.
#[derive(Default)]
struct Clock {
    before: u64,
    days: u64,
    /// The sum of times that are told as differences (`-r`).
    elapsed: u64,
}

const DAY: u64 = 86_400_000_000_000;

impl Clock {
    fn nanoseconds(&mut self, time: syntax::Time) -> u64 {
        match time {
            syntax::Time::Since(nanoseconds) => nanoseconds,
            syntax::Time::OfDay(nanoseconds) => {
                if nanoseconds + DAY / 2 < self.before {
                    self.days += 1;
                }
                self.before = nanoseconds;
                nanoseconds.saturating_add(self.days.saturating_mul(DAY))
            }
            syntax::Time::Elapsed(nanoseconds) => {
                self.elapsed = self.elapsed.saturating_add(nanoseconds);
                self.elapsed
            }
        }
    }
}
