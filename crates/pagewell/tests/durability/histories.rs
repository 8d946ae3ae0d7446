//! Histories of one file on a device that loses what was not synced, against plain byte vectors.
//!
//! They are made up by the tests (`random`), and by the fuzz target `writes`, which has this file by its path.
//!
//! What must hold. While the power is on, a read gives what was written last, whatever failed in between; an error
//! comes only of something that was made to fail. After a loss of power, each byte is as it was at the last sync that
//! succeeded, or as it was at any moment since; and the size is one that the file had since, or one on the way to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pagewell::io::{
    Fault, FaultBackend, MemoryBackend, Operation, SectorWrites, VolatileDevice, VolatileFile,
};
use pagewell::refcount::RefScheme;
use pagewell::{Cache, Error, ErrorKind, File, OwnedPageGuard};
use pagewell_testkit::content;

use crate::storage::{EIO, ENOSPC, Script, errno, manual, stored};
use crate::support::{PAGE, UNTOUCHED, cache};

/// The most bytes of a file.
pub(crate) const MOST_BYTES: usize = 18 * PAGE;

/// The most pins at a time: the cache has room for all of them beside a file that is dirty.
const MOST_PINS: usize = 4;

/// A file and what is done to it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Of what the device keeps when the power is lost.
    pub(crate) seed: u64,
    /// The order of the pages, in frames of the smallest.
    pub(crate) page_order: u32,
    /// Whether a sector may be half written when the power is lost.
    pub(crate) is_torn: bool,
    /// How long the file is at first.
    pub(crate) len: usize,
    pub(crate) steps: Vec<Step>,
}

/// One step. Positions are bytes of the file, and at most [`MOST_BYTES`].
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write {
        pos: usize,
        len: usize,
        seed: u8,
    },
    Append {
        len: usize,
        seed: u8,
    },
    SetLen {
        len: usize,
    },
    Read {
        pos: usize,
        len: usize,
        is_referenced: bool,
    },
    Pin {
        page: u64,
    },
    Unpin {
        pin: usize,
    },
    PinMut {
        page: u64,
        seed: u8,
        then: Box<Step>,
    },
    Flush {
        pos: usize,
        len: usize,
    },
    Sync {
        is_all: bool,
    },
    Discard {
        pos: usize,
        len: usize,
    },
    Invalidate {
        pos: usize,
        len: usize,
    },
    Evict {
        nr: usize,
    },
    Hold {
        page: u64,
    },
    Release,
    Break {
        what: What,
        way: Way,
        after: u8,
        nr: u8,
    },
    FailSync,
    PowerOffAfter {
        nr: u64,
    },
    Crash {
        seed: u64,
    },
    /// Close the file, and open it again.
    Reopen,
}

/// Which calls of the storage go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Read,
    Write,
    SetSize,
    Size,
    Sync,
    Any,
}

/// How they do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Fail,
    DoneThenFail,
    Short(u16),
    Full,
}

impl What {
    fn is_of(self, operation: &Operation) -> bool {
        match operation {
            Operation::Read { .. } => matches!(self, Self::Read | Self::Any),
            Operation::Write { .. } => matches!(self, Self::Write | Self::Any),
            Operation::SetSize { .. } => matches!(self, Self::SetSize | Self::Any),
            Operation::Size => matches!(self, Self::Size | Self::Any),
            _ => matches!(self, Self::Sync | Self::Any),
        }
    }
}

impl Way {
    fn fault(self, operation: &Operation) -> Fault {
        match (self, operation) {
            (Self::Full, _) => Fault::Fail(errno(ENOSPC)),
            (Self::Fail, _) | (_, Operation::Read { .. }) => Fault::Fail(errno(EIO)),
            (Self::Short(written), Operation::Write { .. }) => Fault::ShortThenFail {
                written: usize::from(written),
                error: errno(EIO),
            },
            _ => Fault::DoneThenFail(errno(EIO)),
        }
    }
}

