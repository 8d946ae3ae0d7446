//! Caches of others that wrap an `ObjectStore`: feature `peers`.
//!
//! Both have the same memory, the same second tier on a disk, and the same client of the store as `PagewellStore` has here. Where one of them would keep nothing with its
//! defaults, because a file of the tables is larger than what it keeps, it is told of larger ones.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use foyer::{
    BlockEngineConfig, DeviceBuilder as _, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
};
use micromegas_object_cache::backend::RangeCacheBackend;
use micromegas_object_cache::bounded_memory_backend::BoundedMemoryBackend;
use micromegas_object_cache::foyer_backend::{FoyerBackend, WriteTuning};
use micromegas_object_cache::l1_store::L1CacheStore;
use object_store::ObjectStore;
use object_store_opendal::{ObjectStoreBuilder, OpendalStore};
use opendal::Operator;
use opendal_layer_foyer::{FoyerKey, FoyerLayer, FoyerValue};

/// The largest object that foyer's disk keeps here; its default is 16 MiB, and files of the tables are larger. So are its buffers, of which with their default of 16 MiB it would
/// leave out what does not fit.
const LARGEST: usize = 128 << 20;

/// What has to be told that its process ends, so that the next one finds what was kept.
pub(crate) enum Peer {
    Foyer(HybridCache<FoyerKey, FoyerValue>),
    Micromegas(Option<Arc<FoyerBackend>>),
}

/// `opendal-layer-foyer`: whole objects.
pub(crate) async fn opendal_foyer(
    store: Arc<dyn ObjectStore>,
    capacity: u64,
    disk: Option<(&Path, u64)>,
) -> Result<(Arc<dyn ObjectStore>, Peer)> {
    let memory = HybridCacheBuilder::new()
        .memory(usize::try_from(capacity)?)
        .with_weighter(|_: &FoyerKey, value: &FoyerValue| value.len())
        .storage();
    let cache = match disk {
        None => memory.build().await?,
        Some((folder, bytes)) => {
            let device = FsDeviceBuilder::new(folder)
                .with_capacity(usize::try_from(bytes)?)
                .with_direct(true)
                .build()?;
            let engine = BlockEngineConfig::new(device)
                .with_block_size(LARGEST)
                .with_buffer_pool_size(2 * LARGEST)
                .with_submit_queue_size_threshold(4 * LARGEST);
            memory.with_engine_config(engine).build().await?
        }
    };
    let operator = Operator::new(ObjectStoreBuilder::new(store))?;
    let operator = operator.layer(FoyerLayer::new(cache.clone()));
    Ok((Arc::new(OpendalStore::new(operator)), Peer::Foyer(cache)))
}

/// `micromegas-object-cache`: blocks of 1 MiB.
pub(crate) async fn micromegas(
    store: Arc<dyn ObjectStore>,
    capacity: u64,
    disk: Option<(&Path, u64)>,
) -> Result<(Arc<dyn ObjectStore>, Peer)> {
    let capacity = usize::try_from(capacity)?;
    let mut on_disk = None;
    let backend: Arc<dyn RangeCacheBackend> = match disk {
        None => Arc::new(BoundedMemoryBackend::new(capacity)),
        Some((folder, bytes)) => {
            let folder = folder.to_str().context("a folder whose name is no text")?;
            let bytes = usize::try_from(bytes)?;
            // What waits to be written when the process ends is all that was fetched.
            let tuning = WriteTuning {
                buffer_pool_bytes: 2 * LARGEST,
                submit_queue_threshold_bytes: 4 * LARGEST,
                ..WriteTuning::default()
            };
            let labels = Arc::from(Vec::new());
            let backend =
                FoyerBackend::new_with_shards(folder, capacity, bytes, 8, tuning, labels).await?;
            let backend = Arc::new(backend);
            on_disk = Some(Arc::clone(&backend));
            backend
        }
    };
    let store = L1CacheStore::new(store, backend, "tables".into());
    Ok((Arc::new(store), Peer::Micromegas(on_disk)))
}

impl Peer {
    /// Writes what the next process finds.
    pub(crate) async fn close(self) -> Result<()> {
        match self {
            Self::Foyer(cache) => cache.close().await?,
            Self::Micromegas(Some(backend)) => backend.close().await?,
            Self::Micromegas(None) => {}
        }
        Ok(())
    }
}
