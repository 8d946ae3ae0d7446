//! What users hold: caches and files.
//!
//! Owns. How a cache is set up ([`builder`]), the cache ([`cache`]), how a file is opened ([`options`]), the file ([`mod@file`]), and a
//! cache at which nobody is at work ([`quiet`]).
//!
//! Calls every room. It checks what users pass, and turns outcomes into errors; the work is done below.

pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod file;
pub(crate) mod options;
pub(crate) mod quiet;
