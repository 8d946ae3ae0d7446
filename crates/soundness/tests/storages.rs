//! Storages that answer what is not so, panic, or call back: what others have pinned stays.

#![forbid(unsafe_code)]

mod support;

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell::io::{Backend, FileId, MemoryBackend, RacyBytes, RacySource};
use pagewell::{Cache, File, OpenOptions, Writeback};
use support::{House, PAGE, byte_of, cache};

/// What a storage does instead of its duty.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    None,
    /// Says that it has read more than it was asked for.
    ReadsMore,
    /// Says that it has read, and did not.
    ReadsNothing,
    /// Writes all over the buffers of a read, and fails.
    Scribbles,
    /// Its size is another one each time.
    Size,
    /// Its size is as large as can be.
    HugeSize,
    /// Its id is another one each time.
    Id,
    /// Is writable sometimes.
    Writable,
    /// Says that it has written.
    WritesNothing,
    Panics,
}

#[derive(Debug)]
struct Liar {
    inner: MemoryBackend,
    lie: Lie,
    nr_calls: AtomicU64,
}

impl Liar {
    fn new(lie: Lie, nr_pages: usize) -> Self {
        let bytes = (0..nr_pages).flat_map(|page| [byte_of(page); PAGE]);
        Self {
            inner: MemoryBackend::writable(bytes.collect()),
            lie,
            nr_calls: AtomicU64::new(0),
        }
    }

    fn call(&self) -> u64 {
        let nr = self.nr_calls.fetch_add(1, Ordering::Relaxed);
        // Not the first ones, or it would not be opened.
        assert!(
            self.lie != Lie::Panics || nr < 6 || !nr.is_multiple_of(3),
            "a storage that panics"
        );
        nr
    }
}

impl Backend for Liar {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.call();
        match self.lie {
            Lie::ReadsMore => Ok(self.inner.read_at(bufs, pos)?.saturating_mul(1000)),
            Lie::ReadsNothing => Ok(usize::MAX),
            Lie::Scribbles => {
                for buf in bufs {
                    buf.copy_from(0, &vec![0x55; buf.len()]);
                }
                Err(io::Error::other("scribbled"))
            }
            _ => self.inner.read_at(bufs, pos),
        }
    }

    fn size(&self) -> io::Result<u64> {
        let nr = self.call();
        match self.lie {
            Lie::Size => Ok(nr % 7 * PAGE as u64),
            Lie::HugeSize if nr > 2 => Ok(u64::MAX),
            _ => self.inner.size(),
        }
    }

    fn id(&self) -> FileId {
        let inode = match self.lie {
            Lie::Id => self.nr_calls.fetch_add(1, Ordering::Relaxed),
            _ => return self.inner.id(),
        };
        FileId { device: 7, inode }
    }

    fn is_writable(&self) -> bool {
        self.lie != Lie::Writable || self.call().is_multiple_of(2)
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        self.call();
        match self.lie {
            Lie::WritesNothing => Ok(()),
            _ => self.inner.write_at(bufs, pos),
        }
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.call();
        match self.lie {
            Lie::WritesNothing => Ok(()),
            _ => self.inner.set_size(size),
        }
    }

    fn check_size(&self, size: u64) -> io::Result<()> {
        self.call();
        self.inner.check_size(size)
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        self.call();
        self.inner.begin_sync(range)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call();
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.call();
        self.inner.sync_all()
    }
}

/// Everything that can be done to a file, whatever comes of it.
fn try_everything(file: &File) {
    let end = 12 * PAGE as u64;
    let mut buf = vec![0; 3 * PAGE];
    for page in 0..12_u64 {
        let at = page * PAGE as u64;
        let calls: [&mut dyn FnMut(); 11] = [
            &mut || drop(file.read_at(&mut buf, at)),
            &mut || drop(file.pin(page)),
            &mut || drop(file.pin_owned(page)),
            &mut || drop(file.write_at(&[1; 100], at + 50)),
            &mut || drop(file.write_at(&[2; PAGE], at)),
            &mut || drop(file.append(&[3; 5000])),
            &mut || {
                if let Ok(mut page) = file.pin_mut(page) {
                    page.fill(4);
                }
            },
            &mut || drop(file.flush(0..end)),
            &mut || drop(file.sync_data()),
            &mut || drop(file.set_size(at + 7)),
            &mut || drop(file.discard(at..u64::MAX)),
        ];
        for call in calls {
            let _ = catch_unwind(AssertUnwindSafe(call));
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(file.refresh())));
        file.invalidate(0..u64::MAX);
    }
}

const LIES: [Lie; 10] = [
    Lie::None,
    Lie::ReadsMore,
    Lie::ReadsNothing,
    Lie::Scribbles,
    Lie::Size,
    Lie::HugeSize,
    Lie::Id,
    Lie::Writable,
    Lie::WritesNothing,
    Lie::Panics,
];

