//! Open files of a cache: opening, closing, and the threads that write back.
//!
//! Owns. The state of a cache ([`state::Files`]); the open files ([`registry`]), with strong
//! ([`opened`]) and weak references ([`state::visit`]), and identity checks ([`same`]); threads
//! ([`flushers`]) and their work, the creation of the state, callbacks of lower layers ([`serve`]);
//! waits for clean pages ([`clean`]). Calls all lower layers except `read` and `write`.
//!
//! Guarantees. All handles of an inode share one open file. Once the last handle is closed,
//! everything is durable or an error was reported. The drop of the last strong reference closes the
//! file; if a callback or a codec drops it, a flusher may close the file later ([`opened`]). No
//! operation on one file waits without a time limit for the backend or callback of another, unless
//! these use up a resource that all files share: budget reservations (`supply::permits`), and
//! threads for offloaded calls and for codecs.

pub(crate) mod clean;
pub(crate) mod flushers;
pub(crate) mod opened;
pub(crate) mod registry;
pub(crate) mod same;
pub(crate) mod serve;
pub(crate) mod state;

#[cfg(test)]
mod tests;
