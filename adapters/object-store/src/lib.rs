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
//! The cache holds bytes of objects in pages. Its capacity covers the pages and the metadata of
//! objects. The strong entity tag or the version identifies the state of an object at a location.
//! If the store returns neither, size and modification time identify it, provided that the last
//! change was at least a second old at the request. Each request for missing pages requires this
//! state (`If-Match` with the tag as the store spells it, or the version if there is no strong
//! tag), and its answer is compared with the state. So no answer from the cache mixes bytes of two
//! states that the store's metadata distinguish.
//!
//! Entity tags are compared without quotes. An empty tag and a time at the Unix epoch count as
//! missing. Equal weak tags (`W/"..."`) prove nothing. If nothing identifies the state, the object
//! is fetched again when the trust in it ends (see below). Until then only another size or time
//! shows a replacement, so pages of two states of equal size can be mixed.
//!
//! An object that is written again with the same bytes has the same tag on some services. Its time
//! and attributes are then those of the last check or head.
//!
//! A state is trusted for the time set by [`Builder::trust`], by default a minute. The first read
//! after that checks the object by a head, or by a request for one byte if heads are refused or
//! prove nothing. Puts, copies, renames and deletes through the wrapper take effect at once, and so
//! do the results of its listings and heads. A change that bypasses the wrapper is detected when
//! the trust ends, or when a missing page is requested.
//!
//! The second tier ([`Builder::disk`]) has pages of earlier processes only if the store has a name
//! ([`Builder::namespace`]), and only for objects with a strong entity tag.
//!
//! # Uncached operations
//!
//! Writes, listings, heads, gets with conditions or a version, and calls of `get_ranges` with an
//! empty range go to the store unchanged (the latter once the object is open). So do requests for
//! objects that the cache cannot serve:
//!
//! - larger than 4 MiB, from a server that does not support ranges. They are passed on for a minute
//!   before the next try. (Smaller ones are requested whole.)
//! - with a content encoding, and another number of bytes than the size in the metadata.
//! - found to be replaced at each of four tries of a get. They are passed on for a minute.
//!   (`get_ranges` tries again and then fails, since separate requests may see several states.)
//! - for which the cache has no memory.
//!
//! `get_ranges` of an object that is passed on sends separate requests, which may see two states.
//!
//! # Extensions
//!
//! Each request that a get causes has the extensions of the get. A request for pages of several
//! gets has those of the get whose page is the first in the object. The request that opens or
//! checks an object has those of the first get that waits for it.
//!
//! # Modules
//!
//! | module | owns | calls |
//! |---|---|---|
//! | `builder` | settings of the wrapper, and its creation | all below |
//! | [`store`] | the wrapper: operations of a store | all below |
//! | `read` | gets: repeats, pins, copies, streams | `objects`, `fetch`, `error`, `metrics` |
//! | `objects` | known objects, and checks of their state | `fetch` and those it calls |
//! | `fetch` | requests to the store: merged, bounded, timed | `tier` and those it calls, `error` |
//! | `tier` | pages in a file on a local disk | `identity`, `metrics` |
//! | `identity` | comparison of states of an object | |
//! | `error`, `feature` | errors shared by several readers; features that a store may lack | |
//! | `permits`, [`metrics`] | limits; counters | |

mod builder;
mod error;
mod feature;
mod fetch;
mod identity;
pub mod metrics;
mod objects;
mod permits;
mod read;
pub mod store;
mod tier;

pub use builder::Builder;
pub use metrics::Metrics;
pub use store::{PagewellStore, Wrapped};
