//! First reads of objects whose pages are in the second tier.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;

use crate::disk::{opened_with, written};
use crate::probe::{Act, Op, Probe, failure};
use crate::{PAGE, content, read, same};

const LEN: usize = 20 * PAGE + 77;

async fn opened(probe: &Arc<Probe>, folder: &FilePath) -> PagewellStore<Probe> {
    opened_with(probe, folder, Some("store"), 4 << 20).await
}

/// A store with an object, and a folder with all its pages.
async fn stored(path: &Path, bytes: &[u8]) -> (Arc<Probe>, tempfile::TempDir) {
    let probe = Probe::new();
    let dir = stored_in(&probe, std::slice::from_ref(path), bytes).await;
    (probe, dir)
}

/// Puts objects into the store, and returns a folder with all their pages.
async fn stored_in(probe: &Arc<Probe>, paths: &[Path], bytes: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(probe, dir.path()).await;
    for (path, nr) in paths.iter().zip(1..) {
        probe.inner.put(path, bytes.to_vec().into()).await.unwrap();
        assert!(same(read(&store, path).await, bytes));
        written(&store, nr * bytes.len() as u64).await;
    }
    assert_eq!(store.metrics().nr_disk_skipped, 0);
    drop(store);
    probe.take_gets();
    dir
}

fn heads_and_gets(probe: &Probe) -> [usize; 2] {
    let gets = probe.take_gets();
    let nr_heads = gets.iter().filter(|get| get.head).count();
    [nr_heads, gets.len() - nr_heads]
}

/// Each first read after a restart requested up to 4 MiB that were in the tier.
#[tokio::test]
async fn first_read_takes_pages_from_the_tier_after_a_head() {
    let (path, bytes) = (Path::from("a"), content(LEN, 1));
    let (probe, dir) = stored(&path, &bytes).await;
    for range in [
        None,
        Some(GetRange::Bounded(5..9 * PAGE as u64)),
        Some(GetRange::Offset(3 * PAGE as u64 + 9)),
        Some(GetRange::Suffix(2 * PAGE as u64)),
    ] {
        let store = opened(&probe, dir.path()).await;
        let options = GetOptions::default().with_range(range.clone());
        let result = store.get_opts(&path, options.clone()).await.unwrap();
        let expected = probe.get_opts(&path, options).await.unwrap();
        assert_eq!(
            heads_and_gets(&probe),
            [1, 1],
            "the bare get is one of them"
        );
        assert_eq!(result.meta, expected.meta);
        assert_eq!(result.attributes, expected.attributes);
        assert_eq!(result.range, expected.range);
        let wanted = &bytes[result.range.start as usize..result.range.end as usize];
        assert!(same(result.bytes().await.unwrap(), wanted), "{range:?}");
        let metrics = store.metrics();
        assert_eq!((metrics.bytes_fetched, metrics.nr_requests), (0, 0));
        assert_eq!(metrics.nr_checked, 1);
        assert!(metrics.bytes_from_disk >= wanted.len() as u64);
        // All pages are there, and the state is trusted.
        assert!(same(read(&store, &path).await, &bytes));
        assert_eq!(heads_and_gets(&probe), [0, 0]);
    }
}

#[tokio::test]
async fn first_read_of_another_state_or_object_is_of_the_store() {
    let (path, bytes) = (Path::from("a"), content(LEN, 1));
    let (probe, dir) = stored(&path, &bytes).await;
    let store = opened(&probe, dir.path()).await;
    let (path_b, bytes_b) = (Path::from("b"), content(LEN, 2));
    probe
        .inner
        .put(&path_b, bytes_b.clone().into())
        .await
        .unwrap();
    assert!(same(read(&store, &path_b).await, &bytes_b));
    assert_eq!(
        heads_and_gets(&probe),
        [0, 1],
        "the tier has no pages of it"
    );
    let bytes = content(LEN, 3);
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    assert!(same(read(&store, &path).await, &bytes));
    assert_eq!(heads_and_gets(&probe), [1, 1]);
    assert_eq!(store.metrics().bytes_from_disk, 0);
}

#[tokio::test]
async fn probe_of_one_byte_replaces_refused_heads() {
    let paths = ["a", "b", "c", "d"].map(Path::from);
    let (probe, bytes) = (Probe::new(), content(LEN, 1));
    let dir = stored_in(&probe, &paths, &bytes).await;
    probe.refuse(|get| {
        get.head.then(|| Error::NotFound {
            path: "a".into(),
            source: "405 Method Not Allowed".into(),
        })
    });
    let store = opened(&probe, dir.path()).await;
    for path in &paths[..3] {
        assert!(same(read(&store, path).await, &bytes));
        assert_eq!(heads_and_gets(&probe), [1, 1]);
    }
    // No further head is sent, and the pages of the next object are taken from the tier.
    let nr_bytes = store.metrics().bytes_fetched;
    assert!(same(read(&store, &paths[3]).await, &bytes));
    assert_eq!(probe.ranges(), [Some(0..1)]);
    assert_eq!(heads_and_gets(&probe), [0, 1]);
    assert_eq!(store.metrics().bytes_fetched, nr_bytes);
}

