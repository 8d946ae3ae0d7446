//! Tasks and runtimes that end while readers depend on them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use object_store::path::Path;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::probe::{Act, Probe, failure};
use crate::{PAGE, cached, content, same};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// A store with one object of 50 pages, and the time for which it is trusted.
fn filled(runtime: &Runtime, trust: Duration) -> (Arc<Probe>, PagewellStore<Probe>, Path, Vec<u8>) {
    let probe = Probe::new();
    let store = cached(&probe, trust);
    let (path, bytes) = (Path::from("a"), content(50 * PAGE, 3));
    let put = probe.inner.put(&path, bytes.clone().into());
    runtime.block_on(put).unwrap();
    (probe, store, path, bytes)
}

#[test]
fn reader_opens_again_after_panic_of_opening() {
    let runtime = runtime();
    let (probe, store, path, bytes) = filled(&runtime, Duration::MAX);
    probe.script(|nr, _| match nr {
        0..4 => panic!("a test makes the store panic"),
        _ => Act::Pass,
    });
    // The reader repeats the opening, but not for ever.
    let error = runtime.block_on(store.get_range(&path, 0..9)).unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    assert_eq!(probe.nr_gets(), 4);
    let got = runtime.block_on(store.get_range(&path, 0..9)).unwrap();
    assert!(same(got, &bytes[..9]));
}

/// Checks that a reader repeats a request of another runtime that it waits for, when that runtime
/// ends. The request opens the object unless `is_known`.
fn request_of_ended_runtime_is_repeated(is_known: bool) {
    let (ended, runtime) = (self::runtime(), runtime());
    let (probe, store, path, bytes) = filled(&runtime, Duration::MAX);
    if is_known {
        runtime.block_on(store.get_range(&path, 0..9)).unwrap();
    }
    probe.hold_first(Act::Wait);
    let range = 9 * PAGE..10 * PAGE;
    let read = || {
        let (store, path) = (store.clone(), path.clone());
        let range = range.start as u64..range.end as u64;
        async move { store.get_range(&path, range).await }
    };
    ended.spawn(read());
    ended.block_on(probe.wait_for_get());
    let waiting = runtime.spawn(read());
    runtime.block_on(async {
        for _ in 0..9 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(probe.nr_gets(), 1);
    drop(ended);
    let got = runtime.block_on(waiting).unwrap().unwrap();
    assert!(same(got, &bytes[range]));
    assert_eq!(probe.nr_gets(), 2);
}

#[test]
fn opening_of_ended_runtime_is_taken_over() {
    request_of_ended_runtime_is_repeated(false);
}

#[test]
fn page_request_of_ended_runtime_is_repeated() {
    request_of_ended_runtime_is_repeated(true);
}

#[test]
fn get_without_runtime_is_an_error() {
    let runtime = runtime();
    let (_, store, path, bytes) = filled(&runtime, Duration::MAX);
    let get = store.get_opts(&path, Default::default());
    let error = futures_util::FutureExt::now_or_never(get).unwrap();
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Generic { .. }), "{error:?}");
    let got = runtime.block_on(store.get_range(&path, 0..9)).unwrap();
    assert!(same(got, &bytes[..9]));
}

#[test]
fn failed_check_keeps_pages() {
    let runtime = runtime();
    // The trust ends at once.
    let (probe, store, path, bytes) = filled(&runtime, Duration::ZERO);
    let read = || runtime.block_on(store.get_range(&path, 0..9));
    read().unwrap();
    // A probe of the state, since the store also fails heads.
    probe.script(|_, _| Act::Fail(failure("no connection")));
    probe.fail_heads(true);
    let error = read().unwrap_err();
    assert!(error.to_string().contains("no connection"), "{error}");
    probe.fail_heads(false);
    let nr_before = store.metrics().bytes_fetched;
    probe.script(|_, _| Act::Pass);
    assert!(same(read().unwrap(), &bytes[..9]));
    // The next read has checked the state, and has found the page.
    assert_eq!(probe.nr_gets(), 0);
    assert_eq!(store.metrics().bytes_fetched, nr_before);
    // A missing object is forgotten, also if it comes back with the same bytes.
    runtime.block_on(probe.inner.delete(&path)).unwrap();
    assert!(matches!(read(), Err(Error::NotFound { .. })));
    let put = probe.inner.put(&path, bytes.clone().into());
    runtime.block_on(put).unwrap();
    assert!(same(read().unwrap(), &bytes[..9]));
    assert!(store.metrics().bytes_fetched > nr_before);
}

