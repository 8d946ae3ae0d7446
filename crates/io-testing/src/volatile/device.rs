//! A device: its files by name, and the loss of power.

use std::io;

use pagewell_io::FileId;

use super::content::SectorWrites;
use super::file::VolatileFile;
use super::state::{Shared, State};

/// A simulated storage device with named files. Unsynced data may not survive a
/// [`crash`](Self::crash). A clone refers to the same device. Seed and calls determine all choices.
///
/// ```
/// use pagewell_io::Backend;
/// use pagewell_io_testing::VolatileDevice;
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
    /// Creates a device without files.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: Shared::new(State::new(seed)),
        }
    }

    /// Sets whether a crash may tear sectors.
    #[must_use]
    pub fn with_sector_writes(self, writes: SectorWrites) -> Self {
        self.state.lock().writes = writes;
        self
    }

    /// Makes files that are opened later use direct transfers, of whole blocks of `alignment`
    /// bytes. Panics unless `alignment` is a power of two from 512 to 4096. A partial tail block is
    /// written whole, and then the size is set. A crash in between may leave the file too long,
    /// with zeros at its end.
    #[must_use]
    pub fn with_direct_transfers(self, alignment: usize) -> Self {
        assert!(
            alignment.is_power_of_two() && (512..=4096).contains(&alignment),
            "invalid alignment {alignment}"
        );
        self.state.lock().alignment = Some(alignment);
        self
    }

    /// Simulates a fault: a direct write of a partial tail block leaves the file padded to a whole
    /// block. Tests that check sizes must fail on such a device.
    #[must_use]
    pub fn with_padding_kept(self) -> Self {
        self.state.lock().keeps_padding = true;
        self
    }

    /// Makes syncs succeed without effect. Tests for a loss of synced data must then fail.
    #[must_use]
    pub fn with_sync_stubbed_out(self) -> Self {
        self.state.lock().stub_syncs();
        self
    }

    /// Creates a file, open for reading and writing. Fails with [`io::ErrorKind::AlreadyExists`] if
    /// the name exists, and also fails if the power is off.
    pub fn create(&self, name: &str) -> io::Result<VolatileFile> {
        let id = self.state.lock().create(name)?;
        Ok(self.file(id))
    }

    /// Opens a file for reading and writing. Fails with [`io::ErrorKind::NotFound`] if the name
    /// does not exist, and also fails if the power is off.
    pub fn open(&self, name: &str) -> io::Result<VolatileFile> {
        let id = self.state.lock().find(name)?;
        Ok(self.file(id))
    }

    fn file(&self, id: FileId) -> VolatileFile {
        let alignment = self.state.lock().alignment;
        VolatileFile::new(self.state.clone(), id, alignment)
    }

    /// Renames a file. Another file with the name `to` loses this name. The change is not durable
    /// before a sync of the directory. Fails as [`open`](Self::open) does.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state.rename(from, to)
    }

    /// Removes the name of a file, which stays usable while it is open. The change is not durable
    /// before a sync of the directory. Fails as [`open`](Self::open) does.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.state
            .lock()
            .change(|state| state.directory.remove(name))
    }

    /// Makes the names durable. Fails on [request](Self::fail_next_sync), and if the power is off.
    pub fn sync_dir(&self) -> io::Result<()> {
        self.state.sync_dir()
    }

    /// Returns all names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let state = self.state.lock();
        state
            .directory
            .names()
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// Returns the number of syncs of files and of the directory so far, failed ones included.
    #[must_use]
    pub fn nr_syncs(&self) -> u64 {
        self.state.lock().nr_syncs
    }

    /// Makes the next `nr` syncs, of any file or the directory, fail with `EIO` (not if syncs are
    /// stubbed out). Each changed sector of the file is clean afterwards: it was written, or still
    /// reads correctly, or was dropped, so that readers see the durable bytes.
    pub fn fail_next_sync(&self, nr: u64) {
        self.state.lock().failures = nr;
    }

    /// Makes the power fail in the change or sync after the next `nr` ones. That call and all later
    /// I/O fail. The failed change may survive; a failed sync makes nothing durable.
    pub fn power_off_after(&self, nr: u64) {
        self.state.lock().power_off_after(nr);
    }

    /// Turns the power off, and returns the device as it is after power-on. Synced changes survive,
    /// and `seed` determines which other changes do, as [`SectorWrites`] permits. Later I/O on this
    /// device and its files fails. A crash with another seed may have another outcome.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let after = self.state.lock().crash(seed);
        Self {
            state: Shared::new(after),
        }
    }
}
