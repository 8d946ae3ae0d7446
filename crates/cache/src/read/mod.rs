//! Reading pages: hits, lookups, fills and pins.
//!
//! Owns. The optimistic and the referenced read ([`reader`]), from a page to a reference to its frame ([`lookup`]), reading
//! missing pages ([`fill`]) and how many at a time ([`ahead`]), pins ([`pin`]).
//!
//! Calls `base`, `index`, `supply`, `dirty`, `mapping`. What is not clean is in its way only when there are no frames: then the file's
//! keeper is asked.
//!
//! Promises. A read within one page gives its bytes as they were at one moment. A hit writes nothing that threads share. A page
//! is read from the storage once, however many want it.

#[cfg(not(loom))]
pub(crate) mod ahead;
pub(crate) mod fill;
pub(crate) mod lookup;
#[cfg(not(loom))]
pub(crate) mod pin;
pub(crate) mod raw;
pub(crate) mod reader;
