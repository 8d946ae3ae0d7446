//! Commits: threads that write a page each of one file, and sync it, again and again.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell::{Cache, OpenOptions, Writeback};

use super::file::PAGE;
use super::reads::{Turn, together};
use crate::bench::data::{DataFile, Scratch};
use crate::bench::plan::Settings;
use crate::failure::{Failure, chain};

const CAPACITY: u64 = 16 << 20;

/// Two files with a page for each thread.
pub(super) struct Commits {
    ours: DataFile,
    cached: pagewell::File,
    _cache: Cache,
    theirs: DataFile,
    /// Numbers what is written: each page says which commit it is of.
    nr: AtomicU64,
}

impl Commits {
    pub(super) fn new(
        threads: u32,
        settings: &Settings,
        scratch: &mut Scratch,
        mut note: impl FnMut(String),
    ) -> Result<Commits, Failure> {
        let bytes = u64::from(threads) * PAGE as u64;
        let ours = scratch.make_named(bytes, 1, &mut note)?;
        let theirs = scratch.make(bytes, bytes, 2, &mut note)?;
        let cannot = |error| Failure::because("cannot make a cache", chain(&error));
        let cache = Cache::builder()
            .capacity(settings.capacity.unwrap_or(CAPACITY).max(4 * bytes))
            .page_size(settings.page_size)
            .build()
            .map_err(cannot)?;
        // Nothing but the commits writes back.
        let options = OpenOptions::new().write().writeback(Writeback::Manual);
        let cached = cache.open_with(&ours.path, &options).map_err(cannot)?;
        Ok(Commits {
            ours,
            cached,
            _cache: cache,
            theirs,
            nr: AtomicU64::new(0),
        })
    }

    /// Commits through the cache.
    pub(super) fn blocking(&self, threads: u32, time: Duration) -> Result<Turn, Failure> {
        self.run(threads, time, &self.ours, |page, pos| {
            let wrote = self.cached.write_at(page, pos);
            match wrote.and_then(|nr| self.cached.sync_data().map(|()| nr)) {
                Ok(nr) if nr == page.len() => Ok(()),
                Ok(nr) => Err(format!("only {nr} bytes were written at {pos}")),
                Err(error) => Err(chain(&error)),
            }
        })
    }

    /// Commits by system calls.
    pub(super) fn fdatasync(&self, threads: u32, time: Duration) -> Result<Turn, Failure> {
        let file: &File = &self.theirs.file;
        self.run(threads, time, &self.theirs, |page, pos| {
            let wrote = rustix::io::pwrite(file, page, pos);
            match wrote.and_then(|nr| rustix::fs::fdatasync(file).map(|()| nr)) {
                Ok(nr) if nr == page.len() => Ok(()),
                Ok(nr) => Err(format!("only {nr} bytes were written at {pos}")),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    /// Has each thread commit its page for so long, and checks what the file then has.
    fn run(
        &self,
        threads: u32,
        time: Duration,
        data: &DataFile,
        commit: impl Fn(&[u8], u64) -> Result<(), String> + Sync,
    ) -> Result<Turn, Failure> {
        let last: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let turn = together(threads, Ok, |number| {
            let (end, mut nr) = (Instant::now() + time, 0);
            while nr == 0 || Instant::now() < end {
                // ORDERING: Relaxed; each number is given out once.
                let stamp = self.nr.fetch_add(1, Ordering::Relaxed) + 1;
                commit(&page(stamp), (*number * PAGE) as u64)?;
                // ORDERING: Relaxed; looked at when the thread was joined.
                last[*number].store(stamp, Ordering::Relaxed);
                nr += 1;
            }
            Ok(nr)
        })?;
        for (number, stamp) in last.iter().enumerate() {
            use std::os::unix::fs::FileExt;
            let (mut found, pos) = ([0; PAGE], (number * PAGE) as u64);
            let read = data.file.read_exact_at(&mut found, pos);
            read.map_err(|error| Failure::because("cannot read what was committed", error))?;
            // ORDERING: Relaxed; all were joined.
            if found != page(stamp.load(Ordering::Relaxed)) {
                return Err(Failure::Run(format!(
                    "the page at {pos} is not what was committed there last"
                )));
            }
        }
        Ok(turn)
    }
}

/// The page of the commit with this number.
fn page(stamp: u64) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    for word in page.chunks_exact_mut(8) {
        word.copy_from_slice(&stamp.to_le_bytes());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_commits_and_what_is_not_committed_is_told() {
        let mut scratch = Scratch::new(None);
        let none = |note| panic!("{note}");
        let commits = Commits::new(4, &Settings::quick(), &mut scratch, none).unwrap();
        let time = Duration::from_millis(2);
        assert!(commits.blocking(4, time).unwrap().nr >= 4.0);
        assert!(commits.blocking(1, time).unwrap().nr >= 1.0);
        assert!(commits.fdatasync(4, time).unwrap().nr >= 4.0);
        // A write that says that it was done, and was not.
        assert!(commits.run(2, time, &commits.ours, |_, _| Ok(())).is_err());
    }
}
