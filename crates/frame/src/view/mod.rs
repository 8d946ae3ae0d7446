//! Views: bytes of a page are read in place, and validated by words that writers change first.
//!
//! - Owns: the accesses of a view ([`PageView`]), and one attempt of it ([`attempt_view`]).
//! - Guarantees: the number of accesses of an attempt is bounded, whatever the bytes are. It has a
//!   result only if no watched word has changed. Words, retries and references are the caller's.

mod attempt;
mod page_view;

pub use self::attempt::{Torn, WatchedWords};
pub use self::page_view::{PageView, ViewOutcome, attempt_view};
