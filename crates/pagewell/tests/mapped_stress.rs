//! Threads that cut and grow a mapped file, write it by areas and by handles, copy pages of it in private areas, fork, unmap,
//! protect, migrate, pin, evict and sync, all at once: what each page may show is known, and no frame is lost.
//!
//! # What a page may show
//!
//! Every write is one of a whole page, which is filled with one *stamp*: the page's number, and a sequence number that each
//! page's one writer takes in ascending order. So a page of the file is, at any moment, a number of bytes of one stamp and
//! zeros from there on: all of the page, or as far as a cut has left it. Of what a reader finds
//! - the stamp is the page's own, and one stamp only (nothing torn, nothing of others);
//! - it is no older than the last one whose write had returned before the read began (no lost write), and if there is
//!   none, or less than the page, then a cut of the page has begun since that write did;
//! - nothing is there of what was cut off by a cut that had returned before the read began (nothing comes back).
//!
//! A private area has a thread of its own, which knows what it has copied: the copy is there until a cut begins that takes
//! it away, and gone when that has returned; then the page is the file's.
//!
//! `PAGEWELL_SOAK_SECONDS` says how long each test runs at least (a few rounds unless told), `PAGEWELL_SEED` repeats what
//! its threads choose to do, though not when.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell::frame::Order;
use pagewell::io::MemoryBackend;
use pagewell::space::{CacheSpaces as _, ErrorKind, Protection, Sharing, Space};
use pagewell::{Cache, File, Nodes, OpenOptions, Writeback};
use pagewell_testkit::wait::bounded_by;
use pagewell_testkit::{Rng, Seed};
use support::FRAME_COST;

/// How many pages the file has at the most.
const NR_PAGES: usize = 12;

/// How many threads write pages of the file: each those whose numbers have the same remainder.
const NR_WRITERS: usize = 2;

/// How long a test may take at the most; it takes a few seconds, and as many minutes where every access is watched.
const LIMIT: Duration = Duration::from_secs(if cfg!(pagewell_tsan) { 900 } else { 120 });

/// How long a test goes on at least.
fn soak() -> Duration {
    let seconds = std::env::var("PAGEWELL_SOAK_SECONDS").ok();
    let seconds = seconds.map_or(0, |text| {
        text.parse().expect("PAGEWELL_SOAK_SECONDS in seconds")
    });
    Duration::from_secs(seconds)
}

/// What a run is like.
#[derive(Clone, Copy)]
struct Shape {
    nr_frames: u64,
    page_bytes: usize,
    mode: Writeback,
    nr_steps: usize,
}

/// What is known of a page of the file.
#[derive(Default)]
struct Known {
    /// The last stamp whose write has returned.
    written: AtomicU64,
    /// How many cuts of a part of the page had ended when that write began, or later.
    written_at: AtomicU64,
    /// Cuts that take a part of the page away.
    part: Cuts,
    /// Cuts that take all of the page away.
    all: Cuts,
    /// The last stamp that a cut has left only so many bytes of: `stamp << 16 | bytes / 8`.
    left: AtomicU64,
}

/// Cuts of a page, which are numbered from one on.
#[derive(Default)]
struct Cuts {
    /// How many have begun.
    begun: AtomicU64,
    /// How many have ended: one less while one is under way.
    ended: AtomicU64,
    /// The number of the last one that was done.
    done: AtomicU64,
}

impl Cuts {
    fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self, is_done: bool) {
        if is_done {
            self.done.store(self.begun(), Ordering::SeqCst);
        }
        self.ended.store(self.begun(), Ordering::SeqCst);
    }
}

/// A page as it was read: so many bytes of a stamp, and zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    stamp: u64,
    len: usize,
}

/// A mark of stamps that are written to private areas only.
const PRIVATE: u64 = 1 << 46;

/// Where the page's number is in a stamp.
const PAGE_SHIFT: u32 = 40;

fn stamp(page: usize, nr: u64) -> u64 {
    assert!(nr < 1 << PAGE_SHIFT);
    (page as u64 + 1) << PAGE_SHIFT | nr
}

