//! Thread numbers, and values that do not share cache lines.
//!
//! A live thread has a unique *number*, which is reused after its end and so stays small. It also
//! has a *serial*, which is never reused in a process. Code that keeps state by thread number
//! compares the serial, and so detects that the number belongs to a new thread.

use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};

#[cfg(not(loom))]
mod imp {
    use std::cell::Cell;
    // `std`'s atomics even in simulations: numbers belong to the process.
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use crate::raced::Raced;

    use super::Identity;

    /// Bitmap of the numbers of live threads. It has no lock for which a child of `fork` could
    /// wait. (In the child, the parent's other threads keep their numbers.)
    struct Numbers {
        words: [AtomicU64; Self::WORDS],
        /// Segment with the next [`Self::LEN`] numbers.
        next: Raced<Self>,
    }

    impl Numbers {
        const WORDS: usize = 16;
        const BITS: usize = u64::BITS as usize;
        const LEN: usize = Self::WORDS * Self::BITS;

        const fn new() -> Self {
            Self {
                words: [const { AtomicU64::new(0) }; Self::WORDS],
                next: Raced::new(),
            }
        }

        /// Allocates the smallest number whose bit this thread finds clear.
        fn take(&self) -> usize {
            let mut numbers = self;
            let mut first = 0;
            loop {
                for (i, word) in numbers.words.iter().enumerate() {
                    if let Some(bit) = Self::take_in(word) {
                        return first + i * Self::BITS + bit;
                    }
                }
                numbers = numbers.next.get_or_make(Self::new);
                first += Self::LEN;
            }
        }

        fn take_in(word: &AtomicU64) -> Option<usize> {
            // ORDERING: Relaxed; a hint at a clear bit. The `fetch_or` decides.
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones();
                // ORDERING: Acquire; pairs with the Release of `give_back`, also through later
                // changes of other bits, so uses by one thread happen before those by the next.
                taken = word.fetch_or(1 << bit, Ordering::Acquire);
                if taken & 1 << bit == 0 {
                    return Some(bit as usize);
                }
            }
            None
        }

