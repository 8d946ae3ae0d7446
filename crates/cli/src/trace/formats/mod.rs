//! What a line of each format says.

mod arc;
pub(super) mod blkparse;
mod csv;
mod fio;
mod numbers;
pub(super) mod oracle;
mod strace;

pub(super) use self::arc::Arc;
pub(super) use self::blkparse::Blkparse;
pub(super) use self::csv::Csv;
pub(super) use self::fio::Fio;
pub(super) use self::numbers::Numbers;
pub(super) use self::strace::Strace;
use super::files::{Files, Full};
use super::request::{Bad, Request};

/// Reads the lines of one trace in their order.
pub(super) trait LineReader {
    /// Adds the requests of a line, which is not empty and has no white space at its end; nothing if it is no request.
    fn line(
        &mut self,
        line: &[u8],
        files: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop>;

    /// What the user should know of the lines so far.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a line gives no requests.
#[derive(Debug)]
pub(super) enum Stop {
    Bad(Bad),
    /// There is no room for the name of another file.
    Files,
}

impl From<Bad> for Stop {
    fn from(why: Bad) -> Stop {
        Stop::Bad(why)
    }
}

impl From<Full> for Stop {
    fn from(_: Full) -> Stop {
        Stop::Files
    }
}
