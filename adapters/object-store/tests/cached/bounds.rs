//! Limits of an answer: one state of the object, and the ranges and requests of the bare store.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Extensions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _,
};
use pagewell_object_store::PagewellStore;

use crate::disk::{opened_with, written};
use crate::probe::Probe;
use crate::{PAGE, content, same};

/// Length of the pieces in which a long answer is streamed.
const PIECE: usize = 4 << 20;

fn store<T: ObjectStore>(store: &Arc<T>) -> PagewellStore<T> {
    PagewellStore::builder(Arc::clone(store))
        .capacity(48 << 20)
        .trust(Duration::MAX)
        .build()
        .unwrap()
}

/// After the first piece of the old state, each further get failed until the trust ended: the
/// stream did not forget the state.
#[tokio::test]
async fn a_stream_over_a_replaced_object_is_of_one_state_and_the_next_get_of_the_new_one() {
    type Describe = fn(&mut ObjectMeta);
    let with_tags: Describe = |_| {};
    let with_weak_tags: Describe = |meta| meta.e_tag = Some("W/\"weak\"".into());
    let with_times: Describe = |meta| meta.e_tag = None;
    let path = Path::from("a");
    let old = content(5 * PIECE + 100, 1);
    for describe in [with_tags, with_weak_tags, with_times] {
        for (nr_pieces, len) in [
            (1, old.len()),
            (1, PIECE + 1),
            (2, old.len()),
            (4, old.len()),
        ] {
            let new = content(len, 2);
            let probe = Probe::describing(move |_, meta| describe(meta));
            probe.inner.put(&path, old.clone().into()).await.unwrap();
            let store = store(&probe);
            let mut stream = store.get(&path).await.unwrap().into_stream();
            let mut got = Vec::new();
            for _ in 0..nr_pieces {
                got.extend_from_slice(&stream.next().await.unwrap().unwrap());
            }
            probe.inner.put(&path, new.clone().into()).await.unwrap();
            let mut has_failed = false;
            while let Some(bytes) = stream.next().await {
                match bytes {
                    Ok(bytes) => got.extend_from_slice(&bytes),
                    Err(error) => {
                        let is_of_change =
                            matches!(error, object_store::Error::Precondition { .. });
                        assert!(is_of_change, "{error:?}");
                        has_failed = true;
                    }
                }
            }
            assert!(same(&got, &old[..got.len()]), "a mixture of two states");
            assert!(has_failed || got.len() == old.len());
            if has_failed {
                let next = store.get(&path).await.unwrap().bytes().await.unwrap();
                assert!(same(next, &new));
            }
            // Two pieces are requested ahead, so only the last ones had been received before.
            assert!(has_failed || nr_pieces == 4);
        }
    }
}

#[tokio::test]
async fn empty_ranges_and_ranges_past_the_end_are_answered_as_by_the_bare_store() {
    // `InMemory` has a `get_ranges` of its own, `Probe` has the default one.
    let memory = Arc::new(InMemory::new());
    ranges_are_answered_as_by(&memory, &memory).await;
    let probe = Probe::new();
    ranges_are_answered_as_by(&probe, &probe.inner).await;
}

