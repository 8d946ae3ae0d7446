//! Arrays of words in reserved address ranges. Creation reserves the addresses, and the first
//! access to a word allocates memory. Arrays that are created together share a mapping, since each
//! mapping takes several system calls.

#![allow(unsafe_code)] // Maps memory, and accesses it.

use std::io;

use crate::atomic::{AtomicU64, Ordering};

pub use imp::{Region, RegionRef};

/// Use of huge pages for memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HugePages {
    /// The system's default (`/sys/kernel/mm/transparent_hugepage/enabled`).
    System,
    /// Requests huge pages, which the system grants if its setting is `madvise` or `always`: fewer
    /// TLB misses, but memory is allocated, and zeroed on first use, in units of 2 MiB.
    #[default]
    Advise,
    /// Prevents huge pages: memory is allocated in small pages, 4 KiB on x86-64.
    Never,
}

/// Settings of a [`Region`].
#[derive(Clone, Copy, Debug)]
pub struct RegionOptions {
    /// Alignment of the first word, in bytes: a power of two.
    pub align: usize,
    /// Number of bytes after the last word that can be read, with arbitrary contents.
    pub readable_after: usize,
    /// Use of huge pages.
    pub huge_pages: HugePages,
    /// Whether `mlockall(MCL_FUTURE)` locks the memory, which the system then allocates at once.
    pub is_lockable: bool,
}

impl Default for RegionOptions {
    fn default() -> Self {
        Self {
            align: size_of::<AtomicU64>(),
            readable_after: 0,
            huge_pages: HugePages::Never,
            is_lockable: false,
        }
    }
}

impl Region {
    /// Reserves an array of `len` words, which are zero. Fails for lack of addresses (RLIMIT_AS,
    /// RLIMIT_DATA, vm.overcommit_memory), and above RLIMIT_MEMLOCK in a process that locks its
    /// future memory.
    pub fn reserve(len: usize) -> io::Result<Self> {
        Self::reserve_with(len, &RegionOptions::default())
    }

