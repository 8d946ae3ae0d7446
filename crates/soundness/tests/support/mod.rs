//! What the tests share: a cache with a file, spaces in its frames, and pins that watch their bytes.
#![allow(dead_code)] // Each test file uses a part.

use pagewell::frame::{FrameKind, FrameNr, FramePool, Nodes, PoolConfig};
use pagewell::io::MemoryBackend;
use pagewell::space::{CacheSpaces as _, OwnedPin, Policy, Sharing, Space, Spaces};
use pagewell::{Cache, CacheFrames, File, OpenOptions, OwnedPageGuard, Writeback};

pub(crate) const PAGE: usize = 4096;

pub(crate) fn pool(nr_frames: usize) -> FramePool {
    let nodes = Nodes::Unbound(1);
    FramePool::new(&PoolConfig {
        nodes,
        ..PoolConfig::new(nr_frames)
    })
    .unwrap()
}

pub(crate) fn cache(frames: u64) -> Cache {
    Cache::builder()
        .capacity(frames * (4096 + 64 + 12))
        .nodes(Nodes::Unbound(1))
        .build()
        .unwrap()
}

/// A file of `nr_pages` pages, of which number `page` has the byte `byte_of(page)`.
pub(crate) fn file(cache: &Cache, nr_pages: usize) -> File {
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    open(cache, nr_pages, &options)
}

pub(crate) fn open(cache: &Cache, nr_pages: usize, options: &OpenOptions) -> File {
    let bytes = (0..nr_pages).flat_map(|page| [byte_of(page); PAGE]);
    let backend = MemoryBackend::writable(bytes.collect());
    cache.open_backend_with(backend, "file", options).unwrap()
}

/// That the file reads as it was made.
#[track_caller]
pub(crate) fn check_file(file: &File, nr_pages: usize) {
    let mut buf = [0; PAGE];
    for page in 0..nr_pages {
        let nr = file.read_at(&mut buf, (page * PAGE) as u64).unwrap();
        assert!(nr == PAGE && buf == [byte_of(page); PAGE], "page {page}");
    }
}

pub(crate) fn byte_of(page: usize) -> u8 {
    page as u8 | 0x80
}

pub(crate) fn frames_of(pool: &FramePool, kind: FrameKind) -> Vec<FrameNr> {
    (0..pool.nr_frames() as u32)
        .map(FrameNr::new)
        .filter(|frame| pool.meta(*frame).kind().0 == kind)
        .collect()
}

/// What frames are for, whose they are and how often they are held: nothing of it may be changed by who has no handle.
pub(crate) fn records(pool: &FramePool) -> Vec<String> {
    (0..pool.nr_frames() as u32)
        .map(|nr| format!("{nr}: {:?}", pool.meta(FrameNr::new(nr))))
        .collect()
}

/// A cache whose frames have pages of a file, leaves, pages of spaces and tables, all with pins on some of them.
pub(crate) struct House {
    pub(crate) cache: Cache,
    pub(crate) file: File,
    pub(crate) spaces: Spaces,
    pub(crate) space: Space,
    fork: Space,
    area: std::ops::Range<u64>,
    live: std::ops::Range<u64>,
    pages: Vec<OwnedPageGuard>,
    pins: Vec<OwnedPin>,
}

/// Pages of the file, and of the space.
pub(crate) const PAGES: usize = 24;

impl House {
    pub(crate) fn new() -> Self {
        Self::of(cache(512))
    }

    pub(crate) fn of(cache: Cache) -> Self {
        let file = file(&cache, PAGES);
        let spaces = cache.spaces();
        let space = spaces.space().unwrap();
        let area = space.map((PAGES * PAGE) as u64, Policy::Local).unwrap();
        let live = space
            .map_file(&file, 0..(PAGES * PAGE) as u64, Sharing::Shared)
            .unwrap();
        for (nr, addr) in area.clone().step_by(PAGE).enumerate() {
            space.write(addr, &[byte_of(nr); PAGE]).unwrap();
        }
        let fork = space.fork().unwrap();
        // A page of the space's own, one of both, and a dirty one of the file.
        space.write(area.start, &[byte_of(0); PAGE]).unwrap();
        file.write_at(&[byte_of(3); PAGE], 3 * PAGE as u64).unwrap();
        let pages = (0..PAGES as u64)
            .step_by(3)
            .map(|page| file.pin_owned(page).unwrap())
            .collect();
        let addrs = area.clone().step_by(PAGE).chain(live.clone().step_by(PAGE));
        let pins = addrs
            .step_by(5)
            .map(|addr| space.pin(addr, PAGE).unwrap().into_owned())
            .collect();
        Self {
            cache,
            file,
            spaces,
            space,
            fork,
            area,
            live,
            pages,
            pins,
        }
    }

    pub(crate) fn frames(&self) -> CacheFrames {
        self.cache.frames()
    }

    /// That every pin has the bytes that it had, everything that can be read is what was written, and all counts add up.
    #[track_caller]
    pub(crate) fn check(&self) {
        self.check_pins();
        let mut buf = [0; PAGE];
        for page in 0..PAGES {
            let byte = [byte_of(page); PAGE];
            let off = (page * PAGE) as u64;
            assert_eq!(self.file.read_at(&mut buf, off).unwrap(), PAGE);
            assert!(buf == byte, "page {page} of the file");
            for (space, start) in [
                (&self.space, self.area.start),
                (&self.fork, self.area.start),
                (&self.space, self.live.start),
            ] {
                space.read(start + off, &mut buf).unwrap();
                assert!(buf == byte, "page {page} from {start:#x} on");
            }
        }
        self.spaces.verify(&[&self.space, &self.fork]).unwrap();
        self.cache.verify().unwrap();
    }

    #[track_caller]
    pub(crate) fn check_pins(&self) {
        for (nr, page) in self.pages.iter().enumerate() {
            assert!(**page == [byte_of(3 * nr); PAGE], "pinned page {nr}");
        }
        for (nr, pin) in self.pins.iter().enumerate() {
            assert!(**pin == [byte_of(5 * nr % PAGES); PAGE], "pin {nr}");
        }
    }

    /// That everything was given back when everything is dropped.
    #[track_caller]
    pub(crate) fn tear_down(self) {
        self.check();
        let cache = self.cache.clone();
        drop(self);
        let stats = cache.stats();
        assert_eq!(stats.nr_free, stats.nr_frames);
        cache.verify().unwrap();
    }
}
