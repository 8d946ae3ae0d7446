//! Copies from and to a mapping of the file.

#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io;

use memmap2::{Mmap, MmapMut};

use super::engine::Engine;
use crate::replay::settings::Target;

pub(super) enum Mapped {
    Read(Mmap),
    Write(MmapMut),
}

pub(super) fn open(target: &Target) -> io::Result<Mapped> {
    let writes = matches!(target, Target::Write(_));
    let file = OpenOptions::new()
        .read(true)
        .write(writes)
        .open(target.path())?;
    if writes {
        // SAFETY: nobody else may change the file meanwhile: `--writes` demands that of the user, whose file it is; in this process
        // one engine at a time has it open.
        return Ok(Mapped::Write(unsafe { MmapMut::map_mut(&file) }?));
    }
    // SAFETY: nobody may change the file meanwhile, which `--file` demands; this process only reads it.
    Ok(Mapped::Read(unsafe { Mmap::map(&file) }?))
}

impl Engine for Mapped {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), String> {
        let all: &[u8] = match self {
            Mapped::Read(map) => map,
            Mapped::Write(map) => map,
        };
        let end = offset as usize + buf.len();
        let bytes = all.get(offset as usize..end);
        buf.copy_from_slice(bytes.ok_or("past the end of the mapping")?);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), String> {
        let Mapped::Write(map) = self else {
            return Err("the mapping is for reading".to_owned());
        };
        let end = offset as usize + bytes.len();
        let place = map.get_mut(offset as usize..end);
        place
            .ok_or("past the end of the mapping")?
            .copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        match self {
            Mapped::Read(_) => Ok(()),
            Mapped::Write(map) => map.flush().map_err(|error| error.to_string()),
        }
    }
}
