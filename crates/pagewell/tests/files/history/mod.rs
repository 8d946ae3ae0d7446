//! Runs a history against a cache, and compares every answer with the naive model's.
//!
//! Shared by the model test and, by path, by the fuzz target. What must hold after every step: a read
//! returns as many bytes as the file has there, and they are bytes that the page may hold; if
//! something goes wrong, something was made to go wrong, and the buffer shows nothing of it; a pinned
//! page does not change. What must hold at the end: every frame is free again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use pagewell::io::{Fault, FaultBackend, MemoryBackend};
use pagewell::{Cache, Error, ErrorKind, File, Nodes, OpenOptions, OwnedPageGuard};
use pagewell_testkit::content;
use pagewell_testkit::history::{
    Breakage, FileSpec, History, MAX_PAGE_ORDER, Spot, Step, Store, Tell, Way,
};
use pagewell_testkit::model::NaiveFile;
use tempfile::TempDir;

use crate::support::{FRAME_COST, PAGE, Share, UNTOUCHED};

/// The most guards that are held at a time.
const MOST_PINS: usize = 6;

/// Guards may take all frames in one of so many histories: to find that there are none takes a while.
const TIGHT: u16 = 16;

/// Fails the history if `$so` is not so.
macro_rules! check {
    ($so:expr, $($why:tt)+) => {
        if !$so {
            return Err(format!($($why)+));
        }
    };
}

