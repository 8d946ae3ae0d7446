//! The wrapper over stores in memory: as a store, under faults, under changes behind it, against
//! the bare store.

mod bounds;
mod changes;
mod contract;
mod disk;
mod faults;
mod histories;
mod identity;
mod lifetimes;
mod misses;
mod openings;
mod permits;
mod probe;
mod restart;
mod servers;
mod storms;

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;

/// The smallest page, and that of most tests.
const PAGE: usize = 4096;

/// Whether both are the same bytes: too many to be listed when they are not.
fn same(a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) -> bool {
    a.as_ref() == b.as_ref()
}

/// A wrapper of 16 MiB.
fn cached<T: ObjectStore>(store: &Arc<T>, trust: Duration) -> PagewellStore<T> {
    let builder = PagewellStore::builder(Arc::clone(store));
    let builder = builder.capacity(16 << 20).page_size(PAGE).trust(trust);
    builder.build().unwrap()
}

async fn read<T: ObjectStore>(store: &T, path: &Path) -> Vec<u8> {
    let bytes = store.get(path).await.unwrap().bytes().await;
    bytes.unwrap().to_vec()
}

/// Reads an object by one request for its first page, and others for the rest.
async fn read_in_two<T: ObjectStore>(store: &PagewellStore<T>, path: &Path) -> Vec<u8> {
    store.get_range(path, 0..1).await.unwrap();
    read(store, path).await
}

/// Bytes that differ from place to place.
fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|nr| (nr / 7) as u8 ^ (nr % 251) as u8 ^ seed)
        .collect()
}
