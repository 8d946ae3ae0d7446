//! Types of `std::sync` for tests: they take part in simulations, and record accesses.
//!
//! `pagewell-sync` with the feature `simulated` exports these types in place of `std`'s. In a
//! thread that neither belongs to a [simulation](run) nor [records](noted), they behave like
//! `std`'s.
//!
//! # Simulation
//!
//! A simulation ([`run`]) has real threads, but only the holder of the *baton* runs. It passes the
//! baton when it has to wait and, depending on the seed, at an operation on an atomic or a lock, or
//! within a copy of racy bytes. The seed alone determines the next holder ([`Draw`]), the waiter
//! that is woken, and the passage of time, so a failure can be replayed.
//!
//! - **Waits.** A thread that finds a mutex locked, sleeps, or waits for a condition is not
//!   runnable. The only operating-system wait of a simulated thread is the one for the baton.
//! - **Time** ([`Instant`]) advances by up to 0.1 s at one switch in 128, and by less than 20 µs at
//!   the others. If no thread is runnable, it advances to the next deadline.
//! - **Memory.** Each load sees the last store. Models and litmus tests cover reordering.
//! - **Termination.** A deadlock (no thread is runnable, and no deadline is pending), or too many
//!   switches, ends the process with an error message ([`STUCK`]).
//!
//! One simulation runs at a time.
//!
//! # Records
//!
//! [`noted`] returns the accesses of a thread to memory that may be shared: stores,
//! read-modify-writes and `SeqCst` fences, acquisitions of locks, and changes of the counts of an
//! [`Arc`]. Attempts that fail are recorded too, and in a simulation the acquisition after a wait.
//! Not recorded: loads, releases of locks, drops of a [`Weak`], and accesses to page bytes.

#![deny(unsafe_code)]

mod atomics;
mod locks;
mod notes;
mod pointers;
mod schedule;

pub use self::atomics::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use self::locks::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
pub use self::notes::{Kind, Note, noted};
pub use self::pointers::{Arc, Weak};
pub use self::schedule::{
    Draw, Instant, Joined, STUCK, Style, Trace, give_way, half_of_copy, is_here, point, run, sleep,
    spawn, spawn_named,
};