        fn give_back(&self, number: usize) {
            let mut numbers = self;
            let mut place = number;
            while place >= Self::LEN {
                // The number was allocated from a later segment, so the next one exists.
                numbers = numbers.next.get_or_make(Self::new);
                place -= Self::LEN;
            }
            // ORDERING: Release; pairs with the Acquire of `take_in`.
            let bit = 1 << (place % Self::BITS);
            numbers.words[place / Self::BITS].fetch_and(!bit, Ordering::Release);
        }
    }

    static NUMBERS: Numbers = Numbers::new();

    /// After `u32::MAX`, no thread gets a serial.
    static LAST_SERIAL: AtomicU32 = AtomicU32::new(0);

    fn new_serial() -> Option<u32> {
        // ORDERING: Relaxed, both; changes of one word are totally ordered, so serials are unique.
        let last = LAST_SERIAL.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            last.checked_add(1)
        });
        Some(last.ok()? + 1)
    }

    /// The thread has not requested its number yet.
    const UNSET: usize = usize::MAX;
    /// The ending thread has freed its number.
    const GONE: usize = usize::MAX - 1;

    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(UNSET) };
        /// [`Identity::bits`]; zero while the thread has no identity.
        static IDENTITY: Cell<u64> = const { Cell::new(0) };
        static RETURN: Return = const { Return };
    }

    struct Return;

    impl Drop for Return {
        fn drop(&mut self) {
            // Requests by later destructors get `None`.
            let number = NUMBER.replace(GONE);
            IDENTITY.set(0);
            if number < GONE {
                NUMBERS.give_back(number);
            }
        }
    }

    #[cold]
    fn assign() -> Option<usize> {
        if NUMBER.get() == GONE || RETURN.try_with(|_| ()).is_err() {
            return None;
        }
        let number = NUMBERS.take();
        if let (Some(serial), Ok(number)) = (new_serial(), u32::try_from(number)) {
            IDENTITY.set(Identity::new(number, serial).bits());
        }
        NUMBER.set(number);
        Some(number)
    }

    #[cold]
    fn assign_identity() -> Option<Identity> {
        own_number()?;
        Identity::from_bits(IDENTITY.get())
    }

    /// Returns this thread's number and serial, or `None` while its thread-local variables are
    /// destroyed, or if all 2^32 - 1 serials have been assigned before.
    #[inline(always)]
    pub fn own_identity() -> Option<Identity> {
        match Identity::from_bits(IDENTITY.get()) {
            Some(identity) => Some(identity),
            None => assign_identity(),
        }
    }

    /// Returns this thread's number and serial if it has them. Assigns none.
    #[inline(always)]
    pub fn known_identity() -> Option<Identity> {
        Identity::from_bits(IDENTITY.get())
    }

    /// Returns this thread's number, unique among live threads, or `None` while its thread-local
    /// variables are destroyed. Its uses by this thread happen before those by its next owner.
    #[inline]
    pub fn own_number() -> Option<usize> {
        match NUMBER.get() {
            number if number < GONE => Some(number),
            _ => assign(),
        }
    }

    #[cfg(test)]
    mod tests {
        use std::collections::HashSet;
        use std::sync::Barrier;

        use super::*;

        #[test]
        fn numbers_are_handed_out_from_the_smallest_and_again() {
            let numbers = Numbers::new();
            let most = 2 * Numbers::LEN + 70;
            for number in 0..most {
                assert_eq!(numbers.take(), number);
            }
            for number in [most - 1, 5, Numbers::LEN, 63] {
                numbers.give_back(number);
            }
            for number in [5, 63, Numbers::LEN, most - 1, most] {
                assert_eq!(numbers.take(), number);
            }
        }

        #[test]
        fn no_two_threads_have_one_number() {
            const THREADS: usize = 4;
            let numbers = Numbers::new();
            let start = Barrier::new(THREADS);
            for _ in 0..100 {
                let taken: Vec<Vec<usize>> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS)
                        .map(|_| {
                            scope.spawn(|| {
                                start.wait();
                                (0..40).map(|_| numbers.take()).collect()
                            })
                        })
                        .collect();
                    threads.into_iter().map(|t| t.join().unwrap()).collect()
                });
                let all: HashSet<usize> = taken.iter().flatten().copied().collect();
                assert_eq!(all.len(), THREADS * 40);
                assert_eq!(all.iter().max(), Some(&(THREADS * 40 - 1)));
                for number in all {
                    numbers.give_back(number);
                }
            }
        }

        #[test]
        fn serials_rise() {
            let first = new_serial().unwrap();
            assert!(new_serial().unwrap() > first);
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::sync::Mutex;

    // loom's lazy statics hold the state, because it belongs to the execution.
    loom::lazy_static! {
        static ref NEXT: Mutex<usize> = Mutex::new(0);
    }

    loom::thread_local! {
        static NUMBER: usize = {
            let mut next = NEXT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *next += 1;
            *next - 1
        };
    }

    /// This thread's number.
    pub fn own_number() -> Option<usize> {
        Some(NUMBER.with(|number| *number))
    }

    /// This thread's number and serial.
    pub fn own_identity() -> Option<super::Identity> {
        let number = NUMBER.with(|number| *number) as u32;
        Some(super::Identity::new(number, number + 1))
    }

    pub use self::own_identity as known_identity;
}

pub use imp::{known_identity, own_identity, own_number};

/// A thread's number, unique among live threads, and its serial, unique for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    number: u32,
    serial: NonZeroU32,
}

impl Identity {
    /// Creates an identity for models; others call [`own_identity`]. A serial of 0 counts as 1.
    #[must_use]
    pub const fn new(number: u32, serial: u32) -> Self {
        let serial = match NonZeroU32::new(serial) {
            Some(serial) => serial,
            None => NonZeroU32::MIN,
        };
        Self { number, serial }
    }

    /// The number.
    #[inline(always)]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.number
    }

    /// The serial; not 0.
    #[inline(always)]
    #[must_use]
    pub const fn serial(self) -> u32 {
        self.serial.get()
    }

    #[cfg(not(loom))]
    const fn bits(self) -> u64 {
        self.number as u64 | (self.serial.get() as u64) << u32::BITS
    }

    #[cfg(not(loom))]
    #[inline(always)]
    const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU32::new((bits >> u32::BITS) as u32) {
            Some(serial) => Some(Self {
                number: bits as u32,
                serial,
            }),
            None => None,
        }
    }
}

/// Bytes of a pair of cache lines. Processors prefetch lines in pairs.
pub const LINES: usize = 128;

/// A value that shares its pairs of cache lines with no other value.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

const _: () = assert!(align_of::<Padded<u8>>() == LINES && size_of::<Padded<u8>>() == LINES);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// About one value per processor, to reduce contention. Threads that run concurrently may share a
/// value, so it must support concurrent updates.
#[derive(Debug)]
pub struct Shards<T>(Box<[Padded<T>]>);

