//! A device: its files by name, and the loss of power.

use std::io;

use super::content::SectorWrites;
use super::file::VolatileFile;
use super::state::{Shared, State};
use crate::backend::FileId;

/// A simulated storage device with named files, of which a loss of power leaves only what was synced:
/// see [`crash`](Self::crash). Clones are the same device.
///
/// What it does at random follows from the seed, and from what is asked of it in which order.
///
/// ```
/// use pagewell_io::{Backend, VolatileDevice};
///
/// # fn main() -> std::io::Result<()> {
/// let device = VolatileDevice::new(1);
/// let file = device.create("file")?;
/// file.set_size(100)?;
/// file.sync_data()?;
/// file.set_size(200)?;
///
/// let after = device.crash(2);
/// let size = after.open("file")?.size()?;
/// assert!(size == 100 || size == 200);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct VolatileDevice {
    state: Shared,
}

impl VolatileDevice {
    /// A device without files.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Shared::new(State::new(seed)),
        }
    }

    /// The same device, with sectors that a crash may tear, or not.
    #[must_use]
    pub fn with_sector_writes(self, writes: SectorWrites) -> Self {
        self.state.lock().writes = writes;
        self
    }

    /// The same device, whose files are transferred directly from now on: the device takes whole blocks of `alignment` bytes and refuses all else, and the
    /// code that serves real files does the rest. The tail of a file is written as a whole block, and its size set after that: so a loss of power
    /// between the two leaves it longer by zeros, up to the end of the block.
    ///
    /// # Panics
    ///
    /// If the alignment is no power of two from 512 to 4096.
    #[cfg(not(loom))]
    #[must_use]
    pub fn with_direct_transfers(self, alignment: usize) -> Self {
        assert!(
            alignment.is_power_of_two() && (512..=4096).contains(&alignment),
            "an alignment of {alignment}"
        );
        self.state.lock().alignment = Some(alignment);
        self
    }

    /// The same device, whose files that are transferred directly stay as long as their last block, as if their size were set before the block is
    /// written: on it, every test that claims to look at sizes must fail.
    #[cfg(not(loom))]
    #[must_use]
    pub fn with_padding_kept(self) -> Self {
        self.state.lock().keeps_padding = true;
        self
    }

    /// The same device, whose syncs report success and make nothing durable: on it, every test that
    /// claims to notice a loss must fail.
    #[must_use]
    pub fn with_sync_stubbed_out(self) -> Self {
        self.state.lock().stub_syncs();
        self
    }

    /// Makes a file, which is open for reading and writing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if there is one of this name; and if the power is off.
    pub fn create(&self, name: &str) -> io::Result<VolatileFile> {
        let id = self.state.lock().create(name)?;
        Ok(self.file(id))
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none of this name; and if the power is off.
    pub fn open(&self, name: &str) -> io::Result<VolatileFile> {
        let id = self.state.lock().find(name)?;
        Ok(self.file(id))
    }

    fn file(&self, id: FileId) -> VolatileFile {
        let alignment = self.state.lock().alignment;
        VolatileFile::new(self.state.clone(), id, alignment)
    }

    /// Gives a file another name; what had it before has none then. Not durable before a sync of the
    /// directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none of this name; and if the power is off.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state.rename(from, to)
    }

    /// Removes a file's name; who has it open can still use it. Not durable before a sync of the
    /// directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none of this name; and if the power is off.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.state
            .lock()
            .change(|state| state.directory.remove(name))
    }

    /// Makes the names durable.
    ///
    /// # Errors
    ///
    /// If the sync is to fail, and if the power is off.
    pub fn sync_dir(&self) -> io::Result<()> {
        self.state.sync_dir()
    }

    /// The names of all files, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let state = self.state.lock();
        state
            .directory
            .names()
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// How many syncs of files and of the directory were asked for so far.
    #[must_use]
    pub fn nr_syncs(&self) -> u64 {
        self.state.lock().nr_syncs
    }

    /// Makes the next `nr` syncs, of any file or the directory, fail as they do on Linux: with `EIO`, and
    /// with the changed sectors of the file marked clean. Some of them were written nevertheless; some
    /// still read well, but will not be written by the next sync; some are dropped, and read as before
    /// they were written.
    pub fn fail_next_sync(&self, nr: u64) {
        self.state.lock().failures = nr;
    }

    /// Turns the power off after `nr` more changes and syncs: the next one and every later call fail.
    /// If that one is a change, it may survive the crash; if it is a sync, it makes nothing durable.
    pub fn power_off_after(&self, nr: u64) {
        self.state.lock().power_off_after(nr);
    }

    /// Turns the power off, if it is not, and gives the device as it is when it is on again, with this
    /// seed: what was synced has survived, and of the rest any part, as the [`SectorWrites`] allow.
    /// Every call on this device and its files fails from now on.
    ///
    /// Several crashes of one device show several of the ends that it may have come to.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let after = self.state.lock().crash(seed);
        Self {
            state: Shared::new(after),
        }
    }
}
