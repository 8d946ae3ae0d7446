//! Random histories of spaces that have files mapped, shared and private, beside writes to the files themselves, cuts,
//! evictions and syncs, against plain bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use crate::support::{FRAME_COST, PAGE as FRAME};
use pagewell::baseline::{Engine, ForkMode};
use pagewell::io::MemoryBackend;
use pagewell::space::{
    CacheSpaces as _, Error, ErrorKind, MapOptions, NotMoved, OwnedPin, Policy, Protection,
    Sharing, Space, Spaces,
};
use pagewell::{Cache, File, Nodes, OpenOptions, Writeback};
use pagewell_testkit::Seed;
use pagewell_testkit::rng::Rng;

const PAGE: u64 = FRAME as u64;

/// The most spaces at a time.
const MAX_SPACES: usize = 8;

/// So many frames are enough for all that a history does.
const ROOMY: usize = 1000;

/// The most bytes of a file.
const MAX_FILE: u64 = 40 * PAGE;

/// A file, and where it is stored.
struct TestFile {
    file: File,
    storage: Arc<MemoryBackend>,
}

/// What a page of a space is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zeros,
    /// The page of this file that begins at this byte.
    File(usize, u64, Sharing),
}

/// A page of a space.
#[derive(Clone)]
struct Page {
    len: u64,
    protection: Protection,
    kind: Kind,
    /// The page's own bytes, if it was written to, and those are not the file's.
    own: Option<Rc<Vec<u8>>>,
}

/// A space as plain bytes: pages by address. To clone it is to fork it.
#[derive(Clone, Default)]
struct Model {
    pages: BTreeMap<u64, Page>,
}

impl Page {
    /// Why the page may not be accessed so.
    fn refuses(&self, files: &[Vec<u8>], off: u64, len: u64, is_write: bool) -> Option<ErrorKind> {
        let is_allowed = match self.protection {
            Protection::ReadWrite => true,
            Protection::Read => !is_write,
            Protection::None => false,
        };
        if !is_allowed {
            return Some(ErrorKind::Protected);
        }
        match self.kind {
            Kind::File(nr, pos, sharing) if self.own.is_none() => {
                let size = files[nr].len() as u64;
                let must_have = match sharing {
                    Sharing::Shared if is_write => pos + off + len,
                    _ => pos + 1,
                };
                (must_have > size).then_some(ErrorKind::PastEnd)
            }
            _ => None,
        }
    }

    /// All bytes of the page, which is there.
    fn bytes(&self, files: &[Vec<u8>]) -> Vec<u8> {
        let len = self.len as usize;
        match (&self.own, self.kind) {
            (Some(own), _) => own.to_vec(),
            (None, Kind::Zeros) => vec![0; len],
            (None, Kind::File(nr, pos, _)) => {
                let file = files[nr].get(pos as usize..).unwrap_or(&[]);
                let mut bytes = file[..file.len().min(len)].to_vec();
                bytes.resize(len, 0);
                bytes
            }
        }
    }
}

impl Model {
    fn page_of(&self, addr: u64) -> Option<(u64, &Page)> {
        let (start, page) = self.pages.range(..=addr).next_back()?;
        (addr < start + page.len).then_some((*start, page))
    }

    fn map(&mut self, range: Range<u64>, len: u64, protection: Protection, kind: Kind) {
        for addr in range.clone().step_by(len as usize) {
            let kind = match kind {
                Kind::File(nr, pos, sharing) => Kind::File(nr, pos + (addr - range.start), sharing),
                Kind::Zeros => Kind::Zeros,
            };
            let page = Page {
                len,
                protection,
                kind,
                own: None,
            };
            assert!(self.pages.insert(addr, page).is_none(), "mapped twice");
        }
    }

    /// Whether `range` is of whole pages that are mapped; or why not.
    fn check_range(&self, range: &Range<u64>) -> Result<(), ErrorKind> {
        if range.is_empty() {
            return Err(ErrorKind::InvalidRange);
        }
        let mut at = range.start;
        while at < range.end {
            let (start, page) = self.page_of(at).ok_or(ErrorKind::Unmapped)?;
            at = start + page.len;
        }
        let starts = self.pages.contains_key(&range.start);
        if starts && at == range.end {
            Ok(())
        } else {
            Err(ErrorKind::Misaligned)
        }
    }

