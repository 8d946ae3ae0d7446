//! Memory of the frames: one reserved address range for a whole pool, with all its nodes.
//!
//! A shift and an addition convert a frame number to an address. The range stays readable while the
//! pool lives, for optimistic readers with a stale number. One more page is mapped, so
//! `READABLE_AFTER` bytes after any frame can be read too.

#[cfg(not(loom))]
mod imp {
    #![allow(unsafe_code)] // Maps memory, and accesses it.

    use std::io;
    use std::ptr::NonNull;

    use pagewell_sync::atomic::AtomicU64;
    use pagewell_sync::bytes::RacyBytes;

    use crate::memory::config::HugePages;
    use crate::words::{FRAME_BYTES, FRAME_SHIFT, FrameNr, Order};

    /// Number of bytes that can be read after any frame, with arbitrary contents.
    pub(crate) const READABLE_AFTER: usize = FRAME_BYTES;

    /// Alignment of blocks of the highest order, and of huge pages.
    const ALIGN: usize = Order::MAX.bytes();

    #[derive(Debug)]
    pub(crate) struct Memory {
        base: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: the value owns the range, and hands it out only as `RacyBytes`, atomics and
    // addresses, which allow for accesses by other threads.
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// Reserves memory, which the system allocates on first access.
        pub(crate) fn reserve(nr_frames: usize, huge_pages: HugePages) -> io::Result<Self> {
            let out_of_range = || io::Error::from_raw_os_error(libc::ENOMEM);
            let bytes = nr_frames
                .checked_mul(FRAME_BYTES)
                .ok_or_else(out_of_range)?;
            let kept = bytes.checked_add(READABLE_AFTER).ok_or_else(out_of_range)?;
            let mapped = kept.checked_add(ALIGN).ok_or_else(out_of_range)?;
            // SAFETY: a new mapping at an address that the kernel chooses changes no other memory.
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
            // SAFETY: the range is this value's mapping; the advice changes no contents. A refusal
            // is no error: the kernel may lack huge pages.
            let _ = unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        }

        /// Requests memory of the NUMA node `node`, as long as some is free: with a strict binding,
        /// an access could kill the process when the node is full or a cpuset removes it.
        pub(crate) fn prefer(&self, first: FrameNr, nr: usize, node: u32) -> io::Result<()> {
            const MPOL_PREFERRED: libc::c_int = 1;
            let mut mask = [0_u64; 16];
            let word = mask
                .get_mut(node as usize / 64)
                .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
            *word |= 1 << (node % 64);
            let start = self.bytes_of(first, nr * FRAME_BYTES);
            // SAFETY: `mbind` reads `mask`, of one bit less than the length passed, and sets the
            // policy of memory that this value owns.
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

        /// Discards memory: the bytes then read as zeros, unless the system refuses.
        pub(crate) fn discard(&self, frame: FrameNr, len: usize) {
            let range = self.bytes_of(frame, len);
            // SAFETY: the range is in this value's mapping, and the caller owns the frames, so no
            // thread relies on the contents. A refusal is no error.
            let _ =
                unsafe { libc::madvise(range.as_ptr().cast(), range.len(), libc::MADV_DONTNEED) };
        }

        pub(crate) fn base(&self) -> NonNull<u8> {
            self.base
        }

        /// Panics if the bytes are not all in frames of this memory.
        pub(crate) fn words_of(&self, frame: FrameNr, len: usize) -> &[AtomicU64] {
            let start = self.bytes_of(frame, len).as_ptr().cast::<AtomicU64>();
            // SAFETY: the words are mapped while `self` lives, aligned and initialized. All access
            // is atomic or through `RacyBytes`, except for slices whose holder excludes writers.
            unsafe { std::slice::from_raw_parts(start, len / size_of::<AtomicU64>()) }
        }

        /// Requires `len` below half of `usize::MAX`. Panics like [`Self::words_of`].
        pub(crate) fn bytes_of(&self, frame: FrameNr, len: usize) -> RacyBytes<'_> {
            let start = frame.index() << FRAME_SHIFT;
            assert!(start + len <= self.bytes);
            // SAFETY: by the assertion the offset is inside the mapping.
            let start = unsafe { self.base.add(start) };
            // SAFETY: the mapping lives as long as `self`. Accesses are as in `words_of`.
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
            // SAFETY: every caller passes an unreferenced part of a mapping of its own.
            let _ = unsafe { libc::munmap(start.cast(), bytes) };
        }
    }

    #[cfg(test)]
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
            unmap(mapped.cast(), len);
            false
        }

        #[test]
        fn the_memory_after_the_last_frame_can_be_read() {
            for nr_frames in [1, 512, 700] {
                let memory = Memory::reserve(nr_frames, HugePages::Never).unwrap();
                let end = memory.base().as_ptr().wrapping_add(nr_frames * FRAME_BYTES);
                assert!(is_mapped(end, READABLE_AFTER));
                // A write to a pipe returns an error for unreadable memory, without a signal.
                let mut ends = [0; 2];
                // SAFETY: the array has room for two descriptors.
                assert!(unsafe { libc::pipe(ends.as_mut_ptr()) } == 0);
                // SAFETY: the system checks the addresses.
                let nr = unsafe { libc::write(ends[1], end.cast(), READABLE_AFTER) };
                assert_eq!(nr, READABLE_AFTER.cast_signed());
                for fd in ends {
                    // SAFETY: this test opened the descriptor and closes it once.
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
