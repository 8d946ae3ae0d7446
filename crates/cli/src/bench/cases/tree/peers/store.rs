//! What a store is asked for, and how it is opened.

use std::ops::Range;

use super::super::entries::{VALUE, key, value};
use crate::failure::Failure;

/// Whether an insert is durable when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Durable {
    Now,
    Later,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Opening {
    /// Bytes of the store's own cache, if it has one.
    pub(in crate::bench) cache_bytes: u64,
    /// How many finders or writers there will be.
    pub(in crate::bench) nr_threads: u32,
    pub(in crate::bench) durable: Durable,
    pub(in crate::bench) residence: Residence,
}

/// Whether the store is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Residence {
    /// All of it.
    Cached,
    /// A part, of which nothing is known.
    Partly,
}

/// An open store.
pub(in crate::bench) trait Store: Send + Sync {
    /// Gets for one thread.
    fn finder(&self) -> Result<Box<dyn Find>, Failure>;

    /// Inserts for one thread.
    fn writer(&self) -> Result<Box<dyn Insert>, Failure>;

    /// Puts the entries with these numbers in, in one transaction.
    fn fill(&self, numbers: Range<u64>) -> Result<(), Failure>;
}

/// Copies the value of a key, and says whether there is one.
pub(in crate::bench) type Lookup<'l> = dyn FnMut(&[u8], &mut Vec<u8>) -> Result<bool, String> + 'l;

/// Gets of one thread.
pub(in crate::bench) trait Find: Send {
    /// Has `work` look up any number of keys.
    fn with(
        &mut self,
        work: &mut dyn FnMut(&mut Lookup<'_>) -> Result<(), String>,
    ) -> Result<(), String>;
}

/// Inserts of one thread.
pub(in crate::bench) trait Insert: Send {
    /// Puts an entry in, in a transaction of its own; whether the key was there.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, String>;
}

/// What a store says that fails.
pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::because("the store has failed", error)
}

pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Copies what was found.
pub(super) fn copy(found: &[u8], value: &mut Vec<u8>) {
    value.clear();
    value.extend_from_slice(found);
}

/// The entries with these numbers.
pub(super) fn entries(numbers: Range<u64>) -> impl Iterator<Item = ([u8; 8], [u8; VALUE])> {
    numbers.map(|nr| (key(nr), value(nr)))
}
