//! Public handles: caches and files.
//!
//! Owns. The builder of a cache ([`builder`]), the cache ([`cache`]) and its companion
//! ([`companion`]), the options of a file ([`options`]), the file ([`mod@file`]) and its operations
//! on many places ([`many`]), and a cache without background work ([`quiet`]).
//!
//! Calls every lower layer. This layer checks arguments and converts outcomes into errors. The
//! lower layers do the work.

pub(crate) mod advise;
pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod companion;
pub(crate) mod file;
pub(crate) mod futures;
pub(crate) mod many;
pub(crate) mod options;
pub(crate) mod quiet;
