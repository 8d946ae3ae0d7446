//! fio's iologs, versions 2 and 3: `FILE ACTION [OFFSET LENGTH]`; in version 3 with the time in microseconds before it.

use super::{LineReader, Stop};
use crate::trace::error::TraceError;
use crate::trace::files::Files;
use crate::trace::request::{Op, Request, Span, number, words};

pub(in crate::trace) struct Fio {
    version: Version,
    is_first: bool,
    /// In version 2, microseconds of all waits so far.
    waited: u64,
    has_waits: bool,
    nr_trims: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    Two,
    Three,
}

impl Fio {
    /// Reads the version from the first line.
    pub(in crate::trace) fn new(beginning: &[u8]) -> Result<Fio, TraceError> {
        let first = beginning.split(|&byte| byte == b'\n').next();
        let version = match first.map(<[u8]>::trim_ascii) {
            Some(b"fio version 2 iolog") => Version::Two,
            Some(b"fio version 3 iolog") => Version::Three,
            _ => {
                return Err(TraceError::NotATrace(
                    "line 1: is not `fio version 2 iolog` or `fio version 3 iolog`, which are the \
                     versions that are read",
                ));
            }
        };
        Ok(Fio {
            version,
            is_first: true,
            waited: 0,
            has_waits: false,
            nr_trims: 0,
        })
    }
}

impl LineReader for Fio {
    fn line(
        &mut self,
        line: &[u8],
        files: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        if std::mem::take(&mut self.is_first) {
            return Ok(());
        }
        let mut words = words(line);
        let time = match self.version {
            Version::Two => None,
            Version::Three => Some(number(words.next().unwrap_or_default())?),
        };
        let (Some(name), Some(action)) = (words.next(), words.next()) else {
            return Err(Stop::Bad("no file and action"));
        };
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"add" | b"open" | b"close" => return Ok(()),
            b"sync" | b"datasync" | b"trim" | b"wait" => {
                let offset = number(words.next().unwrap_or(b"0"))?;
                self.nr_trims += u64::from(action == b"trim");
                if action == b"wait" {
                    self.has_waits = true;
                    self.waited = self.waited.saturating_add(offset);
                }
                return Ok(());
            }
            _ => return Err(Stop::Bad("an action that fio does not have")),
        };
        let mut next = || words.next().ok_or("no offset and length");
        let (offset, len) = (number(next()?)?, number(next()?)?);
        if words.next().is_some() {
            return Err(Stop::Bad("more words than an action has"));
        }
        let span = Span::bytes(offset, len)?;
        let time = time.or(self.has_waits.then_some(self.waited));
        requests.push(Request {
            file: files.number(name)?,
            span,
            op,
            time: time.map(|microseconds| microseconds.saturating_mul(1000)),
        });
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        match self.nr_trims {
            0 => Vec::new(),
            nr => vec![format!("{nr} trims are left out")],
        }
    }
}
