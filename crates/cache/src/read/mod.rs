//! Reads of pages: hits, lookups, fills, pins and views.
//!
//! Owns. The optimistic and the referenced read ([`reader`]; batches: [`many`]); the lookup of a
//! page's frame ([`lookup`], for tasks [`task`]); fills ([`fill`]), also overlapping ones
//! ([`flight`]); readahead ([`ahead`]); pins ([`pinner`]); views ([`viewer`]); unsafe steps
//! ([`raw`]).
//!
//! Calls `base`, `index`, `supply`, `dirty`, `mapping`; if no frame is available because of pages
//! that are not clean, the file's cache callbacks ([`Keeper`](crate::mapping::shared::Keeper)).
//!
//! Guarantees. A read or view within one page returns the bytes that the page had at one moment. A
//! hit of an optimistic read or view writes no shared memory. Concurrent misses read a page once.

pub(crate) mod ahead;
pub(crate) mod fill;
pub(crate) mod flight;
pub(crate) mod lookup;
pub(crate) mod many;
pub(crate) mod pinner;
pub(crate) mod raw;
pub(crate) mod reader;
pub(crate) mod task;
pub(crate) mod viewer;
