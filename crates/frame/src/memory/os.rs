//! The memory behind the frames: one reserved range of addresses for a whole pool.
//!
//! There is one range for all nodes, so one shift and one addition turn a frame number into an address.
//! The range stays mapped and readable for as long as the pool lives: an optimistic reader can copy the frame that
//! a stale number names (and then finds that the number is stale). One page more is mapped after the last frame: whoever has the bytes of a frame may
//! also read past them, up to `READABLE_AFTER` bytes, and finds whatever is there.

#[cfg(not(loom))]
mod imp {
    #![allow(unsafe_code)] // This module and `pool::handle` are where the crate touches raw memory.

    use std::io;
    use std::ptr::NonNull;

    use pagewell_sync::atomic::AtomicU64;
    use pagewell_sync::bytes::RacyBytes;

    use crate::memory::config::HugePages;
    use crate::words::{FRAME_BYTES, FRAME_SHIFT, FrameNr, Order};

    /// How many bytes after any frame can be read, with no promise of what they are.
    pub(crate) const READABLE_AFTER: usize = FRAME_BYTES;

    /// Blocks of the highest order, and huge pages, start at multiples of this.
    const ALIGN: usize = Order::MAX.bytes();

    /// A reserved, zeroed, readable and writable range of memory.
    #[derive(Debug)]
    pub(crate) struct Memory {
        base: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: the range is plain memory that belongs to this value; everything that reads or writes it
    // goes through `RacyBytes`, which allows for other threads.
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// Reserves memory for `nr_frames` frames. Nothing is used until it is touched.
        pub(crate) fn reserve(nr_frames: usize, huge_pages: HugePages) -> io::Result<Self> {
            let out_of_range = || io::Error::from_raw_os_error(libc::ENOMEM);
            let bytes = nr_frames
                .checked_mul(FRAME_BYTES)
                .ok_or_else(out_of_range)?;
            let kept = bytes.checked_add(READABLE_AFTER).ok_or_else(out_of_range)?;
            let mapped = kept.checked_add(ALIGN).ok_or_else(out_of_range)?;
            // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no
            // memory that exists.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    mapped,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // Cut what the alignment leaves over at both ends.
            let lead = start.addr().next_multiple_of(ALIGN) - start.addr();
            unmap(start.cast(), lead);
            let base = start.cast::<u8>().wrapping_add(lead);
            unmap(base.wrapping_add(kept), ALIGN - lead);
            let base = NonNull::new(base).ok_or_else(out_of_range)?;
            let memory = Self { base, bytes };
            memory.advise(huge_pages);
            Ok(memory)
        }

        fn advise(&self, huge_pages: HugePages) {
            let advice = match huge_pages {
                HugePages::System => return,
                HugePages::Advise => libc::MADV_HUGEPAGE,
                HugePages::Never => libc::MADV_NOHUGEPAGE,
            };
            // The kernel may lack huge pages; the advice is a wish, so a refusal is no error.
            // SAFETY: the range is our own mapping, and the advice does not change its contents.
            let _ = unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        }