    /// Checks what came of something that is done to a whole range or not at all; whether it was done.
    fn expect_whole(&self, range: &Range<u64>, result: &Result<(), Error>) -> bool {
        match (result, self.check_range(range)) {
            (Ok(()), expected) => assert_eq!(expected, Ok(())),
            (Err(error), expected) if error.kind() == ErrorKind::OutOfFrames => {
                assert_eq!(expected, Ok(()));
            }
            (Err(error), expected) => assert_eq!(expected, Err(error.kind())),
        }
        result.is_ok()
    }

    fn starts_within(&self, range: &Range<u64>) -> Vec<u64> {
        self.pages
            .range(range.clone())
            .map(|(addr, _)| *addr)
            .collect()
    }

    /// The pieces of `addr..end` that are each within a page, and what the page says to that.
    fn pieces(
        &self,
        files: &[Vec<u8>],
        addr: u64,
        end: u64,
        is_write: bool,
    ) -> (Vec<Range<u64>>, Option<(u64, ErrorKind)>) {
        let mut pieces = Vec::new();
        let mut at = addr;
        while at < end {
            let Some((start, page)) = self.page_of(at) else {
                return (pieces, Some((at, ErrorKind::Unmapped)));
            };
            let next = end.min(start + page.len);
            if let Some(kind) = page.refuses(files, at - start, next - at, is_write) {
                return (pieces, Some((at, kind)));
            }
            pieces.push(at..next);
            at = next;
        }
        (pieces, None)
    }

    /// The bytes at `addr`, as far as they can be read.
    fn peek(&self, files: &[Vec<u8>], addr: u64, len: u64) -> (Vec<u8>, Option<(u64, ErrorKind)>) {
        let (pieces, refused) = self.pieces(files, addr, addr + len, false);
        let mut bytes = Vec::new();
        for piece in pieces {
            let (start, page) = self.page_of(piece.start).unwrap();
            let all = page.bytes(files);
            bytes.extend_from_slice(
                &all[(piece.start - start) as usize..(piece.end - start) as usize],
            );
        }
        bytes.resize(len as usize, 0);
        (bytes, refused)
    }

    /// Writes `bytes`, as far as `result` says that they were.
    fn write(
        &mut self,
        files: &mut [Vec<u8>],
        addr: u64,
        bytes: &[u8],
        result: &Result<(), Error>,
    ) {
        let mut end = addr + bytes.len() as u64;
        let (_, refused) = self.pieces(files, addr, end, true);
        match (result, refused) {
            (Ok(()), refused) => assert_eq!(refused, None),
            (Err(error), refused) => {
                let stopped = error.addr().unwrap();
                if error.kind() == ErrorKind::OutOfFrames {
                    assert!(refused.is_none_or(|(at, _)| stopped <= at));
                } else {
                    assert_eq!(Some((stopped, error.kind())), refused);
                }
                end = stopped;
            }
        }
        let (pieces, _) = self.pieces(files, addr, end, true);
        for piece in pieces {
            let (start, page) = self.page_of(piece.start).unwrap();
            let new = &bytes[(piece.start - addr) as usize..(piece.end - addr) as usize];
            let off = (piece.start - start) as usize;
            if let Kind::File(nr, pos, Sharing::Shared) = page.kind {
                files[nr][pos as usize + off..][..new.len()].copy_from_slice(new);
                continue;
            }
            let mut all = page.bytes(files);
            all[off..][..new.len()].copy_from_slice(new);
            self.pages.get_mut(&start).unwrap().own = Some(Rc::new(all));
        }
    }

    /// File `nr` was cut to `size` bytes.
    fn cut(&mut self, nr: usize, size: u64) {
        for page in self.pages.values_mut() {
            if matches!(page.kind, Kind::File(of, pos, _) if of == nr && pos >= size) {
                page.own = None;
            }
        }
    }
}

/// A space and what is to be in it.
struct Pair {
    space: Space,
    model: Model,
}

struct History {
    cache: Cache,
    spaces: Spaces,
    files: Vec<TestFile>,
    /// The bytes of the files.
    bytes: Vec<Vec<u8>>,
    pairs: Vec<Pair>,
    pins: Vec<(OwnedPin, Vec<u8>)>,
    rng: Rng,
}

