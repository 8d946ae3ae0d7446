//! Transfers that overlap: batches with misses, pages that are read before they are wanted, reading ahead apart.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use pagewell::io::engine::{Choice, Deferred, Request, Settings};
use pagewell::io::{
    Backend, Direct, Fault, FaultBackend, FileId, MemoryBackend, RacyBytes, Transfers,
};
use pagewell::{Advice, Cache, ErrorKind, File, OpenOptions, ReadRequest};
use pagewell_testkit::skip::skipped;
use pagewell_testkit::wait::{Gate, bounded, until};
use pagewell_testkit::{Rng, content, scratch};

const PAGE: u64 = 4096;

fn cache(choice: Choice, bytes: u64) -> Cache {
    let builder = Cache::builder().capacity(bytes);
    builder.engine(Settings::new(choice)).build().unwrap()
}

/// What `ranges` have, read in one call.
fn read_many(file: &File, ranges: &[Range<u64>]) -> Vec<Result<Vec<u8>, ErrorKind>> {
    let len = |range: &Range<u64>| (range.end - range.start) as usize;
    let mut bufs: Vec<_> = ranges.iter().map(|range| vec![0; len(range)]).collect();
    let mut requests: Vec<_> = std::iter::zip(ranges, &mut bufs)
        .map(|(range, buf)| ReadRequest::new(range.start, buf))
        .collect();
    file.read_many(&mut requests);
    requests
        .into_iter()
        .map(|request| match request.result {
            Ok(len) => Ok(request.buf[..len].to_vec()),
            Err(error) => Err(error.kind()),
        })
        .collect()
}

/// How many pages of one range are begun.
fn prefetch(file: &File, range: Range<u64>) -> usize {
    file.prefetch(std::slice::from_ref(&range)).unwrap()
}

/// All reads of a batch are under way before one of them is done: each waits until all have come.
#[test]
fn the_misses_of_a_batch_are_read_at_once() {
    bounded("a batch", || {
        const NR: usize = 12;
        let bytes = content(1, 100 * PAGE as usize);
        let gate = Arc::new(Gate::new());
        let script = {
            let gate = Arc::clone(&gate);
            move |_, _| {
                gate.pass();
                Fault::None
            }
        };
        let storage = FaultBackend::new(MemoryBackend::new(bytes.clone()), script);
        let file = cache(Choice::Worker, 4 << 20)
            .open_backend(storage, "gate")
            .unwrap();
        let opener = std::thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                gate.wait_for(NR);
                gate.open();
            }
        });
        let ranges: Vec<_> = (0..NR as u64)
            .map(|nr| nr * 7 * PAGE + 100..nr * 7 * PAGE + 200)
            .collect();
        for (range, read) in std::iter::zip(&ranges, read_many(&file, &ranges)) {
            let expected = &bytes[range.start as usize..range.end as usize];
            assert!(read.unwrap() == expected);
        }
        opener.join().unwrap();
    });
}

#[test]
fn a_failure_in_a_batch_is_of_the_requests_that_want_the_page() {
    for choice in [Choice::Worker, Choice::Auto, Choice::Sync] {
        let bytes = content(2, 64 * PAGE as usize);
        let broken = 30 * PAGE..31 * PAGE;
        let script = move |pos, len| {
            let is_hit = pos < broken.end && broken.start < pos + len as u64;
            let error = || std::io::Error::other("a broken page");
            if is_hit {
                Fault::Fail(error())
            } else {
                Fault::None
            }
        };
        let storage = FaultBackend::new(MemoryBackend::new(bytes.clone()), script);
        let file = cache(choice, 4 << 20)
            .open_backend(storage, "broken")
            .unwrap();
        // One goes over several pages, of which the broken one is the third.
        let ranges: Vec<_> = [5..6, 30..31, 28..33, 40..41, 30..31, 63..70]
            .into_iter()
            .map(|pages| pages.start * PAGE..pages.end * PAGE)
            .collect();
        let read = read_many(&file, &ranges);
        let expected = |pages: Range<u64>| {
            let end = (pages.end * PAGE).min(bytes.len() as u64);
            bytes[(pages.start * PAGE) as usize..end as usize].to_vec()
        };
        assert!(read[0] == Ok(expected(5..6)));
        assert!(read[1] == Err(ErrorKind::Io));
        assert!(read[2] == Ok(expected(28..30)));
        assert!(read[3] == Ok(expected(40..41)));
        assert!(read[4] == Err(ErrorKind::Io));
        assert!(read[5] == Ok(expected(63..64)));
    }
}

