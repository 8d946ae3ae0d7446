//! How many reads a second each engine makes at depths 1, 32 and 64, past the operating system's cache, beside `fio` on the same file.
//!
//! ```sh
//! cargo run --release -p pagewell-io --example depth -- [--file PATH] [--mib N] [--seconds N] [--rounds N] [--depth N] [--only NAME]
//! ```
//!
//! The file is made in the current folder, if there is none, and kept if it was named. One thread reads 4 KiB at random places. All measurements
//! of a depth are made one after the other, in rounds, so that what the machine does beside meets all of them; each line of the output (JSON) is one of them, and the last lines
//! are medians and their ratios to fio's. CPU time is that of the process, or of fio and its job, in microseconds a read.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("depth: only Linux has what it measures");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::error::Error;
    use std::io::{self, Write};
    use std::mem::MaybeUninit;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::sync::{Arc, Condvar, Mutex};
    use std::time::{Duration, Instant};

    use pagewell_io::engine::{Choice, Chosen, Engine, Job, Request, Settings};
    use pagewell_io::{Backend, Direct, FileBackend, FileOptions};
    use pagewell_sync::bytes::{RacyBytes, RacySource};

    const PAGE: usize = 4096;

    struct Options {
        file: Option<PathBuf>,
        mib: u64,
        seconds: f64,
        rounds: usize,
        /// Only this depth.
        depth: Option<usize>,
        /// Only what has this in its name, and fio.
        only: String,
    }

    fn options() -> Result<Options, Box<dyn Error>> {
        let mut options = Options {
            file: None,
            mib: 1024,
            seconds: 2.0,
            rounds: 5,
            depth: None,
            only: String::new(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words
                .next()
                .ok_or_else(|| format!("{word}: a value is missing"))?;
            match word.as_str() {
                "--file" => options.file = Some(value.into()),
                "--mib" => options.mib = value.parse()?,
                "--seconds" => options.seconds = value.parse()?,
                "--rounds" => options.rounds = value.parse()?,
                "--depth" => options.depth = Some(value.parse()?),
                "--only" => options.only = value,
                _ => return Err(format!("{word}: no such option").into()),
            }
        }
        Ok(options)
    }

    /// One measurement.
    #[derive(Clone, Copy)]
    struct Figure {
        reads_per_second: f64,
        cpu_us_per_read: f64,
    }

    /// What is measured at a depth, by name.
    type Contestant<'c> = (String, Box<dyn Fn() -> Result<Figure, Box<dyn Error>> + 'c>);

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        let options = options()?;
        let path = options
            .file
            .clone()
            .unwrap_or_else(|| "depth-of-io.tmp".into());
        let result = measure(&options, &path);
        if options.file.is_none() {
            std::fs::remove_file(&path)?;
        }
        result
    }

    fn measure(options: &Options, path: &Path) -> Result<(), Box<dyn Error>> {
        make(path, options.mib << 20)?;
        let file = FileBackend::open_for_reading(path, Direct::Auto)?;
        println!(
            "{{\"file\":\"{}\",\"bytes\":{},\"transfers\":\"{}\",\"processor\":\"{}\"}}",
            path.display(),
            file.size()?,
            file.transfers(),
            pagewell_testkit::machine::processor()
        );
        let nr_pages = file.size()? / PAGE as u64;
        if nr_pages == 0 {
            return Err("the file is too small".into());
        }
        let file: Arc<dyn Backend> = Arc::new(file);
        let fio = Command::new("fio").arg("--version").output().is_ok();
        for depth in options.depth.map_or(vec![1, 32, 64], |depth| vec![depth]) {
            let mut all: Vec<Contestant<'_>> = Vec::new();
            if fio {
                for engine in if depth == 1 {
                    &["psync", "io_uring"][..]
                } else {
                    &["io_uring"]
                } {
                    let run = move || run_fio(engine, depth, path, options.seconds);
                    all.push((format!("fio {engine}"), Box::new(run)));
                }
            }
            for choice in [Choice::Sync, Choice::Worker, Choice::Uring] {
                if depth != 1 && choice == Choice::Sync {
                    continue; // It has no depth.
                }
                let chosen = match Chosen::new(Settings::new(choice)) {
                    Ok(chosen) => chosen,
                    Err(refusal) => {
                        println!("{{\"engine\":\"{choice:?}\",\"refused\":\"{refusal}\"}}");
                        continue;
                    }
                };
                let (engine, file) = (chosen.engine, Arc::clone(&file));
                let name = engine.name();
                for how in if depth == 1 {
                    &["run", "lane", "submit"][..]
                } else {
                    &["lane", "submit"]
                } {
                    let (engine, file) = (Arc::clone(&engine), Arc::clone(&file));
                    let run = move || {
                        let seconds = Duration::from_secs_f64(options.seconds);
                        Ok(match *how {
                            "run" => by_run(&*engine, &file, nr_pages, seconds),
                            "lane" => by_lane(&*engine, &file, nr_pages, depth, seconds),
                            _ => by_submit(&engine, &file, nr_pages, depth, seconds),
                        })
                    };
                    all.push((format!("{name} {how}"), Box::new(run)));
                }
            }
            all.retain(|(name, _)| name.starts_with("fio") || name.contains(&options.only));
            let mut figures: BTreeMap<&str, Vec<Figure>> = BTreeMap::new();
            for round in 0..options.rounds {
                for (name, run) in &all {
                    let figure = run()?;
                    print(depth, name, &format!("\"round\":{round},"), figure);
                    figures.entry(name).or_default().push(figure);
                }
            }
            report(depth, &figures);
        }
        Ok(())
    }

    fn print(depth: usize, name: &str, more: &str, figure: Figure) {
        println!(
            "{{\"depth\":{depth},\"engine\":\"{name}\",{more}\"reads_per_second\":{:.0},\"cpu_us_per_read\":{:.2}}}",
            figure.reads_per_second, figure.cpu_us_per_read
        );
        // What was measured is to be seen even if the next measurement hangs.
        let _ = io::stdout().flush();
    }

    /// Medians, and ratios to fio's: of psync at depth 1, of io_uring at others.
    fn report(depth: usize, figures: &BTreeMap<&str, Vec<Figure>>) {
        let median = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let medians: BTreeMap<_, _> = figures
            .iter()
            .map(|(name, figures)| {
                let figure = Figure {
                    reads_per_second: median(
                        &mut figures.iter().map(|f| f.reads_per_second).collect(),
                    ),
                    cpu_us_per_read: median(
                        &mut figures.iter().map(|f| f.cpu_us_per_read).collect(),
                    ),
                };
                (*name, figure)
            })
            .collect();
        let base = medians
            .get(if depth == 1 {
                "fio psync"
            } else {
                "fio io_uring"
            })
            .copied();
        for (name, figure) in medians {
            let ratios = base.map_or(String::new(), |base| {
                format!(
                    "\"reads_to_fio\":{:.2},\"cpu_to_fio\":{:.2},",
                    figure.reads_per_second / base.reads_per_second,
                    figure.cpu_us_per_read / base.cpu_us_per_read
                )
            });
            print(depth, name, &format!("\"median\":true,{ratios}"), figure);
        }
    }

    /// Makes the file, if there is none of this size: written, so that no read meets a hole.
    fn make(path: &Path, bytes: u64) -> Result<(), Box<dyn Error>> {
        if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() >= bytes) {
            return Ok(());
        }
        let options = FileOptions::new().create().direct(Direct::Auto);
        let file = FileBackend::open_writable(path, &options)?;
        let memory = Memory::new(1 << 20);
        for pos in (0..bytes).step_by(1 << 20) {
            file.write_at(&[RacySource::from(memory.racy())], pos)?;
        }
        file.sync_all()?;
        Ok(())
    }

    /// Aligned memory that requests share.
    struct Memory {
        words: Vec<AtomicU64>,
        start: usize,
        len: usize,
    }

    impl Memory {
        fn new(len: usize) -> Arc<Self> {
            let words: Vec<_> = (0..(len + PAGE) / 8)
                .map(|nr| AtomicU64::new(nr as u64))
                .collect();
            let address = words.as_ptr().addr();
            Arc::new(Self {
                start: address.next_multiple_of(PAGE) - address,
                words,
                len,
            })
        }

        fn racy(&self) -> RacyBytes<'_> {
            let start = NonNull::from(&*self.words).cast::<u8>();
            // SAFETY: (a) atomics that live as long as the borrow; (b) nothing but the system uses them.
            let all = unsafe { RacyBytes::new(start, self.words.len() * 8) };
            all.slice(self.start, self.len)
        }

        /// A read of a page, which keeps the memory.
        fn read(
            self: &Arc<Self>,
            pos: u64,
            done: impl FnOnce(io::Result<usize>) + Send + 'static,
        ) -> Request {
            let memory = Arc::clone(self);
            let span = pagewell_io::engine::Span::from(self.racy());
            let completion = Box::new(move |result| {
                done(result);
                drop(memory);
            });
            // SAFETY: (a) the completion keeps the memory; (b) nobody looks at it.
            unsafe { Request::read(pos, span, completion) }
        }
    }

    /// Random places (SplitMix64).
    struct Places {
        state: u64,
        nr_pages: u64,
    }

    impl Places {
        fn new(nr_pages: u64) -> Self {
            let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
            Self {
                state: now.as_nanos() as u64,
                nr_pages,
            }
        }

        fn next(&mut self) -> u64 {
            self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = self.state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed ^ (mixed >> 31)) % self.nr_pages * PAGE as u64
        }
    }

    /// The processor time of this process.
    fn cpu() -> Duration {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: there is room for the answer.
        let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        assert_eq!(result, 0);
        // SAFETY: zeros, or the answer.
        let usage = unsafe { usage.assume_init() };
        let time = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    }

    struct Clock {
        start: Instant,
        cpu: Duration,
    }

    impl Clock {
        fn start() -> Self {
            Self {
                start: Instant::now(),
                cpu: cpu(),
            }
        }

        fn stop(self, nr: usize) -> Figure {
            Figure {
                reads_per_second: nr as f64 / self.start.elapsed().as_secs_f64(),
                cpu_us_per_read: (cpu() - self.cpu).as_secs_f64() * 1e6 / nr.max(1) as f64,
            }
        }
    }

    fn by_run(
        engine: &dyn Engine,
        file: &Arc<dyn Backend>,
        nr_pages: u64,
        time: Duration,
    ) -> Figure {
        let (memory, mut places) = (Memory::new(PAGE), Places::new(nr_pages));
        let (clock, mut nr) = (Clock::start(), 0);
        let mut jobs = Vec::with_capacity(1);
        while clock.start.elapsed() < time {
            let request = memory.read(places.next(), |result| assert_eq!(result.ok(), Some(PAGE)));
            jobs.push(Job::new(Arc::clone(file), request));
            engine.run(&mut jobs);
            nr += 1;
        }
        clock.stop(nr)
    }

    fn by_lane(
        engine: &dyn Engine,
        file: &Arc<dyn Backend>,
        nr_pages: u64,
        depth: usize,
        time: Duration,
    ) -> Figure {
        let mut places = Places::new(nr_pages);
        let free = Arc::new(Mutex::new(
            (0..depth).map(|_| Memory::new(PAGE)).collect::<Vec<_>>(),
        ));
        let (clock, mut nr) = (Clock::start(), 0);
        let mut lane = engine.lane();
        while clock.start.elapsed() < time {
            let now: Vec<_> = free.lock().unwrap().drain(..).collect();
            for memory in now {
                let (back, of_it) = (Arc::clone(&free), Arc::clone(&memory));
                let request = memory.read(places.next(), move |result| {
                    assert_eq!(result.ok(), Some(PAGE));
                    back.lock().unwrap().push(of_it);
                });
                lane.submit(Job::new(Arc::clone(file), request));
            }
            nr += lane.wait(1);
        }
        nr += lane.wait(depth);
        clock.stop(nr)
    }

    /// Each completion gives the next request; this thread only waits for the end.
    struct Chain {
        engine: Arc<dyn Engine>,
        file: Arc<dyn Backend>,
        places: Mutex<Places>,
        end: Instant,
        nr: AtomicUsize,
        nr_left: Mutex<usize>,
        is_over: Condvar,
    }

    impl Chain {
        fn next(self: &Arc<Self>, memory: Arc<Memory>) {
            if Instant::now() >= self.end {
                *self.nr_left.lock().unwrap() -= 1;
                self.is_over.notify_all();
                return;
            }
            let (chain, of_it) = (Arc::clone(self), Arc::clone(&memory));
            let pos = self.places.lock().unwrap().next();
            let request = memory.read(pos, move |result| {
                assert_eq!(result.ok(), Some(PAGE));
                chain.nr.fetch_add(1, Ordering::Relaxed);
                chain.next(of_it);
            });
            self.engine
                .submit(Job::new(Arc::clone(&self.file), request));
        }
    }

    fn by_submit(
        engine: &Arc<dyn Engine>,
        file: &Arc<dyn Backend>,
        nr_pages: u64,
        depth: usize,
        time: Duration,
    ) -> Figure {
        let clock = Clock::start();
        let chain = Arc::new(Chain {
            engine: Arc::clone(engine),
            file: Arc::clone(file),
            places: Mutex::new(Places::new(nr_pages)),
            end: clock.start + time,
            nr: AtomicUsize::new(0),
            nr_left: Mutex::new(depth),
            is_over: Condvar::new(),
        });
        (0..depth).for_each(|_| chain.next(Memory::new(PAGE)));
        let left = chain.nr_left.lock().unwrap();
        drop(chain.is_over.wait_while(left, |left| *left != 0).unwrap());
        clock.stop(chain.nr.load(Ordering::Relaxed))
    }

    /// Has fio do the same, and takes its figures from its terse output (version 3).
    fn run_fio(
        engine: &str,
        depth: usize,
        path: &Path,
        seconds: f64,
    ) -> Result<Figure, Box<dyn Error>> {
        let output = Command::new("fio")
            .args([
                "--name=depth",
                "--rw=randread",
                "--bs=4k",
                "--direct=1",
                "--time_based",
            ])
            .args([
                "--thread",
                "--randrepeat=0",
                "--norandommap",
                "--output-format=terse",
            ])
            .arg("--terse-version=3")
            .arg(format!("--filename={}", path.display()))
            .arg(format!("--ioengine={engine}"))
            .arg(format!("--iodepth={depth}"))
            .arg(format!("--runtime={}ms", (seconds * 1000.0) as u64))
            .arg("--readonly")
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.starts_with("3;"));
        let fields: Vec<&str> = line.ok_or("fio gave no figures")?.split(';').collect();
        let field = |nr: usize| -> Result<f64, Box<dyn Error>> {
            let text = fields.get(nr).ok_or("fio gave too few figures")?;
            Ok(text.trim_end_matches('%').parse()?)
        };
        // Field 8 is the reads a second; 88 and 89 are the shares of user and system time.
        let (reads, user, system) = (field(7)?, field(87)?, field(88)?);
        Ok(Figure {
            reads_per_second: reads,
            cpu_us_per_read: (user + system) / 100.0 / reads * 1e6,
        })
    }
}