impl History {
    fn new(nr_frames: u64, mode: Writeback, rng: Rng) -> Self {
        let cache = Cache::builder()
            .capacity(nr_frames * FRAME_COST)
            .nodes(Nodes::Unbound(2))
            .build()
            .unwrap();
        let sizes: [(u64, u64); 3] = [(PAGE, 10 * PAGE), (4 * PAGE, 21 * PAGE + 77), (PAGE, 100)];
        let mut bytes = Vec::new();
        let mut files = Vec::new();
        for (nr, (page_bytes, size)) in sizes.into_iter().enumerate() {
            let content: Vec<u8> = (0..size).map(|at| (at / 512) as u8 ^ nr as u8).collect();
            let storage = Arc::new(MemoryBackend::writable(content.clone()));
            let options = OpenOptions::new()
                .page_size(page_bytes as usize)
                .write()
                .writeback(mode);
            let file = cache
                .open_backend_with(Arc::clone(&storage), format!("file {nr}"), &options)
                .unwrap();
            files.push(TestFile { file, storage });
            bytes.push(content);
        }
        let spaces = cache.spaces();
        let space = cache.space().unwrap();
        let model = Model::default();
        Self {
            cache,
            spaces,
            files,
            bytes,
            pairs: vec![Pair { space, model }],
            pins: Vec::new(),
            rng,
        }
    }

    fn run(mut self, nr_steps: usize) {
        for _ in 0..nr_steps {
            self.step();
        }
        self.pins.clear();
        self.check_all();
        for nr in 0..self.files.len() {
            self.files[nr].file.sync_data().unwrap();
            assert!(
                stored(&self.files[nr].storage) == self.bytes[nr],
                "file {nr} is another one"
            );
        }
        while let Some(pair) = self.pairs.pop() {
            drop(pair);
            self.verify();
        }
        self.files.clear();
        self.cache.verify().unwrap();
        let stats = self.cache.stats();
        // With no handle left, whatever the thread of the cache is at.
        assert_eq!(stats.nr_free, stats.nr_frames, "frames were lost");
    }

    /// Checks that a failure is one for lack of frames, where there are few.
    #[track_caller]
    fn expect_shortage(&self, is_shortage: bool) {
        assert!(is_shortage && self.cache.stats().nr_frames < ROOMY);
    }

    fn check_all(&mut self) {
        for (file, bytes) in self.files.iter().zip(&self.bytes) {
            // Clean pages can be evicted.
            file.file.sync_data().unwrap();
            assert_eq!(file.file.size(), bytes.len() as u64);
            let mut buf = vec![0; bytes.len()];
            match file.file.read_at(&mut buf, 0) {
                Ok(n) => assert!(buf[..n] == bytes[..n], "a file is not what it was"),
                Err(error) => {
                    self.expect_shortage(error.kind() == pagewell::ErrorKind::OutOfFrames);
                }
            }
        }
        for pair in &self.pairs {
            for (addr, page) in &pair.model.pages {
                let mut buf = vec![0xEE; page.len as usize];
                let result = pair.space.read(*addr, &mut buf);
                match page.refuses(&self.bytes, 0, page.len, false) {
                    Some(kind) => assert_eq!(result.unwrap_err().kind(), kind),
                    None if result.is_err() => {
                        let error = result.unwrap_err();
                        self.expect_shortage(error.kind() == ErrorKind::OutOfFrames);
                    }
                    None => {
                        assert!(
                            buf == page.bytes(&self.bytes),
                            "page {addr:#x} is not what it was"
                        );
                    }
                }
            }
        }
        for (pin, bytes) in &self.pins {
            assert!(**pin == **bytes, "a pinned page has changed");
        }
        self.verify();
        self.check_areas();
    }

    fn verify(&self) {
        let _quiet = self.cache.quiesce().unwrap();
        let all: Vec<_> = self.pairs.iter().map(|pair| &pair.space).collect();
        self.spaces.verify(&all).unwrap();
    }

    /// The areas of the spaces are those of the models.
    fn check_areas(&self) {
        for pair in &self.pairs {
            let areas = pair.space.areas();
            let pages = areas.iter().flat_map(|area| {
                let starts = area.range.clone().step_by(area.page_bytes as usize);
                starts.map(|addr| (addr, area.page_bytes))
            });
            let known = pair
                .model
                .pages
                .iter()
                .map(|(addr, page)| (*addr, page.len));
            assert!(pages.eq(known), "other pages are mapped");
        }
    }

