//! What `object_store` tests of each store.

use std::sync::Arc;

use object_store::integration;
use object_store::memory::InMemory;
use pagewell_object_store::PagewellStore;

use crate::PAGE;

fn store() -> PagewellStore<InMemory> {
    let builder = PagewellStore::builder(Arc::new(InMemory::new()));
    builder.capacity(16 << 20).page_size(PAGE).build().unwrap()
}

macro_rules! integration_tests {
    ($($name:ident($($more:expr)?))*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            integration::$name(&store() $(, $more)?).await;
        }
    )*};
}

integration_tests! {
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
    ] {
        let error = refused.build().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