async fn ranges_are_answered_as_by<T: ObjectStore>(bare: &Arc<T>, inner: &InMemory) {
    let (full, empty, missing) = (Path::from("full"), Path::from("empty"), Path::from("none"));
    let size = 200_000_u64;
    let bytes = content(size as usize, 3);
    inner.put(&full, bytes.into()).await.unwrap();
    inner.put(&empty, "".into()).await.unwrap();
    let lists: &[&[(u64, u64)]] = &[
        &[],
        &[(0, 0)],
        &[(5, 5)],
        &[(0, 5), (3, 3)],
        &[(3, 3), (0, 5)],
        &[(0, 5), (100_000, 100_000), (70_000, 90_000)],
        &[(size, size)],
        &[(0, 5), (size, size)],
        &[(size + 1, size + 1)],
        &[(size, size + 1)],
        &[(size + 1, size + 9)],
        &[(size - 1, size + 9)],
        &[(0, 5), (size - 1, size + 9)],
        &[(0, 2 * size)],
        &[(0, u64::MAX)],
        &[(u64::MAX - 1, u64::MAX)],
        &[(u64::MAX, u64::MAX)],
        &[(7, 3)],
        &[(0, 10), (5, 20), (5, 20), (150_000, 160_000)],
    ];
    for path in [full, empty, missing] {
        for list in lists {
            let ranges: Vec<_> = list.iter().map(|(start, end)| *start..*end).collect();
            let expected = bare.get_ranges(&path, &ranges).await;
            let store = store(bare);
            // The object is not known before the first call.
            for _ in 0..2 {
                let got = store.get_ranges(&path, &ranges).await;
                match (&got, &expected) {
                    (Ok(got), Ok(expected)) => assert!(got == expected, "{path} {ranges:?}"),
                    (Err(_), Err(_)) => {}
                    _ => panic!("{path} {ranges:?}: {got:?} instead of {expected:?}"),
                }
            }
        }
    }
}

/// The default `get_ranges` of `object_store` panics for these ranges.
#[tokio::test]
async fn ranges_past_the_end_beside_others_fail() {
    let probe = Probe::new();
    let (path, size) = (Path::from("a"), 200_000);
    probe
        .inner
        .put(&path, content(size, 3).into())
        .await
        .unwrap();
    let (store, size) = (store(&probe), size as u64);
    let reversed = Range { start: 7, end: 3 };
    for past in [size + 5..size + 6, size + 5..size + 5, reversed] {
        for ranges in [[0..10, past.clone()], [past.clone(), 0..10]] {
            let got = store.get_ranges(&path, &ranges).await;
            assert!(got.is_err(), "{ranges:?}: {got:?}");
        }
    }
}

#[derive(Clone, Debug)]
struct Reader(u32);

/// A get of `range` with an extension.
fn of_reader(nr: u32, range: Option<GetRange>) -> GetOptions {
    let mut extensions = Extensions::new();
    extensions.insert(Reader(nr));
    let options = GetOptions::default().with_range(range);
    options.with_extensions(extensions)
}

/// The readers of all gets and heads since the last call.
fn take_readers(probe: &Probe) -> Vec<Option<u32>> {
    let reader = |get: &GetOptions| get.extensions.get::<Reader>().map(|reader| reader.0);
    probe.take_gets().iter().map(reader).collect()
}

#[tokio::test]
async fn requests_have_the_extensions_of_their_get() {
    let probe = Probe::new();
    let (path, bytes) = (Path::from("a"), content(5 * PIECE, 5));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let store = PagewellStore::builder(Arc::clone(&probe))
        .capacity(48 << 20)
        .trust(Duration::ZERO)
        .build()
        .unwrap();
    let get = |nr, range| store.get_opts(&path, of_reader(nr, range));
    let got = get(1, None).await.unwrap().bytes().await.unwrap();
    assert!(same(got, &bytes));
    let readers = take_readers(&probe);
    assert!(readers.len() >= 3, "{readers:?}");
    assert!(
        readers.iter().all(|reader| *reader == Some(1)),
        "{readers:?}"
    );
    // Checks the object.
    get(2, Some((0..10).into())).await.unwrap();
    assert_eq!(take_readers(&probe), [Some(2)]);
    // Checks it, and requests the range.
    let size = bytes.len() as u64;
    get(3, Some((size..size + 1).into())).await.unwrap_err();
    assert_eq!(take_readers(&probe), [Some(3), Some(3)]);
    store.get_range(&path, 0..10).await.unwrap();
    assert_eq!(take_readers(&probe), [None]);
}

#[tokio::test]
async fn a_request_for_several_gets_has_the_extensions_of_the_first_in_the_object() {
    let probe = Probe::new();
    let (path, bytes) = (Path::from("a"), content(2 * PIECE, 5));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let store = store(&probe);
    store.get_range(&path, 0..1).await.unwrap();
    probe.take_gets();
    // Pages of 64 KiB.
    let get = |nr, page: u64| {
        let range = page * 65536..(page + 1) * 65536;
        store.get_opts(&path, of_reader(nr, Some(range.into())))
    };
    let (one, two) = tokio::join!(get(1, 5), get(2, 4));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(take_readers(&probe), [Some(2)]);
    let (one, two) = tokio::join!(get(1, 20), get(2, 90));
    assert!(one.is_ok() && two.is_ok());
    let mut readers = take_readers(&probe);
    readers.sort();
    assert_eq!(readers, [Some(1), Some(2)]);
}

