//! A backend that is a file of another cache.

use std::io;
use std::ops::Range;

use pagewell::io::{Backend, FileId, MemoryBackend, RacyBytes, RacySource};
use pagewell::{Cache, File, OpenOptions};
use pagewell_testkit::content;
use pagewell_testkit::wait::{block_on, bounded};

const PAGE: usize = 4096;

#[derive(Debug)]
struct Below {
    file: File,
    id: FileId,
}

impl Backend for Below {
    fn read_at(&self, bufs: &[RacyBytes<'_>], mut pos: u64) -> io::Result<usize> {
        let mut nr_read = 0;
        for buf in bufs {
            let mut bytes = vec![0; buf.len()];
            let nr = self.file.read_at(&mut bytes, pos)?;
            buf.copy_from(0, &bytes[..nr]);
            nr_read += nr;
            pos += nr as u64;
            if nr < bytes.len() {
                break;
            }
        }
        Ok(nr_read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.size())
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, bufs: &[RacySource<'_>], mut pos: u64) -> io::Result<()> {
        for buf in bufs {
            let mut bytes = vec![0; buf.len()];
            buf.copy_to(0, &mut bytes);
            assert_eq!(self.file.write_at(&bytes, pos)?, bytes.len());
            pos += bytes.len() as u64;
        }
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        Ok(self.file.set_size(size)?)
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        self.file.flush(range)?;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.file.sync_data()?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(self.file.sync_all()?)
    }
}

/// The upper file's locks are held while its backend waits for those of the lower file.
#[test]
fn a_file_over_a_file_of_another_cache_is_written_and_synced() {
    bounded("writes through two caches", || {
        let cache = || Cache::builder().capacity(1 << 20).build().unwrap();
        let memory = std::sync::Arc::new(MemoryBackend::writable(Vec::new()));
        let (lower, upper): (Cache, Cache) = (cache(), cache());
        let writable = OpenOptions::new().write();
        let backend = std::sync::Arc::clone(&memory);
        let file = lower
            .open_backend_with(backend, "lower", &writable)
            .unwrap();
        let id = memory.id();
        let file = upper
            .open_backend_with(Below { file, id }, "upper", &writable)
            .unwrap();
        for nr in 0..40 {
            file.append(&content(nr, PAGE)).unwrap();
            if nr % 10 == 0 {
                file.sync_data().unwrap();
            }
        }
        file.write_at(&content(7, PAGE), 3 * PAGE as u64).unwrap();
        block_on(file.sync_data_async()).unwrap();
        file.set_size(39 * PAGE as u64 + 5).unwrap();
        let (_, read) = block_on(file.read_at_async(vec![0; PAGE], 20 * PAGE as u64));
        assert_eq!(read.unwrap(), PAGE);
        file.close().map_err(|(_, error)| error).unwrap();
        let mut stored = Vec::new();
        memory.modify(|bytes| stored.clone_from(bytes));
        assert_eq!(stored.len(), 39 * PAGE + 5);
        for (nr, page) in (0..).zip(stored.chunks(PAGE)) {
            let version = if nr == 3 { 7 } else { nr };
            assert!(page == &content(version, PAGE)[..page.len()], "page {nr}");
        }
    });
}
