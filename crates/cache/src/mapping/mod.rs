//! Record of an open file, and removal of its pages.
//!
//! Owns.
//! - the record of a file ([`record::Mapping`]), its [`arrays`], and what files share
//!   ([`shared::Shared`]);
//! - references to a file ([`users`], [`visitor`]), and the user that maps it ([`user`]);
//! - errors of fills, for the readers that wait for them ([`followers`]);
//! - removal of pages, external size changes, teardown ([`remove`]).
//!
//! Calls `base`, `index`, `supply` and `dirty`, and the whole cache by [`Keeper`](shared::Keeper).
//!
//! Promises. Sizes are stored in the order on which the arguments of [`remove`] and `write::growth`
//! rely. After the last handle and weak reference are dropped, the frames are freed, except those
//! that owned pins keep; then the backend is closed, then the file is removed from the registry.

mod arrays;
pub(crate) mod followers;
pub(crate) mod record;
pub(crate) mod remove;
pub(crate) mod shared;
pub(crate) mod user;
pub(crate) mod users;
pub(crate) mod visitor;
