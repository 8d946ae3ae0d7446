//! Deterministic simulation: locks, waits, atomics, threads and time (feature `simulated`).
//!
//! A simulation ([`run`]) has real threads, but only the holder of the *baton* runs. The holder
//! passes the baton when it has to wait. Depending on the seed, the holder also passes the baton at
//! an operation on an atomic or a lock, or within a copy of racy bytes. The seed alone determines
//! the next holder, the waiter that is woken, and the passage of time. An execution is therefore a
//! function of the seed and of the code that ships, and a failure can be replayed.
//!
//! - **Waits.** A thread that finds a mutex locked, sleeps, or waits for a condition is not
//!   runnable. The only operating-system wait of a simulated thread is the one for the baton.
//! - **Time** ([`Instant`]) is simulated. Time advances by less than 20 µs at most switches, and by
//!   up to 0.1 s at one in 128. If no thread is runnable, it advances to the next deadline.
//! - **Memory.** Since one thread runs at a time, each load sees the last store. Reordering by the
//!   processor and the compiler is covered by the models and the litmus tests instead.
//! - **Termination.** A deadlock (no thread is runnable, and no deadline is pending) ends the
//!   process with an error message ([`STUCK`]). So does exceeding a limit of switches.
//!
//! In a thread that does not belong to a simulation, the same types behave like those of `std`. At
//! most one simulation runs at a time.
//!
//! | module | content |
//! |---|---|
//! | `schedule` | the baton, waiting threads, time; threads |
//! | `locks` | mutexes, condition variables, reader-writer locks |
//! | `atomics` | atomics and fences |

mod atomics;
mod locks;
mod schedule;

pub use self::atomics::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use self::locks::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
pub(crate) use self::schedule::half_of_copy;
pub use self::schedule::{
    Instant, Joined, STUCK, Style, Trace, give_way, is_here, point, run, sleep, spawn, spawn_named,
};
