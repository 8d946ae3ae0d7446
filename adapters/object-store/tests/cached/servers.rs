//! Servers without validators, ranges or HEAD. The wrapper serves what the bare store serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _,
    PutOptions,
};
use pagewell_object_store::PagewellStore;

use crate::probe::{Act, Op, Probe, failure};
use crate::{PAGE, cached, content, read, same};

#[tokio::test]
async fn without_a_validator_an_object_is_fetched_again_after_trust() {
    // A change so near to the read that another may have the same date: how near is a matter of the
    // unit tests, so that the test may take its time.
    let near = SystemTime::now() + Duration::from_secs(600);
    for (what, tag, time) in [
        ("no time", None, SystemTime::UNIX_EPOCH),
        ("a change at the read", None, near),
        ("an empty tag", Some(""), SystemTime::UNIX_EPOCH),
        ("a weak tag", Some("W/\"same\""), SystemTime::UNIX_EPOCH),
    ] {
        let probe = Probe::describing(move |_, meta| {
            meta.e_tag = tag.map(Into::into);
            meta.last_modified = time.into();
        });
        let path = Path::from("a");
        let [one, two] = [1, 2].map(|seed| content(3 * PAGE, seed));
        probe.inner.put(&path, one.clone().into()).await.unwrap();
        let [trusting, asking] = [Duration::MAX, Duration::ZERO].map(|trust| cached(&probe, trust));
        for store in [&trusting, &asking] {
            assert!(same(read(store, &path).await, &one), "{what}");
        }
        // The same size: nothing in its description shows the change.
        probe.inner.put(&path, two.clone().into()).await.unwrap();
        probe.take_gets();
        assert!(same(read(&asking, &path).await, &two), "{what}");
        // No request for a description, which proves nothing.
        let gets = probe.take_gets();
        assert!(matches!(&gets[..], [get] if !get.head), "{what}: {gets:?}");
        assert!(same(read(&trusting, &path).await, &one), "{what}");
        // A listing proves as little, also the contrary.
        let _: Vec<_> = trusting.list(None).try_collect().await.unwrap();
        assert!(same(read(&trusting, &path).await, &one), "{what}");
        assert_eq!(probe.take_gets().len(), 0, "{what}");
        // Missing pages of an object that is trusted are read.
        asking.forget(&path);
        for range in [0..1, PAGE as u64..PAGE as u64 + 9, 0..3 * PAGE as u64] {
            let expected = &two[range.start as usize..range.end as usize];
            assert!(same(
                asking.get_range(&path, range).await.unwrap(),
                expected
            ));
        }
    }
}

#[tokio::test]
async fn a_time_that_was_past_at_the_read_is_a_validator() {
    let modified = SystemTime::now() - Duration::from_secs(3600);
    let probe = Probe::describing(move |_, meta| {
        meta.e_tag = None;
        meta.last_modified = modified.into();
    });
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let store = cached(&probe, Duration::ZERO);
    assert!(same(read(&store, &path).await, &bytes));
    probe.take_gets();
    assert!(same(read(&store, &path).await, &bytes));
    let gets = probe.take_gets();
    assert!(matches!(&gets[..], [get] if get.head), "{gets:?}");
}

/// The error of `HttpStore` for an answer with the status 200 to a request for a range.
fn not_supported() -> Error {
    Error::NotSupported {
        source: "Range request not supported".into(),
    }
}

/// More than the first request of an object brings.
const LARGE: usize = (5 << 20) + 77;