/// Fails the history if `$so` is not so.
macro_rules! check {
    ($so:expr, $($why:tt)+) => {
        if !$so {
            return Err(format!($($why)+));
        }
    };
}

/// What a sync does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Syncs {
    Work,
    /// It says that it did what it should.
    DoNothing,
}

/// What the file holds, and may hold after a loss of power.
struct Model {
    now: Vec<u8>,
    /// What it held at the last sync that succeeded, and after each change since.
    since: Vec<Vec<u8>>,
    /// Whether a write was cut short: then the storage may have any size on the way to that of the file.
    is_short: bool,
}

impl Model {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            since: vec![bytes.clone()],
            now: bytes,
            is_short: false,
        }
    }

    fn write(&mut self, pos: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = pos + bytes.len();
        self.now.resize(self.now.len().max(end), 0);
        self.now[pos..end].copy_from_slice(bytes);
        self.changed();
    }

    fn changed(&mut self) {
        self.since.push(self.now.clone());
    }

    fn synced(&mut self) {
        *self = Self::new(std::mem::take(&mut self.now));
    }

    /// Whether `bytes`, from `pos` on, may be what the storage has.
    fn may_have(&self, pos: usize, bytes: &[u8]) -> bool {
        const CHUNK: usize = 256;
        let may_have_all = |pos: usize, bytes: &[u8]| {
            self.since.iter().any(|version| {
                let end = pos + bytes.len();
                version.get(pos..end).is_some_and(|was| was == bytes)
                    || (version.len() <= pos && bytes.iter().all(|byte| *byte == 0))
            })
        };
        bytes.chunks(CHUNK).zip(0..).all(|(chunk, nr)| {
            let pos = pos + nr * CHUNK;
            may_have_all(pos, chunk)
                || chunk
                    .iter()
                    .zip(pos..)
                    .all(|(byte, pos)| may_have_all(pos, std::slice::from_ref(byte)))
        })
    }

    /// Whether the storage may have this size.
    fn may_be(&self, size: usize) -> bool {
        let sizes = || self.since.iter().map(Vec::len);
        let is_between = sizes().min() <= Some(size) && Some(size) <= sizes().max();
        let is_on_the_way = self.is_short || size.is_multiple_of(PAGE);
        sizes().any(|was| was == size) || (is_between && is_on_the_way)
    }
}

struct Pin<S: RefScheme> {
    guard: OwnedPageGuard<S>,
    copy: Vec<u8>,
}

struct Run<S: RefScheme> {
    cache: Cache<S>,
    page_size: usize,
    device: VolatileDevice,
    backend: Arc<FaultBackend<VolatileFile>>,
    script: Script,
    file: File<S>,
    pins: Vec<Pin<S>>,
    held: Vec<u64>,
    nr_faults: Arc<AtomicU32>,
    /// Whether the device may fail of itself.
    may_fail: bool,
    has_sync_failed: bool,
    model: Model,
}

fn text(error: &dyn std::fmt::Debug) -> String {
    format!("{error:?}")
}

fn open<S: RefScheme>(
    cache: &Cache<S>,
    device: &VolatileDevice,
    script: &Script,
    page_size: usize,
) -> Result<(File<S>, Arc<FaultBackend<VolatileFile>>), String> {
    let backend = script.on(device.open("file").map_err(|error| text(&error))?);
    let file = cache
        .open_backend_with(Arc::clone(&backend), "file", &manual().page_size(page_size))
        .map_err(|error| text(&error))?;
    Ok((file, backend))
}