/// What a page of this number shows.
#[track_caller]
fn shown(page: usize, bytes: &[u8]) -> Shown {
    let stamp = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
    let of = stamp.to_ne_bytes();
    let len = bytes
        .iter()
        .zip(of.iter().cycle())
        .take_while(|(byte, of)| byte == of)
        .count();
    if stamp == 0 {
        assert!(
            bytes.iter().all(|byte| *byte == 0),
            "page {page} begins with zeros"
        );
        return Shown { stamp, len: 0 };
    }
    assert_eq!(
        (stamp & !PRIVATE) >> PAGE_SHIFT,
        page as u64 + 1,
        "page {page} shows another one: {stamp:#x}"
    );
    // A stamp may end with bytes that are zero, and a cut is at a multiple of its length.
    let len = len / 8 * 8;
    assert!(
        bytes[len..].iter().all(|byte| *byte == 0),
        "page {page} has something after {len} bytes of {stamp:#x}"
    );
    Shown { stamp, len }
}

struct Run {
    shape: Shape,
    cache: Cache,
    file: File,
    storage: Arc<MemoryBackend>,
    known: Vec<Known>,
    next: AtomicU64,
    /// Spaces that several threads use, one with a shared area and one with a private one, and where those are.
    common: [Space; 2],
    areas: [AtomicU64; 2],
    is_over: AtomicBool,
}

/// What is known of a page before it is read.
struct Before {
    written: u64,
    written_at: u64,
    left: u64,
}

impl Run {
    fn new(shape: Shape) -> Self {
        let cache = Cache::builder()
            .capacity(shape.nr_frames * FRAME_COST)
            .nodes(Nodes::Unbound(2))
            .build()
            .unwrap();
        let storage = Arc::new(MemoryBackend::writable(Vec::new()));
        let options = OpenOptions::new()
            .page_size(shape.page_bytes)
            .write()
            .writeback(shape.mode);
        let file = cache
            .open_backend_with(Arc::clone(&storage), "file", &options)
            .unwrap();
        let common = [cache.space().unwrap(), cache.space().unwrap()];
        let run = Self {
            shape,
            file,
            storage,
            known: (0..NR_PAGES).map(|_| Known::default()).collect(),
            next: AtomicU64::new(1),
            common,
            areas: Default::default(),
            is_over: AtomicBool::new(false),
            cache,
        };
        run.map_common(0);
        run.map_common(1);
        run
    }

    fn bytes(&self) -> u64 {
        (NR_PAGES * self.shape.page_bytes) as u64
    }

    fn pos(&self, page: usize) -> u64 {
        (page * self.shape.page_bytes) as u64
    }

    fn map_common(&self, nr: usize) {
        let sharing = [Sharing::Shared, Sharing::Private][nr];
        let area = self.common[nr]
            .map_file(&self.file, 0..self.bytes(), sharing)
            .unwrap();
        self.areas[nr].store(area.start, Ordering::SeqCst);
    }

    /// Where a page is in a space that several threads use; it may be unmapped meanwhile.
    fn common_addr(&self, nr: usize, page: usize) -> u64 {
        self.areas[nr].load(Ordering::SeqCst) + self.pos(page)
    }

    /// Checks that an access may fail so, where others change the areas.
    #[track_caller]
    fn expect(&self, kind: ErrorKind) {
        match kind {
            ErrorKind::PastEnd | ErrorKind::Unmapped | ErrorKind::Protected => {}
            kind => self.expect_shortage(kind == ErrorKind::OutOfFrames),
        }
    }

    #[track_caller]
    fn expect_shortage(&self, is_shortage: bool) {
        assert!(is_shortage && self.shape.nr_frames < 256, "an error");
    }

    fn before(&self, page: usize) -> Before {
        let known = &self.known[page];
        // The stamp first: what is found with it is of its write, or of a later one that has returned too.
        let written = known.written.load(Ordering::SeqCst);
        Before {
            written,
            written_at: known.written_at.load(Ordering::SeqCst),
            left: known.left.load(Ordering::SeqCst),
        }
    }

