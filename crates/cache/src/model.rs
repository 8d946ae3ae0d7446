//! Caches and files for the models of higher crates, without the public handles.

use std::sync::Arc;

use pagewell_frame::{FramePool, HugePages, Nodes, PoolConfig};
use pagewell_io::MemoryBackend;

use crate::dirty::commits::Sync as What;
use crate::dirty::handles::Handle;
use crate::dirty::writes::{Access, WriteOptions};
use crate::files::opened::Opened;
use crate::files::serve::files_of;
use crate::files::state::Files;
use crate::read::reader::{ReadPath, Reader};
use crate::spaces::frames::CacheFrames;
use crate::spaces::mapped::MappedFile;
use crate::supply::reclaim::reclaimer::Reclaimer;
use crate::write::growth::{Grower, Writer};
use crate::writeback::flush::Flusher;

/// Cache of a model.
#[derive(Clone, Debug)]
pub struct ModelCache {
    files: Arc<Files>,
}

/// File of a cache, open for writing. Its operations panic on errors.
#[derive(Clone, Debug)]
pub struct ModelFile {
    mapping: Opened,
}

impl ModelCache {
    /// Creates a cache of `nr_frames` frames on `nr_nodes` nodes.
    pub fn new(nr_frames: usize, nr_nodes: usize) -> Self {
        let mut config = PoolConfig::new(nr_frames);
        config.nodes = Nodes::Unbound(nr_nodes);
        config.huge_pages = HugePages::System;
        let pool = FramePool::new(&config).expect("a small pool");
        Self {
            files: files_of(pool),
        }
    }

    /// Returns the cache's frames.
    pub fn frames(&self) -> CacheFrames {
        CacheFrames::new(Arc::clone(&self.files))
    }

    /// Opens a file with these bytes.
    pub fn file(&self, bytes: Vec<u8>) -> ModelFile {
        let backend = MemoryBackend::writable(bytes);
        let access = Access::Write(WriteOptions::default());
        let mapping = Opened::simple(&self.files, backend, access);
        ModelFile { mapping }
    }

    /// Evicts all pages that can be evicted.
    pub fn evict_all(&self) {
        Reclaimer(self.files.supply()).evict_pages(usize::MAX);
    }
}

impl ModelFile {
    /// Returns a handle for a space.
    pub fn mapped(&self) -> MappedFile {
        MappedFile::new(self.mapping.clone(), Handle::Write)
    }

    /// Writes `bytes` from `pos` on.
    pub fn write(&self, pos: u64, bytes: &[u8]) {
        let nr = Writer(&self.mapping).write_bytes(bytes, pos, 0);
        assert_eq!(nr.expect("a writable page"), bytes.len());
    }

    /// Reads the whole file.
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.mapping.size() as usize];
        let read =
            Reader(&self.mapping).read_pages(&mut bytes, 0, ReadPath::Optimistic, |_, left| left);
        assert_eq!(read.expect("readable pages"), bytes.len());
        bytes
    }

    /// Sets the size of the file.
    pub fn resize(&self, size: u64) {
        Grower(&self.mapping).resize(size).expect("a legal size");
    }

    /// Makes everything durable.
    pub fn sync(&self) {
        Flusher(&self.mapping)
            .sync(What::Data)
            .expect("a healthy storage");
    }
}
