//! Which of several shards a thread uses, so that threads on different processors rarely meet.
//!
//! Every thread gets a number when it first asks; it uses shard `number % shards` from then on. That
//! is cheaper than asking for the current processor, and as good as long as threads stay put.

#[cfg(not(loom))]
mod imp {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);

    /// "This thread has not asked yet."
    const UNSET: usize = usize::MAX;

    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(UNSET) };
    }

    #[cold]
    fn assign(cell: &Cell<usize>) -> usize {
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        let number = NEXT.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 1);
        cell.set(number);
        number
    }

    /// This thread's number: small, and its own for as long as the process has started fewer than
    /// `usize::MAX / 2` threads.
    #[inline]
    pub fn thread_number() -> usize {
        // A thread whose locals are being destroyed shares shard 0; a shard is never exclusive.
        NUMBER
            .try_with(|cell| match cell.get() {
                UNSET => assign(cell),
                number => number,
            })
            .unwrap_or(0)
    }
}

#[cfg(loom)]
mod imp {
    /// Under loom all threads share one shard: sharing is the case worth exploring.
    pub fn thread_number() -> usize {
        0
    }
}

pub use imp::thread_number;

/// One value a cache line pair, so that two shards never share one (processors fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = thread_number();
        assert_eq!(mine, thread_number());
        let other = std::thread::spawn(thread_number).join().unwrap();
        assert_ne!(mine, other);
    }
}