    /// Discards the memory of the words `first..first + nr`, which are zero afterwards. The range
    /// begins and ends at multiples of 512 words, and no thread stores to it concurrently.
    pub fn discard(&self, first: usize, nr: usize) {
        if !self.give_back(first, nr) {
            for word in &self[first..first + nr] {
                // ORDERING: Relaxed; the caller publishes that the words are free.
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(not(loom))]
mod imp {
    use std::io;
    use std::ops::Deref;
    use std::ptr::{self, NonNull};
    use std::sync::Arc;

    use super::{HugePages, RegionOptions};
    use crate::atomic::AtomicU64;
    use crate::bytes::RacyBytes;
    use crate::bytes::width::select_default;
    use crate::system;

    /// Granularity in bytes at which memory is allocated and discarded.
    const UNIT: usize = 4096;

    /// A mapping of zeros, private, readable and writable.
    #[derive(Debug)]
    struct Mapping {
        start: NonNull<u8>,
        bytes: usize,
        /// Page size of the system, at least [`UNIT`].
        page: usize,
    }

    // SAFETY: the value owns an address range, and accesses none of its memory.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    fn out_of_addresses() -> io::Error {
        io::Error::from_raw_os_error(libc::ENOMEM)
    }

    fn unmap(start: *mut u8, bytes: usize) {
        if bytes != 0 {
            // SAFETY: every caller passes an unreferenced part of a mapping of its own.
            let _ = unsafe { libc::munmap(start.cast(), bytes) };
        }
    }

    impl Mapping {
        /// Maps `bytes`, at least one unit.
        fn new(bytes: usize, options: &RegionOptions) -> io::Result<Self> {
            select_default();
            assert!(options.align.is_power_of_two());
            let page = system::page_bytes().unwrap_or(UNIT).max(UNIT);
            let kept = bytes.checked_add(options.readable_after);
            let kept = kept.and_then(|kept| kept.max(1).checked_next_multiple_of(page));
            let kept = kept.ok_or_else(out_of_addresses)?;
            let spare = if options.align > page {
                options.align
            } else {
                0
            };
            let mapped = kept.checked_add(spare).ok_or_else(out_of_addresses)?;
            let accessible = libc::PROT_READ | libc::PROT_WRITE;
            // The system allocates no pages for a locked mapping without access.
            let access = match options.is_lockable {
                true => accessible,
                false => libc::PROT_NONE,
            };
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping at an address of the kernel's choice affects no other memory.
            let start = unsafe { libc::mmap(ptr::null_mut(), mapped, access, flags, -1, 0) };
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let mut start = start.cast::<u8>();
            if spare != 0 {
                let lead = start.addr().next_multiple_of(options.align) - start.addr();
                unmap(start, lead);
                start = start.wrapping_add(lead);
                unmap(start.wrapping_add(kept), spare - lead);
            }
            let mapping = Self {
                start: NonNull::new(start).ok_or_else(out_of_addresses)?,
                bytes: kept,
                page,
            };
            if !options.is_lockable {
                // SAFETY: the new mapping has no contents. If it is not locked, nothing changes.
                let _ = unsafe { libc::munlock(start.cast(), kept) };
                // SAFETY: the new mapping, to which there are no references.
                if unsafe { libc::mprotect(start.cast(), kept, accessible) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            let advice = match options.huge_pages {
                HugePages::Never => libc::MADV_NOHUGEPAGE,
                HugePages::Advise => libc::MADV_HUGEPAGE,
                HugePages::System => return Ok(mapping),
            };
            // SAFETY: the new mapping; the advice changes no contents. A refusal is no error: the
            // kernel may lack huge pages.
            let _ = unsafe { libc::madvise(start.cast(), kept, advice) };
            Ok(mapping)
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // Each array has a reference to this value, so no array is left, and no borrow of one.
            unmap(self.start.as_ptr(), self.bytes);
        }
    }

    /// An array of words in reserved addresses. A clone is the same array.
    #[derive(Clone, Debug)]
    pub struct Region {
        start: NonNull<AtomicU64>,
        len: usize,
        /// Contains the words. They begin at a multiple of `UNIT` bytes, and no other array has
        /// words in their last unit.
        mapping: Arc<Mapping>,
    }

    // SAFETY: the value is a reference to a slice of atomics, which `mapping` keeps mapped.
    unsafe impl Send for Region {}
    // SAFETY: as above.
    unsafe impl Sync for Region {}

    impl Region {
        /// As [`reserve`](Self::reserve), with settings.
        pub fn reserve_with(len: usize, options: &RegionOptions) -> io::Result<Self> {
            let bytes = len.checked_mul(size_of::<AtomicU64>());
            let mapping = Mapping::new(bytes.ok_or_else(out_of_addresses)?, options)?;
            Ok(Self {
                start: mapping.start.cast(),
                len,
                mapping: Arc::new(mapping),
            })
        }

        /// As [`reserve`](Self::reserve), for one array for each of `lens`, all in one mapping.
        pub fn reserve_all<const N: usize>(lens: [usize; N]) -> io::Result<[Self; N]> {
            let end = |start: usize, len: usize| {
                let bytes = len.checked_mul(size_of::<AtomicU64>())?;
                start.checked_add(bytes.checked_next_multiple_of(UNIT)?)
            };
            let mut bytes = 0;
            let mut starts = [0; N];
            for (start, len) in starts.iter_mut().zip(lens) {
                *start = bytes;
                bytes = end(bytes, len).ok_or_else(out_of_addresses)?;
            }
            let mapping = Arc::new(Mapping::new(bytes, &RegionOptions::default())?);
            Ok(std::array::from_fn(|nr| Self {
                // SAFETY: within the mapping, or at its end if the array is empty.
                start: unsafe { mapping.start.add(starts[nr]) }.cast(),
                len: lens[nr],
                mapping: Arc::clone(&mapping),
            }))
        }

        /// Discards the memory of the words `first..first + nr`, which are zero and stay so during
        /// the call. They begin at a multiple of 512 words, and end at one or at the array's end.
        pub fn discard_zeros(&self, first: usize, nr: usize) {
            // Bytes past the end of the array are unused. On failure the memory stays allocated.
            self.give_back(first, nr);
        }

        /// Discards the memory of the words `first..first + nr`, on whose contents nothing relies.
        /// As [`discard`](Self::discard), but a refusal of the system has no effect.
        pub fn discard_unused(&self, first: usize, nr: usize) {
            self.give_back(first, nr);
        }

        /// Returns `false` if the memory stays allocated, with its contents.
        pub(super) fn give_back(&self, first: usize, nr: usize) -> bool {
            let range = &self[first..first + nr];
            let bytes = size_of_val(range);
            debug_assert!(range.as_ptr().addr().is_multiple_of(UNIT));
            debug_assert!(bytes.is_multiple_of(UNIT) || first + nr == self.len);
            if nr == 0 {
                return true;
            }
            // The system would discard the rest of a page, which may have other words.
            let start = range.as_ptr().cast_mut();
            let page = self.mapping.page;
            if page != UNIT && !(start.addr() | bytes).is_multiple_of(page) {
                return false;
            }
            let start = start.cast();
            // SAFETY: whole pages of this mapping. They read as zeros afterwards, which are valid
            // words. A thread that loads them concurrently sees the old word or zero.
            (unsafe { libc::madvise(start, bytes, libc::MADV_DONTNEED) }) == 0
        }

        /// Requests memory of the NUMA node `node` for the words `first..first + nr`, as long as
        /// some is free: with a strict binding, an access could kill the process when the node is
        /// full or a cpuset removes it.
        pub fn prefer_node(&self, first: usize, nr: usize, node: u32) -> io::Result<()> {
            const MPOL_PREFERRED: libc::c_int = 1;
            let mut mask = [0_u64; 16];
            let word = mask
                .get_mut(node as usize / 64)
                .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
            *word |= 1 << (node % 64);
            let range = &self[first..first + nr];
            // SAFETY: `mbind` reads `mask`, of one bit less than the length passed, and sets the
            // policy of memory that this value owns.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_mbind,
                    range.as_ptr(),
                    size_of_val(range),
                    MPOL_PREFERRED,
                    mask.as_ptr(),
                    (mask.len() * 64 + 1) as libc::c_ulong,
                    0,
                )
            };
            match result {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        }

        /// Returns a reference without a lifetime.
        #[inline]
        #[must_use]
        pub fn unchecked(&self) -> RegionRef {
            RegionRef(self.start.cast())
        }
    }

    impl Deref for Region {
        type Target = [AtomicU64];

        #[inline(always)]
        fn deref(&self) -> &[AtomicU64] {
            // SAFETY: the words are mapped while `mapping` exists, page-aligned and initialized.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }

    /// Reference to a [`Region`] whose accesses check neither lifetime nor bounds: one address.
    #[derive(Clone, Copy, Debug)]
    pub struct RegionRef(NonNull<u8>);

    // SAFETY: an address of a region, which is `Sync`; all accesses are `unsafe`.
    unsafe impl Send for RegionRef {}
    // SAFETY: as above.
    unsafe impl Sync for RegionRef {}

    impl RegionRef {
        /// Returns the word `index` words after `start`, an offset in bytes.
        ///
        /// # Safety
        ///
        /// (P) The region exists while the word is used. (I) The word is in the region.
        #[inline(always)]
        pub unsafe fn word<'a>(self, start: usize, index: usize) -> &'a AtomicU64 {
            let start = start + index * size_of::<AtomicU64>();
            // SAFETY: by (I) the word is in the region, mapped by (P).
            let word = unsafe { self.0.add(start) }.cast::<AtomicU64>();
            // SAFETY: by (P) the word is mapped, and it is aligned and initialized. All accesses
            // are atomic or go through `RacyBytes`.
            unsafe { word.as_ref() }
        }

        /// Returns `len` bytes, `off` bytes after `start`, an offset in bytes.
        ///
        /// # Safety
        ///
        /// (P) The region exists while the bytes are used. (I) They are in the region, or, if they
        /// are only read, within [`readable_after`](RegionOptions::readable_after) of its end.
        #[inline(always)]
        pub unsafe fn bytes<'a>(self, start: usize, off: usize, len: usize) -> RacyBytes<'a> {
            // SAFETY: by (I) the range is in the mapping of the region, mapped by (P).
            let start = unsafe { self.0.add(start + off) };
            // SAFETY: the bytes are mapped by (P), and accessed atomically or through `RacyBytes`.
            unsafe { RacyBytes::new(start, len) }
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::io;
    use std::ops::Deref;
    use std::ptr::NonNull;
    use std::sync::Arc;

    use super::RegionOptions;
    use crate::atomic::AtomicU64;
    use crate::bytes::RacyBytes;

    /// An array of words. A clone is the same array.
    #[derive(Clone, Debug)]
    pub struct Region(Arc<[AtomicU64]>);

    impl Region {
        pub fn reserve_with(len: usize, _: &RegionOptions) -> io::Result<Self> {
            Ok(Self((0..len).map(|_| AtomicU64::new(0)).collect()))
        }

        pub fn reserve_all<const N: usize>(lens: [usize; N]) -> io::Result<[Self; N]> {
            let options = RegionOptions::default();
            Ok(lens.map(|len| Self::reserve_with(len, &options).expect("memory")))
        }

        /// Stores zeros, so that a model detects concurrent stores to these words.
        pub fn discard_zeros(&self, first: usize, nr: usize) {
            self.discard(first, nr);
        }

        pub fn discard_unused(&self, _: usize, _: usize) {}

        pub(super) fn give_back(&self, _: usize, _: usize) -> bool {
            false
        }

        pub fn prefer_node(&self, _: usize, _: usize, _: u32) -> io::Result<()> {
            Ok(())
        }

        pub fn unchecked(&self) -> RegionRef {
            RegionRef(NonNull::from(&*self.0))
        }
    }

    impl Deref for Region {
        type Target = [AtomicU64];

        fn deref(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    /// Reference to a region, which checks bounds.
    #[derive(Clone, Copy, Debug)]
    pub struct RegionRef(NonNull<[AtomicU64]>);

    // SAFETY: an address of atomics; all accesses are `unsafe`.
    unsafe impl Send for RegionRef {}
    // SAFETY: as above.
    unsafe impl Sync for RegionRef {}

    impl RegionRef {
        /// # Safety
        ///
        /// (P) The region exists while the word is used.
        pub unsafe fn word<'a>(self, start: usize, index: usize) -> &'a AtomicU64 {
            // SAFETY: (P).
            let words = unsafe { self.0.as_ref() };
            &words[start / size_of::<AtomicU64>() + index]
        }

        /// # Safety
        ///
        /// (P) The region exists while the bytes are used.
        pub unsafe fn bytes<'a>(self, start: usize, off: usize, len: usize) -> RacyBytes<'a> {
            // SAFETY: (P).
            let words = unsafe { self.0.as_ref() };
            RacyBytes::from_words(words).slice(start + off, len)
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns `true` if any of the `len` bytes is mapped, so that no new mapping fits.
    fn is_mapped(start: *mut u8, len: usize) -> bool {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: with this flag, the call replaces no existing mapping.
        let mapped = unsafe { libc::mmap(start.cast(), len, libc::PROT_NONE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return true;
        }
        // SAFETY: the mapping that was just created.
        assert_eq!(unsafe { libc::munmap(mapped, len) }, 0);
        false
    }

    #[test]
    fn memory_after_the_last_word_can_be_read() {
        let options = RegionOptions {
            align: 2 << 20,
            readable_after: 4096,
            ..RegionOptions::default()
        };
        for units in [1, 512, 700] {
            let region = Region::reserve_with(512 * units, &options).unwrap();
            assert!(region.as_ptr().addr().is_multiple_of(options.align));
            let end = region.as_ptr_range().end.cast_mut().cast::<u8>();
            assert!(is_mapped(end, 4096));
            // A write to a pipe returns an error for unreadable memory, without a signal.
            let mut ends = [0; 2];
            // SAFETY: the array has room for two descriptors.
            assert!(unsafe { libc::pipe(ends.as_mut_ptr()) } == 0);
            // SAFETY: the system checks the addresses.
            let nr = unsafe { libc::write(ends[1], end.cast(), 4096) };
            assert_eq!(nr, 4096);
            for fd in ends {
                // SAFETY: this test opened the descriptor and closes it once.
                let _ = unsafe { libc::close(fd) };
            }
        }
    }

    #[test]
    fn discarded_words_are_zeros_and_their_neighbours_stay() {
        let words = Region::reserve(512 * 3).unwrap();
        for word in words.iter() {
            assert_eq!(word.swap(7, Ordering::Relaxed), 0);
        }
        words.discard(512, 512);
        for (i, word) in words.iter().enumerate() {
            let expected = if (512..1024).contains(&i) { 0 } else { 7 };
            assert_eq!(word.load(Ordering::Relaxed), expected, "word {i}");
        }
    }

    #[test]
    fn zeros_that_are_discarded_can_be_used_again() {
        let words = Region::reserve(512 * 2 + 7).unwrap();
        for (first, nr) in [
            (0, 512),
            (512, 512 + 7),
            (1024, 7),
            (0, 512 * 2 + 7),
            (0, 0),
        ] {
            for word in words.iter() {
                word.store(0, Ordering::Relaxed);
            }
            words.discard_zeros(first, nr);
            for word in words.iter() {
                assert_eq!(word.swap(7, Ordering::Relaxed), 0);
            }
        }
    }

    #[test]
    fn a_terabyte_uses_nothing_until_it_is_touched() {
        let words = Region::reserve(1 << 37).unwrap();
        assert_eq!(words[(1 << 37) - 1].swap(7, Ordering::Relaxed), 0);
        assert_eq!(words[1 << 17].load(Ordering::Relaxed), 0);
    }

    /// Arrays of one mapping have no words in common. The last one that is dropped unmaps it.
    #[test]
    fn arrays_of_one_mapping_are_independent() {
        const LENS: [usize; 4] = [512 + 1, 0, 3, 1024];
        let arrays = Region::reserve_all(LENS).unwrap();
        assert_eq!(arrays.each_ref().map(|words| words.len()), LENS);
        for (nr, words) in arrays.iter().enumerate() {
            for word in words.iter() {
                assert_eq!(word.swap(nr as u64 + 1, Ordering::Relaxed), 0);
            }
        }
        let [first, _, third, last] = arrays;
        last.discard(0, 1024);
        assert!(last.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        first[512].store(0, Ordering::Relaxed);
        first.discard_zeros(512, 1);
        drop((first, last));
        let clone = third.clone();
        drop(third);
        assert!(clone.iter().all(|word| word.load(Ordering::Relaxed) == 3));
        assert!(Region::reserve_all([usize::MAX / 8, 1]).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Region::reserve(usize::MAX).is_err());
        assert!(Region::reserve(1 << 50).is_err());
        assert!(Region::reserve(0).unwrap().is_empty());
    }
}