/// All reads from the disk were queued for the threads for blocking calls at once.
#[test]
fn reads_from_the_disk_leave_threads_to_other_calls() {
    const NR_READS: usize = 200;
    const READ: usize = 16 * PAGE;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let (probe, dir) = (Probe::new(), tempfile::tempdir().unwrap());
        let (path, bytes) = (Path::from("a"), content(NR_READS * READ, 6));
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        let first = opened_with(&probe, dir.path(), Some("store"), 32 << 20).await;
        for start in (0..bytes.len()).step_by(READ) {
            let range = start as u64..(start + READ) as u64;
            first.get_range(&path, range.clone()).await.unwrap();
            written(&first, range.end).await;
        }
        drop(first);
        let second = opened_with(&probe, dir.path(), Some("store"), 32 << 20).await;
        second.get_range(&path, 0..1).await.unwrap();
        // The only thread waits, while calls are queued.
        let (gate, is_open) = std::sync::mpsc::channel::<()>();
        let waiter = tokio::task::spawn_blocking(move || is_open.recv());
        let store = second.clone();
        let reader = tokio::spawn(async move {
            let reads = (0..NR_READS).map(|nr| {
                let range = (nr * READ) as u64..((nr + 1) * READ) as u64;
                store.get_range(&path, range)
            });
            try_join_all(reads).await
        });
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        let store = second.clone();
        let other = tokio::task::spawn_blocking(move || store.metrics().bytes_from_disk);
        drop(gate);
        assert!(waiter.await.unwrap().is_err());
        // The calls are executed in their order.
        let bytes_before = other.await.unwrap();
        assert!(
            (1..=32 * READ as u64).contains(&bytes_before),
            "{bytes_before}"
        );
        assert!(same(reader.await.unwrap().unwrap().concat(), &bytes));
        let metrics = second.metrics();
        assert!(metrics.bytes_from_disk >= 8 << 20, "{metrics:?}");
    });
}

#[tokio::test]
async fn the_tables_of_the_second_tier_are_part_of_the_capacity() {
    let memory = Arc::new(InMemory::new());
    let builder = |capacity| {
        let builder = PagewellStore::builder(Arc::clone(&memory));
        builder.page_size(PAGE).capacity(capacity)
    };
    let least = (1..)
        .map(|nr| nr * 4096)
        .find(|capacity| builder(*capacity).build().is_ok())
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let with_tier = |capacity| builder(capacity).disk(dir.path(), 64 * PAGE as u64).build();
    // The cache gets what the tables leave.
    let error = with_tier(least).unwrap_err().to_string();
    assert!(error.contains("capacity"), "{error}");
    drop(with_tier(least + (64 << 10)).unwrap());
}

#[tokio::test]
async fn a_second_tier_whose_tables_exceed_half_of_the_capacity_is_refused() {
    let memory = Arc::new(InMemory::new());
    let dir = tempfile::tempdir().unwrap();
    let builder = |bytes| {
        let builder = PagewellStore::builder(Arc::clone(&memory)).page_size(PAGE);
        builder.capacity(4 << 20).disk(dir.path(), bytes)
    };
    let cache = pagewell::Cache::builder()
        .capacity(4 << 20)
        .build()
        .unwrap();
    for refused in [builder(1 << 30), builder(1 << 30).cache(cache.clone())] {
        let error = refused.build().unwrap_err().to_string();
        assert!(error.contains("more than half of the capacity"), "{error}");
        assert!(!dir.path().join("pages").exists());
    }
    for accepted in [builder(64 << 20), builder(64 << 20).cache(cache)] {
        drop(accepted.build().unwrap());
    }
}