#[test]
fn what_was_prefetched_is_not_read_again() {
    let bytes = content(3, 1 << 20);
    let storage = Arc::new(FaultBackend::new(
        MemoryBackend::new(bytes.clone()),
        |_, _| Fault::None,
    ));
    let cache = cache(Choice::Auto, 16 << 20);
    let file = cache.open_backend(Arc::clone(&storage), "file").unwrap();
    let wanted = [0..10, 40_000..80_000, 70_000..90_000, 1_040_000..2_000_000];
    // Pages 0; 9 to 21, of which some are named twice; 253 to 255, where the file ends.
    assert_eq!(file.prefetch(&wanted).unwrap(), 1 + 13 + 3);
    until("the pages are there", || cache.stats().nr_fills == 17);
    let nr_reads = storage.nr_reads();
    assert!(nr_reads <= 3 + 1, "adjoining pages are read together");
    for range in &wanted[..3] {
        let mut buf = vec![0; (range.end - range.start) as usize];
        file.read_at(&mut buf, range.start).unwrap();
        assert!(buf == bytes[range.start as usize..range.end as usize]);
    }
    assert_eq!(storage.nr_reads(), nr_reads);
    assert_eq!(file.prefetch(&wanted[..3]).unwrap(), 0);
    // At once no more than an eighth of the cache.
    let all = prefetch(&file, 0..u64::MAX);
    assert_eq!(all, 256 - 17);
    let reversed = Range {
        start: 5000,
        end: 4000,
    };
    assert_eq!(prefetch(&file, reversed), 0);
}

#[test]
fn a_prefetch_takes_an_eighth_of_the_cache_at_most() {
    let cache = cache(Choice::Auto, 1 << 20);
    let file = cache
        .open_backend(MemoryBackend::new(content(4, 4 << 20)), "file")
        .unwrap();
    let nr_begun = prefetch(&file, 0..4 << 20);
    let nr_frames = cache.stats().nr_frames;
    assert!((1..=nr_frames / 8).contains(&nr_begun), "{nr_begun}");
    until("they are there", || {
        cache.stats().nr_fills == nr_begun as u64
    });
}

/// The last handle waits for transfers under way, and closes the file then.
#[test]
fn a_file_is_closed_when_the_storage_is_done_with_its_memory() {
    bounded("a close", || {
        let gate = Arc::new(Gate::new());
        let script = {
            let gate = Arc::clone(&gate);
            move |_, _| {
                gate.pass();
                Fault::None
            }
        };
        let storage = Arc::new(FaultBackend::new(
            MemoryBackend::new(content(5, 1 << 20)),
            script,
        ));
        let cache = cache(Choice::Worker, 4 << 20);
        let file = cache.open_backend(Arc::clone(&storage), "file").unwrap();
        assert_eq!(file.prefetch(&[0..4096, 100_000..100_001]).unwrap(), 2);
        gate.wait_for(2);
        let closing = std::thread::spawn(move || drop(file));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(
            !closing.is_finished(),
            "the storage has memory of the cache"
        );
        assert!(Arc::strong_count(&storage) > 1);
        gate.open();
        closing.join().unwrap();
        assert_eq!(Arc::strong_count(&storage), 1);
        assert_eq!(cache.stats().nr_free, cache.stats().nr_frames);
        cache.verify().unwrap();
    });
}

/// A page that is being prefetched is waited for by who wants it, and read once.
#[test]
fn a_reader_waits_for_a_page_that_is_under_way() {
    bounded("a reader", || {
        let bytes = content(6, 1 << 20);
        let gate = Arc::new(Gate::new());
        let script = {
            let gate = Arc::clone(&gate);
            move |_, _| {
                gate.pass();
                Fault::None
            }
        };
        let storage = Arc::new(FaultBackend::new(MemoryBackend::new(bytes.clone()), script));
        let cache = cache(Choice::Worker, 4 << 20);
        let file = cache.open_backend(Arc::clone(&storage), "file").unwrap();
        assert_eq!(prefetch(&file, 0..4096), 1);
        gate.wait_for(1);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut buf = [0; 100];
                        file.read_at(&mut buf, 50).unwrap();
                        assert!(buf == bytes[50..150]);
                    })
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(readers.iter().all(|reader| !reader.is_finished()));
            gate.open();
        });
        assert_eq!(storage.nr_reads(), 1);
    });
}

