//! Identity of this process. Accesses of a child of `fork` to the open files of its parent would
//! conflict with those of the parent. So the methods of a connection fail in all processes but the
//! one that opened it, usually before SQLite writes to a log or journal. But if the connection was
//! in a transaction or in `locking_mode=EXCLUSIVE` at the fork, SQLite has its locks already. It
//! may then write to a log or journal, a file of the Unix VFS, before it calls this VFS.

use pagewell_sync::process;

use crate::abi;
use crate::error::Failure;

/// Identity of a process, distinct from that of every connection inherited from its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    #[inline]
    pub(crate) fn this() -> Self {
        Self(process::number())
    }

    #[inline]
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self == Self::this() {
            return Ok(());
        }
        Err(Failure::new(
            abi::IOERR,
            "cannot use the connection: a parent process opened it before a fork",
        ))
    }
}
