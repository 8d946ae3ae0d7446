//! Public handles: caches and files.
//!
//! Owns. The [`builder`] of a cache, the [`cache`], its companion and its quiet state; the
//! [`open`]ing of a file with [`options`]; the [file](mod@file), its [reads](mod@read) and
//! [writes](mod@write), [`many`] reads at once and hints, and [`futures`].
//!
//! Calls every lower layer. This layer checks arguments and converts outcomes into errors.

pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod file;
pub(crate) mod futures;
pub(crate) mod many;
mod open;
pub(crate) mod options;
mod read;
mod write;