#[tokio::test]
async fn without_ranges_small_objects_are_cached_and_large_ones_are_passed_on() {
    // The clients of S3, Azure and GCS have no kind of error for it.
    let errors: [fn() -> Error; 2] = [not_supported, || failure("non-partial response")];
    for (nr, error) in errors.into_iter().enumerate() {
        let probe = Probe::new();
        probe.refuse(move |get| get.range.is_some().then(error));
        let store = cached(&probe, Duration::MAX);
        for len in [0, 1, 3 * PAGE, 3 * PAGE + 5, 4 << 20] {
            let (path, bytes) = (Path::from(format!("{len}")), content(len, 1));
            probe.inner.put(&path, bytes.clone().into()).await.unwrap();
            assert!(same(read(&store, &path).await, &bytes), "{len}");
            assert_eq!(probe.take_gets().len(), 2, "{len}");
            // From the cache, also the ranges that the bare store does not serve.
            assert!(same(read(&store, &path).await, &bytes), "{len}");
            if len > 5 {
                let got = store.get_range(&path, 2..len as u64).await.unwrap();
                assert!(same(got, &bytes[2..]), "{len}");
                let got = store.get_ranges(&path, &[0..3, 1..9]).await.unwrap();
                assert!(same(&got[0], &bytes[..3]) && same(&got[1], &bytes[1..9]));
            }
            assert_eq!(probe.take_gets().len(), 0, "{len}");
        }
        let (path, bytes) = (Path::from("large"), content(LARGE, 1));
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        for _ in 0..2 {
            assert!(same(read(&store, &path).await, &bytes), "{nr}");
        }
        probe.take_gets();
        // It is known by now that the cache is of no use.
        assert!(same(read(&store, &path).await, &bytes), "{nr}");
        assert_eq!(probe.take_gets().len(), 1, "{nr}");
        let expected = probe.get_range(&path, 0..9).await.unwrap_err().to_string();
        for _ in 0..2 {
            let got = store.get_range(&path, 0..9).await.unwrap_err();
            assert_eq!(got.to_string(), expected);
            assert!(store.get_ranges(&path, &[0..9, 3..5]).await.is_err());
        }
        // An object that replaces it is looked at again.
        store.put(&path, "small".into()).await.unwrap();
        assert_eq!(read(&store, &path).await, b"small");
        probe.take_gets();
        assert_eq!(read(&store, &path).await, b"small");
        assert_eq!(probe.take_gets().len(), 0, "{nr}");
    }
}

#[tokio::test]
async fn without_ranges_objects_that_leave_the_cache_are_read_again() {
    for ranges in ["refused", "ignored", "refused if they cover all"] {
        let probe = Probe::new();
        match ranges {
            "refused" => probe.refuse(|get| get.range.is_some().then(not_supported)),
            "ignored" => probe.ignore_ranges(),
            _ => probe.refuse(|get| {
                let all = GetRange::Bounded(0..800 << 10);
                (get.range.as_ref() == Some(&all)).then(not_supported)
            }),
        }
        // Two of the objects have room.
        let builder = PagewellStore::builder(Arc::clone(&probe)).capacity(2 << 20);
        let store = builder.page_size(PAGE).build().unwrap();
        let path = |nr: u8| Path::from(format!("{nr}"));
        for nr in 0..4 {
            let bytes = content(800 << 10, nr);
            probe.inner.put(&path(nr), bytes.into()).await.unwrap();
            let got = store.get_range(&path(nr), 0..1).await.unwrap();
            assert!(same(got, content(1, nr)), "{ranges}");
        }
        for nr in (0..4).cycle().take(12) {
            let bytes = content(800 << 10, nr);
            assert!(same(read(&store, &path(nr)).await, &bytes), "{ranges} {nr}");
            let got = store.get_range(&path(nr), 5..700_000).await.unwrap();
            assert!(same(got, &bytes[5..700_000]), "{ranges} {nr}");
        }
    }
}

