//! Objects that change: through the wrapper, and behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore as _, ObjectStoreExt as _, PutOptions,
};
use pagewell_object_store::PagewellStore;

use crate::probe::{Act, Probe};
use crate::{PAGE, cached, content, same};

#[tokio::test]
async fn changes_through_the_wrapper_are_seen_at_once() {
    let probe = Probe::new();
    let store = cached(&probe, Duration::MAX);
    let (a, b) = (Path::from("a"), Path::from("b"));
    let read = |path: &Path| {
        let (store, path) = (store.clone(), path.clone());
        async move { store.get(&path).await?.bytes().await }
    };
    store.put(&a, "one".into()).await.unwrap();
    assert_eq!(read(&a).await.unwrap(), "one");
    store.put(&a, "two".into()).await.unwrap();
    assert_eq!(read(&a).await.unwrap(), "two");
    store.put(&b, "bee".into()).await.unwrap();
    assert_eq!(read(&b).await.unwrap(), "bee");
    store.copy(&a, &b).await.unwrap();
    assert_eq!(read(&b).await.unwrap(), "two");
    store.put(&a, "three".into()).await.unwrap();
    store.rename(&a, &b).await.unwrap();
    assert_eq!(read(&b).await.unwrap(), "three");
    assert!(matches!(read(&a).await, Err(Error::NotFound { .. })));
    store.delete(&b).await.unwrap();
    assert!(matches!(read(&b).await, Err(Error::NotFound { .. })));
    let mut upload = store.put_multipart(&b).await.unwrap();
    upload.put_part("four".into()).await.unwrap();
    assert!(read(&b).await.is_err());
    upload.complete().await.unwrap();
    assert_eq!(read(&b).await.unwrap(), "four");
}

#[tokio::test]
async fn a_change_behind_the_wrapper_is_seen_when_trust_ends_and_when_it_is_listed() {
    let probe = Probe::new();
    let path = Path::from("a");
    for (trust, is_listed) in [(Duration::ZERO, false), (Duration::MAX, true)] {
        let store = cached(&probe, trust);
        probe.inner.put(&path, "one".into()).await.unwrap();
        assert_eq!(
            store.get(&path).await.unwrap().bytes().await.unwrap(),
            "one"
        );
        probe.inner.put(&path, "two".into()).await.unwrap();
        if is_listed {
            // Believed.
            assert_eq!(
                store.get(&path).await.unwrap().bytes().await.unwrap(),
                "one"
            );
            let _: Vec<_> = store.list(None).try_collect().await.unwrap();
        }
        assert_eq!(
            store.get(&path).await.unwrap().bytes().await.unwrap(),
            "two"
        );
        assert_eq!(store.metrics().nr_forgotten, 1);
        // A get with a condition says what the store says, and is learnt from.
        let tag = store.head(&path).await.unwrap().e_tag;
        probe.inner.put(&path, "three".into()).await.unwrap();
        let options = GetOptions::default().with_if_none_match(tag);
        assert_eq!(
            store
                .get_opts(&path, options)
                .await
                .unwrap()
                .bytes()
                .await
                .unwrap(),
            "three"
        );
        assert_eq!(
            store.get(&path).await.unwrap().bytes().await.unwrap(),
            "three"
        );
    }
}

