//! An open file: its record, and taking its pages out.
//!
//! Owns. What the handles of a file share ([`record::Mapping`]); what the files of a cache share below them
//! ([`shared::Shared`]); who keeps a file open and who looks at it, as a word ([`users`]); who shows its pages ([`user`]);
//! taking pages out ([`remove`]), the file's size as others change it ([`refresh`]), and the end ([`teardown`]).
//!
//! Calls `base`, `index`, `supply` and `dirty`. What a file wants of the cache as a whole (to be forgotten, to have pages of any
//! file made clean) it asks of its [`Keeper`](keeper::Keeper).
//!
//! Promises. Sizes are stored in the order that [`remove`] and `write::growth` argue with. When the last handle, visitor and
//! pin have gone, all frames are given back, then the storage is closed, then the file is forgotten.

pub(crate) mod keeper;
pub(crate) mod record;
pub(crate) mod refresh;
pub(crate) mod remove;
pub(crate) mod shared;
mod teardown;
pub(crate) mod user;
pub(crate) mod users;
