//! States that are observed while an object is being opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore as _, ObjectStoreExt as _, PutOptions};
use pagewell_object_store::PagewellStore;

use crate::probe::{Act, Op, Probe};
use crate::{cached, content, same};

fn read(
    store: &PagewellStore<Probe>,
    path: &Path,
) -> impl Future<Output = object_store::Result<Bytes>> + use<> {
    let (store, path) = (store.clone(), path.clone());
    async move { store.get(&path).await?.bytes().await }
}

#[tokio::test]
async fn state_observed_during_opening_counts() {
    let probe = Probe::new();
    let (store, path) = (cached(&probe, Duration::MAX), Path::from("a"));
    for is_replaced in [true, false] {
        probe.inner.put(&path, "old".into()).await.unwrap();
        store.forget(&path);
        // The answer to the opening is of the old state, and is late.
        let gate = probe.hold_first(Act::Stall);
        let reader = tokio::spawn(read(&store, &path));
        probe.wait_for_get().await;
        if is_replaced {
            probe.inner.put(&path, "new".into()).await.unwrap();
        }
        store.head(&path).await.unwrap();
        let expected = if is_replaced { "new" } else { "old" };
        // This reader waits for the same opening, and began after the head.
        let later = tokio::spawn(read(&store, &path));
        tokio::task::yield_now().await;
        gate.add_permits(1);
        // The reader began before the head.
        assert_eq!(reader.await.unwrap().unwrap(), "old");
        assert_eq!(later.await.unwrap().unwrap(), expected);
        assert_eq!(read(&store, &path).await.unwrap(), expected);
        assert_eq!(probe.nr_gets(), 1 + usize::from(is_replaced));
    }
}

/// The last of several observations replaced the earlier ones.
#[tokio::test]
async fn earlier_observation_during_opening_counts() {
    let probe = Probe::new();
    let (store, path) = (cached(&probe, Duration::MAX), Path::from("a"));
    probe.inner.put(&path, "old".into()).await.unwrap();
    // The listing has the old state, and returns it late.
    let listing = store.list(None);
    let gate = probe.hold_first(Act::Stall);
    let reader = tokio::spawn(read(&store, &path));
    probe.wait_for_get().await;
    probe.inner.put(&path, "new".into()).await.unwrap();
    let now = store.head(&path).await.unwrap();
    let listed: Vec<_> = listing.try_collect().await.unwrap();
    assert_ne!(listed[0].e_tag, now.e_tag);
    gate.add_permits(1);
    assert_eq!(reader.await.unwrap().unwrap(), "old");
    assert_eq!(read(&store, &path).await.unwrap(), "new");
}

/// The reader got the outdated state of the fourth opening.
#[tokio::test]
async fn reader_whose_openings_are_all_outdated_gets_the_answer_of_the_store() {
    let probe = Probe::new();
    let (store, path) = (cached(&probe, Duration::MAX), Path::from("a"));
    let put = async |nr: usize| {
        let bytes = format!("state {nr}");
        probe.inner.put(&path, bytes.into()).await.unwrap();
    };
    put(0).await;
    let mut reader = Box::pin(read(&store, &path));
    for nr in 0..4 {
        let gate = probe.hold_first(Act::Stall);
        let opener = tokio::spawn(read(&store, &path));
        probe.wait_for_get().await;
        put(nr + 1).await;
        store.head(&path).await.unwrap();
        // The reader waits for this opening, and is not polled before the next one has begun.
        assert!(futures_util::poll!(&mut reader).is_pending());
        gate.add_permits(1);
        let got = opener.await.unwrap().unwrap();
        assert_eq!(got, format!("state {nr}"));
    }
    assert_eq!(reader.await.unwrap(), "state 4");
}

/// The descriptions that are kept are of the old state.
#[tokio::test]
async fn last_of_many_observations_during_opening_counts() {
    let nr_heads = AtomicU64::new(1);
    let probe = Probe::describing(move |op, meta| {
        if op == Op::Head {
            let age = Duration::from_secs(nr_heads.fetch_add(1, Ordering::Relaxed));
            meta.last_modified = (SystemTime::UNIX_EPOCH + age).into();
        }
    });
    let (store, path) = (cached(&probe, Duration::MAX), Path::from("a"));
    probe.inner.put(&path, "old".into()).await.unwrap();
    let gate = probe.hold_first(Act::Stall);
    let before = tokio::spawn(read(&store, &path));
    probe.wait_for_get().await;
    for _ in 0..9 {
        store.head(&path).await.unwrap();
    }
    probe.inner.put(&path, "new".into()).await.unwrap();
    store.head(&path).await.unwrap();
    let after = tokio::spawn(read(&store, &path));
    tokio::task::yield_now().await;
    gate.add_permits(1);
    assert_eq!(before.await.unwrap().unwrap(), "old");
    assert_eq!(after.await.unwrap().unwrap(), "new");
}

/// The object was opened again after the check, and each further get failed once more.
#[tokio::test]
async fn object_that_fails_during_a_check_is_passed_on() {
    let probe = Probe::new();
    let (store, path) = (cached(&probe, Duration::ZERO), Path::from("a"));
    let bytes = content(5 << 20, 1);
    let attributes = Attributes::from_iter([(Attribute::ContentEncoding, "gzip")]);
    let put = PutOptions::from(attributes);
    let put = probe.inner.put_opts(&path, bytes.clone().into(), put);
    put.await.unwrap();
    store.get_range(&path, 0..1).await.unwrap();
    // The second piece is not requested before the body is read.
    let body = store.get(&path).await.unwrap();
    let gate = probe.hang_heads();
    probe.script(|_, _| Act::Cut(100));
    let (of_check, at) = (store.clone(), path.clone());
    let check = tokio::spawn(async move { of_check.get_range(&at, 0..1).await });
    while probe.take_gets().is_empty() {
        tokio::task::yield_now().await;
    }
    // The number of bytes differs from the metadata, so the cache cannot serve the object.
    body.bytes().await.unwrap_err();
    probe.script(|_, _| Act::Pass);
    gate.add_permits(9);
    // This reader began before the error, and its page is in memory.
    assert_eq!(check.await.unwrap().unwrap(), bytes[..1]);
    probe.take_gets();
    assert!(same(read(&store, &path).await.unwrap(), &bytes));
    assert_eq!(probe.ranges(), [None]);
    assert_eq!(probe.take_gets().len(), 1);
}
