//! The benchmarks: one room or file each. Every one has `ENGINES`, the names in the order of their lanes; `RATIOS`, which of them are compared; `LEGEND`, a line
//! each for people; and a `run` that measures a cell, or a `Stage` where cells share files.
//!
//! | room | engines |
//! |---|---|
//! | [`refcount`] | ways to count references |
//! | [`pin`](mod@pin) | ways to pin pages |
//! | [`read`] | ways to get bytes of a cached file |
//! | [`write`] | ways to change them, and to get them to the storage |
//! | [`contig`], [`alloc`] | ways to free contiguous frames; allocators |
//! | [`space`], [`mod@fork`], [`migrate`] | reads, snapshots and moves of a memory space |
//! | [`tree`] | ways to read a B+tree, and inserts |
//! | [`cold`] | ways to read a file that is in no cache, and to commit |
//!
//! - **Owns** the engines, what they need while a cell is measured, and the check afterwards.
//! - **May call** `data`, `crew`, `plan`. A benchmark calls no other one; what two need is in `spaces` and `fio`.
//! - **Promises** that all engines of a cell do the same work, at the same positions, and that it is checked.

pub(in crate::bench) mod alloc;
mod catalogue;
pub(in crate::bench) mod cold;
pub(in crate::bench) mod contig;
mod fio;
pub(in crate::bench) mod fork;
pub(in crate::bench) mod migrate;
pub(in crate::bench) mod pin;
pub(in crate::bench) mod read;
pub(in crate::bench) mod refcount;
pub(in crate::bench) mod space;
mod spaces;
pub(in crate::bench) mod tree;
pub(in crate::bench) mod write;

pub(in crate::bench) use self::catalogue::{engines, legend, ratios};
pub(crate) use self::tree::EngineArgs;