/// Batches, prefetches, writes, cuts and evictions at the same time: what is read is what was there.
#[test]
fn batches_and_prefetches_go_on_beside_writers_cuts_and_evictions() {
    for choice in [Choice::Auto, Choice::Worker] {
        let dir = scratch::dir();
        let path = dir.path().join("file");
        const LEN: u64 = 4 << 20;
        // Each word has its own position, whoever writes it.
        let bytes: Vec<u8> = (0..LEN / 8).flat_map(|nr| (nr * 8).to_le_bytes()).collect();
        std::fs::write(&path, &bytes).unwrap();
        let cache = cache(choice, 1 << 20);
        let options = OpenOptions::new().write().direct(Direct::Auto);
        let file = cache.open_with(&path, &options).unwrap();
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let (file, bytes) = (&file, &bytes);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..200 {
                        let ranges: Vec<_> = (0..rng.below(40))
                            .map(|_| {
                                let start = rng.below(LEN);
                                start..start + rng.below(3 * PAGE)
                            })
                            .collect();
                        if rng.one_in(3) {
                            file.prefetch(&ranges).unwrap();
                        }
                        for (range, read) in std::iter::zip(&ranges, read_many(file, &ranges)) {
                            let read = read.unwrap();
                            let start = range.start as usize;
                            assert!(read.len() <= (range.end - range.start) as usize);
                            assert!(read == bytes[start..start + read.len()]);
                        }
                    }
                });
            }
            scope.spawn(|| {
                let mut rng = Rng::new(9);
                for _ in 0..300 {
                    let start = rng.below(LEN - 5000);
                    let range = start as usize..(start + rng.below(5000)) as usize;
                    file.write_at(&bytes[range], start).unwrap();
                    if rng.one_in(10) {
                        // Cut, and written again: in between it is shorter.
                        let cut = LEN - 1 - rng.below(50_000);
                        file.set_size(cut).unwrap();
                        file.write_at(&bytes[cut as usize..], cut).unwrap();
                    }
                    if rng.one_in(20) {
                        file.sync_data().unwrap();
                    }
                }
            });
        });
        file.sync_data().unwrap();
        file.close().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
        assert_eq!(cache.stats().nr_free, cache.stats().nr_frames);
        cache.verify().unwrap();
    }
}

/// A direct file of random bytes, opened in a new cache; none where there are no direct transfers.
fn direct_file(dir: &tempfile::TempDir, bytes: &[u8]) -> Option<(Cache, File)> {
    let path = dir.path().join("direct");
    std::fs::write(&path, bytes).unwrap();
    let cache = cache(Choice::Auto, 16 << 20);
    let options = OpenOptions::new().direct(Direct::Auto);
    let file = cache.open_with(&path, &options).unwrap();
    match file.transfers() {
        Some(Transfers::Direct { .. }) => Some((cache, file)),
        other => {
            skipped(&format!("{other:?}"));
            None
        }
    }
}

#[test]
fn a_direct_file_is_read_ahead_of_a_reader_that_goes_forward_backward_or_by_steps() {
    let dir = scratch::dir();
    let bytes = content(7, 8 << 20);
    for (nr_pages, step) in [(1, 1_i64), (16, 16), (1, -1), (2, 5), (1, -7)] {
        let Some((cache, file)) = direct_file(&dir, &bytes) else {
            return;
        };
        let mut buf = vec![0; nr_pages * PAGE as usize];
        let first = if step < 0 { 2040 } else { 8 };
        for nr in 0..20 {
            let start = ((first + nr * step) as usize) * PAGE as usize;
            assert_eq!(file.read_at(&mut buf, start as u64).unwrap(), buf.len());
            assert!(buf == bytes[start..start + buf.len()]);
        }
        // More than was asked for.
        let nr_read = 20 * nr_pages as u64;
        until("pages ahead", || cache.stats().nr_fills > nr_read);
        // Once more, another way, beside what is under way.
        let mut all = vec![0; bytes.len() + 10];
        assert_eq!(file.read_at(&mut all, 0).unwrap(), bytes.len());
        assert!(all[..bytes.len()] == bytes);
    }
}

