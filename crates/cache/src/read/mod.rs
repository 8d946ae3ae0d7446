//! Reading pages: hits, lookups, fills and pins.
//!
//! Owns. The optimistic and the referenced read ([`reader`]), reads of a batch ([`many`]), the lookup from a page to a reference to its frame ([`lookup`]),
//! the fill of missing pages ([`fill`]), fills that overlap ([`flight`]) and what begins them ([`prefetch`]), pages for tasks, which do not wait ([`task`]), the pages to read ahead ([`ahead`], [`guide`]), pins ([`pin`]); views ([`viewer`]), what their closures get
//! ([`view`]), what ends these ([`look`]), and one look with its outcome, as memory spaces have it too ([`look_at`](mod@look_at)).
//!
//! Calls `base`, `index`, `supply`, `dirty`, `mapping`. Unclean pages are in its way only when there are no frames: then it asks the
//! file's keeper.
//!
//! Promises. A read or a view within one page gives its bytes as they were at one moment. A hit writes nothing that threads share. A page
//! is read from the storage once, however many threads want it.

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
#[cfg(not(loom))]
pub(crate) mod prefetch;
pub(crate) mod raw;
pub(crate) mod reader;
#[cfg(not(loom))]
pub(crate) mod task;
pub(crate) mod view;
pub(crate) mod viewer;