/// The head did not show that the pages are in the tier, and counted as a success.
#[tokio::test]
async fn probe_of_one_byte_replaces_heads_with_weak_tags() {
    let paths = ["a", "b", "c", "d"].map(Path::from);
    let modified = SystemTime::now() - Duration::from_secs(3600);
    let probe = Probe::describing(move |op, meta| {
        meta.last_modified = modified.into();
        if op == Op::Head {
            meta.e_tag = meta.e_tag.take().map(|tag| format!("W/\"{tag}\""));
        }
    });
    let bytes = content(LEN, 1);
    let dir = stored_in(&probe, &paths, &bytes).await;
    let store = opened(&probe, dir.path()).await;
    for path in &paths[..3] {
        assert!(same(read(&store, path).await, &bytes));
        assert_eq!(heads_and_gets(&probe), [1, 1]);
    }
    assert!(same(read(&store, &paths[3]).await, &bytes));
    assert_eq!(probe.ranges(), [Some(0..1)]);
    assert_eq!(heads_and_gets(&probe), [0, 1]);
}

/// A failed request for a page that the tier lacks caused further openings, since the store might
/// have had no ranges.
#[tokio::test]
async fn probe_of_one_byte_proves_ranges() {
    let paths = ["a", "b", "c", "d"].map(Path::from);
    let (probe, bytes) = (Probe::new(), content(LEN, 1));
    let dir = stored_in(&probe, &paths, &bytes).await;
    let file = dir.path().join("pages");
    // The file is unlocked when the tier is closed, soon after its last use.
    drop(opened(&probe, dir.path()).await);
    let mut pages = std::fs::read(&file).unwrap();
    for page in pages
        .chunks_mut(PAGE)
        .filter(|page| *page == &bytes[7 * PAGE..8 * PAGE])
    {
        page[5] ^= 1;
    }
    std::fs::write(&file, pages).unwrap();
    probe.refuse(|get| get.head.then(|| failure("405 Method Not Allowed")));
    let store = opened(&probe, dir.path()).await;
    for path in &paths[..3] {
        store.get_range(path, 0..1).await.unwrap();
    }
    probe.take_gets();
    let path = &paths[3];
    store.get_range(path, 0..1).await.unwrap();
    assert_eq!(heads_and_gets(&probe), [0, 1]);
    probe.refuse(|_| Some(failure("503 Slow Down")));
    let damaged = (7 * PAGE) as u64..(8 * PAGE) as u64;
    store.get_range(path, damaged.clone()).await.unwrap_err();
    assert_eq!(heads_and_gets(&probe), [0, 1]);
    probe.refuse(|_| None);
    store.get_range(path, 0..1).await.unwrap();
    assert_eq!(heads_and_gets(&probe), [0, 0]);
    let got = store.get_range(path, damaged).await.unwrap();
    assert!(same(got, &bytes[7 * PAGE..8 * PAGE]));
    assert_eq!(heads_and_gets(&probe), [0, 1]);
}

#[tokio::test]
async fn head_without_an_answer_fails_no_first_read() {
    let (path, bytes) = (Path::from("a"), content(LEN, 1));
    let (probe, dir) = stored(&path, &bytes).await;
    let store = opened(&probe, dir.path()).await;
    probe.hang_heads();
    // The clock advances when all tasks wait.
    tokio::time::pause();
    assert!(same(read(&store, &path).await, &bytes));
    assert_eq!(heads_and_gets(&probe), [1, 1]);
}

/// The pages that the tier lacks cannot be requested alone.
#[tokio::test]
async fn object_of_a_store_without_ranges_is_requested_whole_if_a_page_is_damaged() {
    let (path, bytes) = (Path::from("a"), content(LEN, 1));
    let (probe, dir) = stored(&path, &bytes).await;
    let file = dir.path().join("pages");
    let mut pages = std::fs::read(&file).unwrap();
    pages[7 * PAGE + 5] ^= 1;
    // The file is unlocked when the tier is closed, soon after its last use.
    drop(opened(&probe, dir.path()).await);
    std::fs::write(&file, pages).unwrap();
    probe.refuse(|get| {
        let source = "Range request not supported".into();
        get.range
            .is_some()
            .then_some(Error::NotSupported { source })
    });
    let store = opened(&probe, dir.path()).await;
    assert!(same(read(&store, &path).await, &bytes));
    assert_eq!(store.metrics().nr_disk_damaged, 1);
    let [nr_heads, nr_gets] = heads_and_gets(&probe);
    assert!(nr_heads == 1 && nr_gets <= 4, "{nr_heads} {nr_gets}");
    assert!(same(read(&store, &path).await, &bytes));
    assert_eq!(heads_and_gets(&probe), [0, 0]);
}

const PIECE: usize = 4 << 20;

/// A cache with room for a piece.
async fn opened_for_pieces(probe: &Arc<Probe>, folder: &FilePath) -> PagewellStore<Probe> {
    opened_with(probe, folder, Some("store"), 32 << 20).await
}