    fn step(&mut self) {
        let at = self.rng.index(self.pairs.len());
        match self.rng.below(100) {
            0..=2 => self.map_zeros(at),
            3..=9 => self.map_file(at),
            10..=12 => self.unmap(at),
            13..=16 => self.protect(at),
            17..=19 => self.move_area(at),
            20..=39 => self.write(at),
            40..=51 => self.read(at),
            52..=55 => self.atomic(at),
            56..=59 => self.pin(at),
            60..=63 => self.fork(at),
            64..=66 => self.drop_space(at),
            67..=72 => self.migrate(at),
            73..=74 => self.set_policy(at),
            75..=83 => self.write_file(),
            84..=89 => self.resize_file(),
            90..=92 => _ = self.cache.reclaim(self.rng.index(40)),
            93..=96 => self.sync_file(),
            97 => self.invalidate_file(),
            _ => self.check_all(),
        }
    }

    fn addr(&mut self, at: usize) -> u64 {
        let nr = self.pairs[at].model.pages.len();
        if nr == 0 || self.rng.one_in(20) {
            return self.rng.below(1 << 24);
        }
        let nr = self.rng.index(nr);
        let (addr, page) = self.pairs[at].model.pages.iter().nth(nr).unwrap();
        let (addr, len) = (*addr, page.len);
        addr + self.rng.below(len)
    }

    /// A range of pages, most of the time one that is mapped.
    fn range(&mut self, at: usize) -> Range<u64> {
        let addr = self.addr(at);
        let page = self.pairs[at].model.page_of(addr);
        let Some((start, len)) = page.map(|(start, page)| (start, page.len)) else {
            let start = addr & !(PAGE - 1);
            return start..start + self.rng.below(4) * PAGE;
        };
        if self.rng.one_in(12) {
            return addr & !(PAGE - 1)..start + len;
        }
        let areas = self.pairs[at].space.areas();
        let area = areas
            .iter()
            .find(|area| area.range.contains(&start))
            .unwrap();
        if self.rng.one_in(3) {
            return area.range.clone();
        }
        let most = ((area.range.end - start) / len).min(6);
        start..start + (1 + self.rng.below(most)) * len
    }

    fn policy(&mut self) -> Policy {
        match self.rng.below(4) {
            0 => Policy::Prefer(self.rng.index(2)),
            1 => Policy::Interleave,
            2 => Policy::Bind(self.rng.index(2)),
            _ => Policy::Local,
        }
    }

    fn map_zeros(&mut self, at: usize) {
        let len = [1, 1, 4][self.rng.index(3)] * PAGE;
        let options = MapOptions::new()
            .page_bytes(len as usize)
            .policy(self.policy());
        let bytes = (1 + self.rng.below(9)) * PAGE;
        let Pair { space, model } = &mut self.pairs[at];
        let range = space.map_with(bytes, &options).unwrap();
        model.map(range, len, Protection::ReadWrite, Kind::Zeros);
    }

    fn map_file(&mut self, at: usize) {
        let nr = self.rng.index(self.files.len());
        let len = self.files[nr].file.page_size() as u64;
        let first = self.rng.below(12) * len;
        let bytes = 1 + self.rng.below(20 * PAGE);
        let sharing = [Sharing::Shared, Sharing::Private][self.rng.index(2)];
        let options = MapOptions::new().policy(self.policy());
        let Pair { space, model } = &mut self.pairs[at];
        let range = space
            .map_file_with(
                &self.files[nr].file,
                first..first + bytes,
                sharing,
                &options,
            )
            .unwrap();
        let kind = Kind::File(nr, first, sharing);
        model.map(range, len, Protection::ReadWrite, kind);
    }

    fn unmap(&mut self, at: usize) {
        let range = self.range(at);
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.unmap(range.clone());
        if model.expect_whole(&range, &result) {
            for addr in model.starts_within(&range) {
                model.pages.remove(&addr);
            }
        }
    }

    fn protect(&mut self, at: usize) {
        let range = self.range(at);
        let protection = match self.rng.below(5) {
            0 => Protection::None,
            1 => Protection::Read,
            _ => Protection::ReadWrite,
        };
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.protect(range.clone(), protection);
        if model.expect_whole(&range, &result) {
            for addr in model.starts_within(&range) {
                model.pages.get_mut(&addr).unwrap().protection = protection;
            }
        }
    }

    fn move_area(&mut self, at: usize) {
        let range = self.range(at);
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.move_to_free(range.clone());
        let moved = result.clone();
        if model.expect_whole(&range, &result.map(drop)) {
            let start = moved.unwrap().start;
            for addr in model.starts_within(&range) {
                let page = model.pages.remove(&addr).unwrap();
                let at = addr - range.start + start;
                assert!(
                    model.pages.insert(at, page).is_none(),
                    "moved over something"
                );
            }
        }
    }

