//! Bounded page cache between an object store and its readers.
//!
//! [`PagewellStore`] wraps and implements an [`ObjectStore`](object_store::ObjectStore):
//!
//! ```
//! # use std::sync::Arc;
//! use object_store::{ObjectStore, ObjectStoreExt as _, memory::InMemory, path::Path};
//! use pagewell_object_store::PagewellStore;
//!
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! let store = Arc::new(InMemory::new());
//! let store = PagewellStore::builder(store).capacity(64 << 20).build()?;
//! store.put(&Path::from("table/part-0"), "bytes".into()).await?;
//! assert_eq!(store.get_range(&Path::from("table/part-0"), 1..3).await?, "yt");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cached data and its validity
//!
//! The cache holds bytes of objects, in pages. One capacity covers pages and metadata of objects.
//! An object is identified by its location and its entity tag or version. If the store returns
//! neither, it is identified by size and time of the last change, which cannot distinguish two
//! changes within one tick of the store's clock. Every request for missing pages requires this
//! state of the object (`If-Match`, or the version), so no answer mixes bytes of two states.
//!
//! The identity of an object is trusted for the time set by [`Builder::trust`], by default a
//! minute. The first read after that checks by one request whether the object is unchanged. A put,
//! copy, rename or delete through the wrapper takes effect at once, and so does the result of a
//! listing or a head through the wrapper. A change that bypasses the wrapper is detected when the
//! trust ends, or when a missing page is requested.
//!
//! # Uncached operations
//!
//! Writes, listings, heads, and gets with conditions or a version go to the store unchanged.
//!
//! # Modules
//!
//! | module | owns | calls |
//! |---|---|---|
//! | [`store`] | the wrapper and its settings | all below |
//! | `read` | answers: bytes from pins, copies, streams | `objects`, `fetch`, `error`, `metrics` |
//! | `objects` | known objects, and checks of their state | `fetch`, `tier`, `error`, `metrics` |
//! | `fetch` | requests to the store: merged, bounded, timed | `tier`, `error`, `metrics` |
//! | `tier` | pages in a file on a local disk | `metrics` |
//! | `error`, [`metrics`] | errors shared by several readers; counters | |

mod error;
mod fetch;
pub mod metrics;
mod objects;
mod read;
pub mod store;
mod tier;

pub use metrics::Metrics;
pub use store::{Builder, PagewellStore, Wrapped};
