//! An open file: its record, and taking its pages out.
//!
//! Owns. The record that the handles of a file share ([`record::Mapping`]); the part of the cache that its files share
//! ([`shared::Shared`]); the word that counts a file's shares and visitors ([`users`]), and visitors
//! that own what they visit ([`visitor`]); the user that shows its pages ([`user`]);
//! taking pages out ([`remove`]), the file's size as others change it ([`refresh`]), and the end ([`teardown`]).
//!
//! Calls `base`, `index`, `supply` and `dirty`. A file asks its [`Keeper`](keeper::Keeper) for services of the whole cache: to be
//! forgotten, to have pages of any file made clean.
//!
//! Promises. Sizes are stored in the order on which the arguments of [`remove`] and `write::growth` rely. When the last handle,
//! visitor and pin have gone, all frames are given back, then the storage is closed, then the file is forgotten.

pub(crate) mod keeper;
pub(crate) mod record;
pub(crate) mod refresh;
pub(crate) mod remove;
pub(crate) mod shared;
mod teardown;
pub(crate) mod user;
pub(crate) mod users;
#[cfg(not(loom))]
pub(crate) mod visitor;
