//! Bytes of a file or a pipe, unpacked.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use super::error::TraceError;
use super::zstd::Frames;

/// An opened trace: its bytes after unpacking.
pub(crate) struct Source {
    pub(super) bytes: BufReader<Box<dyn Read>>,
    /// How the bytes were packed.
    pub(super) packed: Option<&'static str>,
    progressed: Progressed,
}

/// How much of the file has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progressed {
    done: Rc<Cell<u64>>,
    /// The length of the file; 0 for a pipe.
    pub(crate) total: u64,
}

impl Progressed {
    /// Bytes of the file, packed as they are.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }
}

/// How much of the unpacked beginning is looked at to find the format.
const LOOKED_AT: usize = 64 << 10;
/// The bytes at the beginning that say how a file is packed.
const MAGIC: usize = 6;

impl Source {
    /// Opens the file at `path`; `-` is the standard input.
    pub(crate) fn open(path: &Path) -> Result<Source, TraceError> {
        if path.as_os_str() == "-" {
            return Source::new(Box::new(io::stdin()), 0);
        }
        let file = File::open(path).map_err(TraceError::Open)?;
        let found = file.metadata().map_err(TraceError::Open)?;
        if found.is_dir() {
            return Err(TraceError::NotATrace("is a directory"));
        }
        let total = if found.is_file() { found.len() } else { 0 };
        Source::new(Box::new(file), total)
    }

    /// Reads from `raw`, which has `total` bytes, or 0 if nobody knows.
    pub(crate) fn new(raw: Box<dyn Read>, total: u64) -> Result<Source, TraceError> {
        let progressed = Progressed {
            done: Rc::default(),
            total,
        };
        let mut raw = Counted {
            raw,
            done: Rc::clone(&progressed.done),
        };
        let failed = |source| TraceError::Read {
            unit: "byte",
            after: 0,
            source,
        };
        let mut magic = Vec::with_capacity(MAGIC);
        raw.by_ref()
            .take(MAGIC as u64)
            .read_to_end(&mut magic)
            .map_err(failed)?;
        if magic.is_empty() {
            return Err(TraceError::Empty);
        }
        let packing = Packing::of(&magic)?;
        let whole = io::Cursor::new(magic).chain(raw);
        let (bytes, packed): (Box<dyn Read>, _) = match packing {
            Packing::None => (Box::new(whole), None),
            Packing::Gzip => (
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(whole))),
                Some("gzip"),
            ),
            Packing::Zstd => (
                Box::new(Frames::new(BufReader::with_capacity(LOOKED_AT, whole))),
                Some("zstd"),
            ),
        };
        Ok(Source {
            bytes: BufReader::with_capacity(LOOKED_AT, bytes),
            packed,
            progressed,
        })
    }

    pub(crate) fn progressed(&self) -> Progressed {
        self.progressed.clone()
    }

    /// The first bytes, up to 64 KiB, which are not consumed; and whether they are all.
    pub(super) fn beginning(&mut self) -> io::Result<(Vec<u8>, Beginning)> {
        let mut beginning = vec![0; LOOKED_AT];
        let mut len = 0;
        while len < LOOKED_AT {
            match self.bytes.read(&mut beginning[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What is there says what it is; the error comes again, where it belongs.
                Err(error) if len > 0 => {
                    beginning.truncate(len);
                    self.put_back(beginning.clone(), Some(error));
                    return Ok((beginning, Beginning::Part));
                }
                Err(error) => return Err(error),
            }
        }
        beginning.truncate(len);
        self.put_back(beginning.clone(), None);
        let all = if len < LOOKED_AT {
            Beginning::All
        } else {
            Beginning::Part
        };
        Ok((beginning, all))
    }

    /// Has `bytes` read again, and then an error if there was one.
    fn put_back(&mut self, bytes: Vec<u8>, error: Option<io::Error>) {
        let rest: Box<dyn Read> = Box::new(io::empty());
        let rest = std::mem::replace(&mut self.bytes, BufReader::new(rest));
        let failed = Failed(error);
        let again = io::Cursor::new(bytes).chain(failed).chain(rest);
        self.bytes = BufReader::with_capacity(LOOKED_AT, Box::new(again));
    }

    /// Whether everything was read.
    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.bytes.fill_buf()?.is_empty())
    }
}

/// Whether the beginning of a trace is all of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Beginning {
    All,
    Part,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(magic: &[u8]) -> Result<Packing, TraceError> {
        const FOREIGN: [(&[u8], &str); 5] = [
            (b"\xfd7zXZ\0", "xz"),
            (b"BZh", "bzip2"),
            (b"\x04\x22\x4d\x18", "lz4"),
            (b"PK\x03\x04", "zip"),
            (b"7z\xbc\xaf\x27\x1c", "7z"),
        ];
        if let Some((_, name)) = FOREIGN.iter().find(|(bytes, _)| magic.starts_with(bytes)) {
            return Err(TraceError::Compressed(name));
        }
        Ok(match magic {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            // A frame, or one to be skipped, which comes first in some archives.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
            _ => Packing::None,
        })
    }
}

/// Counts the bytes that are read.
struct Counted {
    raw: Box<dyn Read>,
    done: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.raw.read(buf)?;
        self.done.set(self.done.get() + n as u64);
        Ok(n)
    }
}

/// An error that is told once, if there is one.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