        /// Asks for the frames `first..first + nr` to be in the memory of the machine's NUMA node
        /// `node`, as long as that has some free.
        ///
        /// Preferred and not strictly bound: with a strict policy a node that is full, or that a cpuset
        /// takes away later, would make touching a frame a reason to kill the process.
        pub(crate) fn prefer(&self, first: FrameNr, nr: usize, node: u32) -> io::Result<()> {
            const MPOL_PREFERRED: libc::c_int = 1;
            let mut mask = [0_u64; 16];
            let word = mask
                .get_mut(node as usize / 64)
                .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
            *word |= 1 << (node % 64);
            let start = self.bytes_of(first, nr * FRAME_BYTES);
            // SAFETY: mbind reads `mask`, whose length in bits is given (the kernel looks at one less),
            // and sets the policy of memory of our own.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_mbind,
                    start.as_ptr(),
                    start.len(),
                    MPOL_PREFERRED,
                    mask.as_ptr(),
                    (mask.len() * 64 + 1) as libc::c_ulong,
                    0,
                )
            };
            if result == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        }

        /// Gives the memory of `len` bytes from `frame` on back to the system; they read as zeros.
        pub(crate) fn discard(&self, frame: FrameNr, len: usize) {
            let range = self.bytes_of(frame, len);
            // SAFETY: the range is of our own mapping, whose contents nobody relies on: the frames are
            // the caller's alone. A refusal leaves the memory in use, which is no error.
            let _ =
                unsafe { libc::madvise(range.as_ptr().cast(), range.len(), libc::MADV_DONTNEED) };
        }

        /// The address of frame 0.
        pub(crate) fn base(&self) -> NonNull<u8> {
            self.base
        }

        /// The words of `len` bytes from the start of `frame` on.
        ///
        /// # Panics
        ///
        /// When they are not all in the range.
        pub(crate) fn words_of(&self, frame: FrameNr, len: usize) -> &[AtomicU64] {
            let start = self.bytes_of(frame, len).as_ptr().cast::<AtomicU64>();
            // SAFETY: the range is mapped for as long as `self` lives, aligned to a frame, and initialised: it
            // began as zeros. All access is by atomics, or as if by them (`RacyBytes`), but for plain slices of
            // frames whose holder excludes writers.
            unsafe { std::slice::from_raw_parts(start, len / size_of::<AtomicU64>()) }
        }

        /// `len` bytes from the start of `frame` on; `len` is less than half of what a `usize` can be.
        ///
        /// # Panics
        ///
        /// When they are not all in the range.
        pub(crate) fn bytes_of(&self, frame: FrameNr, len: usize) -> RacyBytes<'_> {
            let start = frame.index() << FRAME_SHIFT;
            assert!(start + len <= self.bytes);
            // SAFETY: just checked to be inside of the mapping.
            let start = unsafe { self.base.add(start) };
            // SAFETY: the mapping lives as long as `self`, and all access is by `RacyBytes`, but for
            // plain slices of frames whose holder excludes writers.
            unsafe { RacyBytes::new(start, len) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            unmap(self.base.as_ptr(), self.bytes + READABLE_AFTER);
        }
    }

    fn unmap(start: *mut u8, bytes: usize) {
        if bytes != 0 {
            // SAFETY: every caller passes a part of a mapping of its own that nothing refers to any
            // more. Unmapping such a range cannot fail in a way that leaves anything to do.
            let _ = unsafe { libc::munmap(start.cast(), bytes) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Whether `len` bytes at `start` are mapped by somebody: the system maps nothing new there then.
        fn is_mapped(start: *mut u8, len: usize) -> bool {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: with this flag nothing that exists is replaced.
            let mapped = unsafe { libc::mmap(start.cast(), len, libc::PROT_NONE, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                return true;
            }
            unmap(mapped.cast(), len);
            false
        }

        #[test]
        fn the_memory_after_the_last_frame_can_be_read() {
            for nr_frames in [1, 512, 700] {
                let memory = Memory::reserve(nr_frames, HugePages::Never).unwrap();
                let end = memory.base().as_ptr().wrapping_add(nr_frames * FRAME_BYTES);
                assert!(is_mapped(end, READABLE_AFTER));
                // The system says so where memory cannot be read, and is not killed.
                let mut ends = [0; 2];
                // SAFETY: the array has room for two descriptors.
                assert!(unsafe { libc::pipe(ends.as_mut_ptr()) } == 0);
                // SAFETY: the system checks the addresses.
                let nr = unsafe { libc::write(ends[1], end.cast(), READABLE_AFTER) };
                assert_eq!(nr, READABLE_AFTER.cast_signed());
                for fd in ends {
                    // SAFETY: this test's own descriptor.
                    let _ = unsafe { libc::close(fd) };
                }
            }
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::io;

    use pagewell_sync::atomic::AtomicU64;
    use pagewell_sync::bytes::RacyBytes;

    use crate::memory::config::HugePages;
    use crate::words::{FRAME_BYTES, FRAME_WORDS, FrameNr};

    /// The memory of a model's pool: atomics of loom's.
    #[derive(Debug)]
    pub(crate) struct Memory {
        words: Box<[AtomicU64]>,
    }

    impl Memory {
        pub(crate) fn reserve(nr_frames: usize, _: HugePages) -> io::Result<Self> {
            let words = (0..nr_frames * FRAME_WORDS)
                .map(|_| AtomicU64::new(0))
                .collect();
            Ok(Self { words })
        }

        pub(crate) fn prefer(&self, _: FrameNr, _: usize, _: u32) -> io::Result<()> {
            Ok(())
        }

        pub(crate) fn discard(&self, _: FrameNr, _: usize) {}

        pub(crate) fn words_of(&self, frame: FrameNr, len: usize) -> &[AtomicU64] {
            let start = frame.index() * FRAME_WORDS;
            &self.words[start..start + len / 8]
        }

        pub(crate) fn bytes_of(&self, frame: FrameNr, len: usize) -> RacyBytes<'_> {
            debug_assert!(len <= self.words.len() * 8 && FRAME_BYTES % 8 == 0);
            RacyBytes::from_words(self.words_of(frame, len))
        }
    }
}

pub(crate) use imp::Memory;
