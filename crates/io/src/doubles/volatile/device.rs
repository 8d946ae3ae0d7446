//! The files of a device, failing syncs, and the loss of power.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::VolatileFile;
use super::content::Content;
use super::directory::{Directory, Inode};
use super::rng::Rng;
use crate::backend::FileId;

/// The highest of the device numbers of these devices, which go down from here: no device of the
/// system has them, nor the backends in memory.
const FIRST_DEVICE: u64 = u64::MAX - 1;

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
    state: Arc<Mutex<State>>,
}

/// What a device promises of the 512 bytes of a sector of which a write was not synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SectorWrites {
    /// All survive a crash, or none. So do real devices.
    #[default]
    Whole,
    /// A first part may survive alone.
    Torn,
}

/// What a sync does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncs {
    Work,
    /// It reports success and makes nothing durable.
    Lie,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// On, until this many more changes and syncs were done.
    OffAfter(u64),
    Off,
}

/// What becomes of a sync.
enum Sync {
    Done,
    Stubbed,
    Failed,
}

#[derive(Debug)]
struct State {
    device: u64,
    directory: Directory,
    /// Of all files; those without a name too, since somebody may have them open.
    files: BTreeMap<Inode, Content>,
    next_inode: Inode,
    rng: Rng,
    writes: SectorWrites,
    syncs: Syncs,
    failures: u64,
    power: Power,
    nr_syncs: u64,
}

impl VolatileDevice {
    /// A device without files.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from_state(State {
            device: next_device(),
            directory: Directory::default(),
            files: BTreeMap::new(),
            next_inode: 1,
            rng: Rng::new(seed),
            writes: SectorWrites::Whole,
            syncs: Syncs::Work,
            failures: 0,
            power: Power::On,
            nr_syncs: 0,
        })
    }

    /// The same device, with sectors that a crash may tear, or not.
    #[must_use]
    pub fn with_sector_writes(self, writes: SectorWrites) -> Self {
        self.lock().writes = writes;
        self
    }

    /// The same device, whose syncs report success and make nothing durable: on it, every test that
    /// claims to notice a loss must fail.
    #[must_use]
    pub fn with_sync_stubbed_out(self) -> Self {
        self.lock().syncs = Syncs::Lie;
        self
    }

    /// Makes a file, which is open for reading and writing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if there is one of this name; and if the power is off.
    pub fn create(&self, name: &str) -> io::Result<VolatileFile> {
        let mut state = self.lock();
        let inode = state.next_inode;
        state.change(|state| {
            state.directory.create(name, inode)?;
            state.files.insert(inode, Content::default());
            state.next_inode += 1;
            Ok(())
        })?;
        Ok(self.file(&state, inode))
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none of this name; and if the power is off.
    pub fn open(&self, name: &str) -> io::Result<VolatileFile> {
        let state = self.lock();
        state.check_power()?;
        let inode = state.directory.find(name)?;
        Ok(self.file(&state, inode))
    }

    /// Gives a file another name; what had it before has none then. Not durable before a sync of the
    /// directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none of this name; and if the power is off.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.lock().change(|state| state.directory.rename(from, to))
    }

    /// Removes a file's name; who has it open can still use it. Not durable before a sync of the
    /// directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none of this name; and if the power is off.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().change(|state| state.directory.remove(name))
    }

    /// Makes the names durable.
    ///
    /// # Errors
    ///
    /// If the sync is to fail, and if the power is off.
    pub fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        match state.begin_sync()? {
            Sync::Done => state.directory.sync(),
            Sync::Stubbed => {}
            Sync::Failed => return Err(failed_sync()),
        }
        Ok(())
    }

    /// The names of all files, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let state = self.lock();
        state
            .directory
            .names()
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// How many syncs of files and of the directory were asked for so far.
    #[must_use]
    pub fn nr_syncs(&self) -> u64 {
        self.lock().nr_syncs
    }

    /// Makes the next `nr` syncs, of any file or the directory, fail as they do on Linux: with `EIO`, and
    /// with the changed sectors of the file marked clean. Some of them were written nevertheless; some
    /// still read well, but will not be written by the next sync; some are dropped, and read as before
    /// they were written.
    pub fn fail_next_sync(&self, nr: u64) {
        self.lock().failures = nr;
    }

    /// Turns the power off after `nr` more changes and syncs: the next one and every later call fail.
    /// If that one is a change, it may survive the crash; if it is a sync, it makes nothing durable.
    pub fn power_off_after(&self, nr: u64) {
        let mut state = self.lock();
        if state.power != Power::Off {
            state.power = Power::OffAfter(nr);
        }
    }

    /// Turns the power off, if it is not, and gives the device as it is when it is on again, with this
    /// seed: what was synced has survived, and of the rest any part, as the [`SectorWrites`] allow.
    /// Every call on this device and its files fails from now on.
    ///
    /// Several crashes of one device show several of the ends that it may have come to.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let mut state = self.lock();
        state.power = Power::Off;
        let mut rng = Rng::new(seed);
        let directory = state.directory.survivors(&mut rng);
        let mut files = BTreeMap::new();
        for (_, inode) in directory.names() {
            let survivors = state.files[&inode].survivors(state.writes, &mut rng);
            files.insert(inode, survivors);
        }
        Self::from_state(State {
            device: next_device(),
            directory,
            files,
            next_inode: state.next_inode,
            rng,
            writes: state.writes,
            syncs: state.syncs,
            failures: 0,
            power: Power::On,
            nr_syncs: 0,
        })
    }

    fn from_state(state: State) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, state: &State, inode: Inode) -> VolatileFile {
        let device = state.device;
        VolatileFile::new(self.clone(), FileId { device, inode })
    }

    /// Looks at a file's content.
    pub(super) fn look<T>(&self, inode: Inode, look: impl FnOnce(&Content) -> T) -> io::Result<T> {
        let state = self.lock();
        state.check_power()?;
        Ok(look(&state.files[&inode]))
    }

    /// Changes a file's content.
    pub(super) fn change(&self, inode: Inode, change: impl FnOnce(&mut Content)) -> io::Result<()> {
        self.lock().change(|state| {
            change(state.file(inode));
            Ok(())
        })
    }

    /// Makes a file durable, and the names.
    pub(super) fn sync(&self, inode: Inode, names: SyncNames) -> io::Result<()> {
        let mut state = self.lock();
        match state.begin_sync()? {
            Sync::Done => state.file(inode).sync(),
            Sync::Stubbed => return Ok(()),
            Sync::Failed => {
                let mut rng = state.rng.clone();
                state.file(inode).fail_sync(&mut rng);
                state.rng = rng;
                return Err(failed_sync());
            }
        }
        if names == SyncNames::Too {
            state.directory.sync();
        }
        Ok(())
    }

    /// Gives a file another name, and makes the names durable.
    pub(super) fn rename_file(&self, inode: Inode, to: &str) -> io::Result<()> {
        let from = {
            let state = self.lock();
            let mut names = state.directory.names();
            let found = names.find(|(_, other)| *other == inode);
            found.map(|(name, _)| name.to_owned())
        };
        self.rename(&from.ok_or(io::ErrorKind::NotFound)?, to)?;
        self.sync_dir()
    }
}

