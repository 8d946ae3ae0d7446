//! Backends that fail on demand.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use pagewell::io::{Backend, Fault, FaultBackend, MemoryBackend, Operation};
use pagewell::refcount::{LockBit, RefScheme};
use pagewell::{Cache, File, OpenOptions, Writeback};

/// Options for writing, with nothing done in the background.
pub(crate) fn manual() -> OpenOptions {
    OpenOptions::new().write().writeback(Writeback::Manual)
}

/// What is to go wrong, decided anew by each test as it goes.
#[derive(Clone, Default)]
pub(crate) struct Script {
    now: Arc<Mutex<Option<Box<Decide>>>>,
}

type Decide = dyn FnMut(&Operation) -> Fault + Send;

impl Script {
    /// From now on `decide` says what becomes of each call.
    pub(crate) fn set(&self, decide: impl FnMut(&Operation) -> Fault + Send + 'static) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(decide));
    }

    /// From now on everything works.
    pub(crate) fn heal(&self) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn decide(&self, operation: &Operation) -> Fault {
        match &mut *self.now.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(decide) => decide(operation),
            None => Fault::None,
        }
    }

    /// `backend` with this script.
    pub(crate) fn on<B: Backend>(&self, backend: B) -> Arc<FaultBackend<B>> {
        let script = self.clone();
        Arc::new(FaultBackend::with_script(backend, move |operation| {
            script.decide(operation)
        }))
    }
}

/// An error of the system.
pub(crate) fn errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// EIO.
pub(crate) const EIO: i32 = 5;
/// ENOSPC.
pub(crate) const ENOSPC: i32 = 28;

/// A file in memory with a script, open for writing.
pub(crate) fn open_scripted<S: RefScheme>(
    cache: &Cache<S>,
    bytes: &[u8],
    options: &OpenOptions,
) -> (File<S>, Arc<FaultBackend<MemoryBackend>>, Script) {
    let script = Script::default();
    let backend = script.on(MemoryBackend::writable(bytes.to_vec()));
    let file = cache
        .open_backend_with(Arc::clone(&backend), "scripted", options)
        .expect("a writable backend");
    (file, backend, script)
}

/// All bytes of a file.
pub(crate) fn contents<S: RefScheme>(file: &File<S>) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    let n = file.read_at(&mut bytes, 0).expect("a readable file");
    bytes.truncate(n);
    bytes
}

/// All bytes that the storage has, seen by another cache.
pub(crate) fn stored(backend: impl Backend) -> Vec<u8> {
    let cache = crate::support::cache::<LockBit>(64);
    contents(&cache.open_backend(backend, "stored").expect("readable"))
}
