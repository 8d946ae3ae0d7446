//! The writing process: works until it is killed, and reports every sync that was acknowledged to it.
//!
//! # Reports
//!
//! Lines on standard output, each written at once: `ready`, and then, whenever a sync has succeeded,
//! `synced THREAD NUMBER COUNT...`: which thread's which operation it was, and how many operations each
//! thread had done before it began. A thread goes on only after its report.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Args;
use pagewell::{ErrorKind, File, Writeback};
use pagewell_crash::{BLOCK, Block, block};
use pagewell_testkit::content;

use super::life::Life;
use super::ops::{Op, Ops, TAIL_START, Tail, version};
use crate::child;
use crate::crash_test::ways::{Engine, Transfers, Way};
use crate::failure::Failure;

/// How often a write is tried again when a cache that nobody else writes back is full.
const MOST_TRIES: u32 = 16;

/// The command line of a writing process, which only its parent writes.
#[derive(Args, Debug)]
pub(crate) struct WriterArgs {
    /// The process that started this one
    #[arg(long)]
    pub(crate) parent: i32,
    /// The file to write to
    #[arg(long)]
    pub(crate) file: PathBuf,
    /// The seed of the test
    #[arg(long)]
    pub(crate) seed: u64,
    /// Which of the test's processes this is
    #[arg(long)]
    pub(crate) life: u64,
    /// How many threads there are to be
    #[arg(long)]
    pub(crate) threads: Option<u8>,
    /// How the file is transferred
    #[arg(long, value_enum, default_value_t)]
    pub(crate) transfers: Transfers,
    /// The engine of the cache
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: Engine,
    /// Acknowledge syncs without doing them
    #[arg(long)]
    pub(crate) break_sync: bool,
}

/// What a writing process does from start to end.
pub(in crate::crash_test) fn process(args: &WriterArgs) -> Result<(), Failure> {
    child::end_with(args.parent, "crash test")?;
    let life = Life::of(args.seed, args.life, args.threads).by(Way {
        transfers: args.transfers,
        engine: args.engine,
    });
    let cannot = |error| Failure::because("a writer has failed", describe(&error));
    let cache = life.cache().map_err(cannot)?;
    let file = cache
        .open_with(&args.file, &life.options())
        .map_err(cannot)?;
    let Some(tail) = file.size().checked_sub(TAIL_START) else {
        return Err(Failure::Run("the file has no tail".to_owned()));
    };
    let shared = Shared {
        life: &life,
        cache: &cache,
        file: &file,
        breaks_sync: args.break_sync,
        done: (0..life.nr_threads).map(|_| AtomicU64::new(0)).collect(),
        is_over: AtomicBool::new(false),
    };
    report("ready\n")?;
    std::thread::scope(|scope| {
        let shared = &shared;
        let threads: Vec<_> = (0..life.nr_threads)
            .map(|thread| scope.spawn(move || work(shared, thread, tail)))
            .collect();
        let panicked = |_| Err(Failure::Run("a thread of a writer has panicked".to_owned()));
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .fold(Ok(()), Result::and)
    })
}

/// The work of one thread.
fn work(shared: &Shared<'_>, thread: u64, tail: u64) -> Result<(), Failure> {
    let _stop = StopOthers(&shared.is_over);
    let mut ops = Ops::new(shared.life, thread, tail);
    let mut writer = Writer {
        shared,
        thread,
        versions: vec![0; (TAIL_START / BLOCK as u64) as usize],
    };
    // ORDERING: Relaxed; a flag that publishes nothing.
    while !shared.is_over.load(Ordering::Relaxed) {
        let (number, op) = ops.next();
        writer.do_op(number, &op)?;
    }
    Ok(())
}

/// Ends the other threads when one ends, also by a panic.
struct StopOthers<'s>(&'s AtomicBool);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; see where it is read.
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Shared<'s> {
    life: &'s Life,
    cache: &'s pagewell::Cache,
    file: &'s File,
    breaks_sync: bool,
    /// How many operations each thread has done.
    done: Vec<AtomicU64>,
    is_over: AtomicBool,
}

struct Writer<'s> {
    shared: &'s Shared<'s>,
    thread: u64,
    /// By block, the version that this thread has written last; 0 for none in this life.
    versions: Vec<u64>,
}