#[tokio::test]
async fn an_object_that_changes_between_two_pages_is_read_again() {
    let probe = Probe::new();
    let store = cached(&probe, Duration::MAX);
    let path = Path::from("a");
    let [old, new] = [1, 2].map(|seed| content(20 * PAGE, seed));
    probe.inner.put(&path, old.clone().into()).await.unwrap();
    // Its beginning is cached, of the old state.
    assert!(same(
        store.get_range(&path, 0..2 * PAGE as u64).await.unwrap(),
        &old[..2 * PAGE]
    ));
    probe.inner.put(&path, new.clone().into()).await.unwrap();
    // The rest is missing: the store says that it is another object.
    assert!(same(
        store.get_range(&path, 0..6 * PAGE as u64).await.unwrap(),
        &new[..6 * PAGE]
    ));
    assert_eq!(store.metrics().nr_forgotten, 1);
    // A smaller one.
    probe
        .inner
        .put(&path, old[..PAGE].to_vec().into())
        .await
        .unwrap();
    let past = 10 * PAGE as u64..11 * PAGE as u64;
    assert!(store.get_range(&path, past).await.is_err());
    assert!(same(
        store.get_range(&path, 0..100).await.unwrap(),
        &old[..100]
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_a_mixture_of_two_states() {
    let probe = Probe::new();
    let store = cached(&probe, Duration::from_millis(2));
    let path = Path::from("a");
    let states: Vec<_> = (0..4).map(|seed| content(30 * PAGE, seed * 16)).collect();
    probe
        .inner
        .put(&path, states[0].clone().into())
        .await
        .unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4_u64)
        .map(|nr| {
            let (store, path, states, is_over) = (
                store.clone(),
                path.clone(),
                states.clone(),
                Arc::clone(&is_over),
            );
            tokio::spawn(async move {
                let mut seen = 0;
                let mut at = nr;
                while !is_over.load(Ordering::Relaxed) {
                    at = (at * 7 + 3) % 20;
                    // A get that is passed on to a store in memory does not wait.
                    tokio::task::yield_now().await;
                    let range = at * PAGE as u64 + 5..(at + 9) * PAGE as u64 + 1;
                    match store.get_range(&path, range.clone()).await {
                        Ok(bytes) => {
                            let range = range.start as usize..range.end as usize;
                            assert!(
                                states.iter().any(|state| bytes == state[range.clone()]),
                                "a mixture at {range:?}"
                            );
                            seen += 1;
                        }
                        // It changed again and again.
                        Err(Error::Precondition { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
                seen
            })
        })
        .collect();
    for round in 0..300 {
        probe
            .inner
            .put(&path, states[round % 4].clone().into())
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 10);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_forgotten_while_it_was_opened_is_not_known_afterwards() {
    let probe = Probe::new();
    let store = cached(&probe, Duration::MAX);
    let path = Path::from("a");
    probe.inner.put(&path, "one".into()).await.unwrap();
    let gate = probe.hold_first(Act::Wait);
    let reader = {
        let (store, path) = (store.clone(), path.clone());
        tokio::spawn(async move { store.get(&path).await?.bytes().await })
    };
    probe.wait_for_get().await;
    store.put(&path, "two".into()).await.unwrap();
    gate.add_permits(1);
    // The request was sent before the put, so the answer may have either state.
    reader.await.unwrap().unwrap();
    probe.script(|_, _| Act::Pass);
    assert_eq!(
        store.get(&path).await.unwrap().bytes().await.unwrap(),
        "two"
    );
    assert_eq!(probe.nr_gets(), 1);
}

/// The state had the time and the attributes of its first read until it was forgotten, or the
/// attributes alone if the time was that of the first write.
#[tokio::test]
async fn attributes_of_an_object_that_was_written_again_are_those_of_the_next_check() {
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    for (trust, has_one_time) in [
        (Duration::ZERO, false),
        (Duration::ZERO, true),
        (Duration::MAX, false),
        (Duration::MAX, true),
    ] {
        let probe = Probe::describing(move |_, meta| {
            // A tag of the bytes, as that of S3.
            meta.e_tag = Some("\"of these bytes\"".into());
            if has_one_time {
                // Two writes in one second.
                meta.last_modified = SystemTime::UNIX_EPOCH.into();
            }
        });
        let store = PagewellStore::builder(Arc::clone(&probe)).page_size(PAGE);
        let store = store.trust(trust).build().unwrap();
        for kind in ["text/plain", "text/csv", "text/csv"] {
            let attributes = Attributes::from_iter([(Attribute::ContentType, kind)]);
            let options = PutOptions::from(attributes);
            let payload = bytes.clone().into();
            probe.inner.put_opts(&path, payload, options).await.unwrap();
            // Without a head, the trust has ended, and the read checks the object.
            if trust == Duration::MAX {
                store.head(&path).await.unwrap();
            }
            let (expected, got) = (probe.get(&path).await.unwrap(), store.get(&path).await);
            let got = got.unwrap();
            assert_eq!(got.meta, expected.meta, "{trust:?}");
            assert_eq!(got.attributes, expected.attributes, "{trust:?}");
            assert!(same(got.bytes().await.unwrap(), &bytes));
        }
        // The pages stay.
        let metrics = store.metrics();
        assert_eq!((metrics.nr_opened, metrics.nr_forgotten), (1, 0));
    }
}
