//! The tests that `object_store` has for each store, over the wrapper and the wrappers of
//! `object_store`.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::integration;
use object_store::limit::LimitStore;
use object_store::memory::InMemory;
use object_store::prefix::PrefixStore;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use pagewell_object_store::PagewellStore;

use crate::PAGE;

fn store() -> PagewellStore<InMemory> {
    cached(InMemory::new())
}

fn cached<T: ObjectStore>(store: T) -> PagewellStore<T> {
    let builder = PagewellStore::builder(Arc::new(store));
    builder.capacity(16 << 20).page_size(PAGE).build().unwrap()
}

fn prefixed<T: ObjectStore>(store: T) -> PrefixStore<T> {
    PrefixStore::new(store, "some/prefix")
}

fn limited<T: ObjectStore>(store: T) -> LimitStore<T> {
    LimitStore::new(store, 2)
}

fn throttled<T: ObjectStore>(store: T) -> ThrottledStore<T> {
    ThrottledStore::new(store, ThrottleConfig::default())
}

macro_rules! suite {
    ($suite:ident, $store:expr; $($name:ident($($more:expr)?))*) => {
        mod $suite {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                integration::$name(&$store $(, $more)?).await;
            })*
        }
    };
}

macro_rules! suites {
    ($($suite:ident: $store:expr,)*) => {$(
        suite! { $suite, $store;
            put_get_delete_list()
            put_get_attributes()
            get_opts()
            put_opts(true)
            stream_get()
            list_uses_directories_correctly()
            list_with_delimiter()
            list_with_offset_exclusivity()
            rename_and_copy()
            copy_if_not_exists()
            copy_rename_nonexistent_object()
            multipart_race_condition(true)
            multipart_out_of_order()
        }
    )*};
}

suites! {
    alone: store(),
    over_a_prefix: cached(prefixed(InMemory::new())),
    under_a_prefix: prefixed(store()),
    over_a_limit: cached(limited(InMemory::new())),
    under_a_limit: limited(store()),
    over_a_throttle: cached(throttled(InMemory::new())),
    under_a_throttle: throttled(store()),
    between_prefixes: prefixed(cached(prefixed(InMemory::new()))),
}

#[tokio::test]
async fn an_object_that_does_not_exist_is_not_found() {
    let missing = integration::get_nonexistent_object(&store(), None).await;
    assert!(
        matches!(missing, Err(object_store::Error::NotFound { .. })),
        "{missing:?}"
    );
}

#[tokio::test]
async fn settings_out_of_range_are_refused() {
    let builder = || PagewellStore::builder(Arc::new(InMemory::new()));
    for (refused, what) in [
        (builder().page_size(5000), "5000 bytes"),
        (builder().page_size(128 << 10), "131072 bytes"),
        (builder().most_objects(0), "objects"),
        (builder().most_requests(0), "requests"),
        (builder().capacity(1), "capacity"),
        (builder().namespace(""), "namespace"),
    ] {
        let error = refused.build().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
