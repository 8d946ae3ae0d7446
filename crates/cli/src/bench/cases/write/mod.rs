//! `bench write`: writes to pages that are in memory, syncs, and how fast the storage gets what was written.
//!
//! Every engine has files of its own, since each is to be found as it was left by that engine. What was written is
//! read again by `pread` after each cell, and compared: all blocks that were written to ([`parts`]), all records
//! since a file was cut last ([`append`]), all of the file ([`writeback`]).
//!
//! The cache writes the files of all cases but `writeback` back only when it is asked to, so that its thread does not
//! take a processor from the other engines' slices. The operating system leaves what `pwrite` has written alone for
//! half a minute too.

mod append;
mod blocks;
mod cache;
mod engines;
mod parts;
mod stage;
mod waiters;
mod writeback;
mod writer;

pub(in crate::bench) use self::engines::{
    ENGINES, LEGEND, RATIOS, WAITERS_ENGINES, WAITERS_RATIOS, WRITEBACK_ENGINES, WRITEBACK_RATIOS,
};
pub(in crate::bench) use self::stage::Stage;