/// A store with an object of two pieces, and a folder with the pages of the first one.
async fn first_piece_stored(path: &Path, bytes: &[u8]) -> (Arc<Probe>, tempfile::TempDir) {
    let (probe, dir) = (Probe::new(), tempfile::tempdir().unwrap());
    probe.inner.put(path, bytes.to_vec().into()).await.unwrap();
    let store = opened_for_pieces(&probe, dir.path()).await;
    for end in (16 * PAGE as u64..=PIECE as u64).step_by(16 * PAGE) {
        let range = end - 16 * PAGE as u64..end;
        store.get_range(path, range).await.unwrap();
        written(&store, end).await;
    }
    drop(store);
    probe.take_gets();
    (probe, dir)
}

/// The first piece of the object is in the tier, so each get began there, and failed at the second
/// piece.
#[tokio::test]
async fn object_of_the_tier_is_passed_on_after_a_piece_failed_for_lack_of_ranges() {
    // The second error may be a temporary one, so a further get tries to open the object by bytes.
    let errors: [(fn() -> Error, usize); 2] = [
        (
            || Error::NotSupported {
                source: "Range request not supported".into(),
            },
            1,
        ),
        (|| failure("non-partial response"), 2),
    ];
    let (path, bytes) = (Path::from("a"), content(PIECE + 9 * PAGE, 1));
    let (probe, dir) = first_piece_stored(&path, &bytes).await;
    for (error, nr_failing) in errors {
        let store = opened_for_pieces(&probe, dir.path()).await;
        probe.refuse(move |get| get.range.is_some().then(error));
        for _ in 0..nr_failing {
            let first = store.get(&path).await.unwrap().bytes().await;
            assert!(first.is_err());
        }
        assert!(store.metrics().bytes_from_disk >= PIECE as u64);
        probe.take_gets();
        for _ in 0..2 {
            assert!(same(read(&store, &path).await, &bytes));
            assert_eq!(heads_and_gets(&probe), [0, 1]);
        }
        probe.refuse(|_| None);
    }
}

/// Further gets were passed on for a minute, or the object was opened again although the store had
/// sent a part of it.
#[tokio::test]
async fn object_of_the_tier_is_cached_after_a_temporary_error_of_a_piece() {
    let acts: [(fn() -> Act, usize); 2] = [
        // The object is opened again by a request for bytes.
        (|| Act::Fail(failure("503 Slow Down")), 2),
        // The answer has shown that the store has ranges, so the state stays known.
        (|| Act::Break(100), 1),
    ];
    let (path, bytes) = (Path::from("a"), content(PIECE + 9 * PAGE, 1));
    for (act, nr_gets) in acts {
        // The tier keeps the second piece, too.
        let (probe, dir) = first_piece_stored(&path, &bytes).await;
        let store = opened_for_pieces(&probe, dir.path()).await;
        probe.script(move |_, _| act());
        let first = store.get(&path).await.unwrap().bytes().await;
        assert!(first.is_err());
        assert!(store.metrics().bytes_from_disk >= PIECE as u64);
        assert_eq!(heads_and_gets(&probe)[0], 1);
        probe.script(|_, _| Act::Pass);
        assert!(same(read(&store, &path).await, &bytes));
        assert_eq!(heads_and_gets(&probe), [0, nr_gets]);
        assert!(same(read(&store, &path).await, &bytes));
        assert_eq!(heads_and_gets(&probe), [0, 0]);
    }
}

/// A failed request may be due to a store without ranges, so the object is opened again by a request
/// for bytes. Its pages stay in the tier.
#[tokio::test]
async fn large_object_of_the_tier_is_opened_again_after_a_failed_request() {
    let (path, bytes) = (Path::from("a"), content((4 << 20) + 9 * PAGE, 1));
    let (probe, dir) = (Probe::new(), tempfile::tempdir().unwrap());
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let page = |nr: usize| (nr * PAGE) as u64..((nr + 1) * PAGE) as u64;
    let store = opened(&probe, dir.path()).await;
    let range = page(0).start..page(9).end;
    store.get_range(&path, range.clone()).await.unwrap();
    written(&store, range.end).await;
    drop(store);
    probe.take_gets();
    let store = opened(&probe, dir.path()).await;
    store.get_range(&path, page(3)).await.unwrap();
    assert_eq!(heads_and_gets(&probe), [1, 0]);
    probe.refuse(|_| Some(failure("503 Slow Down")));
    store.get_range(&path, page(500)).await.unwrap_err();
    probe.refuse(|_| None);
    probe.take_gets();
    let got = store.get_range(&path, page(4)).await.unwrap();
    assert!(same(got, &bytes[4 * PAGE..5 * PAGE]));
    assert_eq!(heads_and_gets(&probe), [1, 0]);
    // The tier proves no ranges: of a store without them, the whole object is read.
    probe.refuse(|get| {
        let source = "Range request not supported".into();
        get.range
            .is_some()
            .then_some(Error::NotSupported { source })
    });
    assert!(same(read(&store, &path).await, &bytes));
}
