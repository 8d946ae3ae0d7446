//! Extensions of a get ([`GetOptions::extensions`](object_store::GetOptions::extensions)), for the
//! requests to the store that the get causes.
//!
//! The cache submits requests for missing pages in the task of the reader, but has no parameter for
//! data of the reader. So the extensions are a value of the task.

use object_store::Extensions;

tokio::task_local! {
    static EXTENSIONS: Extensions;
}

/// Executes `future` for a get with these extensions.
pub(crate) async fn scope<F: Future>(extensions: Extensions, future: F) -> F::Output {
    EXTENSIONS.scope(extensions, future).await
}

/// Returns the extensions of the get for which the current task executes; none outside of a get.
pub(crate) fn extensions() -> Extensions {
    EXTENSIONS.try_with(Clone::clone).unwrap_or_default()
}
