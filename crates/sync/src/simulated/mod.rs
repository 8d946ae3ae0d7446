//! Deterministic simulation: locks, waits, atomics, threads and time (feature `simulated`).
//!
//! A simulation ([`run`]) has real threads, but only the holder of the *baton* runs. The holder
//! passes the baton when it has to wait. Depending on the seed, it also does so at an operation on
//! an atomic or a lock, or within a copy of racy bytes. The seed alone determines the next holder,
//! the waiter that is woken, and the passage of time. So an execution is a function of the seed and
//! of the code that ships, and a failure can be replayed.
//!
//! - **Waits.** A thread that finds a mutex locked, sleeps, or waits for a condition is not
//!   runnable. In the system, threads wait only for the baton.
//! - **Time** ([`Instant`]) is simulated. It advances a little at each switch, occasionally much.
//!   If no thread is runnable, it advances to the next deadline.
//! - **Memory.** Since one thread runs at a time, each load sees the last store. Reordering by the
//!   processor and the compiler is for the models and the litmus tests.
//! - **Termination.** A deadlock (no thread is runnable, and no deadline is pending) ends the
//!   process with an error message ([`STUCK`]). So does exceeding a limit of switches.
//!
//! A thread that was not started in a simulation uses the primitives of `std`, through the same
//! types. At most one simulation runs at a time.
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
