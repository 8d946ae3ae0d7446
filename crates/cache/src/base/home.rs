//! Check for the owning process: the process that created a cache, as opposed to its forks.
//!
//! In a child made by `fork`, claims that other threads had never end, locks stay held
//! ([`process`](pagewell_sync::process)), and writes to the backend would mix with those of the
//! parent. So operations fail there, except queries and hits of reads and views, which validate
//! bytes of the child's own memory.

use pagewell_sync::process::ProcessId;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page_hooks::is_in_page_hook;

#[derive(Debug)]
pub(crate) struct Home(ProcessId);

impl Home {
    pub(crate) fn here() -> Self {
        Self(ProcessId::current())
    }

    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.0.is_current()
    }

    #[inline]
    pub(crate) fn check_process(&self, op: Op) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        Err(self.forked(op))
    }

    /// As [`check_process`](Self::check_process), for a call that may wait ([`check_may_wait`]).
    #[inline]
    pub(crate) fn check(&self, op: Op) -> Result<(), Error> {
        self.check_process(op)?;
        check_may_wait(op)
    }

    #[cold]
    fn forked(&self, op: Op) -> Error {
        Error::new(ErrorKind::Forked, op).with_detail(format!(
            "this is process {}; process {} created the cache",
            std::process::id(),
            self.0.id()
        ))
    }
}

/// Returns [`Deadlock`](ErrorKind::Deadlock) if the calling thread is in a page codec: other
/// threads may be waiting for the page that the codec transforms.
#[inline]
pub(crate) fn check_may_wait(op: Op) -> Result<(), Error> {
    if is_in_page_hook() {
        return Err(in_page_hook(op));
    }
    Ok(())
}

#[cold]
fn in_page_hook(op: Op) -> Error {
    Error::new(ErrorKind::Deadlock, op).with_detail("the calling thread is in a page codec")
}
