//! Stores that spell locations, entity tags and versions in their own ways.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{Error, ObjectStore, ObjectStoreExt as _};

use crate::probe::{Op, Probe};
use crate::{PAGE, cached, content, read, read_in_two, same};

#[tokio::test]
async fn objects_behind_a_prefix_are_read_and_described_as_by_the_bare_store() {
    let probe = Probe::new();
    let bare = Arc::new(PrefixStore::new(Arc::clone(&probe), "some/prefix"));
    let path = Path::from("a/b");
    let store = cached(&bare, Duration::MAX);
    let [one, two] = [1, 2].map(|seed| content(20 * PAGE, seed));
    bare.put(&path, one.clone().into()).await.unwrap();
    assert!(same(read_in_two(&store, &path).await, &one));
    let (expected, got) = (bare.get(&path).await.unwrap(), store.get(&path).await);
    assert_eq!(got.unwrap().meta, expected.meta);
    // All pages are cached, and a listing keeps them: it has the location as it is requested.
    probe.script(|_, _| crate::probe::Act::Pass);
    let list = || store.list(None).try_collect::<Vec<_>>();
    assert_eq!(list().await.unwrap()[0].location, path);
    assert!(same(read(&store, &path).await, &one));
    assert_eq!(probe.nr_gets(), 0);
    // A change behind the wrapper is seen in the next listing, and in an answer for a page.
    bare.put(&path, two.clone().into()).await.unwrap();
    assert!(same(read(&store, &path).await, &one));
    list().await.unwrap();
    assert!(same(read(&store, &path).await, &two));
    assert_eq!(store.metrics().nr_forgotten, 1);
    store.forget(&path);
    store.get_range(&path, 0..1).await.unwrap();
    bare.put(&path, one.clone().into()).await.unwrap();
    assert!(same(read(&store, &path).await, &one));
}

#[tokio::test]
async fn tags_are_compared_without_quotes_and_sent_as_the_store_spells_them() {
    // As Azure does.
    let probe = Probe::describing(|op, meta| {
        let tag = meta.e_tag.take().unwrap();
        meta.e_tag = Some(match op {
            Op::List => format!("0x8D{tag}"),
            _ => format!("\"0x8D{tag}\""),
        });
    });
    let store = cached(&probe, Duration::MAX);
    let path = Path::from("a");
    let [one, two] = [1, 2].map(|seed| content(20 * PAGE, seed));
    probe.inner.put(&path, one.clone().into()).await.unwrap();
    assert!(same(read_in_two(&store, &path).await, &one));
    let tags: Vec<_> = probe
        .take_gets()
        .into_iter()
        .map(|get| get.if_match)
        .collect();
    assert_eq!(tags, [None, Some("\"0x8D0\"".into())]);
    let list = || store.list(None).try_collect::<Vec<_>>();
    list().await.unwrap();
    store.list_with_delimiter(None).await.unwrap();
    assert!(same(read(&store, &path).await, &one));
    assert_eq!(probe.take_gets().len(), 0);
    assert_eq!(store.metrics().nr_forgotten, 0);
    probe.inner.put(&path, two.clone().into()).await.unwrap();
    list().await.unwrap();
    assert!(same(read(&store, &path).await, &two));
    assert_eq!(store.metrics().nr_forgotten, 1);
}

#[tokio::test]
async fn weak_and_empty_tags_are_no_condition_and_time_shows_changes() {
    for tag in ["W/\"same\"", "W/same", "", "\"\"", "*"] {
        let probe = Probe::describing(move |_, meta| meta.e_tag = Some(tag.into()));
        let store = cached(&probe, Duration::MAX);
        let path = Path::from("a");
        let [one, two] = [1, 2].map(|seed| content(20 * PAGE, seed));
        probe.inner.put(&path, one.clone().into()).await.unwrap();
        assert!(same(read_in_two(&store, &path).await, &one), "{tag}");
        let gets = probe.take_gets();
        assert!(gets.iter().all(|get| get.if_match.is_none()), "{gets:?}");
        assert_eq!(store.metrics().nr_forgotten, 0);
        // Of the new state, the answer for the missing pages has another time.
        store.forget(&path);
        store.get_range(&path, 0..1).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
        probe.inner.put(&path, two.clone().into()).await.unwrap();
        assert!(same(read(&store, &path).await, &two), "{tag}");
    }
}

#[tokio::test]
async fn a_version_is_requested_only_without_a_strong_tag() {
    let path = Path::from("a");
    let bytes = content(20 * PAGE, 1);
    for (tag, is_sent) in [("\"strong\"", false), ("W/\"weak\"", true), ("", true)] {
        let probe = Probe::describing(move |_, meta| {
            meta.e_tag = Some(tag.into());
            meta.version = Some("v1".into());
        });
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        if !is_sent {
            // A reader that may get objects, and not versions of objects.
            probe.refuse(|get| {
                get.version.is_some().then(|| Error::PermissionDenied {
                    path: "a".into(),
                    source: "s3:GetObjectVersion".into(),
                })
            });
        }
        let store = cached(&probe, Duration::MAX);
        assert!(same(read_in_two(&store, &path).await, &bytes), "{tag}");
        let versions: Vec<_> = probe
            .take_gets()
            .into_iter()
            .map(|get| get.version)
            .collect();
        assert_eq!(versions, [None, is_sent.then(|| "v1".into())], "{tag}");
    }
}