    /// Checks what a page of the file has shown, none if the file had none.
    #[track_caller]
    fn check(&self, page: usize, before: &Before, shown: Option<Shown>) {
        let known = &self.known[page];
        let nr_begun = known.part.begun();
        let Shown { stamp, len } = shown.unwrap_or(Shown { stamp: 0, len: 0 });
        assert_eq!(stamp & PRIVATE, 0, "page {page} shows a private write");
        if len < self.shape.page_bytes {
            assert!(
                before.written == 0 || nr_begun > before.written_at,
                "page {page} has lost {:#x}, and has {len} bytes of {stamp:#x}",
                before.written
            );
        }
        if len != 0 {
            assert!(
                stamp >= before.written,
                "page {page} shows {stamp:#x}, older than {:#x}",
                before.written
            );
            let (cut, left) = (before.left >> 16, before.left as u16 as usize * 8);
            assert!(
                stamp > cut || len <= left,
                "page {page} shows {len} bytes of {stamp:#x}, of which {left} were left"
            );
        }
    }

    /// Cuts the file, or makes it longer.
    fn resize(&self, rng: &mut Rng) {
        let size = match rng.below(4) {
            0 => self.pos(rng.index(NR_PAGES + 1)),
            1 => self.bytes(),
            _ => rng.below(self.bytes() / 8 + 1) * 8,
        };
        let page_bytes = self.shape.page_bytes as u64;
        let pages = (size / page_bytes) as usize..NR_PAGES;
        let mut written = Vec::new();
        for page in pages.clone() {
            let known = &self.known[page];
            known.part.begin();
            if self.pos(page) >= size {
                known.all.begin();
            }
            written.push(known.written.load(Ordering::SeqCst));
        }
        let result = self.file.set_size(size);
        if let Err(error) = &result {
            self.expect_shortage(error.kind() == pagewell::ErrorKind::OutOfFrames);
        }
        for (page, written) in pages.zip(written) {
            let known = &self.known[page];
            if result.is_ok() {
                let left = size.saturating_sub(self.pos(page)) / 8;
                let before = known.left.load(Ordering::SeqCst);
                let left = match before >> 16 == written {
                    true => left.min(before & 0xFFFF),
                    false => left,
                };
                known.left.store(written << 16 | left, Ordering::SeqCst);
            }
            if self.pos(page) >= size {
                known.all.end(result.is_ok());
            }
            known.part.end(result.is_ok());
        }
    }

    /// Writes a page of the file, in one of several ways.
    fn write(&self, rng: &mut Rng, writer: usize, own: &(Space, u64)) {
        let page = rng.index(NR_PAGES / NR_WRITERS) * NR_WRITERS + writer;
        let known = &self.known[page];
        let stamp = stamp(page, self.next.fetch_add(1, Ordering::SeqCst));
        let bytes = stamp.to_ne_bytes().repeat(self.shape.page_bytes / 8);
        let nr_ended = known.part.ended();
        let result = match rng.below(3) {
            0 => match self.file.write_at(&bytes, self.pos(page)) {
                Ok(n) => {
                    assert_eq!(n, bytes.len());
                    Ok(())
                }
                Err(error) => {
                    self.expect_shortage(error.kind() == pagewell::ErrorKind::OutOfFrames);
                    return;
                }
            },
            1 => own.0.write(own.1 + self.pos(page), &bytes),
            _ => self.common[0].write(self.common_addr(0, page), &bytes),
        };
        match result {
            Ok(()) => {
                known.written_at.store(nr_ended, Ordering::SeqCst);
                known.written.store(stamp, Ordering::SeqCst);
            }
            Err(error) => self.expect(error.kind()),
        }
    }

