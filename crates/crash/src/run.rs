//! Runs a history, on a cache and a device that loses unsynced data, and checks it.
//!
//! The checks. While the power is on, a read gives the bytes written last, whatever failed in
//! between; errors come only from calls that were made to fail. After a loss of power the file is
//! opened through another cache, as by a program that starts anew. Each byte is then as at the last
//! successful sync, or as at any moment since. The size is one that the file had since, or one on the
//! way to it; where the device takes blocks only, and something was written since, also the end of the block in which
//! it ends (`docs/durability.md`). The log has every record that it was
//! synced with, and the file has nothing without a record in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pagewell::io::engine::{Choice, Settings};
use pagewell::io::{Backend, Fault, SectorWrites, VolatileDevice};
use pagewell::{Error, ErrorKind, File};
use pagewell_testkit::content;

use crate::PAGE;
use crate::history::{
    Engine, History, MOST_BYTES, Off, Path, Sectors, Step, Sync, Transfers, What,
};
use crate::log::Hook;
use crate::model::{Model, Sizes};
use crate::program::{Pin, Program, Setup, check, stored, text};
use crate::script::{Script, Way};

/// The most pins at a time.
const MOST_PINS: usize = 4;

/// The byte that fills buffers before a read.
const UNTOUCHED: u8 = 0xA5;

/// A part that is broken on purpose, so that the checks can be seen to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Broken {
    /// Nothing.
    #[default]
    Nothing,
    /// Syncs succeed without making anything durable.
    Sync,
    /// The log is not made durable before the pages of its writes are given to the storage.
    Log,
    /// A file that is transferred directly stays as long as its last block, as if its size were set before that is written.
    Size,
}

/// Counts over successful histories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Losses of power.
    pub nr_crashes: u64,
    /// Syncs of the file that succeeded.
    pub nr_syncs: u64,
    /// Writes, appends and changes of the size that succeeded.
    pub nr_changes: u64,
    /// Calls of the storage that were made to fail.
    pub nr_faults: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.nr_crashes += other.nr_crashes;
        self.nr_syncs += other.nr_syncs;
        self.nr_changes += other.nr_changes;
        self.nr_faults += other.nr_faults;
    }
}

/// Runs a history, and checks it.
///
/// # Errors
///
/// A sentence that names the violated check.
pub fn run(history: &History, broken: Broken) -> Result<Tally, String> {
    let mut run = Run::new(history, broken)?;
    let result = run.all(history);
    run.setup.script.heal();
    // Also after a failure: then nothing is made durable any more, and no loss is reported.
    let in_order = run.program.die();
    result.and(in_order)?;
    Ok(run.tally)
}

struct Run {
    program: Program,
    setup: Setup,
    device: VolatileDevice,
    nr_faults: Arc<AtomicU32>,
    /// Whether the device may fail by itself.
    may_fail: bool,
    has_sync_failed: bool,
    /// The consequence of a loss of power.
    off: Off,
    model: Model,
    /// The blocks that the device is written in, in bytes.
    unit: usize,
    tally: Tally,
}

impl Run {
    fn new(history: &History, broken: Broken) -> Result<Self, String> {
        let device = VolatileDevice::new(history.seed);
        let device = match history.sectors {
            Sectors::Whole => device,
            Sectors::Torn => device.with_sector_writes(SectorWrites::Torn),
        };
        let (device, unit) = match history.transfers {
            Transfers::Buffered => (device, 1),
            Transfers::Direct(unit) => (device.with_direct_transfers(unit), unit),
        };
        for name in ["file", "log"] {
            drop(device.create(name).map_err(text)?);
        }
        device.sync_dir().map_err(text)?;
        // The names are durable in any case.
        let device = match broken {
            Broken::Sync => device.with_sync_stubbed_out(),
            Broken::Size => device.with_padding_kept(),
            Broken::Nothing | Broken::Log => device,
        };
        let setup = Setup {
            page_size: PAGE << history.page_order,
            log: history.log,
            hook: match broken {
                Broken::Log => Hook::DoesNothing,
                Broken::Nothing | Broken::Sync | Broken::Size => Hook::Syncs,
            },
            engine: Settings::new(match history.engine {
                Engine::Sync => Choice::Sync,
                Engine::Worker => Choice::Worker,
                Engine::Uring => Choice::Auto,
            }),
            script: Script::default(),
        };
        let (program, _) = Program::start(&device, &setup).map_err(text)?;
        Ok(Self {
            program,
            setup,
            device,
            nr_faults: Arc::default(),
            may_fail: false,
            has_sync_failed: false,
            off: Off::GoOn,
            model: Model::new(Vec::new()).in_blocks(unit),
            unit,
            tally: Tally::default(),
        })
    }