impl<S: RefScheme> Run<S> {
    fn new(history: &History, syncs: Syncs) -> Result<Self, String> {
        let device = VolatileDevice::new(history.seed);
        let device = if history.is_torn {
            device.with_sector_writes(SectorWrites::Torn)
        } else {
            device
        };
        let page_size = PAGE << history.page_order;
        let cache = cache::<S>(160);
        let script = Script::default();
        drop(device.create("file").map_err(|error| text(&error))?);
        device.sync_dir().map_err(|error| text(&error))?;
        // The name is durable in either case.
        let device = match syncs {
            Syncs::Work => device,
            Syncs::DoNothing => device.with_sync_stubbed_out(),
        };
        let (file, backend) = open(&cache, &device, &script, page_size)?;
        let mut run = Self {
            cache,
            page_size,
            device,
            backend,
            script,
            file,
            pins: Vec::new(),
            held: Vec::new(),
            nr_faults: Arc::default(),
            may_fail: false,
            has_sync_failed: false,
            model: Model::new(Vec::new()),
        };
        run.append(history.len, 77)?;
        run.sync(true)?;
        Ok(run)
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Write { pos, len, seed } => self.write(pos, len, seed),
            Step::Append { len, seed } => self.append(len, seed),
            Step::SetLen { len } => self.set_len(len),
            Step::Read {
                pos,
                len,
                is_referenced,
            } => self.read(pos, len, is_referenced),
            Step::Pin { page } => self.pin(page),
            Step::Unpin { pin } => {
                if let Some(pin) = pin.checked_rem(self.pins.len()) {
                    self.pins.swap_remove(pin);
                }
                Ok(())
            }
            Step::PinMut {
                page,
                seed,
                ref then,
            } => self.pin_mut(page, seed, then),
            Step::Flush { pos, len } => {
                let result = self.file.flush(pos as u64..(pos + len) as u64);
                self.allow(result).map(drop)
            }
            Step::Sync { is_all } => self.sync(is_all),
            Step::Discard { pos, len } => self.discard(pos, len),
            Step::Invalidate { pos, len } => {
                self.file.invalidate(pos as u64..(pos + len) as u64);
                Ok(())
            }
            Step::Evict { nr } => {
                self.cache.reclaim(nr);
                Ok(())
            }
            Step::Hold { page } => {
                self.held.push(page);
                self.file.hold(page).map_err(|error| text(&error))
            }
            Step::Release => self.release(),
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
            Step::PowerOffAfter { nr } => {
                self.device.power_off_after(nr);
                self.may_fail = true;
                Ok(())
            }
            Step::Crash { seed } => self.crash(seed),
            Step::Reopen => self.reopen(),
        }?;
        for pin in &self.pins {
            check!(*pin.guard == *pin.copy, "a pinned page has changed");
        }
        let size = self.file.size() as usize;
        check!(size == self.model.now.len(), "the size is {size}");
        Ok(())
    }

    fn break_storage(&mut self, what: What, way: Way, after: u8, nr: u8) {
        let (mut after, mut left) = (after, nr);
        let nr_faults = Arc::clone(&self.nr_faults);
        self.model.is_short |= matches!(way, Way::Short(_));
        self.script.set(move |operation| {
            if left == 0 || !what.is_of(operation) {
                return Fault::None;
            }
            if after > 0 {
                after -= 1;
                return Fault::None;
            }
            left -= 1;
            nr_faults.fetch_add(1, Ordering::Relaxed);
            way.fault(operation)
        });
    }

    /// Whether something has failed since this was asked last, or may have.
    fn has_failed(&self) -> bool {
        self.nr_faults.swap(0, Ordering::Relaxed) != 0 || self.may_fail
    }

    /// The answer, or none for an error that had to be expected.
    fn allow<T>(&self, result: Result<T, Error>) -> Result<Option<T>, String> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.kind() == ErrorKind::Io && self.has_failed() => Ok(None),
            Err(error) => Err(format!("without reason: {error:?}")),
        }
    }

    fn write(&mut self, pos: usize, len: usize, seed: u8) -> Result<(), String> {
        let bytes = content(u64::from(seed), len.min(MOST_BYTES - pos));
        let result = self.file.write_at(&bytes, pos as u64);
        let Some(written) = self.allow(result)? else {
            return Ok(());
        };
        check!(
            written == bytes.len() || self.has_failed(),
            "{written} bytes written"
        );
        self.model.write(pos, &bytes[..written]);
        Ok(())
    }

    fn append(&mut self, len: usize, seed: u8) -> Result<(), String> {
        let end = self.model.now.len();
        let bytes = content(u64::from(seed), len.min(MOST_BYTES.saturating_sub(end)));
        let result = self.file.append(&bytes);
        if let Some(pos) = self.allow(result)? {
            check!(pos == end as u64, "appended at {pos}");
            self.model.write(end, &bytes);
        }
        Ok(())
    }

    fn set_len(&mut self, len: usize) -> Result<(), String> {
        let old = self.model.now.clone();
        let result = self.file.set_len(len as u64);
        self.model.now.resize(len, 0);
        self.model.changed();
        if self.allow(result)?.is_none() {
            let size = self.file.size() as usize;
            check!(size == len || size == old.len(), "the size is {size}");
            if size == old.len() {
                self.model.now = old;
                self.model.changed();
            }
        }
        Ok(())
    }

    fn read(&mut self, pos: usize, len: usize, is_referenced: bool) -> Result<(), String> {
        let mut buf = vec![UNTOUCHED; len];
        let result = if is_referenced {
            self.file.read_at_referenced(&mut buf, pos as u64)
        } else {
            self.file.read_at(&mut buf, pos as u64)
        };
        let Some(n) = self.allow(result)? else {
            return Ok(());
        };
        let expected = self.model.now.get(pos..).unwrap_or_default();
        let expected = &expected[..expected.len().min(len)];
        check!(
            n == expected.len() || (n < expected.len() && self.has_failed()),
            "{n} bytes read, not {}",
            expected.len()
        );
        check!(buf[..n] == expected[..n], "read other bytes");
        Ok(())
    }

    fn pin(&mut self, page: u64) -> Result<(), String> {
        let pos = page as usize * self.page_size;
        if pos >= self.model.now.len() || self.pins.len() == MOST_PINS {
            return Ok(());
        }
        let result = self.file.pin_owned(page);
        if let Some(guard) = self.allow(result)? {
            let expected = &self.model.now[pos..];
            let expected = &expected[..expected.len().min(self.page_size)];
            check!(*guard == *expected, "pinned other bytes");
            let copy = guard.to_vec();
            self.pins.push(Pin { guard, copy });
        }
        Ok(())
    }

    fn pin_mut(&mut self, page: u64, seed: u8, then: &Step) -> Result<(), String> {
        let pos = page as usize * self.page_size;
        if pos >= self.model.now.len() {
            return Ok(());
        }
        let file = self.file.clone();
        let result = file.pin_mut(page);
        let Some(mut guard) = self.allow(result)? else {
            return Ok(());
        };
        let was = guard.to_vec();
        check!(self.model.now[pos..].starts_with(&was), "other bytes");
        let new = content(u64::from(seed), was.len() / 2);
        guard[..new.len()].copy_from_slice(&new);
        // What would wait for the guard, or drop the page on purpose, is left out.
        if matches!(
            then,
            Step::Read { .. }
                | Step::Pin { .. }
                | Step::Flush { .. }
                | Step::Sync { .. }
                | Step::Invalidate { .. }
                | Step::Evict { .. }
                | Step::Append { len: 0, .. }
        ) {
            self.step(then)?;
        }
        drop(guard);
        self.model.write(pos, &new);
        Ok(())
    }

    fn sync(&mut self, is_all: bool) -> Result<(), String> {
        let result = if is_all {
            self.file.sync_all()
        } else {
            self.file.sync_data()
        };
        if let Err(error) = &result
            && error.kind() == ErrorKind::Held
        {
            check!(!self.held.is_empty(), "nothing is held");
            return Ok(());
        }
        self.has_sync_failed = result.is_err();
        if self.allow(result)?.is_some() {
            let is_short = self.model.is_short;
            self.model.synced();
            self.model.is_short = is_short;
        }
        Ok(())
    }

    fn release(&mut self) -> Result<(), String> {
        for page in self.held.drain(..) {
            self.file.release(page).map_err(|error| text(&error))?;
        }
        Ok(())
    }

    /// What was discarded is as the storage has it: then that is what the file holds.
    fn discard(&mut self, pos: usize, len: usize) -> Result<(), String> {
        let result = self.file.discard(pos as u64..(pos + len) as u64);
        if result.is_err() && std::mem::replace(&mut self.has_sync_failed, true) {
            return Ok(());
        }
        if self.allow(result)?.is_none() {
            return Ok(());
        }
        self.script.heal();
        let mut now = vec![0; self.model.now.len()];
        match self.file.read_at(&mut now, 0) {
            Ok(n) if n == now.len() => {}
            result => {
                check!(self.may_fail, "not read after a discard: {result:?}");
                return self.crash(pos as u64);
            }
        }
        let start = pos / self.page_size * self.page_size;
        let end = (pos + len).next_multiple_of(self.page_size);
        for (at, (now, was)) in now.iter().zip(&self.model.now).enumerate() {
            let may_differ = len != 0 && (start..end).contains(&at);
            check!(now == was || may_differ, "byte {at} was not discarded");
        }
        check!(self.model.may_have(0, &now), "never had such bytes");
        self.model.now = now;
        self.model.changed();
        Ok(())
    }

    fn crash(&mut self, seed: u64) -> Result<(), String> {
        let after = self.device.crash(seed);
        self.pins.clear();
        self.held.clear();
        self.script.heal();
        self.may_fail = false;
        self.has_sync_failed = false;
        let (file, backend) = open(&self.cache, &after, &self.script, self.page_size)?;
        self.file = file;
        self.backend = backend;
        self.device = after;
        let size = self.file.size() as usize;
        check!(self.model.may_be(size), "{size} bytes survived");
        let mut now = vec![0; size];
        let n = self
            .file
            .read_at(&mut now, 0)
            .map_err(|error| text(&error))?;
        check!(n == size, "{n} of {size} bytes are readable");
        check!(self.model.may_have(0, &now), "other bytes survived");
        self.model = Model::new(now);
        Ok(())
    }

    /// Closes the only handle, which makes everything durable, and opens the file anew.
    fn reopen(&mut self) -> Result<(), String> {
        if self.may_fail {
            // The power may be off.
            return self.crash(0);
        }
        self.release()?;
        self.pins.clear();
        let nothing = self
            .cache
            .open_backend(MemoryBackend::new(Vec::new()), "nothing")
            .map_err(|error| text(&error))?;
        if let Err((file, error)) = std::mem::replace(&mut self.file, nothing).close() {
            self.file = file;
            self.has_sync_failed = true;
            return self.allow::<()>(Err(error)).map(drop);
        }
        self.script.heal();
        self.has_sync_failed = false;
        (self.file, self.backend) = open(&self.cache, &self.device, &self.script, self.page_size)?;
        self.model.synced();
        let given = stored(Arc::clone(&self.backend));
        check!(given == self.model.now, "closing kept other bytes");
        Ok(())
    }

    fn end(mut self, seed: u64) -> Result<(), String> {
        self.script.heal();
        self.release()?;
        if self.may_fail {
            // The power may be off.
            self.crash(seed)?;
        }
        self.has_failed();
        self.read(0, MOST_BYTES, false)?;
        self.sync(true)?;
        let given = stored(Arc::clone(&self.backend));
        check!(given == self.model.now, "the storage has other bytes");
        self.crash(seed)?;
        let Self {
            cache, file, pins, ..
        } = self;
        drop((file, pins));
        cache.verify()?;
        let stats = cache.stats();
        check!(
            stats.nr_free == stats.nr_frames,
            "frames are lost: {stats:?}"
        );
        Ok(())
    }
}

/// Runs `history`; returns what is wrong, if anything is.
pub(crate) fn run<S: RefScheme>(history: &History, syncs: Syncs) -> Result<(), String> {
    let mut run = Run::<S>::new(history, syncs)?;
    for step in &history.steps {
        run.step(step)?;
    }
    run.end(history.seed)
}
