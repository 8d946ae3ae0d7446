//! Backends that fail on demand.

use std::sync::Arc;

use pagewell::io::{Backend, FaultBackend, MemoryBackend};
use pagewell::{Cache, File, OpenOptions, Writeback};
pub(crate) use pagewell_crash::{EIO, ENOSPC, Script, errno};

/// Options for writing, with nothing done in the background.
pub(crate) fn manual() -> OpenOptions {
    OpenOptions::new().write().writeback(Writeback::Manual)
}

/// A file in memory with a script, open for writing.
pub(crate) fn open_scripted(
    cache: &Cache,
    bytes: &[u8],
    options: &OpenOptions,
) -> (File, Arc<FaultBackend<MemoryBackend>>, Script) {
    let script = Script::default();
    let backend = script.on(MemoryBackend::writable(bytes.to_vec()));
    let file = cache
        .open_backend_with(Arc::clone(&backend), "scripted", options)
        .expect("a writable backend");
    (file, backend, script)
}

/// All bytes of a file.
pub(crate) fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    let n = file.read_at(&mut bytes, 0).expect("a readable file");
    bytes.truncate(n);
    bytes
}

/// All bytes that the storage has, seen by another cache.
pub(crate) fn stored(backend: impl Backend) -> Vec<u8> {
    pagewell_crash::stored(backend).expect("readable")
}
