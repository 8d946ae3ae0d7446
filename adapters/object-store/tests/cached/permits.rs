//! Limit of concurrent requests.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use object_store::path::Path;
use object_store::{GetRange, ObjectStore as _, ObjectStoreExt as _};
use pagewell_object_store::{Builder, PagewellStore};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::probe::{Act, Probe};
use crate::{PAGE, content, same};

const NR_PAGES: usize = 50;

fn builder(probe: &Arc<Probe>, most_requests: usize) -> Builder<Probe> {
    PagewellStore::builder(Arc::clone(probe))
        .capacity(16 << 20)
        .page_size(PAGE)
        .most_requests(most_requests)
        // In paused time, a wait for a permit would end it.
        .request_timeout(Duration::MAX)
}

async fn put(probe: &Probe, path: &Path, seed: u8) {
    let bytes = content(NR_PAGES * PAGE, seed);
    probe.inner.put(path, bytes.into()).await.unwrap();
}

fn page(nr: usize) -> Range<u64> {
    (nr * PAGE) as u64..((nr + 1) * PAGE) as u64
}

/// Runtime whose clock advances when all tasks wait.
fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// A runtime that was left with a request in flight, and with another one that waited for a permit,
/// blocked all readers of other runtimes.
#[test]
fn idle_runtime_keeps_no_permits_from_readers_of_others() {
    let (idle, busy) = (runtime(), runtime());
    let probe = Probe::new();
    let store = builder(&probe, 1).build().unwrap();
    let [a, b] = ["a", "b"].map(Path::from);
    busy.block_on(async {
        put(&probe, &a, 1).await;
        put(&probe, &b, 2).await;
        store.get_range(&a, page(0)).await.unwrap();
    });
    let gate = probe.hold_first(Act::Wait);
    let read = |path: &Path, nr| {
        let (store, path) = (store.clone(), path.clone());
        async move { store.get_range(&path, page(nr)).await }
    };
    let left = [9, 20].map(|nr| idle.spawn(read(&a, nr)));
    idle.block_on(async {
        probe.wait_for_get().await;
        for _ in 0..99 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(probe.nr_gets(), 1);
    // Pages of the same object, and an object that is not known yet.
    for (path, nr, seed) in [(&a, 30, 1), (&b, 3, 2)] {
        let got = busy.block_on(async {
            // The clock advances at once if the read waits for the other runtime.
            tokio::time::timeout(Duration::from_secs(1000), read(path, nr)).await
        });
        let bytes = content(NR_PAGES * PAGE, seed);
        assert!(same(
            got.unwrap().unwrap(),
            &bytes[nr * PAGE..(nr + 1) * PAGE]
        ));
    }
    gate.add_permits(1);
    for reader in left {
        idle.block_on(reader).unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_openings_need_permits() {
    const MOST: usize = 3;
    let probe = Probe::new();
    let store = builder(&probe, MOST).build().unwrap();
    let paths: Vec<_> = (0..10).map(|nr| Path::from(format!("{nr}"))).collect();
    for path in &paths {
        put(&probe, path, 1).await;
    }
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    probe.script(move |_, _| Act::Wait(Arc::clone(&waits)));
    let reads = join_all(paths.iter().map(|path| store.get_range(path, page(5))));
    let opened = async {
        for nr_answers in 0..=paths.len() {
            // All tasks wait.
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(probe.nr_gets(), (nr_answers + MOST).min(paths.len()));
            gate.add_permits(1);
        }
    };
    let (got, ()) = futures_util::join!(reads, opened);
    for got in got {
        assert!(same(
            got.unwrap(),
            &content(NR_PAGES * PAGE, 1)[5 * PAGE..6 * PAGE]
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn heads_and_probes_need_permits() {
    let probe = Probe::new();
    let store = builder(&probe, 1).trust(Duration::ZERO).build().unwrap();
    let [a, b] = ["a", "b"].map(Path::from);
    for path in [&a, &b] {
        put(&probe, path, 1).await;
        store.get_range(path, page(0)).await.unwrap();
    }
    for (nr, fails_heads) in [(9, false), (20, true)] {
        probe.fail_heads(fails_heads);
        if fails_heads {
            // After three failures, checks send a probe only.
            for _ in 0..3 {
                store.get_range(&b, page(0)).await.unwrap();
            }
        }
        let gate = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&gate);
        probe.script(move |_, get| match get.range {
            // A page of the first object.
            Some(GetRange::Bounded(Range { start: 1.., .. })) => Act::Wait(Arc::clone(&waits)),
            _ => Act::Pass,
        });
        let of_a = store.get_range(&a, page(nr));
        let of_b = async {
            // All tasks wait.
            tokio::time::sleep(Duration::from_secs(1)).await;
            probe.take_gets();
            let (read, ()) = futures_util::join!(store.get_range(&b, page(0)), async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert_eq!(probe.take_gets().len(), 0);
                gate.add_permits(1);
            });
            read
        };
        let (of_a, of_b) = futures_util::join!(of_a, of_b);
        let bytes = content(NR_PAGES * PAGE, 1);
        assert!(same(of_a.unwrap(), &bytes[nr * PAGE..(nr + 1) * PAGE]));
        assert!(same(of_b.unwrap(), &bytes[..PAGE]));
        let gets = probe.take_gets();
        assert!(
            matches!(&gets[..], [get] if get.head != fails_heads),
            "{gets:?}"
        );
    }
}

/// A request of an opening, a check or a page that waited for a permit with a permit of its own
/// would wait for ever.
#[tokio::test]
async fn one_permit_suffices_for_all_requests() {
    for hedge in [false, true] {
        let probe = Probe::new();
        // The cache has no room for all objects, so pages are requested again. Each read checks
        // the object, at first by a head and a probe.
        let store = builder(&probe, 1).capacity(1 << 20).hedge(hedge);
        let store = store.trust(Duration::ZERO).build().unwrap();
        let paths: Vec<_> = (0..8).map(|nr| Path::from(format!("{nr}"))).collect();
        for (path, seed) in paths.iter().zip(0..) {
            put(&probe, path, seed).await;
        }
        probe.fail_heads(true);
        // A second request would be sent after 60 ms.
        probe.script(|nr, _| match nr % 8 {
            7 => Act::Late(Duration::from_millis(100)),
            _ => Act::Pass,
        });
        for round in 0..3 {
            let reads = paths.iter().zip(0..).map(async |(path, seed)| {
                let bytes = content(NR_PAGES * PAGE, seed);
                let ranges = [page(round), page(20), page(40 - round)];
                let got = store.get_ranges(path, &ranges).await.unwrap();
                for (got, range) in got.iter().zip(ranges) {
                    assert!(same(got, &bytes[range.start as usize..range.end as usize]));
                }
                let all = store.get(path).await.unwrap().bytes().await.unwrap();
                assert!(same(all, &bytes));
            });
            // A read that waits for ever fails the test.
            let reads = tokio::time::timeout(Duration::from_secs(60), join_all(reads));
            assert!(reads.await.is_ok(), "{hedge} {round}");
        }
        // A second request needs a second permit.
        assert_eq!(store.metrics().nr_hedged, 0);
    }
}
