//! Record of an open file, and removal of its pages.
//!
//! Owns.
//! - the record that the handles of a file share ([`record::Mapping`]), and the part of the cache
//!   that its files share ([`shared::Shared`]);
//! - the word that counts strong and weak references to a file ([`users`]), and weak references
//!   that own their target ([`visitor`]);
//! - the user that maps the file's pages ([`user`]);
//! - removal of pages ([`remove`]), size changes made outside the cache ([`refresh`]), and teardown
//!   ([`teardown`]).
//!
//! Calls `base`, `index`, `supply` and `dirty`. A file requests services of the whole cache from
//! its [`Keeper`](keeper::Keeper): removal from the registry, and cleaning of pages of any file.
//!
//! Promises. Sizes are stored in the order on which the arguments of [`remove`] and `write::growth`
//! rely. After the last handle and weak reference are dropped, the frames are freed, except those
//! that owned pins keep; then the backend is closed, then the file is removed from the registry.

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