    fn set_policy(&mut self, at: usize) {
        let range = self.range(at);
        let policy = self.policy();
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.set_policy(range.clone(), policy);
        if model.expect_whole(&range, &result) {
            let areas = space.areas();
            let within = areas
                .iter()
                .filter(|area| range.start <= area.range.start && area.range.end <= range.end);
            assert!(within.clone().count() > 0);
            within.for_each(|area| assert_eq!(area.policy, policy));
        }
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        let len = match self.rng.below(4) {
            0 => self.rng.below(6 * PAGE),
            1 => PAGE,
            _ => 1 + self.rng.below(64),
        };
        let fill = self.rng.next_u64();
        (0..len).map(|i| (fill >> (i % 8 * 8)) as u8).collect()
    }

    fn write(&mut self, at: usize) {
        let addr = match self.rng.below(4) {
            0 => self.addr(at) & !(PAGE - 1),
            _ => self.addr(at),
        };
        let bytes = self.some_bytes();
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.write(addr, &bytes);
        model.write(&mut self.bytes, addr, &bytes, &result);
    }

    fn read(&mut self, at: usize) {
        let addr = self.addr(at);
        let len = match self.rng.below(3) {
            0 => self.rng.below(6 * PAGE),
            _ => 1 + self.rng.below(64),
        };
        let mut buf = vec![0xEE; len as usize];
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.read(addr, &mut buf);
        let (bytes, refused) = model.peek(&self.bytes, addr, len);
        if let Err(error) = &result
            && error.kind() == ErrorKind::OutOfFrames
        {
            let stopped = (error.addr().unwrap() - addr) as usize;
            assert!(buf[..stopped] == bytes[..stopped]);
            return;
        }
        let got = result
            .err()
            .map(|error| (error.addr().unwrap(), error.kind()));
        assert_eq!(got, refused);
        assert!(buf == bytes, "other bytes at {addr:#x}");
    }

    fn atomic(&mut self, at: usize) {
        let addr = self.addr(at) & !7;
        let value = self.rng.below(1 << 40);
        let Pair { space, model } = &mut self.pairs[at];
        let (bytes, refused) = model.peek(&self.bytes, addr, 8);
        let before = u64::from_ne_bytes(bytes.try_into().unwrap());
        let result = space.fetch_add(addr, value);
        if let Ok(was) = &result {
            assert_eq!((refused, *was), (None, before));
        }
        let after = before.wrapping_add(value).to_ne_bytes();
        model.write(&mut self.bytes, addr, &after, &result.map(drop));
    }

    fn pin(&mut self, at: usize) {
        let addr = self.addr(at);
        let len = 1 + self.rng.below(PAGE - addr % PAGE);
        let Pair { space, model } = &mut self.pairs[at];
        let (bytes, mut refused) = model.peek(&self.bytes, addr, len);
        // What a page of a file has past the end cannot be pinned.
        if let Some((start, page)) = model.page_of(addr)
            && let (Kind::File(nr, pos, _), None) = (page.kind, &page.own)
            && pos + (addr - start) + len > self.bytes[nr].len() as u64
        {
            refused = refused.or(Some((addr, ErrorKind::PastEnd)));
        }
        match space.pin(addr, len as usize) {
            Ok(pin) => {
                assert_eq!(refused, None);
                assert!(*pin == *bytes);
                self.pins.push((pin.into_owned(), bytes));
            }
            Err(error) if error.kind() == ErrorKind::OutOfFrames => assert_eq!(refused, None),
            Err(error) => assert_eq!(Some((addr, error.kind())), refused),
        }
        if self.pins.len() > 5 {
            let nr = self.rng.index(self.pins.len());
            let (pin, bytes) = self.pins.swap_remove(nr);
            assert!(*pin == *bytes, "a pinned page has changed");
        }
    }

    fn fork(&mut self, at: usize) {
        if self.pairs.len() == MAX_SPACES {
            return self.drop_space(at);
        }
        let mode = match self.rng.below(4) {
            0 => ForkMode::Copy,
            _ => ForkMode::Share,
        };
        let Pair { space, model } = &self.pairs[at];
        match space.fork_with(mode) {
            Ok(space) => {
                let model = model.clone();
                self.pairs.push(Pair { space, model });
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfFrames),
        }
    }

    fn drop_space(&mut self, at: usize) {
        if self.pairs.len() > 1 {
            drop(self.pairs.swap_remove(at));
        }
    }