/// A storage that holds requests until it is opened. Calls are done at once.
#[derive(Debug)]
struct Held {
    inner: MemoryBackend,
    /// None when it is open.
    requests: Mutex<Option<Vec<Request>>>,
}

impl Held {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            inner: MemoryBackend::new(bytes),
            requests: Mutex::new(Some(Vec::new())),
        }
    }

    /// Where the requests that are held begin, in pages, and of how many each is.
    fn held(&self) -> Vec<(u64, u64)> {
        let requests = self.requests.lock().unwrap();
        let of = |request: &Request| (request.pos() / PAGE, request.nr_left() as u64 / PAGE);
        requests.iter().flatten().map(of).collect()
    }

    fn open(&self) {
        let requests = self.requests.lock().unwrap().take();
        requests.into_iter().flatten().for_each(|it| self.serve(it));
    }

    fn serve(&self, request: Request) {
        let result = self.inner.read_at(&request.buffers(), request.pos());
        request.complete(result);
    }
}

impl Backend for Held {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.inner.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }

    fn deferred(&self) -> Option<&dyn Deferred> {
        Some(self)
    }
}

impl Deferred for Held {
    fn start(&self, request: Request) {
        let mut requests = self.requests.lock().unwrap();
        match &mut *requests {
            Some(requests) => requests.push(request),
            None => {
                drop(requests);
                self.serve(request);
            }
        }
    }
}

/// A reader that is faster than the storage once had nothing under way but what it waited for: the page that has the engine go on was
/// noticed only when it was there, and not by who waited for it.
#[test]
fn while_a_reader_waits_for_what_was_read_ahead_the_next_is_under_way() {
    bounded("a reader", || {
        let bytes = content(9, 1 << 20);
        let storage = Arc::new(Held::new(bytes.clone()));
        let file = cache(Choice::Auto, 16 << 20)
            .open_backend(Arc::clone(&storage), "held")
            .unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut page = vec![0; PAGE as usize];
                for at in bytes
                    .chunks(PAGE as usize)
                    .zip((0..).step_by(PAGE as usize))
                {
                    assert_eq!(file.read_at(&mut page, at.1).unwrap(), page.len());
                    assert!(page == at.0);
                }
            });
            // Pages 0 and 1 are misses. It waits for page 2.
            until("two windows", || storage.held().len() == 2);
            assert_eq!(storage.held(), [(2, 2), (4, 4)]);
            assert!(!reader.is_finished());
            storage.open();
        });
    });
}

#[test]
fn advice_is_taken() {
    let dir = scratch::dir();
    let bytes = content(8, 4 << 20);
    let Some((cache, file)) = direct_file(&dir, &bytes) else {
        return;
    };
    let mut buf = vec![0; 4096];
    file.advise(0..u64::MAX, Advice::Random).unwrap();
    for page in 0..50 {
        file.read_at(&mut buf, page * PAGE).unwrap();
    }
    assert_eq!(cache.stats().nr_fills, 50);
    file.advise(0..50 * PAGE, Advice::NotSoon).unwrap();
    file.read_at(&mut buf, 0).unwrap();
    assert_eq!(cache.stats().nr_fills, 51);
    file.advise(100 * PAGE..110 * PAGE, Advice::Soon).unwrap();
    until("they are there", || cache.stats().nr_fills == 61);
    file.advise(0..0, Advice::Sequential).unwrap();
    file.read_at(&mut buf, 500 * PAGE).unwrap();
    until("pages ahead", || cache.stats().nr_fills > 62);
    // Pages that are read once are read right, each time.
    file.advise(0..0, Advice::Once).unwrap();
    for _ in 0..3 {
        let mut all = vec![0; bytes.len()];
        assert_eq!(file.read_at(&mut all, 0).unwrap(), bytes.len());
        assert!(all == bytes);
    }
}