/// Reads as `read_at` does, by a view of each page.
fn read_by_views(file: &File, buf: &mut [u8], pos: u64) -> Result<usize, Error> {
    let page_size = file.page_size() as u64;
    let mut done = 0;
    while done < buf.len() {
        let now = pos.saturating_add(done as u64);
        if now >= file.size() {
            break;
        }
        let off = (now % page_size) as usize;
        let rest = &mut buf[done..];
        let viewed = file.view(now / page_size, |v| {
            let nr = v.len().saturating_sub(off).min(rest.len());
            v.copy_to(off, &mut rest[..nr])?;
            Ok((nr, v.len() == page_size as usize))
        });
        match viewed {
            Ok((nr, is_whole)) => {
                done += nr;
                if !is_whole {
                    break;
                }
            }
            // The file has just been found to end before this page.
            Err(error) if error.kind() == ErrorKind::OutOfRange => break,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Runs `history`; returns what is wrong, if anything is.
pub(crate) fn run(history: &History) -> Result<(), String> {
    let mut run = Run::new(history)?;
    let mut steps = history.steps.iter();
    while let Some(step) = steps.next() {
        run.step(step, &mut steps)?;
    }
    run.end()
}

/// What is to go wrong with the reads of one file, and what has gone wrong so far.
#[derive(Debug, Default)]
struct Plan {
    after: u8,
    left: u8,
    breakage: Option<Breakage>,
    nr_failed: u32,
    nr_cut: u32,
}

impl Plan {
    fn on_read(plan: &Mutex<Self>) -> Fault {
        let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
        if plan.after > 0 {
            plan.after -= 1;
            return Fault::None;
        }
        if plan.left == 0 {
            return Fault::None;
        }
        plan.left -= 1;
        match plan.breakage {
            Some(Breakage::Fail) => {
                plan.nr_failed += 1;
                Fault::Fail(io::Error::other("made to fail"))
            }
            Some(Breakage::EndAfter(end)) => {
                plan.nr_cut += 1;
                Fault::EndAfter(usize::from(end))
            }
            None => Fault::None,
        }
    }

    /// How many reads have failed, and how many were cut short.
    fn count(plan: &Mutex<Self>) -> (u32, u32) {
        let plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
        (plan.nr_failed, plan.nr_cut)
    }
}

enum Storage {
    Memory(Share<FaultBackend<MemoryBackend>>),
    Disk { names: [PathBuf; 2] },
}

struct TestFile {
    spec: FileSpec,
    storage: Storage,
    plan: Arc<Mutex<Plan>>,
    model: NaiveFile,
    /// Handles, and guards that borrow from one.
    nr_holders: usize,
}

impl TestFile {
    fn new(number: usize, spec: FileSpec, dir: &mut Option<TempDir>) -> io::Result<Self> {
        let bytes = content(number as u64 + 1, spec.len as usize);
        let plan = Arc::new(Mutex::new(Plan::default()));
        let storage = match spec.store {
            Store::Memory => {
                let script = Arc::clone(&plan);
                Storage::Memory(Share::new(FaultBackend::new(
                    MemoryBackend::new(bytes.clone()),
                    move |_, _| Plan::on_read(&script),
                )))
            }
            Store::Disk => {
                let dir = match dir {
                    Some(dir) => dir,
                    None => dir.insert(pagewell_testkit::scratch::dir()),
                };
                let names = ["name", "other-name"].map(|n| dir.path().join(format!("{n}{number}")));
                std::fs::write(&names[0], &bytes)?;
                std::fs::hard_link(&names[0], &names[1])?;
                Storage::Disk { names }
            }
        };
        Ok(Self {
            spec,
            storage,
            plan,
            model: NaiveFile::new(bytes),
            nr_holders: 0,
        })
    }

    /// Changes the bytes from `pos` on, and the size if they do not fit, in storage and model.
    fn overwrite(&mut self, pos: usize, bytes: &[u8]) -> io::Result<()> {
        let put = |storage: &mut Vec<u8>| {
            storage.resize(storage.len().max(pos + bytes.len()), 0);
            storage[pos..pos + bytes.len()].copy_from_slice(bytes);
        };
        match &self.storage {
            Storage::Memory(backend) => backend.inner().modify(put),
            Storage::Disk { names } => {
                let file = std::fs::File::options().write(true).open(&names[0])?;
                file.write_all_at(bytes, pos as u64)?;
            }
        }
        self.model.change(put);
        Ok(())
    }

    fn truncate(&mut self, len: usize) -> io::Result<()> {
        match &self.storage {
            Storage::Memory(backend) => backend.inner().modify(|storage| storage.truncate(len)),
            Storage::Disk { names } => {
                let file = std::fs::File::options().write(true).open(&names[0])?;
                file.set_len(len as u64)?;
            }
        }
        self.model.change(|storage| storage.truncate(len));
        Ok(())
    }

    fn release(&mut self) {
        self.nr_holders -= 1;
        if self.nr_holders == 0 {
            self.model.close();
        }
    }
}

struct Handle {
    file: File,
    number: usize,
}

struct Pin {
    guard: OwnedPageGuard,
    copy: Vec<u8>,
    number: usize,
    order: u32,
}

struct Run {
    cache: Cache,
    nr_frames: usize,
    nr_nodes: usize,
    files: Vec<TestFile>,
    handles: Vec<Handle>,
    pins: Vec<Pin>,
    is_tight: bool,
    /// How many pages of each order are pinned, by any kind of guard.
    nr_pinned: BTreeMap<u32, usize>,
    /// Keeps the files on disk until the end.
    _dir: Option<TempDir>,
}

impl Run {
    fn new(history: &History) -> Result<Self, String> {
        let text = |error: &dyn Debug| format!("setting up: {error:?}");
        let nr_nodes = usize::from(history.nr_nodes);
        let cache = Cache::builder()
            .capacity(u64::from(history.nr_frames) * FRAME_COST)
            .nodes(Nodes::Unbound(nr_nodes))
            .build()
            .map_err(|error| text(&error))?;
        let mut dir = None;
        let files = (0..)
            .zip(&history.files)
            .map(|(number, spec)| TestFile::new(number, *spec, &mut dir))
            .collect::<io::Result<_>>()
            .map_err(|error| text(&error))?;
        Ok(Self {
            nr_frames: cache.stats().nr_frames,
            nr_nodes,
            is_tight: history.nr_frames.is_multiple_of(TIGHT),
            cache,
            files,
            handles: Vec::new(),
            pins: Vec::new(),
            nr_pinned: BTreeMap::new(),
            _dir: dir,
        })
    }

    /// The handle that a step means, if there is any.
    fn handle(&self, handle: u8) -> Option<(File, usize)> {
        let nr = self.handles.len();
        let handle = self.handles.get(usize::from(handle).checked_rem(nr)?)?;
        Some((handle.file.clone(), handle.number))
    }

    fn file_number(&self, file: u8) -> usize {
        usize::from(file) % self.files.len()
    }

    fn step(&mut self, step: &Step, rest: &mut slice::Iter<'_, Step>) -> Result<(), String> {
        let result = match *step {
            Step::Open {
                file,
                name,
                page_order,
            } => self.open(self.file_number(file), name, page_order),
            Step::Clone { handle } => {
                if let Some((file, number)) = self.handle(handle) {
                    self.keep(file, number);
                }
                Ok(())
            }
            Step::Close { handle } => {
                if let Some(nr) = usize::from(handle).checked_rem(self.handles.len()) {
                    let handle = self.handles.swap_remove(nr);
                    drop(handle.file);
                    self.files[handle.number].release();
                }
                Ok(())
            }
            Step::Read {
                handle,
                from,
                len,
                way,
            } => match self.handle(handle) {
                Some((file, number)) => {
                    let pos = from.of(self.files[number].model.size());
                    self.read(&file, number, pos, len as usize, way)
                }
                None => Ok(()),
            },
            Step::Pin { handle, at } => match self.handle(handle) {
                Some((file, number)) if self.may_pin(&file) => {
                    let page = self.page_at(&file, number, at.of(file.size()));
                    let faults = Plan::count(&self.files[number].plan);
                    match file.pin_owned(page) {
                        Ok(guard) => self.keep_pin(guard, &file, number, page),
                        Err(error) => self.check_pin_error(&file, number, page, faults, &error),
                    }
                }
                _ => Ok(()),
            },
            Step::PinDuring {
                handle,
                at,
                nr_steps,
            } => match self.handle(handle) {
                Some((file, number)) if self.may_pin(&file) => {
                    self.pin_during(&file, number, at.of(file.size()), nr_steps, rest)
                }
                _ => Ok(()),
            },
            Step::Unpin { pin } => match usize::from(pin).checked_rem(self.pins.len()) {
                Some(nr) => {
                    let pin = self.pins.swap_remove(nr);
                    self.unpin(pin)
                }
                None => Ok(()),
            },
            Step::Evict { nr } => {
                let nr = usize::from(nr);
                let evicted = self.cache.reclaim(nr);
                if evicted <= nr {
                    self.cache.verify()
                } else {
                    Err(format!("{evicted} pages evicted"))
                }
            }
            Step::Invalidate { handle, from, len } => {
                if let Some((file, number)) = self.handle(handle) {
                    let model = &mut self.files[number].model;
                    let from = from.of(model.size());
                    let to = from.saturating_add(u64::from(len));
                    file.invalidate(from..to);
                    model.invalidate(from, to);
                }
                Ok(())
            }
            Step::Refresh { handle } => match self.handle(handle) {
                Some((file, number)) => self.refresh(&file, number),
                None => Ok(()),
            },
            Step::Write {
                file,
                from,
                len,
                seed,
                tell,
            } => self.write(self.file_number(file), from, len, seed, tell),
            Step::SetLen {
                file,
                len,
                seed,
                tell,
            } => self.set_len(self.file_number(file), len as usize, seed, tell),
            Step::Break {
                file,
                breakage,
                after,
                nr,
            } => {
                let number = self.file_number(file);
                let plan = &self.files[number].plan;
                let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
                plan.breakage = Some(breakage);
                plan.after = after;
                plan.left = nr;
                Ok(())
            }
        };
        result.map_err(|why| format!("{step:?}: {why}"))
    }

    fn keep(&mut self, file: File, number: usize) {
        self.handles.push(Handle { file, number });
        self.files[number].nr_holders += 1;
    }

    fn open(&mut self, number: usize, name: u8, page_order: Option<u8>) -> Result<(), String> {
        let file = &mut self.files[number];
        let order = page_order.unwrap_or(file.spec.page_order);
        let page_size = PAGE << order;
        let options = OpenOptions::new().page_size(page_size);
        let opened = match &file.storage {
            Storage::Memory(backend) => {
                let name = format!("memory {number} as {}", name % 2);
                self.cache
                    .open_backend_with(backend.clone(), name, &options)
            }
            Storage::Disk { names } => self
                .cache
                .open_with(&names[usize::from(name % 2)], &options),
        };
        let open_as = file.model.page_size();
        match opened {
            Ok(opened) => {
                check!(opened.page_size() == page_size, "{opened:?}");
                match open_as {
                    Some(open_as) => {
                        check!(open_as == page_size, "opened with two page sizes");
                        file.model.refresh();
                    }
                    None => file.model.open(page_size),
                }
                check!(opened.size() == file.model.size(), "{opened:?}");
                self.keep(opened, number);
                Ok(())
            }
            Err(error) => {
                let is_known = match error.kind() {
                    ErrorKind::PageSizeMismatch => open_as.is_some_and(|is| is != page_size),
                    ErrorKind::InvalidConfig => {
                        open_as.is_none() && self.has_no_room_for_pages(order)
                    }
                    ErrorKind::OutOfFrames => self.may_run_out(u32::from(order)),
                    _ => false,
                };
                check!(is_known, "{error:?}");
                Ok(())
            }
        }
    }

    /// Whether the nodes may have no room for four pages of this order. Two nodes share the frames, and a border
    /// between them that is not aligned costs a page on either side.
    fn has_no_room_for_pages(&self, order: impl Into<u32>) -> bool {
        let cut_by_borders = 2 * (self.nr_nodes - 1);
        self.nr_frames < (4 + cut_by_borders) << order.into()
    }

    /// Whether the guards may take so many frames that no block of `order` can be had.
    fn may_run_out(&self, order: u32) -> bool {
        if self.nr_pinned.is_empty() {
            return false;
        }
        // Each guard, each leaf of an index and what is withheld may spoil a block of their own.
        [0, order].into_iter().any(|order| {
            let spoilt = self
                .nr_pinned
                .iter()
                .map(|(pinned, nr)| nr << pinned.saturating_sub(order))
                .sum::<usize>();
            let nr_blocks = (0..self.nr_nodes)
                .map(|node| {
                    let first = self.nr_frames * node / self.nr_nodes;
                    let end = self.nr_frames * (node + 1) / self.nr_nodes;
                    (end >> order).saturating_sub(first.div_ceil(1 << order))
                })
                .sum::<usize>();
            spoilt + self.files.len() + 2 >= nr_blocks
        })
    }

    /// Checks an error of a read or a pin of the `len` bytes from `pos` on; `before` says how many reads
    /// of the storage had gone wrong beforehand.
    fn check_error(
        &self,
        number: usize,
        (pos, len): (u64, usize),
        before: (u32, u32),
        error: &Error,
    ) -> Result<(), String> {
        let file = &self.files[number];
        let after = Plan::count(&file.plan);
        let order = file.model.page_size().map_or(0, |size| size.ilog2() - 12);
        let is_known = match error.kind() {
            ErrorKind::Io => after.0 > before.0,
            ErrorKind::Truncated => after.1 > before.1 || !file.model.is_whole(pos, len),
            ErrorKind::OutOfFrames => self.may_run_out(order),
            _ => false,
        };
        check!(is_known, "{error:?}");
        check!(error.path().is_some(), "without a path: {error:?}");
        Ok(())
    }

    fn read(
        &mut self,
        file: &File,
        number: usize,
        pos: u64,
        len: usize,
        way: Way,
    ) -> Result<(), String> {
        let before = Plan::count(&self.files[number].plan);
        let mut buf = vec![UNTOUCHED; len];
        let result = match way {
            Way::Optimistic => file.read_at(&mut buf, pos),
            Way::Referenced => file.read_at_referenced(&mut buf, pos),
            Way::Views => read_by_views(file, &mut buf, pos),
        };
        let model = &mut self.files[number].model;
        let expected = model.len_of_read(pos, len);
        let n = match &result {
            Ok(n) => *n,
            Err(_) => 0,
        };
        check!(n <= expected, "{n} bytes read, there are {expected}");
        model.check_read(pos, &buf[..n])?;
        let is_clean = buf[n..].iter().all(|&b| b == UNTOUCHED || b == 0);
        check!(is_clean, "foreign bytes after the {n} that were read");
        match result {
            Ok(_) if n == expected => Ok(()),
            Ok(0) => Err(format!("nothing read, there are {expected} bytes")),
            Ok(_) => {
                let file = &self.files[number];
                let order = file.model.page_size().map_or(0, |size| size.ilog2() - 12);
                let may_be_short = Plan::count(&file.plan) != before
                    || !file.model.is_whole(pos, len)
                    || self.may_run_out(order);
                check!(may_be_short, "{n} bytes read, there are {expected}");
                Ok(())
            }
            Err(error) => {
                check!(expected != 0, "no bytes asked for, yet {error:?}");
                self.check_error(number, (pos, len), before, &error)
            }
        }
    }

    fn page_at(&self, file: &File, number: usize, pos: u64) -> u64 {
        // The highest positions become the highest page numbers, which have no position at all.
        if pos > u64::MAX / 2 {
            pos
        } else {
            debug_assert_eq!(Some(file.page_size()), self.files[number].model.page_size());
            pos / file.page_size() as u64
        }
    }

    /// Checks the bytes of a guard of `page`.
    fn check_pinned(&mut self, number: usize, page: u64, bytes: &[u8]) -> Result<(), String> {
        let model = &mut self.files[number].model;
        let page_size = model.page_size().unwrap_or(0);
        let pos = page.saturating_mul(page_size as u64);
        let expected = model.len_of_read(pos, page_size);
        check!(
            bytes.len() == expected && expected != 0,
            "page {page}: a guard of {} bytes, there are {expected}",
            bytes.len()
        );
        model.check_read(pos, bytes)
    }

    fn check_pin_error(
        &self,
        file: &File,
        number: usize,
        page: u64,
        before: (u32, u32),
        error: &Error,
    ) -> Result<(), String> {
        let page_size = file.page_size();
        let pos = page.saturating_mul(page_size as u64);
        if self.files[number].model.len_of_read(pos, page_size) == 0 {
            check!(error.kind() == ErrorKind::OutOfRange, "{error:?}");
            return Ok(());
        }
        self.check_error(number, (pos, page_size), before, error)
    }

    /// Whether a history may pin one more page of `file`.
    fn may_pin(&mut self, file: &File) -> bool {
        let order = file.page_size().ilog2() - 12;
        self.count_pin(order);
        let leaves_room = (0..=u32::from(MAX_PAGE_ORDER)).all(|order| {
            let is_in_use = |handle: &Handle| handle.file.page_size() == PAGE << order;
            !self.handles.iter().any(is_in_use) || !self.may_run_out(order)
        });
        self.uncount_pin(order);
        let nr_pinned: usize = self.nr_pinned.values().sum();
        nr_pinned < MOST_PINS && (leaves_room || self.is_tight)
    }

    fn count_pin(&mut self, order: u32) {
        *self.nr_pinned.entry(order).or_insert(0) += 1;
    }

    fn uncount_pin(&mut self, order: u32) {
        if let Some(nr) = self.nr_pinned.get_mut(&order) {
            *nr -= 1;
            if *nr == 0 {
                self.nr_pinned.remove(&order);
            }
        }
    }

    fn keep_pin(
        &mut self,
        guard: OwnedPageGuard,
        file: &File,
        number: usize,
        page: u64,
    ) -> Result<(), String> {
        self.check_pinned(number, page, &guard)?;
        let order = file.page_size().ilog2() - 12;
        self.count_pin(order);
        self.pins.push(Pin {
            copy: guard.to_vec(),
            guard,
            number,
            order,
        });
        Ok(())
    }

    fn unpin(&mut self, pin: Pin) -> Result<(), String> {
        let is_same = *pin.guard == *pin.copy;
        drop(pin.guard);
        self.uncount_pin(pin.order);
        check!(is_same, "a pinned page of file {} has changed", pin.number);
        Ok(())
    }

    fn pin_during(
        &mut self,
        file: &File,
        number: usize,
        pos: u64,
        nr_steps: u8,
        rest: &mut slice::Iter<'_, Step>,
    ) -> Result<(), String> {
        let page = self.page_at(file, number, pos);
        let before = Plan::count(&self.files[number].plan);
        let guard = match file.pin(page) {
            Ok(guard) => guard,
            Err(error) => return self.check_pin_error(file, number, page, before, &error),
        };
        self.check_pinned(number, page, &guard)?;
        let copy = guard.to_vec();
        let order = file.page_size().ilog2() - 12;
        self.count_pin(order);
        // The handle that the guard borrows from keeps the file open whatever the steps close.
        self.files[number].nr_holders += 1;
        for _ in 0..nr_steps {
            let Some(step) = rest.next() else {
                break;
            };
            self.step(step, rest)?;
        }
        let is_same = *guard == *copy;
        drop(guard);
        self.uncount_pin(order);
        check!(is_same, "page {page} has changed while it was pinned");
        // The caller drops its handle right after this, before anything else is opened.
        self.files[number].release();
        Ok(())
    }

    fn refresh(&mut self, file: &File, number: usize) -> Result<(), String> {
        let size = file.refresh().map_err(|error| format!("{error:?}"))?;
        let model = &mut self.files[number].model;
        model.refresh();
        check!(
            size == model.size() && file.size() == size,
            "size {size}, not {}",
            model.size()
        );
        Ok(())
    }

    /// Tells the cache, by any handle of the file, that `from..to` and the size may have changed.
    fn tell(&mut self, number: usize, from: u64, to: u64, tell: Tell) -> Result<(), String> {
        let Some(handle) = self.handles.iter().find(|handle| handle.number == number) else {
            return Ok(());
        };
        let file = handle.file.clone();
        if matches!(tell, Tell::Invalidate | Tell::Both) {
            file.invalidate(from..to);
            self.files[number].model.invalidate(from, to);
        }
        if matches!(tell, Tell::Refresh | Tell::Both) {
            self.refresh(&file, number)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        number: usize,
        from: Spot,
        len: u16,
        seed: u8,
        tell: Tell,
    ) -> Result<(), String> {
        let file = &mut self.files[number];
        let size = file.model.storage().len();
        let from = from.of(size as u64).min(size as u64) as usize;
        let len = usize::from(len).min(size - from);
        file.overwrite(from, &content(u64::from(seed), len))
            .map_err(|error| format!("writing: {error}"))?;
        self.tell(number, from as u64, (from + len) as u64, tell)
    }

    fn set_len(&mut self, number: usize, len: usize, seed: u8, tell: Tell) -> Result<(), String> {
        let file = &mut self.files[number];
        let size = file.model.storage().len();
        let done = if len > size {
            file.overwrite(size, &content(u64::from(seed), len - size))
        } else {
            file.truncate(len)
        };
        done.map_err(|error| format!("changing the size: {error}"))?;
        self.tell(number, len.min(size) as u64, len.max(size) as u64, tell)
    }

    /// Drops everything: guards that borrow nothing last, so that they outlive the handles.
    fn end(mut self) -> Result<(), String> {
        for handle in std::mem::take(&mut self.handles) {
            drop(handle.file);
            self.files[handle.number].release();
        }
        for pin in std::mem::take(&mut self.pins) {
            self.unpin(pin)?;
        }
        self.cache.verify()?;
        let stats = self.cache.stats();
        check!(
            stats.nr_free == stats.nr_frames,
            "frames are lost: {stats:?}"
        );
        Ok(())
    }
}
