//! `bench cold`: reads of a file that is in no cache, and commits of many threads; beside fio, where it is installed, and beside system calls.
//!
//! The file is transferred past the operating system's cache by all engines, if its file system can do that; so it is read from the device each
//! time. None of what the cache is asked for is cached, and all of its frames have other pages: each miss evicts one ([`file`]). What it does beside, in
//! threads of its own, is counted in the processor time.
//!
//! fio runs as a program of its own, in turns with the other engines, and times itself ([`fio`](super::fio)).

mod asynchronous;
mod commits;
mod engines;
mod file;
mod reads;
mod stage;

pub(in crate::bench) use self::engines::{LEGEND, engines, ratios, times};
pub(in crate::bench) use self::stage::Stage;
