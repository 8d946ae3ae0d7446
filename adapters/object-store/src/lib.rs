//! A bounded page cache between an object store and whatever reads it.
//!
//! [`PagewellStore`] wraps a store and is one itself, so it goes wherever an [`ObjectStore`](object_store::ObjectStore) goes:
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
//! # What is cached, and how long it is believed
//!
//! Bytes of objects, by pages, within one capacity that covers pages and what is known of them. An object is known by its location and its entity tag, or
//! its version; if the store gives neither, by its size and the time of its last change, which cannot tell two changes within the store's clock tick. Every request
//! for missing pages asks for the very object that is known (`If-Match`, or the version), so bytes of two states of an object are never mixed in an answer.
//!
//! What was learnt of an object is believed for [`Builder::trust`], a minute by default; then one request asks whether it is the same. A put, copy, rename
//! or delete through the wrapper is seen at once, and so is what a listing or a head through it says. What others change behind the wrapper is seen when
//! the trust ends, or when a missing page is asked for.
//!
//! # What goes through
//!
//! Writes, listings, heads, and gets with conditions or a version go to the store as they are.
//!
//! # Rooms
//!
//! | room | owns | calls |
//! |---|---|---|
//! | [`store`] | the wrapper and its settings | all below |
//! | `read` | answers: bytes from pins, copies, streams | `objects` |
//! | `objects` | which objects are known, and until when | `fetch` |
//! | `fetch` | requests to the store: merged, bounded, timed | `tier`, `error`, `metrics` |
//! | `tier` | pages in a file on a local disk | `metrics` |
//! | `error`, [`metrics`] | errors that several readers get; counters | |

mod error;
mod fetch;
pub mod metrics;
mod objects;
mod read;
pub mod store;
mod tier;

pub use metrics::Metrics;
pub use store::{Builder, PagewellStore, Wrapped};