#[test]
fn replaced_object_is_not_kept_after_failed_check() {
    let runtime = runtime();
    let (probe, store, path, bytes) = filled(&runtime, Duration::ZERO);
    let read = || runtime.block_on(store.get_range(&path, 0..9));
    read().unwrap();
    let put = probe.inner.put(&path, content(50 * PAGE, 9).into());
    runtime.block_on(put).unwrap();
    // The answer shows that the object was replaced, and its body breaks off.
    probe.script(|_, _| Act::Break(5));
    read().unwrap_err();
    assert_eq!(store.metrics().nr_forgotten, 1);
    probe.script(|_, _| Act::Pass);
    assert!(!same(read().unwrap(), &bytes[..9]));
    assert_eq!(store.metrics().nr_forgotten, 1);
}

#[tokio::test]
async fn dropped_write_leaves_no_stale_read() {
    let (path, other) = (Path::from("a"), Path::from("b"));
    for write in ["put", "copy", "rename", "delete", "complete"] {
        let probe = Probe::new();
        let store = cached(&probe, Duration::MAX);
        probe.inner.put(&path, "old".into()).await.unwrap();
        probe.inner.put(&other, "new".into()).await.unwrap();
        let (before, after) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        probe.hold_writes(Arc::clone(&before), after);
        let mut upload = store.put_multipart(&path).await.unwrap();
        upload.put_part("new".into()).await.unwrap();
        let mut written = Box::pin(async {
            match write {
                "put" => drop(store.put(&path, "new".into()).await),
                "copy" => drop(store.copy(&other, &path).await),
                "rename" => drop(store.rename(&other, &path).await),
                "delete" => drop(store.delete(&path).await),
                _ => drop(upload.complete().await),
            }
        });
        assert!(futures_util::poll!(&mut written).is_pending());
        // A read makes the old state known before the store writes the new one.
        let read = async || store.get(&path).await?.bytes().await;
        assert_eq!(read().await.unwrap(), "old", "{write}");
        before.add_permits(1);
        for _ in 0..9 {
            assert!(futures_util::poll!(&mut written).is_pending());
        }
        drop(written);
        match write {
            "delete" => assert!(matches!(read().await, Err(Error::NotFound { .. }))),
            _ => assert_eq!(read().await.unwrap(), "new", "{write}"),
        }
    }
}

/// The store does not report which of the deletes in progress has failed.
#[tokio::test]
async fn failed_deletes_leave_no_stale_read() {
    let probe = Probe::new();
    let store = cached(&probe, Duration::MAX);
    let paths = ["a", "b", "c"].map(Path::from);
    for path in &paths {
        probe.inner.put(path, "old".into()).await.unwrap();
    }
    let (before, after) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    probe.hold_writes(Arc::clone(&before), Arc::clone(&after));
    probe.fail_deletes();
    let locations = stream::iter(paths.clone().map(Ok)).boxed();
    let mut deleted = store.delete_stream(locations);
    let read = async |path: &Path| store.get(path).await?.bytes().await;
    for nr in 0..paths.len() {
        let mut next = deleted.next();
        assert!(futures_util::poll!(&mut next).is_pending());
        // Reads make the old states of this object and of the later ones known.
        for path in &paths[nr..] {
            assert_eq!(read(path).await.unwrap(), "old");
        }
        before.add_permits(1);
        after.add_permits(1);
        next.await.unwrap().unwrap_err();
        for path in &paths[..=nr] {
            assert!(matches!(read(path).await, Err(Error::NotFound { .. })));
        }
    }
}

#[test]
fn pages_are_requested_on_runtime_of_reader() {
    let (first, runtime) = (self::runtime(), runtime());
    let (probe, store, path, bytes) = filled(&runtime, Duration::MAX);
    let read = |runtime: &Runtime, page: usize| {
        let range = page * PAGE..(page + 1) * PAGE;
        let got = store.get_range(&path, range.start as u64..range.end as u64);
        assert!(same(runtime.block_on(got).unwrap(), &bytes[range]));
    };
    read(&first, 0);
    // The first runtime is idle, and is to send a request for another page when it runs again.
    let mut waiting = {
        let (store, path) = (store.clone(), path.clone());
        Box::pin(async move {
            store
                .get_range(&path, 9 * PAGE as u64..10 * PAGE as u64)
                .await
        })
    };
    first.block_on(async {
        assert!(futures_util::poll!(&mut waiting).is_pending());
    });
    read(&runtime, 20);
    let got = runtime.block_on(waiting).unwrap();
    assert!(same(got, &bytes[9 * PAGE..10 * PAGE]));
    drop(first);
    read(&runtime, 40);
    assert_eq!(probe.nr_gets(), 4);
}

