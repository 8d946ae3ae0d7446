//! Requests of misses. Hits cause none.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;
use tokio::sync::Semaphore;

use crate::probe::{Act, Probe};
use crate::{PAGE, content, same};

async fn filled(len: usize) -> (Arc<Probe>, PagewellStore<Probe>, Path, Vec<u8>) {
    let probe = Probe::new();
    let store = PagewellStore::builder(Arc::clone(&probe))
        .capacity(16 << 20)
        .page_size(PAGE)
        .build()
        .unwrap();
    let (path, bytes) = (Path::from("a/b"), content(len, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    (probe, store, path, bytes)
}

#[tokio::test]
async fn the_first_read_is_one_request_for_whole_pages_and_the_second_is_none() {
    let (probe, store, path, bytes) = filled(10 * PAGE + 100).await;
    let range = PAGE as u64 + 10..3 * PAGE as u64 - 5;
    for _ in 0..2 {
        let got = store.get_range(&path, range.clone()).await.unwrap();
        assert!(same(got, &bytes[range.start as usize..range.end as usize]));
    }
    assert_eq!(probe.ranges(), [Some(PAGE as u64..3 * PAGE as u64)]);
    let metrics = store.metrics();
    assert_eq!(
        (metrics.nr_requests, metrics.nr_opened, metrics.nr_reads),
        (1, 1, 2)
    );
    assert_eq!(metrics.bytes_fetched, 2 * PAGE as u64);
}

#[tokio::test]
async fn a_store_of_no_particular_type_is_wrapped_as_it_is() {
    /// As a caller with a type parameter wraps.
    fn wrap<T: ObjectStore>(store: Arc<T>) -> PagewellStore<T> {
        PagewellStore::builder(store).build().unwrap()
    }
    let probe = Probe::new();
    let any: Arc<dyn ObjectStore> = probe.clone();
    let builder = PagewellStore::builder(Arc::clone(&any)).page_size(PAGE);
    let store: PagewellStore<dyn ObjectStore> = builder.build().unwrap();
    assert!(Arc::ptr_eq(store.inner(), &any));
    assert_eq!(store.to_string(), wrap(Arc::clone(&probe)).to_string());
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    store.put(&path, bytes.clone().into()).await.unwrap();
    for store in [&store, &store.clone()] {
        let got = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert!(same(got, &bytes));
    }
    assert_eq!(probe.nr_gets(), 1, "{:?}", probe.ranges());
    // It is a store, and can be wrapped as any other.
    let twice = wrap(Arc::new(store));
    let got = twice.get(&path).await.unwrap().bytes().await.unwrap();
    assert!(same(got, &bytes));
    assert_eq!(probe.nr_gets(), 1, "{:?}", probe.ranges());
}

#[tokio::test]
async fn the_end_of_an_object_is_found_by_suffixes_and_ranges_past_it() {
    let (probe, store, path, bytes) = filled(3 * PAGE + 77).await;
    let get = |range: GetRange| {
        let options = GetOptions::default().with_range(Some(range));
        async { store.get_opts(&path, options).await?.bytes().await }
    };
    assert!(same(
        get(GetRange::Suffix(8)).await.unwrap(),
        &bytes[bytes.len() - 8..]
    ));
    assert!(same(
        get(GetRange::Suffix(70)).await.unwrap(),
        &bytes[bytes.len() - 70..]
    ));
    assert_eq!(probe.nr_gets(), 1, "{:?}", probe.ranges());
    assert!(same(
        get(GetRange::Suffix(PAGE as u64)).await.unwrap(),
        &bytes[bytes.len() - PAGE..]
    ));
    assert_eq!(probe.nr_gets(), 2, "{:?}", probe.ranges());
    let past = 3 * PAGE as u64..u64::MAX / 2;
    assert!(same(
        get(GetRange::Bounded(past)).await.unwrap(),
        &bytes[3 * PAGE..]
    ));
    assert!(same(get(GetRange::Offset(5)).await.unwrap(), &bytes[5..]));
    assert!(same(
        store.get(&path).await.unwrap().bytes().await.unwrap(),
        bytes
    ));
    // What there is no such range of, the store itself says.
    let bare = probe
        .inner
        .get_range(&path, 1 << 20..2 << 20)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        store
            .get_range(&path, 1 << 20..2 << 20)
            .await
            .unwrap_err()
            .to_string(),
        bare
    );
    assert!(store.get_range(&path, 5..5).await.is_err());
}

#[tokio::test]
async fn empty_objects_are_empty() {
    let (_, store, path, _) = filled(0).await;
    assert!(
        store
            .get(&path)
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.get_range(&path, 0..1).await.is_err());
    assert!(
        store
            .get(&path)
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_want_one_page_make_one_request() {
    let (probe, store, path, bytes) = filled(64 * PAGE).await;
    // Known before, or the request that makes it known would be the one.
    store.get_range(&path, 0..10).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    probe.script(move |_, _| Act::Wait(Arc::clone(&waits)));
    let range = 40 * PAGE as u64..40 * PAGE as u64 + 2000;
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let (store, path, range) = (store.clone(), path.clone(), range.clone());
            tokio::spawn(async move { store.get_range(&path, range).await.unwrap() })
        })
        .collect();
    while probe.nr_gets() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A reader that goes away stops nothing.
    readers[0].abort();
    gate.add_permits(100);
    for reader in readers.into_iter().skip(1) {
        assert!(same(
            reader.await.unwrap(),
            &bytes[range.start as usize..range.end as usize]
        ));
    }
    assert_eq!(probe.nr_gets(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_want_an_unknown_object_open_it_once() {
    let (probe, store, path, bytes) = filled(5 * PAGE).await;
    let readers: Vec<_> = (0..20)
        .map(|nr| {
            let (store, path) = (store.clone(), path.clone());
            tokio::spawn(
                async move { store.get_range(&path, nr * 10..nr * 10 + 10).await.unwrap() },
            )
        })
        .collect();
    for (nr, reader) in readers.into_iter().enumerate() {
        assert!(same(reader.await.unwrap(), &bytes[nr * 10..nr * 10 + 10]));
    }
    assert_eq!((probe.nr_gets(), store.metrics().nr_opened), (1, 1));
}

#[tokio::test]
async fn ranges_of_one_call_are_merged_as_far_as_that_pays() {
    let (probe, store, path, bytes) = filled(400 * PAGE).await;
    store.get_range(&path, 0..1).await.unwrap();
    probe.script(|_, _| Act::Pass);
    let page = PAGE as u64;
    // Two that adjoin, one after a gap of a page, which is little beside them; one far away.
    let ranges = [
        10 * page..30 * page,
        30 * page..50 * page,
        51 * page..60 * page,
        300 * page..301 * page,
    ];
    let got = store.get_ranges(&path, &ranges).await.unwrap();
    for (range, got) in ranges.iter().zip(got) {
        assert!(same(got, &bytes[range.start as usize..range.end as usize]));
    }
    let mut requested = probe.ranges();
    requested.sort_by_key(|range| range.as_ref().map(|range| range.start));
    assert_eq!(
        requested,
        [Some(10 * page..60 * page), Some(300 * page..301 * page)]
    );
    assert!(store.metrics().nr_merged >= 2, "{:?}", store.metrics());
}

#[tokio::test]
async fn what_is_given_without_a_copy_is_bounded() {
    let (probe, store, path, bytes) = filled(64 * PAGE).await;
    let few = PagewellStore::builder(Arc::clone(&probe))
        .capacity(16 << 20)
        .page_size(PAGE)
        .most_pinned(3 * PAGE as u64)
        .build()
        .unwrap();
    let page = |nr: u64| nr * PAGE as u64..(nr + 1) * PAGE as u64;
    let mut kept = Vec::new();
    for nr in 0..5 {
        kept.push(few.get_range(&path, page(nr)).await.unwrap());
    }
    assert_eq!(
        (few.metrics().nr_pinned, few.metrics().nr_copied_at_bound),
        (3, 2)
    );
    drop(few.clone());
    kept.remove(0);
    kept.push(few.get_range(&path, page(9)).await.unwrap());
    assert_eq!(few.metrics().nr_pinned, 4);
    // They outlive the store.
    drop((few, store));
    for (bytes_of, nr) in kept.iter().zip([1, 2, 3, 4, 9]) {
        assert!(same(bytes_of, &bytes[nr * PAGE..(nr + 1) * PAGE]));
    }
}

#[tokio::test]
async fn a_long_object_streams_through_a_small_cache() {
    let probe = Probe::new();
    let store = PagewellStore::builder(Arc::clone(&probe))
        .capacity(2 << 20)
        .page_size(64 << 10)
        .build()
        .unwrap();
    let (path, bytes) = (Path::from("long"), content(40 << 20, 3));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    for _ in 0..2 {
        assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == bytes);
    }
}

#[tokio::test]
async fn known_objects_are_bounded() {
    let probe = Probe::new();
    let store = PagewellStore::builder(Arc::clone(&probe))
        .capacity(16 << 20)
        .page_size(PAGE)
        .most_objects(10)
        .build()
        .unwrap();
    for nr in 0..100_u8 {
        let path = Path::from(format!("{nr}"));
        probe.inner.put(&path, vec![nr; 100].into()).await.unwrap();
        assert_eq!(
            store.get_range(&path, 5..9).await.unwrap(),
            [nr; 4].as_slice()
        );
    }
    assert!(format!("{store:?}").contains("objects: 10"), "{store:?}");
    probe.script(|_, _| Act::Pass);
    assert_eq!(
        store.get_range(&"99".into(), 5..9).await.unwrap(),
        [99; 4].as_slice()
    );
    assert_eq!(probe.nr_gets(), 0);
    assert_eq!(
        store.get_range(&"5".into(), 5..9).await.unwrap(),
        [5; 4].as_slice()
    );
    assert_eq!(probe.nr_gets(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_forgotten_when_what_is_known_of_them_takes_all_memory() {
    let nr = 3000_u64;
    let probe = Probe::new();
    let path = |nr: u64| Path::from(format!("part-{nr}"));
    for nr in 0..nr {
        let payload = nr.to_le_bytes().to_vec().into();
        probe.inner.put(&path(nr), payload).await.unwrap();
    }
    let store = PagewellStore::builder(probe)
        .capacity(1 << 20)
        .page_size(PAGE)
        .most_objects(1 << 20)
        .build()
        .unwrap();
    for at_once in [1, 16] {
        let reads = stream::iter(0..nr).map(|nr| {
            let store = store.clone();
            async move {
                let bytes = store.get_range(&path(nr), 0..8).await.unwrap();
                assert!(bytes == nr.to_le_bytes()[..]);
            }
        });
        reads.buffer_unordered(at_once).collect::<()>().await;
    }
    assert!(store.metrics().nr_crowded_out > 0);
}