    /// Reads a page of the file, or of the private area that several threads use.
    fn read(&self, rng: &mut Rng, pins: &mut Vec<(pagewell::space::OwnedPin, Vec<u8>)>) {
        let page = rng.index(NR_PAGES);
        let before = self.before(page);
        let mut bytes = vec![0xEE; self.shape.page_bytes];
        let result = match rng.below(5) {
            0 => match self.file.read_at(&mut bytes, self.pos(page)) {
                Ok(n) => {
                    bytes[n..].fill(0);
                    Ok(())
                }
                Err(error) => {
                    self.expect_shortage(error.kind() == pagewell::ErrorKind::OutOfFrames);
                    return;
                }
            },
            1 => {
                let addr = self.common_addr(1, page);
                if rng.one_in(3) {
                    let nr = self.next.fetch_add(1, Ordering::SeqCst);
                    let stamp = stamp(page, nr) | PRIVATE;
                    let new = stamp.to_ne_bytes().repeat(self.shape.page_bytes / 8);
                    if let Err(error) = self.common[1].write(addr, &new) {
                        self.expect(error.kind());
                    }
                }
                let result = self.common[1].read(addr, &mut bytes);
                if result.is_ok() {
                    let shown = shown(page, &bytes);
                    if shown.stamp & PRIVATE != 0 {
                        assert_eq!(shown.len, bytes.len(), "a private copy is torn");
                        return;
                    }
                }
                result
            }
            2 => match self.common[0].pin(self.common_addr(0, page), bytes.len()) {
                Ok(pin) => {
                    bytes.copy_from_slice(&pin);
                    pins.push((pin.into_owned(), bytes.clone()));
                    Ok(())
                }
                Err(error) => {
                    // What ends within the page cannot be pinned.
                    self.expect(error.kind());
                    return;
                }
            },
            _ => self.common[0].read(self.common_addr(0, page), &mut bytes),
        };
        match result {
            Ok(()) => self.check(page, &before, Some(shown(page, &bytes))),
            Err(error) if error.kind() == ErrorKind::PastEnd => self.check(page, &before, None),
            Err(error) => self.expect(error.kind()),
        }
        if pins.len() > 6 {
            let (pin, bytes) = pins.swap_remove(rng.index(pins.len()));
            assert!(*pin == *bytes, "a pinned page has changed");
        }
    }

    /// What happens to the file, the spaces and the cache as a whole.
    fn disturb(&self, rng: &mut Rng) {
        let nr = rng.index(2);
        let start = self.areas[nr].load(Ordering::SeqCst);
        let range = start..start + self.bytes();
        match rng.below(9) {
            0 => {
                self.common[nr].unmap(range).unwrap();
                self.map_common(nr);
            }
            1 => {
                let part = start..start + self.pos(1 + rng.index(NR_PAGES));
                self.common[nr].protect(part, Protection::Read).unwrap();
                self.common[nr]
                    .protect(range, Protection::ReadWrite)
                    .unwrap();
            }
            2 | 3 => {
                self.common[nr].migrate(range, rng.index(2)).unwrap();
            }
            4 => drop(self.common[nr].fork()),
            5 => _ = self.cache.reclaim(rng.index(40)),
            6 => self.file.sync_data().unwrap(),
            7 => {
                self.file.flush(0..self.bytes()).unwrap();
                self.file.invalidate(0..self.bytes());
            }
            _ => drop(self.cache.spaces().alloc_block(Order::new(3).unwrap())),
        }
    }

    fn run(self, seed: &Seed, part: u64) {
        let rng = |thread: u64| seed.part(part * 16 + thread);
        let steps = self.shape.nr_steps;
        let run = &self;
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for writer in 0..NR_WRITERS {
                let mut rng = rng(writer as u64);
                threads.push(scope.spawn(move || {
                    let space = run.cache.space().unwrap();
                    let area = space
                        .map_file(&run.file, 0..run.bytes(), Sharing::Shared)
                        .unwrap();
                    let own = (space, area.start);
                    for _ in 0..steps {
                        run.write(&mut rng, writer, &own);
                    }
                }));
            }
            for nr in 0..2 {
                let rng = rng(4 + nr);
                threads.push(scope.spawn(move || PrivateSpaces::new(run, rng).run(steps)));
            }
            let mut readers_rng = rng(8);
            threads.push(scope.spawn(move || {
                let mut pins = Vec::new();
                for _ in 0..2 * steps {
                    run.read(&mut readers_rng, &mut pins);
                }
                for (pin, bytes) in pins {
                    assert!(*pin == *bytes, "a pinned page has changed");
                }
            }));
            let (mut resizers_rng, mut others_rng) = (rng(9), rng(10));
            let background = [
                scope.spawn(move || {
                    while !run.is_over.load(Ordering::SeqCst) {
                        run.resize(&mut resizers_rng);
                        // Most of the time it stays as it is.
                        for _ in 0..resizers_rng.below(30) {
                            std::thread::yield_now();
                        }
                    }
                }),
                scope.spawn(move || {
                    while !run.is_over.load(Ordering::SeqCst) {
                        run.disturb(&mut others_rng);
                    }
                }),
            ];
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            run.is_over.store(true, Ordering::SeqCst);
            for result in results
                .into_iter()
                .chain(background.map(|thread| thread.join()))
            {
                result.expect("a thread that found nothing wrong");
            }
        });
        self.finish();
    }

    /// At rest: the file is what it may be, the storage has the same, and everything is given back.
    fn finish(self) {
        let mut bytes = vec![0; self.file.size() as usize];
        self.file.sync_data().unwrap();
        assert_eq!(self.file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        self.storage
            .modify(|stored| assert!(*stored == bytes, "the storage has something else"));
        bytes.resize(self.bytes() as usize, 0);
        for (page, bytes) in bytes.chunks(self.shape.page_bytes).enumerate() {
            self.check(page, &self.before(page), Some(shown(page, bytes)));
        }
        let Self {
            cache,
            file,
            common,
            ..
        } = self;
        {
            let _quiet = cache.quiesce().unwrap();
            let [first, second] = &common;
            cache.spaces().verify(&[first, second]).unwrap();
        }
        drop((file, common));
        support::assert_all_free(&cache);
    }
}

