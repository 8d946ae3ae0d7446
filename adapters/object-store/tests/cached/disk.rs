//! The second tier.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;

use crate::probe::{Act, Probe};
use crate::{PAGE, content, read_in_two, same};

/// A cache of 1 MiB with a tier of 16 MiB. The files of the one before may just be closed.
async fn store(probe: &Arc<Probe>, folder: &FilePath) -> PagewellStore<Probe> {
    opened(probe, folder, Some("probe")).await
}

async fn opened<T: ObjectStore>(
    store: &Arc<T>,
    folder: &FilePath,
    namespace: Option<&str>,
) -> PagewellStore<T> {
    opened_with(store, folder, namespace, 1 << 20).await
}

pub(crate) async fn opened_with<T: ObjectStore>(
    store: &Arc<T>,
    folder: &FilePath,
    namespace: Option<&str>,
    capacity: u64,
) -> PagewellStore<T> {
    let mut last_error = None;
    for _ in 0..2000 {
        let mut builder = PagewellStore::builder(Arc::clone(store))
            .capacity(capacity)
            .page_size(PAGE);
        if let Some(namespace) = namespace {
            builder = builder.namespace(namespace);
        }
        match builder.disk(folder, 16 << 20).build() {
            Ok(store) => {
                loaded(&store).await;
                return store;
            }
            Err(error) => last_error = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the folder stays locked: {last_error:?}");
}

/// Waits until the tier finds the pages that are in its folder.
async fn loaded<T: ObjectStore>(store: &PagewellStore<T>) {
    for _ in 0..12_000 {
        if store.metrics().nr_disk_loads == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", store.metrics());
}

/// Waits until `bytes` of what was fetched are written, or left out because the disk was behind.
pub(crate) async fn written<T: ObjectStore>(store: &PagewellStore<T>, bytes: u64) {
    for _ in 0..2000 {
        if store.metrics().bytes_to_disk + store.metrics().nr_disk_skipped * PAGE as u64 >= bytes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", store.metrics());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leaves_memory_comes_from_the_disk_also_after_a_restart() {
    let (probe, dir) = (Probe::new(), tempfile::tempdir().unwrap());
    let (path, bytes) = (Path::from("large"), content(4 << 20, 7));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let read = |store: PagewellStore<Probe>| {
        let (path, bytes) = (path.clone(), bytes.clone());
        async move {
            for start in (0..bytes.len()).step_by(10 * PAGE) {
                let end = (start + 10 * PAGE).min(bytes.len());
                let got = store
                    .get_range(&path, start as u64..end as u64)
                    .await
                    .unwrap();
                assert!(same(got, &bytes[start..end]), "{start}");
                // So that the disk keeps up.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    // A disk that is behind leaves pages out. They are fetched, and offered to it, when they are read again.
    let first = store(&probe, dir.path()).await;
    let mut from_disk = 0;
    for nr_passes in 0.. {
        probe.script(|_, _| Act::Pass);
        read(first.clone()).await;
        let metrics = first.metrics();
        if probe.nr_gets() == 0 {
            // All but what memory has room for.
            assert!(
                metrics.bytes_from_disk - from_disk >= 3 << 20,
                "{metrics:?}"
            );
            break;
        }
        from_disk = metrics.bytes_from_disk;
        assert!(nr_passes < 1000, "{metrics:?}");
    }
    drop(first);
    // A process that ends writes what waits. So what memory had alone is there after some of them.
    for nr_passes in 0.. {
        let next = store(&probe, dir.path()).await;
        probe.script(|_, _| Act::Pass);
        read(next.clone()).await;
        let metrics = next.metrics();
        // The object becomes known by one.
        if probe.nr_gets() <= 1 {
            assert!(metrics.bytes_from_disk > 3 << 20, "{metrics:?}");
            break;
        }
        assert!(nr_passes < 1000, "{metrics:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_state_of_an_object_is_not_the_one_on_the_disk() {
    let (probe, dir) = (Probe::new(), tempfile::tempdir().unwrap());
    let path = Path::from("changing");
    for seed in 0..4 {
        let bytes = content(30 * PAGE, seed * 16);
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        let store = store(&probe, dir.path()).await;
        for _ in 0..2 {
            let got = store.get_range(&path, 5..29 * PAGE as u64).await.unwrap();
            assert!(same(got, &bytes[5..29 * PAGE]));
        }
        written(&store, 20 * PAGE as u64).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_tier_gives_nothing_wrong() {
    let (probe, dir) = (Probe::new(), tempfile::tempdir().unwrap());
    let (path, bytes) = (Path::from("a"), content(100 * PAGE, 9));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let all = 0..bytes.len() as u64;
    let first = store(&probe, dir.path()).await;
    first.get_range(&path, all.clone()).await.unwrap();
    written(&first, 30 * PAGE as u64).await;
    drop(first);
    // Opened once more, so that the first has let go of the files; and damaged after that.
    drop(store(&probe, dir.path()).await);
    let file = dir.path().join("pages");
    for _ in 0..2000 {
        let mut pages = std::fs::read(&file).unwrap();
        for byte in pages.iter_mut().step_by(1000) {
            *byte ^= 1;
        }
        if std::fs::write(&file, &pages).is_ok() {
            break;
        }
    }
    let second = store(&probe, dir.path()).await;
    // It becomes known by its first page; the others would come from the disk.
    second.get_range(&path, 0..1).await.unwrap();
    assert!(same(second.get_range(&path, all).await.unwrap(), &bytes));
    assert_eq!(second.metrics().bytes_from_disk, 0);
    assert!(
        second.metrics().nr_disk_damaged > 0,
        "{:?}",
        second.metrics()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one_store_are_not_used_for_another_with_the_same_name_and_tags() {
    let path = Path::from("a");
    for (namespaces, is_shared) in [
        ([None, None], false),
        ([Some("one"), Some("two")], false),
        ([Some("one"), None], false),
        ([None, Some("one")], false),
        ([Some("one"), Some("one")], true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = [1, 2].map(|seed| content(20 * PAGE, seed));
        let (store_one, store_two) = (Probe::new(), Probe::new());
        store_one
            .inner
            .put(&path, one.clone().into())
            .await
            .unwrap();
        // A namespace that is given twice promises that the store is the same.
        let of_two = if is_shared { &one } else { &two };
        store_two
            .inner
            .put(&path, of_two.clone().into())
            .await
            .unwrap();
        let tags = [&store_one, &store_two].map(|store| store.inner.head(&path));
        let [tag_one, tag_two] = tags.map(futures_util::FutureExt::now_or_never);
        assert_eq!(
            tag_one.unwrap().unwrap().e_tag,
            tag_two.unwrap().unwrap().e_tag
        );
        let first = opened(&store_one, dir.path(), namespaces[0]).await;
        assert!(same(read_in_two(&first, &path).await, &one));
        written(&first, 18 * PAGE as u64).await;
        drop(first);
        let second = opened(&store_two, dir.path(), namespaces[1]).await;
        assert!(same(read_in_two(&second, &path).await, of_two));
        let from_disk = second.metrics().bytes_from_disk;
        assert_eq!(from_disk > 0, is_shared, "{namespaces:?}: {from_disk}");
    }
}

/// Without a name, each opening of an object had keys of its own, so a forgotten object was
/// requested and stored again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_forgotten_object_are_read_from_the_disk_without_a_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let probe = Probe::new();
    let bytes = content(20 * PAGE, 3);
    let [a, b] = ["a", "b"].map(Path::from);
    for path in [&a, &b] {
        probe.inner.put(path, bytes.clone().into()).await.unwrap();
    }
    let store = PagewellStore::builder(Arc::clone(&probe))
        .capacity(1 << 20)
        .page_size(PAGE)
        .most_objects(1)
        .disk(dir.path(), 16 << 20)
        .build()
        .unwrap();
    assert!(same(read_in_two(&store, &a).await, &bytes));
    written(&store, 18 * PAGE as u64).await;
    assert!(same(store.get_range(&b, 0..1).await.unwrap(), &bytes[..1]));
    assert_eq!(store.metrics().bytes_from_disk, 0);
    assert!(same(read_in_two(&store, &a).await, &bytes));
    assert!(store.metrics().bytes_from_disk > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_pages_of_states_with_a_strong_tag_are_used_after_a_restart() {
    let path = Path::from("a");
    for (tag, lasts) in [
        (Some("\"strong\""), true),
        (Some("W/\"weak\""), false),
        (Some(""), false),
        (None, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let probe = Probe::describing(move |_, meta| meta.e_tag = tag.map(Into::into));
        let bytes = content(20 * PAGE, 3);
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        let first = opened(&probe, dir.path(), Some("store")).await;
        assert!(same(read_in_two(&first, &path).await, &bytes));
        written(&first, 18 * PAGE as u64).await;
        drop(first);
        let second = opened(&probe, dir.path(), Some("store")).await;
        assert!(same(read_in_two(&second, &path).await, &bytes));
        let from_disk = second.metrics().bytes_from_disk;
        assert_eq!(from_disk > 0, lasts, "{tag:?}: {from_disk}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_refused() {
    let (probe, dir) = (Probe::new(), tempfile::tempdir().unwrap());
    let builder = || {
        PagewellStore::builder(Arc::clone(&probe))
            .capacity(1 << 20)
            .page_size(PAGE)
    };
    let file = dir.path().join("file");
    std::fs::write(&file, "a file").unwrap();
    let error = builder()
        .disk(&file, 1 << 20)
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("second tier"), "{error}");
    let error = builder()
        .disk(dir.path().join("a"), 100)
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("100 bytes"), "{error}");
    let _first = builder()
        .disk(dir.path().join("b"), 1 << 20)
        .build()
        .unwrap();
    let error = builder()
        .disk(dir.path().join("b"), 1 << 20)
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("second tier"), "{error}");
}
