//! Views: bytes of a page are read in place, and validated by words that are changed before them.
//!
//! - Owns: the accesses of a view ([`PageView`]), and one attempt of it ([`attempt_view`]).
//! - Guarantees: an attempt ends, whatever the bytes are. It has a result only if no watched word
//!   has changed. Words, retries and attempts with a reference are up to the caller.

mod attempt;
mod outcome;
mod page_view;

pub use self::attempt::{Torn, WatchedWords};
pub use self::outcome::{ViewOutcome, attempt_view};
pub use self::page_view::PageView;