#[tokio::test]
async fn ranges_that_cover_all_may_be_refused_or_ignored() {
    for is_ignored in [false, true] {
        let probe = Probe::new();
        let len = 2 * PAGE as u64 - 9;
        if is_ignored {
            probe.ignore_ranges();
        } else {
            probe.refuse(move |get| {
                let covers_all = match get.range.as_ref()? {
                    GetRange::Bounded(range) => range.start == 0 && range.end >= len,
                    GetRange::Offset(start) => *start == 0,
                    GetRange::Suffix(suffix) => *suffix >= len,
                };
                covers_all.then(not_supported)
            });
        }
        let (path, bytes) = (Path::from("a"), content(len as usize, 1));
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        for range in [
            None,
            Some(GetRange::Bounded(5..PAGE as u64 + 9)),
            Some(GetRange::Offset(7)),
            Some(GetRange::Suffix(len - 1)),
        ] {
            let store = cached(&probe, Duration::MAX);
            for nr_gets in [1..4, 0..1] {
                let options = GetOptions::default().with_range(range.clone());
                let got = store.get_opts(&path, options).await.unwrap();
                let wanted = got.range.start as usize..got.range.end as usize;
                let expected = range.as_ref().map(|range| range.as_range(len).unwrap());
                assert_eq!(got.range, expected.unwrap_or(0..len));
                assert!(same(got.bytes().await.unwrap(), &bytes[wanted]));
                let nr = probe.take_gets().len();
                assert!(nr_gets.contains(&nr), "{is_ignored} {range:?}: {nr}");
            }
        }
    }
}

