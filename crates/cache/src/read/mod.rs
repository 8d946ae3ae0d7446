//! Reads of pages: hits, lookups, fills, pins and views.
//!
//! Owns. The optimistic and the referenced read ([`reader`]), and reads of a batch ([`many`]); the
//! lookup of a page's frame ([`lookup`]), also for tasks, without blocking ([`task`]); the fill of
//! missing pages ([`fill`]), fills that overlap ([`flight`]) and their submission ([`prefetch`]);
//! readahead ([`ahead`], [`guide`]); pins ([`pinner`], [`pin`]); views ([`viewer`]), the argument
//! of their closures ([`view`]), the bound on their accesses ([`look`]), and one attempt, which
//! memory spaces use too ([`look_at`](mod@look_at)).
//!
//! Calls `base`, `index`, `supply`, `dirty`, `mapping`. Depends on pages that are not clean only if
//! no frame is available, and then calls the file's cache callbacks
//! ([`Keeper`](crate::mapping::keeper::Keeper)).
//!
//! Guarantees. A read or a view within one page returns the bytes that the page had at one moment.
//! A hit on a page whose accessed bit is set writes no shared memory. A missing page is read from
//! the backend once, however many threads need it.

#[cfg(not(loom))]
pub(crate) mod ahead;
pub(crate) mod fill;
#[cfg(not(loom))]
pub(crate) mod flight;
#[cfg(not(loom))]
pub(crate) mod guide;
pub(crate) mod look;
pub(crate) mod look_at;
pub(crate) mod lookup;
#[cfg(not(loom))]
pub(crate) mod many;
#[cfg(not(loom))]
pub(crate) mod pin;
pub(crate) mod pinner;
#[cfg(not(loom))]
pub(crate) mod prefetch;
pub(crate) mod raw;
pub(crate) mod reader;
#[cfg(not(loom))]
pub(crate) mod task;
pub(crate) mod view;
pub(crate) mod viewer;