#[test]
fn panic_of_store_fails_read_and_not_later_ones() {
    let runtime = runtime();
    let (probe, store, path, bytes) = filled(&runtime, Duration::MAX);
    runtime.block_on(store.get_range(&path, 0..9)).unwrap();
    probe.script(|nr, _| match nr {
        0..4 => panic!("a test makes the store panic"),
        _ => Act::Pass,
    });
    let read = || runtime.block_on(store.get_range(&path, 9 * PAGE as u64..10 * PAGE as u64));
    let error = read().unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    assert!(same(read().unwrap(), &bytes[9 * PAGE..10 * PAGE]));
    assert_eq!(probe.nr_gets(), 5);
}

#[test]
fn requests_run_on_set_runtime() {
    let of_requests = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("of-requests")
        .enable_all()
        .build()
        .unwrap();
    let probe = Probe::new();
    let store = PagewellStore::builder(Arc::clone(&probe)).page_size(PAGE);
    let store = store.runtime(of_requests.handle().clone()).build().unwrap();
    let (path, bytes) = (Path::from("a"), content(50 * PAGE, 3));
    let runtime = runtime();
    let put = probe.inner.put(&path, bytes.clone().into());
    runtime.block_on(put).unwrap();
    probe.script(|_, _| {
        assert_eq!(std::thread::current().name(), Some("of-requests"));
        Act::Pass
    });
    for page in [0, 9] {
        let range = page * PAGE as u64..(page + 1) * PAGE as u64;
        runtime.block_on(store.get_range(&path, range)).unwrap();
    }
    assert_eq!(probe.nr_gets(), 2);
}

#[tokio::test(start_paused = true)]
async fn request_that_hangs_is_an_error_for_all_readers() {
    let probe = Probe::new();
    let limit = Duration::from_secs(7);
    let store = PagewellStore::builder(Arc::clone(&probe))
        .page_size(PAGE)
        .trust(Duration::ZERO)
        .most_requests(1)
        .request_timeout(limit)
        .build()
        .unwrap();
    let (path, bytes) = (Path::from("a"), content(50 * PAGE, 3));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let read = |pages: &std::ops::Range<usize>| {
        let range = (pages.start * PAGE) as u64..(pages.end * PAGE) as u64;
        let store = &store;
        let path = &path;
        async move { store.get_range(path, range).await }
    };
    // First the opening hangs, and then the request for pages.
    for pages in [0..1, 9..10, 20..22] {
        probe.hold_first(Act::Wait);
        let nr_requests = store.metrics().nr_requests;
        let begun = tokio::time::Instant::now();
        let failed = futures_util::future::join(read(&pages), read(&pages)).await;
        assert!(begun.elapsed() >= limit && begun.elapsed() < 2 * limit);
        for error in [failed.0.unwrap_err(), failed.1.unwrap_err()] {
            assert!(matches!(error, Error::Generic { .. }), "{error:?}");
            assert!(error.to_string().contains("request_timeout"), "{error}");
        }
        assert_eq!(probe.nr_gets(), 1);
        // The opening has no time for a second request, which is not sent.
        assert_eq!(store.metrics().nr_requests, nr_requests + 1);
        // The permit is free again.
        let got = read(&pages).await.unwrap();
        assert!(same(got, &bytes[pages.start * PAGE..pages.end * PAGE]));
    }
}

/// All readers of pages between the first and the last page of the request got its error.
#[tokio::test(start_paused = true)]
async fn timeout_of_merged_request_is_no_error_for_reader_of_its_gap() {
    let probe = Probe::new();
    let store = PagewellStore::builder(Arc::clone(&probe))
        .page_size(PAGE)
        .request_timeout(Duration::from_secs(7))
        .build()
        .unwrap();
    let (path, bytes) = (Path::from("a"), content(50 * PAGE, 3));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    store.get_range(&path, 0..1).await.unwrap();
    let never = Arc::new(Semaphore::new(0));
    probe.script(move |nr, _| match nr {
        0 => Act::Wait(Arc::clone(&never)),
        _ => Act::Late(Duration::from_secs(3)),
    });
    let page = PAGE as u64;
    let merged = [10 * page..30 * page, 31 * page..50 * page];
    let gap = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        store.get_range(&path, 30 * page..31 * page).await
    };
    let (merged, gap) = futures_util::join!(store.get_ranges(&path, &merged), gap);
    let error = merged.unwrap_err().to_string();
    assert!(error.contains("request_timeout"), "{error}");
    assert!(same(gap.unwrap(), &bytes[30 * PAGE..31 * PAGE]));
    assert_eq!(probe.nr_gets(), 2);
}