#[tokio::test]
async fn first_page_is_requested_of_a_store_without_suffixes() {
    // As Azure's.
    let probe = Probe::new();
    probe.refuse(|get| matches!(get.range, Some(GetRange::Suffix(_))).then(not_supported));
    let store = cached(&probe, Duration::MAX);
    let (path, bytes) = (Path::from("a"), content(LARGE, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let options = GetOptions::default().with_range(Some(GetRange::Suffix(9)));
    let got = store.get_opts(&path, options).await.unwrap().bytes().await;
    assert!(same(got.unwrap(), &bytes[LARGE - 9..]));
    let gets = probe.take_gets();
    assert!(gets.iter().all(|get| get.range.is_some()), "{gets:?}");
    assert_eq!(gets.len(), 3);
}

#[tokio::test]
async fn a_refused_head_says_nothing_about_the_object() {
    let refusals: [fn() -> Error; 3] = [
        || Error::PermissionDenied {
            path: "a".into(),
            source: "signed for GET".into(),
        },
        // `HttpStore` has this error for the status 405.
        || Error::NotFound {
            path: "a".into(),
            source: "405 Method Not Allowed".into(),
        },
        || failure("501 Not Implemented"),
    ];
    for refusal in refusals {
        let probe = Probe::new();
        probe.refuse(move |get| get.head.then(refusal));
        let store = cached(&probe, Duration::ZERO);
        let path = Path::from("a");
        for len in [3 * PAGE, 0, 5, 0, LARGE, 2 * PAGE] {
            let bytes = content(len, 1);
            probe.inner.put(&path, bytes.clone().into()).await.unwrap();
            for _ in 0..3 {
                assert!(same(read(&store, &path).await, &bytes), "{len}");
            }
        }
        // An unchanged object is checked by a request for one byte, and read from the cache.
        probe.take_gets();
        let bytes = content(2 * PAGE, 1);
        assert!(same(read(&store, &path).await, &bytes));
        let gets = probe.take_gets();
        let byte = GetRange::Bounded(0..1);
        assert!(
            matches!(&gets[..], [get] if get.range.as_ref() == Some(&byte)),
            "{gets:?}"
        );
        probe.inner.delete(&path).await.unwrap();
        let gone = store.get(&path).await.unwrap_err();
        assert!(matches!(gone, Error::NotFound { .. }), "{gone:?}");
    }
}

#[tokio::test]
async fn a_head_without_size_or_validators_is_no_change() {
    let probe = Probe::describing(|op, meta| {
        if op == Op::Head {
            meta.size = 0;
            meta.e_tag = None;
            meta.last_modified = SystemTime::UNIX_EPOCH.into();
        }
    });
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let store = cached(&probe, Duration::ZERO);
    for _ in 0..3 {
        assert!(same(read(&store, &path).await, &bytes));
    }
    let metrics = store.metrics();
    assert_eq!((metrics.nr_opened, metrics.nr_forgotten), (1, 0));
}

#[tokio::test]
async fn encoded_bytes_of_another_length_are_passed_on() {
    // The size is that of the compressed bytes.
    let probe = Probe::describing(|_, meta| meta.size = 100);
    probe.ignore_ranges();
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    let attributes = Attributes::from_iter([(Attribute::ContentEncoding, "gzip")]);
    let options = PutOptions::from(attributes);
    let payload = bytes.clone().into();
    probe.inner.put_opts(&path, payload, options).await.unwrap();
    let store = cached(&probe, Duration::MAX);
    for _ in 0..3 {
        let (expected, got) = (
            probe.get(&path).await.unwrap(),
            store.get(&path).await.unwrap(),
        );
        assert_eq!(got.meta, expected.meta);
        assert_eq!(got.range, expected.range);
        assert!(same(got.bytes().await.unwrap(), &bytes));
    }
}

#[tokio::test]
async fn store_without_conditions_gets_requests_without_them() {
    let errors: [fn() -> Error; 2] = [not_supported, || Error::NotImplemented {
        operation: "`if_match`".into(),
        implementer: "a store".into(),
    }];
    for error in errors {
        let probe = Probe::new();
        probe.refuse(move |get| get.if_match.is_some().then(error));
        let store = cached(&probe, Duration::MAX);
        let (path, bytes) = (Path::from("a"), content(20 * PAGE, 1));
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        store.get_range(&path, 0..1).await.unwrap();
        probe.take_gets();
        // Only the first three requests have a condition.
        for (page, nr_gets) in [(5, 2), (7, 2), (9, 2), (11, 1), (13, 1)] {
            let range = page * PAGE..(page + 1) * PAGE;
            let got = store.get_range(&path, range.start as u64..range.end as u64);
            assert!(same(got.await.unwrap(), &bytes[range]));
            assert_eq!(probe.take_gets().len(), nr_gets);
        }
        // The answer for a page is compared with the known state.
        let bytes = content(20 * PAGE, 2);
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        assert!(same(read(&store, &path).await, &bytes));
    }
}

/// After one refusal, no further request had a condition.
#[tokio::test]
async fn conditions_are_sent_until_three_in_a_row_were_refused() {
    let probe = Probe::new();
    let nr = AtomicU64::new(0);
    probe.refuse(move |get| {
        let has_condition = get.if_match.is_some();
        let is_refused = has_condition && nr.fetch_add(1, Ordering::Relaxed) % 3 < 2;
        is_refused.then(not_supported)
    });
    let store = cached(&probe, Duration::MAX);
    let (path, bytes) = (Path::from("a"), content(40 * PAGE, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    store.get_range(&path, 0..1).await.unwrap();
    probe.take_gets();
    for page in (3..30).step_by(3) {
        let range = page * PAGE..(page + 1) * PAGE;
        let got = store.get_range(&path, range.start as u64..range.end as u64);
        assert!(same(got.await.unwrap(), &bytes[range]));
        assert!(probe.take_gets()[0].if_match.is_some(), "{page}");
    }
}

#[tokio::test]
async fn refused_tags_are_no_evidence_about_versions() {
    let probe = Probe::describing(|_, meta| {
        if meta.location == Path::from("versioned") {
            meta.e_tag = None;
            meta.version = Some("1".into());
        }
    });
    probe.refuse(|get| get.if_match.is_some().then(not_supported));
    let store = cached(&probe, Duration::MAX);
    for (name, is_versioned) in [("tagged", false), ("versioned", true)] {
        let (path, bytes) = (Path::from(name), content(40 * PAGE, 1));
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        store.get_range(&path, 0..1).await.unwrap();
        for page in (3..21).step_by(3) {
            probe.take_gets();
            let range = page * PAGE..(page + 1) * PAGE;
            let got = store.get_range(&path, range.start as u64..range.end as u64);
            assert!(same(got.await.unwrap(), &bytes[range]));
        }
        let gets = probe.take_gets();
        assert!(matches!(&gets[..], [get] if get.if_match.is_none()));
        assert_eq!(gets[0].version.is_some(), is_versioned);
    }
}

/// After one failure, no further head was sent.
#[tokio::test]
async fn heads_are_sent_until_three_in_a_row_failed() {
    let probe = Probe::new();
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let store = cached(&probe, Duration::ZERO);
    let read_after_head = async |fails: bool| {
        probe.fail_heads(fails);
        probe.take_gets();
        assert!(same(read(&store, &path).await, &bytes));
        probe.take_gets()[0].head
    };
    read_after_head(false).await;
    for fails in [true, true, false, true, true, false, true, true, true] {
        assert!(read_after_head(fails).await);
    }
    assert!(!read_after_head(false).await);
}

/// The head took all of the time that the check has.
#[tokio::test(start_paused = true)]
async fn head_without_an_answer_fails_no_read() {
    let probe = Probe::new();
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    let store = cached(&probe, Duration::ZERO);
    assert!(same(read(&store, &path).await, &bytes));
    probe.hang_heads();
    // Further reads send none.
    for nr_heads in [1, 1, 1, 0] {
        probe.take_gets();
        assert!(same(read(&store, &path).await, &bytes));
        let gets = probe.take_gets();
        assert_eq!(gets.iter().filter(|get| get.head).count(), nr_heads);
        assert_eq!(gets.len(), nr_heads + 1);
    }
}

#[tokio::test]
async fn servers_that_disagree_about_the_tag_are_read() {
    // Each of many servers has its own tag for the same object.
    let nr = AtomicU64::new(0);
    let probe = Probe::describing(move |_, meta| {
        meta.e_tag = Some(format!("\"{}\"", nr.fetch_add(1, Ordering::Relaxed)));
    });
    // The object has no room in the cache, so each try needs more than one answer.
    let builder = PagewellStore::builder(Arc::clone(&probe)).capacity(1 << 20);
    let store = builder.page_size(PAGE).build().unwrap();
    let (path, bytes) = (Path::from("a"), content(3 << 20, 1));
    probe.inner.put(&path, bytes.clone().into()).await.unwrap();
    for _ in 0..3 {
        store.get_range(&path, 0..1).await.unwrap();
        assert!(same(read(&store, &path).await, &bytes));
    }
    // Each further read is passed on, and so is one request instead of nine.
    probe.take_gets();
    assert!(same(read(&store, &path).await, &bytes));
    store.get_range(&path, 0..1).await.unwrap();
    assert_eq!(probe.take_gets().len(), 2);
    // Ranges of one state are not to be had, also of an object that is passed on.
    let far = [0..1, (3 << 20) - 1..3 << 20];
    for _ in 0..2 {
        let error = store.get_ranges(&path, &far).await.unwrap_err();
        assert!(matches!(error, Error::Precondition { .. }), "{error:?}");
        assert!(probe.take_gets().len() <= 8);
    }
}

#[tokio::test]
async fn an_answer_that_is_passed_on_has_the_length_that_it_declares() {
    let lies: [fn() -> Act; 3] = [|| Act::Cut(100), || Act::Long(1), || Act::Break(LARGE - 1)];
    for (nr, lie) in lies.into_iter().enumerate() {
        let probe = Probe::new();
        let store = cached(&probe, Duration::MAX);
        let (path, bytes) = (Path::from("a"), content(LARGE, 1));
        probe.inner.put(&path, bytes.clone().into()).await.unwrap();
        // By the first request without a range, the cache learns the size.
        let unranged = AtomicU64::new(0);
        probe.script(move |_, get| match get.range {
            Some(_) => Act::Fail(not_supported()),
            None if unranged.fetch_add(1, Ordering::Relaxed) == 1 => lie(),
            None => Act::Pass,
        });
        let got = store.get(&path).await.unwrap().bytes().await;
        assert!(got.is_err(), "{nr}");
        assert!(same(read(&store, &path).await, &bytes), "{nr}");
    }
}
