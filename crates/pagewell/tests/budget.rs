//! The capacity bounds the memory of the process. One test in a process of its own: it measures all of the memory.

mod support;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewell::io::{Backend, FileId, RacyBytes, RacySource};
use pagewell::{Cache, HugePages, Nodes, OpenOptions};
use pagewell_testkit::wait::bounded_by;
use support::{PAGE, assert_all_free};

/// A file of zeros, whatever is written to it: a storage without memory.
#[derive(Debug)]
struct Hole(AtomicU64);

impl Backend for Hole {
    fn read_at(&self, bufs: &[RacyBytes<'_>], _: u64) -> io::Result<usize> {
        for buf in bufs {
            buf.zero(0, buf.len());
        }
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn id(&self) -> FileId {
        FileId {
            device: 7,
            inode: 7,
        }
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let end = pos + bufs.iter().map(|buf| buf.len() as u64).sum::<u64>();
        self.0.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.store(size, Ordering::Relaxed);
        Ok(())
    }
}

/// The memory of this process in bytes, as the system counts it.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).expect("a second number");
    pages.parse::<u64>().expect("a number") * 4096
}

const CAPACITY: u64 = 64 << 20;
const TERABYTE: u64 = 1 << 40;

/// What a process has besides its caches: stacks, the heap of the tests, the program. And what the documents name: a word for each
/// 32 MiB of a file that was written to.
const BESIDES: u64 = 4 << 20;

/// Symptom: pages written here and there in a terabyte took half as much memory again as the cache was given, until the file
/// was closed. Cause: the sets of dirty and of written pages were in nobody's budget, and nothing of them was ever given back; nor
/// were the parts of the index's root, which were in the budget. Now a set's memory is charged with the leaves that may
/// need it, and goes when they go.
#[test]
#[ignore = "resident memory, which huge pages and the allocator change; .ci/nightly"]
fn a_terabyte_written_here_and_there_takes_no_more_than_the_capacity() {
    // It takes a few seconds.
    bounded_by(Duration::from_secs(300), "a terabyte", || {
        let before = resident();
        let cache = Cache::builder()
            .capacity(CAPACITY)
            .nodes(Nodes::Unbound(1))
            .huge_pages(HugePages::System)
            .build()
            .expect("a cache of a sensible size");
        let options = OpenOptions::new().write();
        let hole = Hole(AtomicU64::new(0));
        let file = cache.open_backend_with(hole, "hole", &options).unwrap();
        file.set_size(TERABYTE).unwrap();
        let bytes = [1; PAGE];
        let mut most = 0;
        // A page in each 32 MiB, and then others, in another order.
        for step in [32 << 20, (32 << 20) * 1021 + (2 << 20)] {
            for nr in 0..TERABYTE / (32 << 20) {
                let pos = nr * step % TERABYTE;
                assert_eq!(file.write_at(&bytes, pos).unwrap(), PAGE);
                if nr % 1024 == 0 {
                    most = most.max(resident());
                }
            }
        }
        file.sync_data().unwrap();
        most = most.max(resident());
        let used = most - before;
        eprintln!("{} KiB of {} KiB", used >> 10, CAPACITY >> 10);
        assert!(used > CAPACITY / 2, "{used} bytes: nothing was measured");
        assert!(used < CAPACITY + BESIDES, "{used} bytes of {CAPACITY}");
        drop(file);
        assert_all_free(&cache);
    });
}