impl Writer<'_> {
    fn do_op(&mut self, number: u64, op: &Op) -> Result<(), Failure> {
        let Shared { file, cache, .. } = *self.shared;
        let failed = |error: pagewell::Error| {
            let what = format!("operation {number} ({op:?})");
            Failure::because(what, describe(&error))
        };
        let version = version(self.shared.life.number, self.thread, number);
        match op {
            Op::Write(blocks) => {
                let bytes: Vec<u8> = blocks.clone().flat_map(|nr| block(nr, version)).collect();
                self.write(&bytes, blocks.start * BLOCK as u64)
                    .map_err(failed)?;
                self.versions[blocks.start as usize..blocks.end as usize].fill(version);
            }
            Op::PinMut(nr) => {
                self.pin_mut(*nr, version).map_err(failed)?;
                self.versions[*nr as usize] = version;
            }
            Op::Read(nr) => self.read(*nr)?,
            Op::Flush(range) => _ = file.flush(range.clone()).map_err(failed)?,
            Op::Evict(nr) => _ = cache.reclaim(*nr),
            Op::SyncData => self.sync(number, File::sync_data).map_err(failed)??,
            Op::SyncAll => self.sync(number, File::sync_all).map_err(failed)??,
            Op::Tail(tail) => self.tail(tail, version).map_err(failed)?,
        }
        // ORDERING: Release; who reads the number and syncs then, syncs what was done: pairs with the
        // acquire in `sync`.
        self.shared.done[self.thread as usize].store(number, Ordering::Release);
        Ok(())
    }

    /// Makes room by a sync and tries again when all of the cache is dirty, and nobody else writes it back.
    fn with_room<T>(
        &self,
        mut what: impl FnMut() -> Result<T, pagewell::Error>,
    ) -> Result<T, pagewell::Error> {
        for _ in 0..MOST_TRIES {
            match what() {
                Err(error)
                    if matches!(error.kind(), ErrorKind::OutOfFrames | ErrorKind::Throttled)
                        && self.shared.life.writeback == Writeback::Manual =>
                {
                    self.shared.file.sync_data()?;
                }
                result => return result,
            }
        }
        what()
    }

    fn write(&self, mut bytes: &[u8], mut pos: u64) -> Result<(), pagewell::Error> {
        while !bytes.is_empty() {
            // Less than all only if something failed, which the next write tells.
            let n = self.with_room(|| self.shared.file.write_at(bytes, pos))?;
            bytes = &bytes[n..];
            pos += n as u64;
        }
        Ok(())
    }

    fn pin_mut(&self, nr: u64, version: u64) -> Result<(), pagewell::Error> {
        let page_size = self.shared.life.page_size;
        let pos = nr as usize * BLOCK;
        let page = (pos / page_size) as u64;
        let mut guard = self.with_room(|| self.shared.file.pin_mut(page))?;
        guard[pos % page_size..][..BLOCK].copy_from_slice(&block(nr, version));
        Ok(())
    }

    fn read(&self, nr: u64) -> Result<(), Failure> {
        let mut bytes = [0; BLOCK];
        let n = self
            .with_room(|| self.shared.file.read_at(&mut bytes, nr * BLOCK as u64))
            .map_err(|error| Failure::because(format!("reading block {nr}"), describe(&error)))?;
        let found = Block::of(nr, &bytes[..n]);
        let is_right = match self.versions[nr as usize] {
            0 => found != Block::Foreign,
            version => found == Block::Version(version),
        };
        match is_right {
            true => Ok(()),
            false => Err(Failure::Run(format!(
                "a writer reads {found:?} in block {nr}, and not what it wrote"
            ))),
        }
    }

    fn tail(&self, tail: &Tail, version: u64) -> Result<(), pagewell::Error> {
        let file = self.shared.file;
        match *tail {
            Tail::Append { len } => {
                let bytes = content(version, len);
                self.with_room(|| file.append(&bytes)).map(drop)
            }
            Tail::Write { pos, len } => self.write(&content(version, len), TAIL_START + pos),
            Tail::SetLen(len) => self.with_room(|| file.set_size(TAIL_START + len)),
        }
    }

    /// Syncs, and reports it.
    fn sync(
        &self,
        number: u64,
        sync: impl FnOnce(&File) -> Result<(), pagewell::Error>,
    ) -> Result<Result<(), Failure>, pagewell::Error> {
        let mut line = format!("synced {} {number}", self.thread);
        for done in &self.shared.done {
            // ORDERING: Acquire; see `do_op`.
            line += &format!(" {}", done.load(Ordering::Acquire));
        }
        line.push('\n');
        if !self.shared.breaks_sync {
            sync(self.shared.file)?;
        }
        Ok(report(&line))
    }
}

/// An error with what caused it.
fn describe(error: &pagewell::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn report(line: &str) -> Result<(), Failure> {
    // One system call, which a pipe takes as a whole: a line is never mixed with another thread's.
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::because("cannot report", error))
}
