//! What can go wrong with a space.

use std::fmt;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Making a space, or what spaces share.
    Build,
    /// Mapping an area.
    Map,
    /// Unmapping a range.
    Unmap,
    /// Changing the protection of a range.
    Protect,
    /// Moving a range to other addresses.
    Move,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// An atomic operation on a word.
    Atomic,
    /// Pinning bytes of a page.
    Pin,
    /// Looking at bytes of a page where they are.
    View,
    /// Forking.
    Fork,
    /// Migrating a range to another node.
    Migrate,
    /// Making room for a block.
    Compact,
    /// Changing the policy of a range.
    SetPolicy,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Build => "build",
            Self::Map => "map",
            Self::Unmap => "unmap",
            Self::Protect => "protect",
            Self::Move => "move",
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic operation",
            Self::Pin => "pin",
            Self::View => "view",
            Self::Fork => "fork",
            Self::Migrate => "migrate",
            Self::Compact => "compact",
            Self::SetPolicy => "set policy",
        })
    }
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is out of its range.
    InvalidConfig,
    /// There is no area at the address.
    Unmapped,
    /// The area does not allow such an access.
    Protected,
    /// The range is empty, or ends before it begins, or reaches beyond the addresses of the space.
    InvalidRange,
    /// The range does not begin and end at the borders of pages, or the word is not aligned, or the bytes to be
    /// pinned or viewed are of several pages.
    Misaligned,
    /// What the bytes say leads nowhere: the closure of a view ([`Space::view`](crate::Space::view)) has left with `Torn`, though they did not
    /// change; or it has looked more often than any way through a page takes.
    Malformed,
    /// The space has no room for such an area among its addresses.
    OutOfAddresses,
    /// No frame is free, or none on a node that the area is bound to, and none could be made free there by evicting pages of
    /// files.
    OutOfFrames,
    /// The system gave no memory for the space's directory.
    OutOfMemory,
    /// The pool has no such node.
    NoSuchNode,
    /// The page would have more entries than can be counted: 2^24 - 1 while it is being migrated.
    TooManyEntries,
    /// The page has as many references as it can count.
    TooManyPins,
    /// The system refused to make other threads pass a barrier (`membarrier(2)`), without which writers cannot be
    /// stopped.
    Refused,
    /// The file that is mapped there ends before.
    PastEnd,
    /// The file is open for reading only, so writes cannot go to it.
    ReadOnly,
    /// The file's pages are not in the frames of this space: it is of another cache, or the space of none.
    OtherFrames,
    /// The file that is mapped there could not be read, or written: an access of the file itself, or the next sync, tells
    /// more.
    File(pagewell_cache::ErrorKind),
}

impl ErrorKind {
    const fn what(self) -> &'static str {
        match self {
            Self::InvalidConfig => "a setting is out of its range",
            Self::Unmapped => "no area is mapped there",
            Self::Protected => "the area does not allow it",
            Self::InvalidRange => "not a range of addresses of the space",
            Self::Misaligned => "not aligned",
            Self::Malformed => "what the bytes say leads nowhere",
            Self::OutOfAddresses => "no addresses are left for an area of that size",
            Self::OutOfFrames => {
                "no frame is free where the page may be, and none can be made free"
            }
            Self::OutOfMemory => "no memory for the space's directory",
            Self::NoSuchNode => "the pool has no such node",
            Self::TooManyEntries => "more entries than a page can count",
            Self::TooManyPins => "more references than a page can count",
            Self::Refused => "the system refused to stop other threads for a moment",
            Self::PastEnd => "the file that is mapped there ends before",
            Self::ReadOnly => "the file that is mapped there is open for reading only",
            Self::OtherFrames => "the file is not of the cache that the space's frames are of",
            Self::File(_) => "the file that is mapped there failed",
        }
    }
}

/// Why an operation on a space failed. Nothing has changed then, unless the operation says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    op: Op,
    addr: Option<u64>,
}

impl Error {
    pub(crate) const fn new(kind: ErrorKind, op: Op) -> Self {
        Self {
            kind,
            op,
            addr: None,
        }
    }

    pub(crate) const fn at(kind: ErrorKind, op: Op, addr: u64) -> Self {
        Self {
            kind,
            op,
            addr: Some(addr),
        }
    }

    /// The same error, of the operation `op`.
    pub(crate) const fn with_op(self, op: Op) -> Self {
        Self { op, ..self }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was being done.
    pub fn op(&self) -> Op {
        self.op
    }

    /// At which address, where there is one.
    pub fn addr(&self) -> Option<u64> {
        self.addr
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if let Some(addr) = self.addr {
            write!(f, " at {addr:#x}")?;
        }
        write!(f, ": {}", self.kind.what())?;
        match self.kind {
            ErrorKind::File(kind) => write!(f, " ({kind:?})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