/// Returns the number of processors that this process may use. Constant in simulations.
#[must_use]
pub fn nr_cpus() -> usize {
    match cfg!(feature = "simulated") {
        true => 4,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Maximum number of shards. On machines with more processors, several share one.
const MOST_SHARDS: usize = 64;

impl<T: Default> Shards<T> {
    /// Creates [`nr_cpus`] values, rounded up to a power of two, at most 64; under loom, one.
    #[must_use]
    pub fn new() -> Self {
        let nr_cpus = if cfg!(loom) { 1 } else { nr_cpus() };
        let nr = nr_cpus.next_power_of_two().min(MOST_SHARDS);
        Self((0..nr).map(|_| Padded::default()).collect())
    }
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Shards<T> {
    /// Returns the index of this thread's value.
    #[inline]
    #[must_use]
    pub fn own(&self) -> usize {
        // A power of two (see `new`).
        own_number().unwrap_or(0) & (self.0.len() - 1)
    }

    /// Returns the value with index `shard`, which may be another thread's [`own`](Self::own), or
    /// the last value if the index is too high.
    #[inline]
    #[must_use]
    pub fn get(&self, shard: usize) -> &T {
        let last = self.0.len() - 1;
        &self.0[shard.min(last)]
    }

    /// Iterates over all values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}

/// Padding between two fields that must not share a cache line, for types on a program's stack,
/// where an alignment of [`LINES`] would cost a register.
#[derive(Debug)]
pub struct Gap {
    _bytes: [MaybeUninit<u8>; LINES],
}

impl Gap {
    /// Uninitialized padding.
    pub const NEW: Self = Self {
        _bytes: [MaybeUninit::uninit(); LINES],
    };
}

/// Returns `true` if the `len` bytes at offset `start` of a `T` share no pair of cache lines with a
/// [`Padded`] field of [`LINES`] bytes at offset `other`, whatever the address of the `T`.
#[must_use]
pub const fn is_apart<T>(start: usize, len: usize, other: usize) -> bool {
    let is_padded = align_of::<T>().is_multiple_of(LINES) && other.is_multiple_of(LINES);
    is_padded && (start + len <= other || start >= other + LINES)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = own_number();
        assert!(mine.is_some());
        assert_eq!(mine, own_number());
        let other = std::thread::spawn(own_number).join().unwrap();
        assert_ne!(mine, other);
    }

    #[test]
    fn a_serial_is_never_handed_on() {
        let mine = own_identity().unwrap();
        assert_eq!(own_identity(), Some(mine));
        assert_eq!(Some(mine.number() as usize), own_number());
        let mut serials = std::collections::HashSet::from([mine.serial()]);
        for _ in 0..100 {
            let other = std::thread::spawn(own_identity).join().unwrap().unwrap();
            assert!(serials.insert(other.serial()), "{other:?}");
        }
    }

    #[test]
    fn each_thread_has_a_shard_and_all_are_there_to_be_added_up() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        let shards = Shards::<AtomicUsize>::new();
        assert!(shards.iter().len().is_power_of_two());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    assert!(shards.own() < shards.iter().len());
                    shards.get(shards.own()).fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        let all = shards.iter().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(all.sum::<usize>(), 4);
        assert!(std::ptr::eq(
            shards.get(usize::MAX),
            shards.iter().last().unwrap()
        ));
    }

    #[test]
    fn numbers_of_ended_threads_are_handed_on() {
        // Other tests allocate numbers too, so only expect far fewer numbers than threads.
        let mut highest = 0;
        for _ in 0..1000 {
            let number = std::thread::spawn(own_number).join().unwrap();
            highest = highest.max(number.unwrap());
        }
        assert!(highest < 500, "{highest}");
    }

    #[test]
    fn a_thread_that_ends_has_no_number() {
        type Told = (Option<usize>, Option<Identity>);
        struct AsksLate(std::sync::mpsc::Sender<Told>);
        impl Drop for AsksLate {
            fn drop(&mut self) {
                let _ = self.0.send((own_number(), own_identity()));
            }
        }
        thread_local! {
            static LATE: RefCell<Option<AsksLate>> = const { RefCell::new(None) };
        }
        let (teller, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Registered before the number is assigned, and so destroyed after it is freed.
            LATE.with(|late| *late.borrow_mut() = Some(AsksLate(teller)));
            own_number()
        })
        .join()
        .unwrap();
        assert_eq!(told.recv(), Ok((None, None)));
    }
}
