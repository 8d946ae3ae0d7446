//! What the tests of backends share.

#![allow(dead_code)] // Not every test needs all of it.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pagewell_io::Backend;
use pagewell_io::engine::{
    Completion, Engine, Request, Span, SyncEngine, WorkerEngine, WorkerSettings,
};
use pagewell_sync::bytes::{RacyBytes, RacySource};

/// What buffers hold before a read, to see what it has touched.
pub(crate) const UNTOUCHED: u8 = 0xA5;

/// `len` bytes, none of them zero or [`UNTOUCHED`].
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 31 + i / 251) as u8 % 120 + 1)
        .collect()
}

/// Memory for one transfer: buffers of these lengths, one after the other in one allocation.
pub(crate) struct Buffers {
    words: Vec<AtomicU64>,
    lens: Vec<usize>,
}

impl Buffers {
    pub(crate) fn new(lens: &[usize]) -> Self {
        let total: usize = lens.iter().sum();
        let untouched = u64::from_ne_bytes([UNTOUCHED; 8]);
        Self {
            words: (0..total.div_ceil(8))
                .map(|_| AtomicU64::new(untouched))
                .collect(),
            lens: lens.to_vec(),
        }
    }

    /// Buffers with these bytes, cut by `lens`.
    pub(crate) fn with_bytes(lens: &[usize], bytes: &[u8]) -> Self {
        let buffers = Self::new(lens);
        assert_eq!(buffers.racy().len(), bytes.len());
        buffers.racy().copy_from(0, bytes);
        buffers
    }

    fn racy(&self) -> RacyBytes<'_> {
        let total = self.lens.iter().sum();
        let start = NonNull::from(&*self.words).cast::<u8>();
        // SAFETY: (a) the words are atomics that live as long as the borrow; (b) nothing but backends,
        // through racy bytes, and the system writes them.
        unsafe { RacyBytes::new(start, total) }
    }

    pub(crate) fn sources(&self) -> Vec<RacySource<'_>> {
        self.list().into_iter().map(RacySource::from).collect()
    }

    pub(crate) fn list(&self) -> Vec<RacyBytes<'_>> {
        let all = self.racy();
        let mut start = 0;
        self.lens
            .iter()
            .map(|len| {
                start += len;
                all.slice(start - len, *len)
            })
            .collect()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let all = self.racy();
        let mut bytes = vec![0; all.len()];
        all.copy_to(0, &mut bytes);
        bytes
    }
}

/// Reads into buffers of `lens` from `pos` on, and checks that exactly what `file` has there comes.
#[track_caller]
pub(crate) fn assert_reads(
    name: &str,
    backend: &dyn Backend,
    file: &[u8],
    pos: u64,
    lens: &[usize],
) {
    let buffers = Buffers::new(lens);
    let n = backend
        .read_at(&buffers.list(), pos)
        .unwrap_or_else(|error| panic!("{name}: {lens:?} from {pos} on: {error}"));
    let total: usize = lens.iter().sum();
    let start = usize::try_from(pos).map_or(file.len(), |pos| pos.min(file.len()));
    let expected = &file[start..][..total.min(file.len() - start)];
    assert_eq!(n, expected.len(), "{name}: {lens:?} from {pos} on");
    let bytes = buffers.bytes();
    assert_eq!(bytes[..n], *expected, "{name}: {lens:?} from {pos} on");
    assert!(
        // A direct read of the block that has the end may leave zeros.
        bytes[n..].iter().all(|&b| b == UNTOUCHED || b == 0),
        "{name}: bytes after the end of the file"
    );
}

/// Writes `bytes` from `pos` on, as one buffer.
pub(crate) fn write(
    backend: &(impl Backend + ?Sized),
    pos: u64,
    bytes: &[u8],
) -> std::io::Result<()> {
    let buffers = Buffers::with_bytes(&[bytes.len()], bytes);
    backend.write_at(&buffers.sources(), pos)
}

/// All bytes of the file.
pub(crate) fn read_all(backend: &(impl Backend + ?Sized)) -> Vec<u8> {
    let size = usize::try_from(backend.size().unwrap()).unwrap();
    let buffers = Buffers::new(&[size]);
    assert_eq!(backend.read_at(&buffers.list(), 0).unwrap(), size);
    buffers.bytes()
}

/// Random decisions that a seed repeats.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }
}

/// Memory of requests, which share it with the test; aligned to a page.
pub(crate) struct Memory {
    words: Vec<AtomicU64>,
    start: usize,
    len: usize,
}

/// Completion that claims not to block.
struct Prompt<F> {
    done: F,
    _memory: Arc<Memory>,
}

