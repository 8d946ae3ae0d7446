//! Extensions of a get ([`GetOptions::extensions`](object_store::GetOptions::extensions)). Each
//! request that the get causes has them, too.
//!
//! The cache submits requests in the task of the reader but passes on no data of the reader, so the
//! extensions are a task-local value.

use object_store::Extensions;

tokio::task_local! {
    static EXTENSIONS: Extensions;
}

pub(crate) async fn scope<F: Future>(extensions: Extensions, future: F) -> F::Output {
    EXTENSIONS.scope(extensions, future).await
}

/// Returns the extensions of the get that the current task executes.
pub(crate) fn extensions() -> Extensions {
    EXTENSIONS.try_with(Clone::clone).unwrap_or_default()
}
