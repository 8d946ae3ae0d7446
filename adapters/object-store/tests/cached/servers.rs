//! Servers without validators, ranges or HEAD: what the bare store serves, the wrapper serves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;

use crate::odd::Odd;
use crate::{PAGE, content, same};

fn cached<T: ObjectStore>(store: &Arc<T>, trust: Duration) -> PagewellStore<T> {
    let builder = PagewellStore::builder(Arc::clone(store));
    let builder = builder.capacity(16 << 20).page_size(PAGE).trust(trust);
    builder.build().unwrap()
}

async fn read<T: ObjectStore>(store: &T, path: &Path) -> Vec<u8> {
    let bytes = store.get(path).await.unwrap().bytes().await;
    bytes.unwrap().to_vec()
}

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
        let odd = Odd::new(move |_, meta| {
            meta.e_tag = tag.map(Into::into);
            meta.last_modified = time.into();
        });
        let path = Path::from("a");
        let [one, two] = [1, 2].map(|seed| content(3 * PAGE, seed));
        odd.inner.put(&path, one.clone().into()).await.unwrap();
        let [trusting, asking] = [Duration::MAX, Duration::ZERO].map(|trust| cached(&odd, trust));
        for store in [&trusting, &asking] {
            assert!(same(read(store, &path).await, &one), "{what}");
        }
        // The same size: nothing in its description shows the change.
        odd.inner.put(&path, two.clone().into()).await.unwrap();
        odd.take_gets();
        assert!(same(read(&asking, &path).await, &two), "{what}");
        // No request for a description, which proves nothing.
        let gets = odd.take_gets();
        assert!(matches!(&gets[..], [get] if !get.head), "{what}: {gets:?}");
        assert!(same(read(&trusting, &path).await, &one), "{what}");
        // A listing proves as little, also the contrary.
        let _: Vec<_> = trusting.list(None).try_collect().await.unwrap();
        assert!(same(read(&trusting, &path).await, &one), "{what}");
        assert_eq!(odd.take_gets().len(), 0, "{what}");
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
    let odd = Odd::new(move |_, meta| {
        meta.e_tag = None;
        meta.last_modified = modified.into();
    });
    let (path, bytes) = (Path::from("a"), content(3 * PAGE, 1));
    odd.inner.put(&path, bytes.clone().into()).await.unwrap();
    let store = cached(&odd, Duration::ZERO);
    assert!(same(read(&store, &path).await, &bytes));
    odd.take_gets();
    assert!(same(read(&store, &path).await, &bytes));
    let gets = odd.take_gets();
    assert!(matches!(&gets[..], [get] if get.head), "{gets:?}");
}
