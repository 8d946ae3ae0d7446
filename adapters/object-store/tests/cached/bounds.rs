//! Limits of an answer: one state of the object, and the ranges and requests of the bare store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};
use pagewell_object_store::PagewellStore;

use crate::odd::Odd;
use crate::{content, same};

/// Length of the pieces in which a long answer is streamed.
const PIECE: usize = 4 << 20;

fn store<T: ObjectStore>(store: &Arc<T>) -> PagewellStore<T> {
    PagewellStore::builder(Arc::clone(store))
        .capacity(48 << 20)
        .trust(Duration::MAX)
        .build()
        .unwrap()
}

/// After the first piece of the old state, each further get failed until the trust ended: the
/// stream did not forget the state.
#[tokio::test]
async fn a_stream_over_a_replaced_object_is_of_one_state_and_the_next_get_of_the_new_one() {
    type Describe = fn(&mut ObjectMeta);
    let with_tags: Describe = |_| {};
    let with_weak_tags: Describe = |meta| meta.e_tag = Some("W/\"weak\"".into());
    let with_times: Describe = |meta| meta.e_tag = None;
    let path = Path::from("a");
    let old = content(5 * PIECE + 100, 1);
    for describe in [with_tags, with_weak_tags, with_times] {
        for (nr_pieces, len) in [
            (1, old.len()),
            (1, PIECE + 1),
            (2, old.len()),
            (4, old.len()),
        ] {
            let new = content(len, 2);
            let odd = Odd::new(move |_, meta| describe(meta));
            odd.inner.put(&path, old.clone().into()).await.unwrap();
            let store = store(&odd);
            let mut stream = store.get(&path).await.unwrap().into_stream();
            let mut got = Vec::new();
            for _ in 0..nr_pieces {
                got.extend_from_slice(&stream.next().await.unwrap().unwrap());
            }
            odd.inner.put(&path, new.clone().into()).await.unwrap();
            let mut has_failed = false;
            while let Some(bytes) = stream.next().await {
                match bytes {
                    Ok(bytes) => got.extend_from_slice(&bytes),
                    Err(error) => {
                        let is_of_change =
                            matches!(error, object_store::Error::Precondition { .. });
                        assert!(is_of_change, "{error:?}");
                        has_failed = true;
                    }
                }
            }
            assert!(same(&got, &old[..got.len()]), "a mixture of two states");
            assert!(has_failed || got.len() == old.len());
            if has_failed {
                let next = store.get(&path).await.unwrap().bytes().await.unwrap();
                assert!(same(next, &new));
            }
            // Two pieces are requested ahead, so only the last ones had been received before.
            assert!(has_failed || nr_pieces == 4);
        }
    }
}
