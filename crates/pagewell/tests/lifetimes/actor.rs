//! A thread of a history: opens, uses, closes and drops files, runs tasks, forks, builds caches.

use std::fs;
use std::sync::Arc;

use pagewell::{Cache, Error, ErrorKind, File, OpenOptions, OwnedPageGuard};
use pagewell_testkit::{Rng, in_child};

use crate::PAGE;
use crate::journal::step;
use crate::own::Own;
use crate::shared::{SHARED_BYTES, Shared, builder, choice, page_ranges, sub_range};
use crate::tasks;

/// Pinned page of a shared file, with its offset.
pub(crate) type Pin = (OwnedPageGuard, usize);

pub(crate) struct Actor {
    shared: Arc<Shared>,
    rng: Rng,
    nr: usize,
    cache: Cache,
    own: Own,
    slab: Option<File>,
    log: Option<File>,
    common: Option<File>,
    pins: Vec<Pin>,
}

impl Actor {
    pub(crate) fn new(shared: &Arc<Shared>, nr: usize, cache: Cache, mut rng: Rng) -> Self {
        let own = Own::new(shared.dir.join(format!("own-{nr}")), &mut rng);
        Self {
            shared: Arc::clone(shared),
            rng,
            nr,
            cache,
            own,
            slab: None,
            log: None,
            common: None,
            pins: Vec::new(),
        }
    }

    /// Performs `nr_steps` random steps, drops everything but the pins, and returns these.
    pub(crate) fn run(mut self, nr_steps: usize) -> Vec<Pin> {
        for _ in 0..nr_steps {
            self.step();
        }
        step("end", || self.end())
    }

    fn step(&mut self) {
        let op = self.rng.below(16);
        match op {
            0 => return step("a cache of its own", || self.use_short_lived_cache()),
            1 => return step("fork", || self.fork()),
            2 | 3 => return step("shared files", || self.use_shared()),
            _ => {}
        }
        let (own, shared, cache, rng) = (&mut self.own, &self.shared, &self.cache, &mut self.rng);
        match op {
            4 | 5 => tasks::run(shared, cache, rng),
            _ if own.handles.is_empty() => step("open", || own.open(shared, cache, rng)),
            7 => step("refused open", || own.refused_open(shared, cache, rng)),
            8 => step("close", || own.close(rng)),
            9 => own.end_in_task(rng),
            _ => own.operate(rng),
        }
    }

    fn use_shared(&mut self) {
        let (shared, cache, rng) = (&*self.shared, &self.cache, &mut self.rng);
        let common = self.common.get_or_insert_with(|| shared.open_common(cache));
        let slab = self.slab.get_or_insert_with(|| shared.open_slab(cache));
        let log = self.log.get_or_insert_with(|| shared.open_log(cache));
        let range = sub_range(rng, SHARED_BYTES, 3 * PAGE);
        let (start, len) = (range.start, range.len());
        let file = if rng.one_in(2) { &*common } else { &*slab };
        match rng.below(10) {
            0 => self.common = None,
            1 => self.slab = None,
            2 => self.log = None,
            3 => self.slab.take().unwrap().close().unwrap(),
            4 => {
                let n = slab.write_at(&shared.bytes[range], start as u64).unwrap();
                assert_eq!(n, len, "a short write");
            }
            5 => {
                let nr = 1 + rng.below(300);
                log.append(&shared.start_append(nr)).unwrap();
                shared.end_append(nr);
                shared.check_log(log);
            }
            6 if self.pins.len() < 3 => {
                let page = start / PAGE;
                let guard = file.pin_owned(page as u64).unwrap();
                shared.check(&guard, page * PAGE).unwrap();
                self.pins.push((guard, page * PAGE));
            }
            7 => drop(self.pins.pop()),
            8 => drop(file.prefetch(&page_ranges(rng, SHARED_BYTES)).unwrap()),
            _ => {
                let mut buf = vec![0; len];
                file.read_exact_at(&mut buf, start as u64).unwrap();
                shared.check(&buf, start).unwrap();
            }
        }
    }

    /// Builds a cache for a few calls, whose engine may end while it works.
    fn use_short_lived_cache(&mut self) {
        let (shared, rng) = (&*self.shared, &mut self.rng);
        let capacity = [128 << 10, 4 << 20][rng.index(2)];
        let cache = builder(choice(rng), capacity).build().unwrap();
        if rng.one_in(2) {
            let path = shared.dir.join(format!("truncated-{}", self.nr));
            fs::write(&path, &shared.bytes).unwrap();
            // In the smaller cache, this page size is out of range.
            let options = OpenOptions::new().truncate().page_size(16 * PAGE);
            let result = shared.open(|| cache.open_with(&path, &options));
            let left = fs::read(&path).unwrap();
            match result {
                Ok(_) => assert!(left.is_empty(), "a truncated file has {} bytes", left.len()),
                Err(error) => assert!(left == shared.bytes, "an open that failed: {error}"),
            }
        }
        let file = shared.open_common(&cache);
        let pin = rng.one_in(2).then(|| file.pin_owned(3).unwrap());
        if rng.one_in(2) {
            let mut buf = [0; 100];
            file.read_exact_at(&mut buf, 9 * PAGE as u64).unwrap();
            shared.check(&buf, 9 * PAGE).unwrap();
        }
        file.prefetch(&page_ranges(rng, SHARED_BYTES)).unwrap();
        match rng.one_in(2) {
            true => drop((file, cache)),
            false => drop((cache, file)),
        }
        if let Some(pin) = pin {
            shared.check(&pin, 3 * PAGE).unwrap();
            if rng.one_in(2) {
                self.pins.push((pin, 3 * PAGE));
            }
        }
    }

    /// Forks a child that reads a cached page, gets errors for all else, and exits.
    fn fork(&mut self) {
        let (shared, cache) = (&*self.shared, &self.cache);
        let file = shared.open_common(cache);
        for _ in 0..2 {
            file.read_exact_at(&mut [0; 50], 7).unwrap();
        }
        fn assert_forked<T>(result: Result<T, Error>) {
            match result {
                Ok(_) => panic!("a call succeeded in a child"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Forked),
            }
        }
        let _fork = shared.forks.write().unwrap();
        let status = in_child(|| {
            let mut buf = [0; 50];
            match file.read_at(&mut buf, 7) {
                Ok(_) => shared.check(&buf, 7).unwrap(),
                // Another thread has evicted the page.
                error => assert_forked(error),
            }
            assert_forked(cache.open(&shared.common));
            assert_forked(file.prefetch(&[0..10, 9000..9100]));
            if let Some(own) = self.own.handles.pop() {
                assert_forked(own.write_at(b"child", 0));
                drop(own);
            }
            0
        });
        assert_eq!(status, 0, "status of a child");
    }

    /// Drops everything but the pins. The cache is dropped first or last.
    fn end(self) -> Vec<Pin> {
        let Self { cache, mut rng, .. } = self;
        if rng.one_in(2)
            && let Some(file) = &self.common
        {
            let ranges = page_ranges(&mut rng, SHARED_BYTES);
            file.prefetch(&ranges).unwrap();
        }
        let _last = (!rng.one_in(2)).then_some(cache);
        let mut own = self.own;
        own.close(&mut rng);
        drop((self.slab, self.log, self.common));
        self.pins
    }
}
