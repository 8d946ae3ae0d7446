//! How the bytes of a file of the system are transferred.

use std::fmt;
use std::io;

/// How the bytes of a file are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transfers {
    /// Past the operating system's cache, in whole multiples of this many bytes.
    Direct {
        /// Positions, lengths and addresses are multiples of this power of two.
        alignment: usize,
    },
    /// Through the operating system's cache.
    Buffered(Buffered),
}

/// Why a file is read and written through the operating system's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Buffered {
    /// Nothing else was asked for.
    NotAsked,
    /// The file system tells no alignment for direct transfers: it has none, or the system is too old to tell.
    NoAlignment,
    /// It wants transfers to be aligned to more than a page, to this many bytes.
    TooCoarse(u32),
    /// The system refused the flag, with this error number.
    RefusedAtOpen(i32),
    /// The system took the flag and refused an aligned transfer, with this error number.
    RefusedAtTransfer(i32),
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { alignment } => write!(f, "direct, aligned to {alignment} bytes"),
            Self::Buffered(reason) => write!(f, "through the operating system's cache: {reason}"),
        }
    }
}

impl fmt::Display for Buffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |errno: &i32| io::Error::from_raw_os_error(*errno);
        match self {
            Self::NotAsked => f.write_str("direct transfers were not asked for"),
            Self::NoAlignment => {
                f.write_str("the file system tells no alignment for direct transfers")
            }
            Self::TooCoarse(alignment) => {
                write!(
                    f,
                    "direct transfers would have to be aligned to {alignment} bytes"
                )
            }
            Self::RefusedAtOpen(errno) => {
                write!(
                    f,
                    "the system refused to open it for direct transfers: {}",
                    name(errno)
                )
            }
            Self::RefusedAtTransfer(errno) => {
                write!(
                    f,
                    "the system refused an aligned direct transfer: {}",
                    name(errno)
                )
            }
        }
    }
}