/// What a private area has of a page.
#[derive(Clone)]
struct Copy {
    bytes: Vec<u8>,
    /// How many cuts that take all of the page away had ended before it was made.
    nr_ended: u64,
    /// How many had begun when it was there.
    nr_begun: u64,
}

/// A space with a private area, and its copies.
struct PrivateSpace {
    space: Space,
    start: u64,
    copies: HashMap<usize, Copy>,
}

/// A thread's private areas of the file.
struct PrivateSpaces<'r> {
    run: &'r Run,
    rng: Rng,
    spaces: Vec<PrivateSpace>,
}

impl<'r> PrivateSpaces<'r> {
    fn new(run: &'r Run, rng: Rng) -> Self {
        let space = run.cache.space().unwrap();
        let area = space
            .map_file(&run.file, 0..run.bytes(), Sharing::Private)
            .unwrap();
        let first = PrivateSpace {
            space,
            start: area.start,
            copies: HashMap::new(),
        };
        Self {
            run,
            rng,
            spaces: vec![first],
        }
    }

    fn run(mut self, nr_steps: usize) {
        for _ in 0..nr_steps {
            let at = self.rng.index(self.spaces.len());
            match self.rng.below(40) {
                0..=14 => self.write(at),
                15..=34 => self.read(at),
                35 => self.fork(at),
                36 if self.spaces.len() > 1 => drop(self.spaces.swap_remove(at)),
                37 => self.unmap(at),
                38 => {
                    let PrivateSpace { space, start, .. } = &self.spaces[at];
                    let range = *start..*start + self.run.bytes();
                    space.migrate(range, self.rng.index(2)).unwrap();
                }
                _ => {}
            }
        }
        for at in 0..self.spaces.len() {
            (0..NR_PAGES).for_each(|page| self.read_page(at, page));
        }
    }

    /// Writes a page whole, or its first bytes.
    fn write(&mut self, at: usize) {
        let page = self.rng.index(NR_PAGES);
        let page_bytes = self.run.shape.page_bytes;
        let nr = self.run.next.fetch_add(1, Ordering::SeqCst);
        let stamp = (stamp(page, nr) | PRIVATE).to_ne_bytes();
        let known = &self.run.known[page];
        let is_whole = self.rng.one_in(2);
        let new = stamp.repeat(if is_whole { page_bytes / 8 } else { 1 });
        let PrivateSpace {
            space,
            start,
            copies,
        } = &mut self.spaces[at];
        let addr = *start + self.run.pos(page);
        let before = self.run.before(page);
        let nr_ended = known.all.ended();
        if let Err(error) = space.write(addr, &new) {
            self.run.expect(error.kind());
            return;
        }
        let nr_begun = known.all.begun();
        let mut bytes = vec![0xEE; page_bytes];
        if is_whole {
            bytes.copy_from_slice(&new);
        } else {
            // The rest is what was there: of a copy that is known, or of the file at some moment of the write.
            let result = space.read(addr, &mut bytes);
            let is_cut = known.all.begun() != nr_ended;
            match result {
                Ok(()) if bytes[..8] == stamp => {}
                Ok(()) => {
                    assert!(is_cut, "page {page}: a copy is lost");
                    copies.remove(&page);
                    return self.run.check(page, &before, Some(shown(page, &bytes)));
                }
                Err(error) if error.kind() == ErrorKind::PastEnd => {
                    assert!(is_cut, "page {page}: a copy is lost");
                    copies.remove(&page);
                    return;
                }
                Err(error) => {
                    // It is not known what is there.
                    self.run.expect(error.kind());
                    return self.unmap(at);
                }
            }
            let known_copy = copies.get(&page);
            if known_copy.is_none_or(|copy| copy.bytes[8..] != bytes[8..]) {
                let is_there = known_copy.is_some_and(|copy| copy.nr_ended == known.all.begun());
                assert!(!is_there, "page {page}: a copy is lost");
                // Its first bytes were those of a stamp, or zeros, as the others.
                let mut of_file = bytes.clone();
                of_file.copy_within(8..16, 0);
                if of_file[16..].iter().any(|byte| *byte != 0) {
                    let shown = shown(page, &of_file);
                    self.run.check(page, &before, Some(shown));
                }
            }
        }
        copies.insert(
            page,
            Copy {
                bytes,
                nr_ended,
                nr_begun,
            },
        );
    }

