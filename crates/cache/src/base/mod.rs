//! Slot and state words, value types, and memory of the operating system.
//!
//! Owns. The slot's word ([`slot`]) and the page's state ([`page_state`]), with every legal
//! transition; page numbers and sizes, leaf clusters ([`page`]), writes to a page ([`edit`]),
//! errors ([`error`]); page codecs ([`page_hooks`]) and their [`layout`]; the owning
//! process ([`home`]); memory ([`system`]).
//!
//! Calls no other module of the cache. A [`slot`] and a [`page_state`] are plain values; the module
//! that owns the atomic word changes it.

pub(crate) mod edit;
pub(crate) mod error;
pub(crate) mod home;
pub(crate) mod layout;
pub(crate) mod page;
pub(crate) mod page_hooks;
pub(crate) mod page_state;
pub(crate) mod slot;
pub(crate) mod system;