    fn migrate(&mut self, at: usize) {
        let range = self.range(at);
        let node = self.rng.index(2);
        let engine = match self.rng.below(3) {
            0 => Engine::FullWalk,
            1 => Engine::EarlyStop,
            _ => Engine::Batched,
        };
        let Pair { space, model } = &mut self.pairs[at];
        let result = space.migrate_with(range.clone(), node, engine);
        model.expect_whole(&range, &result.clone().map(drop));
        for (addr, why) in result.map_or_else(|_| Vec::new(), |report| report.not_moved) {
            assert!(range.contains(&addr));
            match why {
                // Pages may be on their way to the storage.
                NotMoved::Pinned | NotMoved::InMigration | NotMoved::NodeFull => {}
                why => panic!("{why:?}"),
            }
        }
    }

    fn write_file(&mut self) {
        let nr = self.rng.index(self.files.len());
        let size = self.bytes[nr].len() as u64;
        let pos = self.rng.below(size + 3 * PAGE).min(MAX_FILE - 6 * PAGE);
        let bytes = self.some_bytes();
        let result = self.files[nr].file.write_at(&bytes, pos);
        let done = result.unwrap_or_else(|error| {
            assert_eq!(error.kind(), pagewell::ErrorKind::OutOfFrames);
            0
        });
        let size = self.files[nr].file.size() as usize;
        self.bytes[nr].resize(size, 0);
        // Where nothing was written the file may end before.
        if done != 0 {
            self.bytes[nr][pos as usize..][..done].copy_from_slice(&bytes[..done]);
        }
    }

    fn resize_file(&mut self) {
        let nr = self.rng.index(self.files.len());
        let before = self.bytes[nr].len() as u64;
        let size = match self.rng.below(4) {
            0 => self.rng.below(MAX_FILE),
            1 => before.saturating_sub(self.rng.below(2 * PAGE)),
            _ => self.rng.below(before + 2 * PAGE).min(MAX_FILE),
        };
        if let Err(error) = self.files[nr].file.set_size(size) {
            assert_eq!(error.kind(), pagewell::ErrorKind::OutOfFrames);
            return;
        }
        self.bytes[nr].resize(size as usize, 0);
        if size < before {
            for pair in &mut self.pairs {
                pair.model.cut(nr, size);
            }
        }
    }

    fn sync_file(&mut self) {
        let nr = self.rng.index(self.files.len());
        let TestFile { file, storage } = &self.files[nr];
        if self.rng.one_in(2) {
            file.flush(0..MAX_FILE).unwrap();
        } else {
            file.sync_data().unwrap();
            assert!(
                stored(storage) == self.bytes[nr],
                "file {nr} is another one"
            );
        }
    }

    fn invalidate_file(&mut self) {
        let nr = self.rng.index(self.files.len());
        let pos = self.rng.below(MAX_FILE);
        self.files[nr].file.invalidate(pos..MAX_FILE);
    }
}

/// What the storage has of a file.
fn stored(backend: &MemoryBackend) -> Vec<u8> {
    let mut bytes = Vec::new();
    backend.modify(|stored| bytes.clone_from(stored));
    bytes
}

fn histories(mode: Writeback, nr: u64, nr_frames: u64, nr_steps: usize) {
    let seed = Seed::of_run();
    for part in 0..nr {
        History::new(nr_frames, mode, seed.part(part)).run(nr_steps);
    }
}

#[test]
fn mapped_files_are_what_plain_bytes_are() {
    histories(Writeback::Manual, 300, 4096, 150);
}

#[test]
fn mapped_files_are_what_plain_bytes_are_when_frames_run_out() {
    histories(Writeback::Manual, 150, 160, 150);
}

#[test]
fn mapped_files_are_what_plain_bytes_are_when_frames_are_scarce() {
    histories(Writeback::Manual, 60, 1024, 150);
}

// What the thread of the cache does beside a history does not follow from its seed. What must come of it does.

#[test]
fn mapped_files_that_are_written_back_meanwhile_are_what_plain_bytes_are() {
    histories(Writeback::Background, 100, 4096, 150);
}

#[test]
fn mapped_files_that_are_written_back_when_frames_run_out_are_what_plain_bytes_are() {
    histories(Writeback::Background, 100, 160, 150);
}

#[test]
fn mapped_files_that_are_written_back_when_frames_are_scarce_are_what_plain_bytes_are() {
    histories(Writeback::Background, 40, 1024, 150);
}
