//! `bench isolation`: a file of a cache in which another file's storage hangs, beside a cache without such a file.
//!
//! Both caches are of one size, and all storages are memory, so that nothing but the cache is measured. The file that hangs was
//! written to until its writer was told so: it has its whole share of dirty frames, and a thread of the cache waits in its
//! storage all the while.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use pagewell::io::{Fault, FaultBackend, MemoryBackend, Operation};
use pagewell::{Cache, ErrorKind, File, OpenOptions};

use crate::bench::crew::{Schedule, Speeds, Watch};
use crate::bench::data::Rng;
use crate::bench::plan::{Case, Cell};
use crate::failure::Failure;

const ALONE: &str = "alone";
const BESIDE: &str = "beside-a-hang";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 2] = [BESIDE, ALONE];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 1] = [(BESIDE, ALONE)];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 2] = [
    (
        BESIDE,
        "another file of the cache has its share of dirty frames, and its storage hangs",
    ),
    (ALONE, "the file is the cache's only one"),
];

const PAGE: usize = 4096;

/// What each cache may hold.
const CAPACITY: u64 = 16 << 20;

/// How large the file is that is read: four times as much.
const READ_BYTES: usize = 64 << 20;

/// How large the file becomes that is appended to, before it is cut: more than a share of dirty frames.
const MOST_APPENDED: u64 = 32 << 20;

/// Measures a cell: operations a second.
pub(in crate::bench) fn run(
    cell: &Cell,
    schedule: &Schedule,
    _: &[usize],
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    let mut hung = None;
    let mut lanes = Vec::new();
    for engine in ENGINES {
        let cache = Cache::builder()
            .capacity(CAPACITY)
            .build()
            .map_err(|error| Failure::because("cannot make a cache", error))?;
        if engine == BESIDE {
            hung = Some(Hung::new(&cache)?);
        }
        lanes.push(Lane::new(cache, cell.case)?);
    }
    let each = schedule.duration() / (schedule.rounds * ENGINES.len() as u32).max(1);
    let mut of_lanes = vec![Vec::new(); lanes.len()];
    let mut done = Duration::ZERO;
    for lane in &mut lanes {
        lane.work(each / 4)?;
    }
    for round in 0..schedule.rounds as usize {
        // In changing order.
        for at in 0..lanes.len() {
            let lane = (at + round) % lanes.len();
            of_lanes[lane].push(lanes[lane].work(each)?);
            done += each;
            watch(done);
        }
    }
    if let Some(hung) = hung {
        hung.end()?;
    }
    Ok(Speeds::of(of_lanes))
}

/// A file whose storage hangs as long as this exists.
struct Hung {
    file: File,
    release: Sender<()>,
}

impl Hung {
    fn new(cache: &Cache) -> Result<Hung, Failure> {
        let (release, held): (Sender<()>, Receiver<()>) = channel();
        let held = std::sync::Mutex::new(held);
        let backend =
            FaultBackend::with_script(MemoryBackend::writable(Vec::new()), move |operation| {
                if let Operation::Write { .. } = operation {
                    // Until the sender is gone.
                    let held = held
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    let _ = held.recv();
                }
                Fault::None
            });
        let file = open(cache, backend)?;
        loop {
            match file.append(&[1; PAGE]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Throttled => break,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Hung { file, release })
    }

    /// Lets the storage go on, and checks that nothing was wrong but that.
    fn end(self) -> Result<(), Failure> {
        drop(self.release);
        self.file.close().map_err(|(_, error)| failed(error))
    }
}

/// A cache, and what is done in it.
struct Lane {
    cache: Cache,
    case: Case,
    file: File,
    rng: Rng,
}

impl Lane {
    fn new(cache: Cache, case: Case) -> Result<Lane, Failure> {
        let bytes = if case == Case::IsolatedMiss {
            READ_BYTES
        } else {
            0
        };
        let file = open(&cache, MemoryBackend::writable(vec![7; bytes]))?;
        Ok(Lane {
            cache,
            case,
            file,
            rng: Rng::new(1),
        })
    }

    /// Works for so long; operations a second.
    fn work(&mut self, time: Duration) -> Result<f64, Failure> {
        let begin = Instant::now();
        let mut nr = 0_u64;
        while nr == 0 || begin.elapsed() < time {
            for _ in 0..16 {
                self.once(nr).map_err(failed)?;
                nr += 1;
            }
        }
        Ok(nr as f64 / begin.elapsed().as_secs_f64().max(1e-9))
    }

    fn once(&mut self, nr: u64) -> Result<(), pagewell::Error> {
        match self.case {
            Case::IsolatedMiss => {
                let mut buf = [0; 64];
                let page = self.rng.below((READ_BYTES / PAGE) as u64);
                let read = self.file.read_at(&mut buf, page * PAGE as u64)?;
                assert_eq!((read, buf), (64, [7; 64]), "another file's bytes");
            }
            Case::IsolatedAppend => {
                if self.file.size() >= MOST_APPENDED {
                    self.file.set_size(0)?;
                }
                self.file.append(&[nr as u8; PAGE])?;
            }
            Case::IsolatedSync => {
                let page = self.rng.below(256);
                self.file.write_at(&[nr as u8; PAGE], page * PAGE as u64)?;
                self.file.sync_data()?;
            }
            _ => {
                // Opened anew, written to, and closed.
                let other = Arc::new(MemoryBackend::writable(Vec::new()));
                let file = self.cache.open_backend_with(
                    Arc::clone(&other),
                    "other",
                    &OpenOptions::new().write(),
                )?;
                file.append(&[nr as u8; PAGE])?;
                file.close().map_err(|(_, error)| error)?;
                other.modify(|bytes| assert_eq!(bytes.len(), PAGE, "a file that was not saved"));
            }
        }
        Ok(())
    }
}

fn open(cache: &Cache, backend: impl pagewell::io::Backend) -> Result<File, Failure> {
    let options = OpenOptions::new().write();
    let file = cache.open_backend_with(backend, "bench", &options);
    file.map_err(failed)
}

fn failed(error: pagewell::Error) -> Failure {
    Failure::because("the cache has failed", error)
}
