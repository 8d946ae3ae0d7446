//! What users hold: caches and files.
//!
//! Owns. The builder of a cache ([`builder`]), the cache ([`cache`]) and its companion ([`companion`]), the options of a file
//! ([`options`]), the file ([`mod@file`]) and what it does at many places ([`many`]), and a cache
//! without background work ([`quiet`]).
//!
//! Calls every room. It checks the arguments of users, and turns outcomes into errors; the rooms below do the work.

pub(crate) mod advise;
pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod companion;
pub(crate) mod file;
pub(crate) mod futures;
pub(crate) mod many;
pub(crate) mod options;
pub(crate) mod quiet;
