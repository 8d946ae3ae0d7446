//! What it costs to know many objects: bounded memory and mappings, one after the other and at once.
//!
//! `PAGEWELL_OBJECTS` says how many objects; 4000 by default.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use pagewell_object_store::PagewellStore;

const PAGE: usize = 4096;

/// How many bytes of memory an object takes at the most, beside the capacity. (The first thousands take more each, as heaps grow.)
const MOST_BYTES: u64 = 16 << 10;

/// How many mappings there may be more, with so many known objects. Each has one, which the kernel joins with its neighbours as long as these are there.
fn most_mappings(nr_known: u64) -> u64 {
    128 + nr_known
}

#[derive(Clone, Copy, Debug)]
struct Usage {
    resident: u64,
    mappings: u64,
}

impl Usage {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB").trim();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        Self {
            resident: kib.parse::<u64>().unwrap() * 1024,
            mappings: maps.lines().count() as u64,
        }
    }
}

fn path(nr: u64) -> Path {
    Path::from(format!("table/part-{nr:08}.parquet"))
}

/// A wrapper whose cache is full already, so that what comes is what objects take.
async fn full(
    store: &Arc<InMemory>,
    capacity: u64,
    most_objects: usize,
) -> PagewellStore<InMemory> {
    let wrapper = PagewellStore::builder(Arc::clone(store))
        .capacity(capacity)
        .page_size(PAGE)
        .most_objects(most_objects)
        .build()
        .unwrap();
    let mut stream = wrapper
        .get(&Path::from("large"))
        .await
        .unwrap()
        .into_stream();
    while let Some(bytes) = stream.next().await {
        bytes.unwrap();
    }
    wrapper
}

/// Reads each object, so many at a time, twice.
async fn read_all(wrapper: &PagewellStore<InMemory>, nr: u64, at_once: usize) {
    for _ in 0..2 {
        let reads = stream::iter(0..nr).map(|nr| {
            let wrapper = wrapper.clone();
            async move {
                let bytes = wrapper.get_range(&path(nr), 0..8).await.unwrap();
                assert!(bytes == nr.to_le_bytes()[..]);
            }
        });
        reads.buffer_unordered(at_once).collect::<()>().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "resident memory, which huge pages and the allocator change; .ci/nightly"]
async fn what_objects_cost_is_bounded() {
    let nr = match std::env::var("PAGEWELL_OBJECTS") {
        Ok(nr) => nr.parse().expect("PAGEWELL_OBJECTS is a number"),
        Err(_) => 4000_u64,
    };
    // Enough for what is known of all of them.
    let capacity = (nr * 2048).max(32 << 20);
    let store = Arc::new(InMemory::new());
    store
        .put(&Path::from("large"), vec![1; 2 * capacity as usize].into())
        .await
        .unwrap();
    for nr in 0..nr {
        let payload = nr.to_le_bytes().to_vec().into();
        store.put(&path(nr), payload).await.unwrap();
    }

    // One after the other, of which few are known: the number does not matter.
    let few = 100;
    let wrapper = full(&store, capacity, few).await;
    // The heap grows to what it needs.
    read_all(&wrapper, nr / 2, 1).await;
    let before = Usage::now();
    read_all(&wrapper, nr, 1).await;
    let after = Usage::now();
    let more = after.resident.saturating_sub(before.resident);
    println!(
        "{nr} objects one after the other, of which {few} are known: {more} bytes more; mappings \
         {} and then {}",
        before.mappings, after.mappings
    );
    assert!(
        more <= (few as u64 * MOST_BYTES).max(4 << 20),
        "{before:?} {after:?}"
    );
    assert!(
        after.mappings <= before.mappings + most_mappings(few as u64),
        "{before:?} {after:?}"
    );
    drop(wrapper);

    // At once: all of them are known in the end.
    let wrapper = full(&store, capacity, nr as usize + 1).await;
    let before = Usage::now();
    read_all(&wrapper, nr, 64).await;
    let after = Usage::now();
    let of_object = after.resident.saturating_sub(before.resident) / nr;
    println!(
        "{nr} objects known at once: {of_object} bytes an object; mappings {} and then {}",
        before.mappings, after.mappings
    );
    assert_eq!(
        wrapper.metrics().nr_opened,
        nr + 1,
        "each became known once"
    );
    assert!(of_object <= MOST_BYTES, "{before:?} {after:?}");
    assert!(
        after.mappings <= before.mappings + most_mappings(nr),
        "{before:?} {after:?}"
    );
}
