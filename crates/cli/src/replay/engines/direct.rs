//! `pread` and `pwrite` with O_DIRECT: past the operating system's cache.
//!
//! Places, lengths and memory have to be aligned. What is read is widened to that; of a write whose ends are not aligned, the blocks
//! there are read first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use memmap2::MmapMut;
use rustix::fs::OFlags;

use super::engine::Engine;
use crate::replay::plan::Plan;
use crate::replay::settings::Target;

pub(super) struct Direct {
    file: File,
    /// Memory of whole pages, so that it is aligned for every device.
    buffer: MmapMut,
    len: u64,
}

/// Why it is not there.
pub(super) enum Why {
    /// The file system does not have it.
    Missing(String),
    Failed(String),
}

/// Enough for every device that has blocks of up to 4 KiB.
const ALIGNMENT: u64 = 4096;

impl Direct {
    pub(super) fn open(target: &Target, plan: &Plan) -> Result<Direct, Why> {
        let failed = |error: io::Error| Why::Failed(error.to_string());
        let missing = |error: &io::Error| {
            Why::Missing(format!(
                "the file system of {} has no O_DIRECT ({error})",
                target.path().display()
            ))
        };
        let writes = matches!(target, Target::Write(_));
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(writes)
            .custom_flags(OFlags::DIRECT.bits() as i32);
        let file = match options.open(target.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(missing(&error));
            }
            Err(error) => return Err(failed(error)),
        };
        let most = u64::from(plan.most) + 2 * ALIGNMENT;
        let most = most.next_multiple_of(ALIGNMENT);
        let buffer = MmapMut::map_anon(most as usize).map_err(failed)?;
        let mut direct = Direct {
            file,
            buffer,
            len: plan.len,
        };
        // Some file systems open a file so, and then do not read it.
        match direct.fill(0, ALIGNMENT) {
            Ok(_) => Ok(direct),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(missing(&error)),
            Err(error) => Err(failed(error)),
        }
    }

    /// Reads whole blocks to the beginning of the buffer, up to the end of the file.
    fn fill(&mut self, offset: u64, len: u64) -> io::Result<u64> {
        let mut done = 0;
        while done < len {
            let part = &mut self.buffer[done as usize..len as usize];
            match self.file.read_at(part, offset + done) {
                Ok(0) => break,
                Ok(n) => done += n as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // The last block of the file is shorter, and nothing comes after it.
            if !done.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        Ok(done)
    }

    /// The blocks around a request: where they begin, their bytes, and how much of the first comes before it.
    fn around(offset: u64, len: usize) -> (u64, u64, usize) {
        let start = offset - offset % ALIGNMENT;
        let end = (offset + len as u64).next_multiple_of(ALIGNMENT);
        (start, end - start, (offset - start) as usize)
    }
}

impl Engine for Direct {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), String> {
        let (start, whole, before) = Direct::around(offset, buf.len());
        let n = self.fill(start, whole).map_err(|error| error.to_string())?;
        if n < (before + buf.len()) as u64 {
            return Err(format!("{n} bytes at {start}: is the file shorter now?"));
        }
        buf.copy_from_slice(&self.buffer[before..before + buf.len()]);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let (start, whole, before) = Direct::around(offset, bytes.len());
        if whole != bytes.len() as u64 {
            self.fill(start, whole).map_err(text)?;
        }
        self.buffer[before..before + bytes.len()].copy_from_slice(bytes);
        let blocks = &self.buffer[..whole as usize];
        self.file.write_all_at(blocks, start).map_err(text)?;
        // The last block has made the file longer than it was.
        if start + whole > self.len {
            self.file.set_len(self.len).map_err(text)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.file.sync_data().map_err(|error| error.to_string())
    }
}
