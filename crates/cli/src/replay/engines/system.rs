//! `pread` and `pwrite`, by way of the operating system's cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use super::engine::Engine;
use crate::replay::settings::Target;

pub(super) struct System(File);

impl System {
    pub(super) fn open(target: &Target) -> io::Result<System> {
        let writes = matches!(target, Target::Write(_));
        let file = OpenOptions::new()
            .read(true)
            .write(writes)
            .open(target.path())?;
        Ok(System(file))
    }
}

impl Engine for System {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), String> {
        self.0
            .read_exact_at(buf, offset)
            .map_err(|error| error.to_string())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), String> {
        self.0
            .write_all_at(bytes, offset)
            .map_err(|error| error.to_string())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.0.sync_data().map_err(|error| error.to_string())
    }
}
