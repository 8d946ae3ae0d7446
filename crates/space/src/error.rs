use std::fmt;

/// Failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Creating a space, or the shared state of spaces.
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
    /// Viewing bytes of a page in place.
    View,
    /// Forking.
    Fork,
    /// Migrating a range to another node.
    Migrate,
    /// Assembling a block.
    Compact,
    /// Changing the policy of a range.
    SetPolicy,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Build => "create a space",
            Self::Map => "map an area",
            Self::Unmap => "unmap",
            Self::Protect => "protect",
            Self::Move => "move",
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "access a word",
            Self::Pin => "pin",
            Self::View => "view",
            Self::Fork => "fork",
            Self::Migrate => "migrate",
            Self::Compact => "assemble a block",
            Self::SetPolicy => "set the policy",
        })
    }
}

/// Cause of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is out of its range.
    InvalidConfig,
    /// No area is mapped at the address.
    Unmapped,
    /// The protection of the area does not permit the access.
    Protected,
    /// The range is empty, ends before it begins, or exceeds the addresses of the space.
    InvalidRange,
    /// A range or word is not aligned, or the bytes to be pinned or viewed are in several pages.
    Misaligned,
    /// The closure of a view ([`Space::view`](crate::Space::view)) returned `Torn` although the
    /// bytes did not change, or made more accesses than any path through a page takes.
    Malformed,
    /// No free range of addresses of the space is large enough.
    OutOfAddresses,
    /// No frame is free, or can be reclaimed, on a node that the policy of the area permits.
    OutOfFrames,
    /// The system has no memory for the space's directory.
    OutOfMemory,
    /// The pool has no such node.
    NoSuchNode,
    /// The page would exceed its maximum of entries: 2^27 - 1, or 2^24 - 1 during a migration.
    TooManyEntries,
    /// The page has the maximum number of references.
    TooManyPins,
    /// The system refused `membarrier(2)`, without which writers cannot be stopped.
    Refused,
    /// The mapped file ends before the address.
    PastEnd,
    /// The file is open for reading only, so writes to it are not possible.
    ReadOnly,
    /// The frames of the space belong to another cache than the file, or to no cache.
    OtherFrames,
    /// The mapped file failed. The same access through the file, or a sync of it, returns details.
    File(pagewell_cache::ErrorKind),
}

impl ErrorKind {
    const fn what(self) -> &'static str {
        match self {
            Self::InvalidConfig => "a setting is out of range",
            Self::Unmapped => "no area is mapped there",
            Self::Protected => "the protection of the area does not permit it",
            Self::InvalidRange => "the range is empty or exceeds the space's addresses",
            Self::Misaligned => "not aligned, or not in one page",
            Self::Malformed => "the contents are invalid",
            Self::OutOfAddresses => "no free range of addresses is large enough",
            Self::OutOfFrames => {
                "no frame is free on a node that the page may use, and none can be reclaimed"
            }
            Self::OutOfMemory => "the system has no memory for the space's directory",
            Self::NoSuchNode => "the pool has no such node",
            Self::TooManyEntries => "the page has the maximum number of entries",
            Self::TooManyPins => "the page has the maximum number of references",
            Self::Refused => "the system refused a memory barrier in other threads (membarrier)",
            Self::PastEnd => "the mapped file ends before",
            Self::ReadOnly => "the mapped file is open for reading only",
            Self::OtherFrames => "the file belongs to another cache than the space's frames",
            Self::File(_) => "the mapped file failed",
        }
    }
}

/// Error of an operation on a space. Nothing has changed, unless documented otherwise.
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

    pub(crate) const fn with_op(self, op: Op) -> Self {
        Self { op, ..self }
    }

    /// Returns the cause.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the failed operation.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Returns the address, if the error concerns one.
    pub fn addr(&self) -> Option<u64> {
        self.addr
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.op)?;
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
