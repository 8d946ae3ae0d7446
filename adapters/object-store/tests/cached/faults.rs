//! Stores that fail, lie, or are late.

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;
use tokio::sync::Semaphore;

use crate::probe::{Act, Probe};
use crate::{PAGE, content, same};

/// An object that is known, none of whose pages but the first is cached.
async fn known(hedge: bool) -> (Arc<Probe>, PagewellStore<Probe>, Path, Vec<u8>) {
    let probe = Probe::new();
    let store = PagewellStore::builder(Arc::clone(&probe))
        .capacity(16 << 20)
        .page_size(PAGE)
        .hedge(hedge)
        .build()
        .unwrap();
    let (path, bytes) = (Path::from("faulty"), content(50 * PAGE, 2));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    store.get_range(&path, 0..1).await.unwrap();
    (probe, store, path, bytes)
}

fn range(page: u64) -> std::ops::Range<u64> {
    page * PAGE as u64..(page + 2) * PAGE as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_goes_to_all_that_wait_and_is_not_kept() {
    let (probe, store, path, bytes) = known(false).await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    probe.script(move |nr, _| match nr {
        0 => Act::Wait(Arc::clone(&waits)),
        _ => Act::Pass,
    });
    // The object is gone while they wait for the first answer.
    let readers: Vec<_> = (0..5)
        .map(|_| {
            let (store, path) = (store.clone(), path.clone());
            tokio::spawn(async move { store.get_range(&path, range(4)).await })
        })
        .collect();
    while probe.nr_gets() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    probe.inner.delete(&path).await.unwrap();
    gate.add_permits(1);
    for reader in readers {
        let error = reader.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    }
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let got = store.get_range(&path, range(4)).await.unwrap();
    assert!(same(got, &bytes[4 * PAGE..6 * PAGE]));
}

#[tokio::test]
async fn errors_keep_their_kinds() {
    let (probe, store, path, bytes) = known(false).await;
    let source =
        || -> Box<dyn std::error::Error + Send + Sync> { "credentials have expired".into() };
    type Kind = (fn(&Error) -> bool, Box<dyn Fn() -> Error + Send + Sync>);
    let make: Vec<Kind> = vec![
        (
            |e| matches!(e, Error::Unauthenticated { .. }),
            Box::new(move || Error::Unauthenticated {
                path: "faulty".into(),
                source: source(),
            }),
        ),
        (
            |e| matches!(e, Error::PermissionDenied { .. }),
            Box::new(move || Error::PermissionDenied {
                path: "faulty".into(),
                source: source(),
            }),
        ),
        (
            |e| matches!(e, Error::Generic { store: "S3", .. }),
            Box::new(move || Error::Generic {
                store: "S3",
                source: source(),
            }),
        ),
    ];
    for (is_kind, make) in make {
        probe.script(move |_, _| Act::Fail(make()));
        let error = store.get_range(&path, range(8)).await.unwrap_err();
        assert!(is_kind(&error), "{error:?}");
        assert!(
            error.to_string().contains("credentials have expired"),
            "{error}"
        );
    }
    probe.script(|_, _| Act::Pass);
    assert!(same(
        store.get_range(&path, range(8)).await.unwrap(),
        &bytes[8 * PAGE..10 * PAGE]
    ));
    assert!(store.metrics().nr_failed >= 3);
}

#[tokio::test]
async fn a_store_that_lies_about_lengths_is_not_believed() {
    let (probe, store, path, bytes) = known(false).await;
    for lie in [
        || Act::Cut(100),
        || Act::Cut(PAGE + 5),
        || Act::Cut(0),
        || Act::Long(1),
        || Act::Long(100_000),
        || Act::Elsewhere,
    ] {
        probe.script(move |_, _| lie());
        // What comes after the end of the range is no part of it, and pages that were whole before a body was cut are good.
        match store.get_range(&path, range(20)).await {
            Ok(got) => assert!(same(got, &bytes[20 * PAGE..22 * PAGE])),
            Err(error) => assert!(matches!(error, Error::Generic { .. }), "{error:?}"),
        }
        store.forget(&path);
        // As the first request too, by which the object becomes known.
        assert!(store.get_range(&path, range(20)).await.is_err());
        probe.script(|_, _| Act::Pass);
        assert!(same(
            store.get_range(&path, range(20)).await.unwrap(),
            &bytes[20 * PAGE..22 * PAGE]
        ));
        store.forget(&path);
        store.get_range(&path, 0..1).await.unwrap();
    }
}

// In paused time only the request that waits is late, however busy the machine is.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_late_is_made_again_by_choice() {
    let (probe, store, path, bytes) = known(true).await;
    let never = Arc::new(Semaphore::new(0));
    probe.script(move |nr, _| match nr {
        0 => Act::Wait(Arc::clone(&never)),
        _ => Act::Pass,
    });
    assert!(same(
        store.get_range(&path, range(30)).await.unwrap(),
        &bytes[30 * PAGE..32 * PAGE]
    ));
    assert_eq!((probe.nr_gets(), store.metrics().nr_hedged), (2, 1));
}

#[tokio::test]
async fn reader_repeats_requests_of_ended_runtime() {
    let probe = Probe::new();
    let store = PagewellStore::builder(Arc::clone(&probe))
        .capacity(16 << 20)
        .page_size(PAGE)
        .build()
        .unwrap();
    let path = Path::from("faulty");
    probe
        .inner
        .put(&path, content(50 * PAGE, 2).into())
        .await
        .unwrap();
    let (of_thread, at, wrapper) = (Arc::clone(&probe), path.clone(), store.clone());
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            wrapper.get_range(&at, 0..1).await.unwrap();
            of_thread.script(|_, _| Act::Wait(Arc::new(Semaphore::new(0))));
            let reader = tokio::spawn(async move { wrapper.get_range(&at, range(5)).await });
            while of_thread.nr_gets() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            reader.abort();
        });
    });
    thread.join().unwrap();
    probe.script(|_, _| Act::Pass);
    // The request for these pages was dropped with its runtime.
    assert!(store.get_range(&path, range(5)).await.is_ok());
    assert!(store.get_range(&path, range(9)).await.is_ok());
}