    /// The whole history.
    fn all(&mut self, history: &History) -> Result<(), String> {
        self.append(history.len, 77)?;
        self.sync(Sync::All)?;
        for step in &history.steps {
            self.step(step)?;
        }
        self.end(history.seed)
    }

    fn file(&self) -> &File {
        &self.program.file
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.do_step(step)?;
        if self.off == Off::Crash && self.is_power_off() {
            self.crash(self.tally.nr_changes)?;
        }
        self.check()
    }

    /// The checks after every step.
    fn check(&self) -> Result<(), String> {
        for pin in &self.program.pins {
            check!(*pin.guard == *pin.copy, "a pinned page has changed");
        }
        let size = self.file().size() as usize;
        check!(
            size == self.model.len(),
            "the size is {size}, not {}",
            self.model.len()
        );
        Ok(())
    }

    fn do_step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Write { pos, len, seed } => self.write(pos, len, seed),
            Step::Append { len, seed } => self.append(len, seed),
            Step::SetLen { len } => self.set_len(len),
            Step::Read { pos, len, path } => self.read(pos, len, path),
            Step::Pin { page } => self.pin(page),
            Step::Unpin { pin } => {
                if let Some(pin) = pin.checked_rem(self.program.pins.len()) {
                    self.program.pins.swap_remove(pin);
                }
                Ok(())
            }
            Step::PinMut {
                page,
                seed,
                ref then,
            } => self.pin_mut(page, seed, then),
            Step::Flush { pos, len } => {
                let result = self.file().flush(pos as u64..(pos + len) as u64);
                self.allow(result).map(drop)
            }
            Step::Sync { what } => self.sync(what),
            Step::Discard { pos, len } => self.discard(pos, len),
            Step::Invalidate { pos, len } => {
                self.file().invalidate(pos as u64..(pos + len) as u64);
                Ok(())
            }
            Step::Evict { nr } => {
                self.program.cache.reclaim(nr);
                Ok(())
            }
            Step::Break {
                what,
                way,
                after,
                nr,
            } => {
                self.break_storage(what, way, after, nr);
                Ok(())
            }
            Step::FailSync => {
                self.device.fail_next_sync(1);
                self.may_fail = true;
                Ok(())
            }
            Step::PowerOffAfter { nr, then } => {
                self.device.power_off_after(nr);
                self.may_fail = true;
                self.off = then;
                Ok(())
            }
            Step::Crash { seed } => self.crash(seed),
        }
    }

    fn is_power_off(&self) -> bool {
        // Asked past the script.
        self.program.backend.inner().size().is_err()
    }

    fn break_storage(&mut self, what: What, way: Way, after: u8, nr: u8) {
        let (mut after, mut left) = (after, nr);
        let nr_faults = Arc::clone(&self.nr_faults);
        if matches!(way, Way::Short(_)) {
            self.model.allow_sizes(Sizes::Any);
        }
        self.setup.script.set(move |operation| {
            if left == 0 || !what.is_of(operation) {
                return Fault::None;
            }
            if after > 0 {
                after -= 1;
                return Fault::None;
            }
            left -= 1;
            // ORDERING: Relaxed, here and below; one thread does the history.
            nr_faults.fetch_add(1, Ordering::Relaxed);
            way.fault(operation)
        });
    }

    /// Whether something has failed, or may have, since the last call of this.
    fn has_failed(&mut self) -> bool {
        let nr = self.nr_faults.swap(0, Ordering::Relaxed);
        self.tally.nr_faults += u64::from(nr);
        nr != 0 || self.may_fail
    }

    /// The answer, or none for an error that is expected.
    fn allow<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, String> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(error)
                if matches!(error.kind(), ErrorKind::Io | ErrorKind::Refused)
                    && self.has_failed() =>
            {
                Ok(None)
            }
            Err(error) => Err(format!("without reason: {error:?}")),
        }
    }

    /// Records a write in the log, if there is one; returns the record's number, or none if the write
    /// must not be made.
    fn record(&mut self) -> Result<Option<u64>, String> {
        match &self.program.log {
            None => Ok(Some(0)),
            Some(log) => {
                let result = log.record();
                self.allow(result)
            }
        }
    }

    /// The same, with the log made durable: for changes for which no hook is called.
    fn record_and_sync(&mut self) -> Result<Option<u64>, String> {
        let Some(lsn) = self.record()? else {
            return Ok(None);
        };
        if let Some(log) = &self.program.log {
            let result = log.sync();
            if self.allow(result)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(lsn))
    }

    fn write(&mut self, pos: usize, len: usize, seed: u8) -> Result<(), String> {
        let bytes = content(u64::from(seed), len.min(MOST_BYTES - pos));
        let Some(lsn) = self.record()? else {
            return Ok(());
        };
        let result = self.file().write_at_lsn(&bytes, pos as u64, lsn);
        let Some(written) = self.allow(result)? else {
            return Ok(());
        };
        check!(
            written == bytes.len() || self.has_failed(),
            "{written} bytes written"
        );
        self.model.write(pos, &bytes[..written], lsn);
        self.tally.nr_changes += 1;
        Ok(())
    }

    fn append(&mut self, len: usize, seed: u8) -> Result<(), String> {
        let end = self.model.len();
        if self.program.log.is_some() {
            // An append has no number to tell the hook.
            return self.write(end.min(MOST_BYTES), len, seed);
        }
        let bytes = content(u64::from(seed), len.min(MOST_BYTES.saturating_sub(end)));
        let result = self.file().append(&bytes);
        if let Some(at) = self.allow(result)? {
            let expected = end as u64..(end + bytes.len()) as u64;
            check!(at == expected, "appended at {at:?}");
            self.model.write(end, &bytes, 0);
            self.tally.nr_changes += 1;
        }
        Ok(())
    }

    fn set_len(&mut self, len: usize) -> Result<(), String> {
        let Some(lsn) = self.record_and_sync()? else {
            return Ok(());
        };
        let old = self.model.now().to_vec();
        let result = self.file().set_size(len as u64);
        self.model.set_len(len, lsn);
        if self.allow(result)?.is_some() {
            self.tally.nr_changes += 1;
            return Ok(());
        }
        let size = self.file().size() as usize;
        check!(size == len || size == old.len(), "the size is {size}");
        if size == old.len() {
            self.model.found(old);
        }
        Ok(())
    }

    fn read(&mut self, pos: usize, len: usize, path: Path) -> Result<(), String> {
        let mut buf = vec![UNTOUCHED; len];
        let result = match path {
            Path::Optimistic => self.file().read_at(&mut buf, pos as u64),
            Path::Referenced => self.file().read_at_referenced(&mut buf, pos as u64),
        };
        let Some(n) = self.allow(result)? else {
            return Ok(());
        };
        let expected = self.model.now().get(pos..).unwrap_or_default();
        let expected = &expected[..expected.len().min(len)];
        let is_right = buf[..n.min(len)] == expected[..n.min(expected.len())];
        let expected = expected.len();
        check!(
            n == expected || (n < expected && self.has_failed()),
            "{n} bytes read, not {expected}"
        );
        check!(is_right, "read other bytes");
        Ok(())
    }

    fn pin(&mut self, page: u64) -> Result<(), String> {
        let page_size = self.setup.page_size;
        let pos = page as usize * page_size;
        if pos >= self.model.len() || self.program.pins.len() == MOST_PINS {
            return Ok(());
        }
        let result = self.file().pin_owned(page);
        if let Some(guard) = self.allow(result)? {
            let expected = &self.model.now()[pos..];
            let expected = &expected[..expected.len().min(page_size)];
            check!(*guard == *expected, "pinned other bytes");
            let copy = guard.to_vec();
            self.program.pins.push(Pin { guard, copy });
        }
        Ok(())
    }

    fn pin_mut(&mut self, page: u64, seed: u8, then: &Step) -> Result<(), String> {
        let pos = page as usize * self.setup.page_size;
        if pos >= self.model.len() {
            return Ok(());
        }
        // A page that is changed in place has no number to tell the hook.
        let Some(lsn) = self.record_and_sync()? else {
            return Ok(());
        };
        let file = self.file().clone();
        let result = file.pin_mut(page);
        let Some(mut guard) = self.allow(result)? else {
            return Ok(());
        };
        let was = guard.to_vec();
        check!(self.model.now()[pos..].starts_with(&was), "other bytes");
        let new = content(u64::from(seed), was.len() / 2);
        guard[..new.len()].copy_from_slice(&new);
        // Steps that would wait for the guard, or drop the page on purpose, are left out.
        if matches!(
            then,
            Step::Read { .. }
                | Step::Pin { .. }
                | Step::Flush { .. }
                | Step::Sync { .. }
                | Step::Invalidate { .. }
                | Step::Evict { .. }
        ) {
            self.do_step(then)?;
            self.check()?;
        }
        drop(guard);
        self.model.write(pos, &new, lsn);
        self.tally.nr_changes += 1;
        Ok(())
    }

    fn sync(&mut self, what: Sync) -> Result<(), String> {
        let result = match what {
            Sync::Data => self.file().sync_data(),
            Sync::All => self.file().sync_all(),
        };
        self.has_sync_failed = result.is_err();
        if self.allow(result)?.is_some() {
            self.model.synced();
            self.tally.nr_syncs += 1;
        }
        Ok(())
    }

    /// After a discard the file has the bytes of the storage.
    fn discard(&mut self, pos: usize, len: usize) -> Result<(), String> {
        let result = self.file().discard(pos as u64..(pos + len) as u64);
        if result.is_err() && std::mem::replace(&mut self.has_sync_failed, true) {
            return Ok(());
        }
        if self.allow(result)?.is_none() {
            return Ok(());
        }
        self.setup.script.heal();
        let mut now = vec![0; self.model.len()];
        match self.file().read_at(&mut now, 0) {
            Ok(n) if n == now.len() => {}
            result => {
                check!(self.may_fail, "not read after a discard: {result:?}");
                return self.crash(pos as u64);
            }
        }
        let start = pos / self.setup.page_size * self.setup.page_size;
        let end = (pos + len).next_multiple_of(self.setup.page_size);
        for (at, (now, was)) in now.iter().zip(self.model.now()).enumerate() {
            let may_differ = len != 0 && (start..end).contains(&at);
            check!(now == was || may_differ, "byte {at} was not discarded");
        }
        check!(
            self.model.may_have(0, &now, u64::MAX),
            "never had such bytes"
        );
        self.model.found(now);
        Ok(())
    }

    /// The power goes off and on: the program dies, and another one opens what has survived.
    fn crash(&mut self, seed: u64) -> Result<(), String> {
        let after = self.device.crash(seed);
        self.setup.script.heal();
        self.has_failed();
        self.may_fail = false;
        self.has_sync_failed = false;
        self.tally.nr_crashes += 1;
        let durable = self.program.log.as_ref().map_or(0, |log| log.durable());
        let (program, logged) = Program::start(&after, &self.setup).map_err(text)?;
        let dead = std::mem::replace(&mut self.program, program);
        dead.die()?;
        self.device = after;
        check!(
            durable <= logged,
            "{logged} records of the log survived, of {durable} that were synced"
        );
        let size = self.file().size() as usize;
        check!(self.model.may_be(size), "{size} bytes survived");
        let mut now = vec![0; size];
        let n = self.file().read_at(&mut now, 0).map_err(text)?;
        check!(n == size, "{n} of {size} bytes are readable");
        check!(
            self.model.may_have(0, &now, u64::MAX),
            "other bytes survived than were synced or written since"
        );
        check!(
            self.model.may_have(0, &now, logged),
            "bytes survived that the log has no record of"
        );
        self.model = Model::new(now).in_blocks(self.unit);
        Ok(())
    }

    fn end(&mut self, seed: u64) -> Result<(), String> {
        self.setup.script.heal();
        if self.may_fail {
            // The power may be off.
            self.crash(seed)?;
        }
        self.has_failed();
        self.read(0, MOST_BYTES, Path::Optimistic)?;
        self.sync(Sync::All)?;
        let given = stored(Arc::clone(&self.program.backend)).map_err(text)?;
        check!(
            given == self.model.now(),
            "the storage has other bytes after a sync"
        );
        self.crash(seed)
    }
}
