use std::fmt;
use std::io;

/// Kind of transfer by which the bytes of a file are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transfers {
    /// Direct I/O, past the kernel's page cache, in whole multiples of `alignment`.
    Direct {
        /// Alignment of positions, lengths and addresses in bytes, a power of two.
        alignment: usize,
    },
    /// Through the kernel's page cache.
    Buffered(Buffered),
}

/// Reason for reading and writing a file through the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Buffered {
    /// Direct I/O was not requested.
    NotAsked,
    /// The system reports no valid alignment for direct I/O, for example because it is too old.
    NoAlignment,
    /// The file system requires an alignment of this many bytes, more than 4096.
    TooCoarse(u32),
    /// The system rejected `O_DIRECT`, with this error number.
    RefusedAtOpen(i32),
    /// The system accepted `O_DIRECT` and rejected an aligned transfer, with this error number.
    RefusedAtTransfer(i32),
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { alignment } => write!(f, "direct, aligned to {alignment} bytes"),
            Self::Buffered(reason) => write!(f, "through the kernel's page cache: {reason}"),
        }
    }
}

impl fmt::Display for Buffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::NotAsked => f.write_str("direct I/O was not requested"),
            Self::NoAlignment => {
                f.write_str("the file system reports no alignment for direct transfers")
            }
            Self::TooCoarse(alignment) => {
                write!(f, "direct I/O requires an alignment of {alignment} bytes")
            }
            Self::RefusedAtOpen(errno) => {
                write!(f, "the system rejected O_DIRECT: {}", name(errno))
            }
            Self::RefusedAtTransfer(errno) => {
                write!(
                    f,
                    "the system rejected an aligned direct transfer: {}",
                    name(errno)
                )
            }
        }
    }
}
