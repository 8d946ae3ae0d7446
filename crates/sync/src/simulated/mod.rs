//! One schedule that a seed decides: locks, waits, atomics, threads and time of a simulation (feature `simulated`).
//!
//! In a simulation ([`run`]) there are real threads, of which one runs at a time: who runs has the *baton*. It is passed on where a thread has to wait, and at any
//! operation on an atomic or a lock, and within copies of racy bytes, if the seed says so. Who has it next, which waiter is woken and how time passes follow from the seed and from nothing else. So the whole
//! run is a function of the seed, of the code that ships, and a failure replays.
//!
//! - **Waits.** A thread that finds a mutex locked, sleeps, or waits for a condition, is taken off the list of those that may run. Nobody ever waits in the system
//!   for anything but the baton.
//! - **Time** ([`Instant`]) is the simulation's: it passes a little at each switch, now and then much, and when nobody can run it goes on to the next moment for which somebody waits.
//! - **Memory.** As one thread runs at a time, each load sees the last store: what the processor and the compiler may reorder is for the models and the litmus tests.
//! - **An end.** If nobody can run, and nobody waits for a moment, the threads wait for each other: the process says so and ends ([`STUCK`]). So it does when a
//!   run takes more switches than any that ends.
//!
//! A thread that was not made in a simulation uses the primitives of `std`, through the same types. At most one simulation is there at a time.
//!
//! | file | what |
//! |---|---|
//! | `schedule` | who runs, who waits, what time it is; threads |
//! | `locks` | mutexes, conditions, locks of readers and writers |
//! | `atomics` | atomics, and fences |

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