impl<F: FnOnce(io::Result<usize>) + Send + 'static> Completion for Prompt<F> {
    fn is_prompt(&self) -> bool {
        true
    }

    fn complete(self: Box<Self>, result: io::Result<usize>) {
        (self.done)(result);
    }
}

impl Memory {
    /// `len` bytes, all [`UNTOUCHED`].
    pub(crate) fn new(len: usize) -> Arc<Self> {
        let untouched = u64::from_ne_bytes([UNTOUCHED; 8]);
        let words: Vec<_> = (0..(len + 4096).div_ceil(8) + 1)
            .map(|_| AtomicU64::new(untouched))
            .collect();
        let address = words.as_ptr().addr();
        Arc::new(Self {
            start: address.next_multiple_of(4096) - address,
            words,
            len,
        })
    }

    pub(crate) fn with_bytes(bytes: &[u8]) -> Arc<Self> {
        let memory = Self::new(bytes.len());
        memory.racy().copy_from(0, bytes);
        memory
    }

    pub(crate) fn racy(&self) -> RacyBytes<'_> {
        let start = NonNull::from(&*self.words).cast::<u8>();
        // SAFETY: as in `Buffers::racy`.
        let all = unsafe { RacyBytes::new(start, self.words.len() * 8) };
        all.slice(self.start, self.len)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.racy().copy_to(0, &mut bytes);
        bytes
    }

    /// The memory in parts of these lengths.
    fn spans(&self, lens: &[usize]) -> Vec<Span> {
        let mut start = 0;
        lens.iter()
            .map(|len| {
                start += len;
                self.racy().slice(start - len, *len).into()
            })
            .collect()
    }

    /// A read into the memory, in parts of these lengths; it keeps the memory, and tells `done`.
    pub(crate) fn read(
        self: &Arc<Self>,
        pos: u64,
        lens: &[usize],
        done: impl FnOnce(io::Result<usize>) + Send + 'static,
    ) -> Request {
        let memory = Arc::clone(self);
        let completion = Box::new(move |result| {
            done(result);
            drop(memory);
        });
        // SAFETY: (a) the completion keeps the memory; (b) only racy bytes look at it.
        unsafe { Request::read(pos, self.spans(lens), completion) }
    }

    /// As [`read`](Self::read), completed by the thread with the ring, if there is one.
    pub(crate) fn read_promptly(
        self: &Arc<Self>,
        pos: u64,
        lens: &[usize],
        done: impl FnOnce(io::Result<usize>) + Send + 'static,
    ) -> Request {
        let completion = Box::new(Prompt {
            done,
            _memory: Arc::clone(self),
        });
        // SAFETY: (a) the completion keeps the memory; (b) only racy bytes look at it.
        unsafe { Request::read(pos, self.spans(lens), completion) }
    }

    /// A write of all of the memory, as for a read.
    pub(crate) fn write(
        self: &Arc<Self>,
        pos: u64,
        lens: &[usize],
        done: impl FnOnce(io::Result<usize>) + Send + 'static,
    ) -> Request {
        let memory = Arc::clone(self);
        let completion = Box::new(move |result| {
            done(result);
            drop(memory);
        });
        // SAFETY: (a) the completion keeps the memory.
        unsafe { Request::write(pos, self.spans(lens), completion) }
    }
}

/// Every kind of engine that there is here, with few and with many resources.
pub(crate) fn engines() -> Vec<(&'static str, Arc<dyn Engine>)> {
    let few = WorkerSettings {
        threads: 4,
        per_storage: 2,
        ..WorkerSettings::default()
    };
    let mut engines: Vec<(&str, Arc<dyn Engine>)> = vec![
        ("sync", Arc::new(SyncEngine::new())),
        (
            "workers",
            Arc::new(WorkerEngine::new(WorkerSettings::default())),
        ),
        ("few workers", Arc::new(WorkerEngine::new(few))),
    ];
    engines.extend(rings());
    engines
}

/// The engines that use io_uring, if the system lets them.
pub(crate) fn rings() -> Vec<(&'static str, Arc<dyn Engine>)> {
    use pagewell_io::engine::{UringEngine, UringSettings};

    let usual = UringSettings::default();
    let small = UringSettings {
        depth: 8,
        per_storage: 3,
        ..usual
    };
    let mut engines: Vec<(&str, Arc<dyn Engine>)> = Vec::new();
    for (name, settings) in [("ring", usual), ("small ring", small)] {
        match UringEngine::new(settings, WorkerSettings::default()) {
            Ok(engine) => engines.push((name, Arc::new(engine))),
            Err(refusal) => pagewell_testkit::skip::skipped(&format!("{name}: {refusal}")),
        }
    }
    engines
}
