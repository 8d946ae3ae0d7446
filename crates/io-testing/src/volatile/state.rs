//! State that all users of a device share: files, failing syncs, power.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagewell_io::FileId;

use super::content::{Content, SectorWrites};
use super::directory::{Directory, Inode};
use super::rng::Rng;

/// Device number of the first simulated device. No real device has it. Later numbers descend.
const FIRST_DEVICE: u64 = u64::MAX - 1;

#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncs {
    Work,
    Lie,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// Remaining number of permitted changes and syncs.
    OffAfter(u64),
    Off,
}

enum Sync {
    Done,
    Stubbed,
    Failed,
}

#[derive(Debug)]
pub(super) struct State {
    device: u64,
    pub(super) directory: Directory,
    /// Includes files without a name, which may still be open.
    files: BTreeMap<Inode, Content>,
    next_inode: Inode,
    rng: Rng,
    pub(super) writes: SectorWrites,
    /// Alignment of files that are opened later. `None` if transfers are not direct.
    pub(super) alignment: Option<usize>,
    pub(super) keeps_padding: bool,
    syncs: Syncs,
    pub(super) failures: u64,
    power: Power,
    pub(super) nr_syncs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncNames {
    Not,
    Too,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look<T>(&self, inode: Inode, look: impl FnOnce(&Content) -> T) -> io::Result<T> {
        let state = self.lock();
        state.check_power()?;
        Ok(look(&state.files[&inode]))
    }

    pub(super) fn change(&self, inode: Inode, change: impl FnOnce(&mut Content)) -> io::Result<()> {
        self.lock().change(|state| {
            change(state.file(inode));
            Ok(())
        })
    }

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

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.lock().change(|state| state.directory.rename(from, to))
    }

    pub(super) fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        match state.begin_sync()? {
            Sync::Done => state.directory.sync(),
            Sync::Stubbed => {}
            Sync::Failed => return Err(failed_sync()),
        }
        Ok(())
    }
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            device: next_device(),
            directory: Directory::default(),
            files: BTreeMap::new(),
            next_inode: 1,
            rng: Rng::new(seed),
            writes: SectorWrites::Whole,
            alignment: None,
            keeps_padding: false,
            syncs: Syncs::Work,
            failures: 0,
            power: Power::On,
            nr_syncs: 0,
        }
    }

    pub(super) fn crash(&mut self, seed: u64) -> Self {
        self.power = Power::Off;
        let mut rng = Rng::new(seed);
        let directory = self.directory.survivors(&mut rng);
        let mut files = BTreeMap::new();
        for (_, inode) in directory.names() {
            let survivors = self.files[&inode].survivors(self.writes, &mut rng);
            files.insert(inode, survivors);
        }
        Self {
            device: next_device(),
            directory,
            files,
            next_inode: self.next_inode,
            rng,
            writes: self.writes,
            alignment: self.alignment,
            keeps_padding: self.keeps_padding,
            syncs: self.syncs,
            failures: 0,
            power: Power::On,
            nr_syncs: 0,
        }
    }

    pub(super) fn stub_syncs(&mut self) {
        self.syncs = Syncs::Lie;
    }

    pub(super) fn power_off_after(&mut self, nr: u64) {
        if self.power != Power::Off {
            self.power = Power::OffAfter(nr);
        }
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<FileId> {
        let inode = self.next_inode;
        self.change(|state| {
            state.directory.create(name, inode)?;
            state.files.insert(inode, Content::default());
            state.next_inode += 1;
            Ok(())
        })?;
        Ok(self.id(inode))
    }

    pub(super) fn find(&self, name: &str) -> io::Result<FileId> {
        self.check_power()?;
        let inode = self.directory.find(name)?;
        Ok(self.id(inode))
    }

    fn id(&self, inode: Inode) -> FileId {
        let device = self.device;
        FileId { device, inode }
    }

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

    /// Performs a change. If the power fails during it, the call fails, but the change may survive.
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        self.check_power()?;
        let done = change(self)?;
        self.pass_time()?;
        Ok(done)
    }

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

    /// Counts a change or sync. Turns the power off, and fails, if the permitted number is used up.
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

/// Returns a device number that no earlier simulated device of this process has.
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