/// Whether a sync of a file is one of the names too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncNames {
    Not,
    Too,
}

impl State {
    fn file(&mut self, inode: Inode) -> &mut Content {
        let file = self.files.get_mut(&inode);
        file.expect("files are never forgotten while the power is on")
    }

    fn check_power(&self) -> io::Result<()> {
        match self.power {
            Power::Off => Err(power_is_off()),
            Power::On | Power::OffAfter(_) => Ok(()),
        }
    }

    /// Does a change. The last one before the power is off may have been done or not, so it is done,
    /// as one that was not synced, and fails.
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        self.check_power()?;
        let done = change(self)?;
        self.pass_time()?;
        Ok(done)
    }

    /// Counts a sync, and says what is to become of it.
    fn begin_sync(&mut self) -> io::Result<Sync> {
        self.check_power()?;
        self.nr_syncs += 1;
        self.pass_time()?;
        if self.syncs == Syncs::Lie {
            return Ok(Sync::Stubbed);
        }
        if self.failures > 0 {
            self.failures -= 1;
            return Ok(Sync::Failed);
        }
        Ok(Sync::Done)
    }

    /// Turns the power off if its time has come.
    fn pass_time(&mut self) -> io::Result<()> {
        match &mut self.power {
            Power::On => Ok(()),
            Power::OffAfter(0) => {
                self.power = Power::Off;
                Err(power_is_off())
            }
            Power::OffAfter(nr) => {
                *nr -= 1;
                Ok(())
            }
            Power::Off => Err(power_is_off()),
        }
    }
}

/// The number of a device that there was none of before.
fn next_device() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST_DEVICE);
    // ORDERING: Relaxed; only the uniqueness of the number matters.
    NEXT.fetch_sub(1, Ordering::Relaxed)
}

fn power_is_off() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the device has no power")
}

fn failed_sync() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}