#[test]
fn a_storage_that_lies_harms_no_page_of_others() {
    for lie in LIES {
        let house = House::of(cache(512));
        for mode in [
            OpenOptions::new(),
            OpenOptions::new().write().writeback(Writeback::Manual),
        ] {
            let open = || {
                house
                    .cache
                    .open_backend_with(Liar::new(lie, 8), "liar", &mode)
            };
            let Ok(Ok(file)) = catch_unwind(AssertUnwindSafe(open)) else {
                continue;
            };
            try_everything(&file);
            house.check_pins();
            // The last handle writes back: that may panic as well.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(file)));
        }
        house.check();
    }
}

/// The bytes that a storage is given to write are those of pages that are pinned.
#[test]
fn pinned_pages_are_written_back_as_they_are() {
    #[derive(Debug, Default)]
    struct Reader(std::sync::Mutex<Vec<u8>>);
    impl Backend for Reader {
        fn read_at(&self, bufs: &[RacyBytes<'_>], _: u64) -> io::Result<usize> {
            for buf in bufs {
                buf.zero(0, buf.len());
            }
            Ok(bufs.iter().map(|buf| buf.len()).sum())
        }
        fn size(&self) -> io::Result<u64> {
            Ok(4 * PAGE as u64)
        }
        fn id(&self) -> FileId {
            FileId {
                device: 9,
                inode: 1,
            }
        }
        fn is_writable(&self) -> bool {
            true
        }
        fn write_at(&self, bufs: &[RacySource<'_>], _: u64) -> io::Result<()> {
            let mut seen = self.0.lock().unwrap();
            for buf in bufs {
                let mut bytes = vec![0; buf.len()];
                buf.copy_to(0, &mut bytes);
                seen.append(&mut bytes);
                assert!(buf.slice(1, 5).len() == 5 && !buf.is_empty());
            }
            Ok(())
        }
        fn set_size(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
        fn sync_all(&self) -> io::Result<()> {
            Ok(())
        }
    }
    let cache = cache(256);
    let backend = Arc::new(Reader::default());
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let file = cache
        .open_backend_with(Arc::clone(&backend), "file", &options)
        .unwrap();
    file.write_at(&[1; 2 * PAGE], 0).unwrap();
    let pins = [file.pin(0).unwrap(), file.pin(1).unwrap()];
    file.flush(0..u64::MAX).unwrap();
    assert!(*backend.0.lock().unwrap() == vec![1; 2 * PAGE]);
    assert!(pins.iter().all(|pin| **pin == [1; PAGE]));
}

/// Two storages that say that they are the same file are one, the first; the other is dropped.
#[test]
fn files_of_one_id_are_one_file() {
    #[derive(Debug)]
    struct Same(MemoryBackend);
    impl Backend for Same {
        fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
            self.0.read_at(bufs, pos)
        }
        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }
        fn id(&self) -> FileId {
            FileId {
                device: 8,
                inode: 8,
            }
        }
    }
    let cache = cache(256);
    let open = |byte: u8, nr: usize| {
        let backend = Same(MemoryBackend::new(vec![byte; nr * PAGE]));
        cache.open_backend(backend, format!("file {byte}")).unwrap()
    };
    let one = open(1, 4);
    let pin = one.pin(3).unwrap();
    let two = open(2, 2);
    let mut buf = [0; PAGE];
    assert_eq!(two.read_at(&mut buf, 3 * PAGE as u64).unwrap(), PAGE);
    assert_eq!((buf, two.size()), ([1; PAGE], one.size()));
    assert!(*pin == [1; PAGE]);
}

/// A storage that reads the cache which it serves, against its contract: of another page, which works.
#[test]
fn a_storage_that_calls_back_reads_what_is_there() {
    #[derive(Debug)]
    struct CallsBack(MemoryBackend, File);
    impl Backend for CallsBack {
        fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
            let pin = self.1.pin(0).map_err(io::Error::other)?;
            let nr = self.0.read_at(bufs, pos)?;
            bufs[0].copy_from(0, &pin[..8]);
            self.1.write_at(&[9; 8], 0).map_err(io::Error::other)?;
            assert!(pin[..8] != [9; 8]);
            Ok(nr)
        }
        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }
        fn id(&self) -> FileId {
            self.0.id()
        }
    }
    let cache: Cache = cache(256);
    let other = support::file(&cache, 2);
    let backend = CallsBack(MemoryBackend::new(vec![1; 2 * PAGE]), other);
    let file = cache.open_backend(backend, "file").unwrap();
    let mut buf = [0; 16];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 16);
    assert_eq!(buf[..8], [byte_of(0); 8]);
}