    fn read(&mut self, at: usize) {
        let page = self.rng.index(NR_PAGES);
        self.read_page(at, page);
    }

    fn read_page(&mut self, at: usize, page: usize) {
        let known = &self.run.known[page];
        let PrivateSpace {
            space,
            start,
            copies,
        } = &mut self.spaces[at];
        let nr_done = known.all.done();
        let before = self.run.before(page);
        let mut bytes = vec![0xEE; self.run.shape.page_bytes];
        let result = space.read(*start + self.run.pos(page), &mut bytes);
        let nr_begun = known.all.begun();
        let shown = match result {
            Ok(()) => Some(()),
            Err(error) if error.kind() == ErrorKind::PastEnd => None,
            Err(error) => return self.run.expect(error.kind()),
        };
        if let Some(copy) = copies.get(&page) {
            let is_there = shown.is_some() && bytes == copy.bytes;
            let must_be_there = nr_begun == copy.nr_ended;
            let may_be_there = nr_done <= copy.nr_begun;
            assert!(is_there || !must_be_there, "page {page}: a copy is lost");
            assert!(!is_there || may_be_there, "page {page}: a copy came back");
            if is_there {
                return;
            }
            copies.remove(&page);
        }
        let shown = shown.map(|()| self::shown(page, &bytes));
        self.run.check(page, &before, shown);
    }

    fn fork(&mut self, at: usize) {
        if self.spaces.len() == 4 {
            return;
        }
        let PrivateSpace {
            space,
            start,
            copies,
        } = &self.spaces[at];
        match space.fork() {
            Ok(space) => {
                let (start, copies) = (*start, copies.clone());
                self.spaces.push(PrivateSpace {
                    space,
                    start,
                    copies,
                });
            }
            Err(error) => self.run.expect(error.kind()),
        }
    }

    /// Unmaps the area, and maps it again: the copies are gone.
    fn unmap(&mut self, at: usize) {
        let PrivateSpace {
            space,
            start,
            copies,
        } = &mut self.spaces[at];
        space.unmap(*start..*start + self.run.bytes()).unwrap();
        let area = space.map_file(&self.run.file, 0..self.run.bytes(), Sharing::Private);
        *start = area.unwrap().start;
        copies.clear();
    }
}

fn stress(nr_runs: u64, shape: Shape) {
    let soak = soak();
    bounded_by(LIMIT + soak, "mapped files under stress", move || {
        let (seed, begin) = (Seed::of_run(), Instant::now());
        let mut part = 0;
        while part < nr_runs || begin.elapsed() < soak {
            Run::new(shape).run(&seed, part);
            part += 1;
        }
    });
}

#[test]
fn mapped_files_that_change_their_size_show_what_they_may() {
    stress(
        2,
        Shape {
            nr_frames: 1024,
            page_bytes: 4096,
            mode: Writeback::Background,
            nr_steps: 2000,
        },
    );
}

#[test]
fn mapped_files_of_large_pages_that_change_their_size_show_what_they_may() {
    stress(
        1,
        Shape {
            nr_frames: 4096,
            page_bytes: 16384,
            mode: Writeback::Manual,
            nr_steps: 1500,
        },
    );
}

#[test]
fn mapped_files_that_change_their_size_show_what_they_may_when_frames_run_out() {
    stress(
        2,
        Shape {
            nr_frames: 72,
            page_bytes: 4096,
            mode: Writeback::Background,
            nr_steps: 1500,
        },
    );
}
