//! The racy copies: exact bytes and nothing else, for every implementation; and their protocol.

/// What one thread alone can see, of the copy for this processor and of the portable one.
#[cfg(not(loom))]
mod alone {
    use std::mem::MaybeUninit;
    use std::ptr::NonNull;

    use pagewell_sync::bytes::{RacyBytes, portable};

    /// An implementation, by what tells it from the others.
    #[derive(Clone, Copy, Debug)]
    struct Copies {
        out: fn(RacyBytes<'_>, &mut [u8]),
        into: fn(RacyBytes<'_>, &[u8]),
        zero: fn(RacyBytes<'_>),
    }

    const NATIVE: Copies = Copies {
        out: |src, dst| src.copy_to(0, dst),
        into: |dst, src| dst.copy_from(0, src),
        zero: |dst| dst.zero(0, dst.len()),
    };

    const PORTABLE: Copies = Copies {
        out: |src, dst| {
            // SAFETY: the layouts are the same, and the copy stores initialised bytes only.
            let dst = unsafe { &mut *(&raw mut *dst as *mut [MaybeUninit<u8>]) };
            portable::copy_out(src, dst);
        },
        into: portable::copy_in,
        zero: portable::zero,
    };

    /// Miri is slow, and there to see every kind of access once.
    const SHORT: usize = if cfg!(miri) { 40 } else { 600 };
    const SHIFTS: usize = if cfg!(miri) { 9 } else { 34 };

    /// Bytes around a destination that a copy must not touch.
    const MARGIN: usize = 192;
    const CANARY: u8 = 0xA5;

    /// Whole pages, so that tests choose alignments, and distances modulo a page.
    struct Pages {
        memory: Vec<u8>,
        start: usize,
        len: usize,
    }

    impl Pages {
        fn new(len: usize) -> Self {
            let len = len.next_multiple_of(4096);
            let memory = vec![CANARY; len + 4096];
            let start = memory.as_ptr().align_offset(4096);
            Self { memory, start, len }
        }

        fn bytes(&mut self) -> &mut [u8] {
            &mut self.memory[self.start..][..self.len]
        }

        fn racy(&mut self) -> RacyBytes<'_> {
            let len = self.len;
            let start = NonNull::from(self.bytes()).cast();
            // SAFETY: (a) whole pages, initialised; (b) borrowed exclusively for as long.
            unsafe { RacyBytes::new(start, len) }
        }
    }

    /// A byte for each place, so that a byte from a wrong place shows: neighbours differ, and the
    /// pattern does not repeat within a power of two.
    fn pattern(i: usize) -> u8 {
        ((i + i / 251) % 251) as u8
    }

    struct Check {
        copies: Copies,
        src: Pages,
        dst: Pages,
        zeros: Vec<u8>,
    }

    impl Check {
        fn new(copies: Copies, most: usize) -> Self {
            let room = most + 4096 + 2 * MARGIN;
            let mut src = Pages::new(room);
            for (i, byte) in src.bytes().iter_mut().enumerate() {
                *byte = pattern(i);
            }
            Self {
                copies,
                src,
                dst: Pages::new(room),
                zeros: vec![0; most],
            }
        }

        /// Looks at the destination: it has `expected` from `at` on, and canaries around.
        fn expect(what: &str, of: (usize, usize, usize), after: &[u8], at: usize, expected: &[u8]) {
            let end = at + expected.len();
            let before = &after[at - MARGIN..at];
            assert_eq!(before, [CANARY; MARGIN], "{what} {of:?}: before");
            assert!(after[at..end] == *expected, "{what} {of:?}");
            let behind = &after[end..][..MARGIN];
            assert_eq!(behind, [CANARY; MARGIN], "{what} {of:?}: behind");
        }

        /// Copies out, copies in, and zeroes, with the source and the destination so far after a
        /// multiple of 64.
        fn run(&mut self, src_off: usize, dst_off: usize, len: usize) {
            let (src_at, dst_at) = (MARGIN + src_off, MARGIN + dst_off);
            let of = (src_off, dst_off, len);

            let src = self.src.racy().slice(src_at, len);
            (self.copies.out)(src, &mut self.dst.bytes()[dst_at..][..len]);
            let src = &self.src.bytes()[src_at..][..len];
            Self::expect("copy_to", of, self.dst.bytes(), dst_at, src);

            self.dst.bytes()[dst_at..][..len].fill(CANARY);
            (self.copies.into)(self.dst.racy().slice(dst_at, len), src);
            Self::expect("copy_from", of, self.dst.bytes(), dst_at, src);

            (self.copies.zero)(self.dst.racy().slice(dst_at, len));
            Self::expect("zero", of, self.dst.bytes(), dst_at, &self.zeros[..len]);
            self.dst.bytes()[dst_at..][..len].fill(CANARY);
        }
    }

    fn short_lengths_at_all_alignments(copies: Copies) {
        let mut check = Check::new(copies, SHORT);
        for src_off in 0..SHIFTS {
            for dst_off in 0..SHIFTS {
                for len in 0..=SHORT {
                    check.run(src_off, dst_off, len);
                }
            }
        }
    }

    #[test]
    fn native_copies_short_lengths_at_all_alignments() {
        short_lengths_at_all_alignments(NATIVE);
    }

    #[test]
    fn portable_copies_short_lengths_at_all_alignments() {
        short_lengths_at_all_alignments(PORTABLE);
    }

    /// The destination's distances from the source are on both sides of where the native copy changes
    /// its direction.
    fn lengths_around_those_of_pages(copies: Copies) {
        let mut check = Check::new(copies, 65536 + 64);
        for size in [1024, 4096, 8192, 32768, 65536] {
            for len in size - 64..=size + 64 {
                for (src_off, dst_off) in [(0, 0), (0, 1), (1, 0), (5, 33), (0, 63), (17, 4000)] {
                    check.run(src_off, dst_off, len);
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for an interpreter")]
    fn native_copies_lengths_around_those_of_pages() {
        lengths_around_those_of_pages(NATIVE);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for an interpreter")]
    fn portable_copies_lengths_around_those_of_pages() {
        lengths_around_those_of_pages(PORTABLE);
    }

    /// Both loops of the native copy, and what they do at their ends, depend on the distance modulo a
    /// page and on the alignment of the destination.
    #[test]
    #[cfg_attr(miri, ignore = "too long for an interpreter")]
    fn native_copies_at_all_distances() {
        let mut check = Check::new(NATIVE, 4096);
        for dst_off in 0..4096 {
            for len in [257, 384, 511, 1000] {
                check.run(0, dst_off, len);
                check.run(7, dst_off, len);
            }
        }
    }

    #[test]
    fn unchecked_copies_are_copies() {
        let mut pages = Pages::new(4096);
        for (i, byte) in pages.bytes().iter_mut().enumerate() {
            *byte = pattern(i);
        }
        let src = pages.racy();
        for len in [0, 1, 8, 64, 65, 300] {
            let mut dst = [CANARY; 301];
            // SAFETY: (r) 5 + 300 bytes are in the page; (d) the array is as long and ours.
            unsafe { src.copy_to_unchecked(5, dst.as_mut_ptr(), len) };
            assert!((0..len).all(|i| dst[i] == pattern(5 + i)), "{len}");
            assert!(dst[len..].iter().all(|&byte| byte == CANARY), "{len}");
        }
    }

    #[test]
    fn slices_are_parts() {
        let mut pages = Pages::new(4096);
        let all = pages.racy();
        assert_eq!(all.len(), 4096);
        let part = all.slice(100, 50);
        assert_eq!(part.len(), 50);
        assert_eq!(part.as_ptr().addr(), all.as_ptr().addr() + 100);
        assert!(!part.is_empty());
        assert!(part.slice(50, 0).is_empty());
        assert!(all.slice(4096, 0).is_empty());
        part.slice(10, 3).copy_from(1, &[1, 2]);
        assert_eq!(pages.bytes()[109..114], [CANARY, CANARY, 1, 2, CANARY]);
    }

    #[test]
    fn no_bytes_are_no_access() {
        // SAFETY: (a) and (b): there is no word that has a byte of it.
        let nothing = unsafe { RacyBytes::new(NonNull::dangling(), 0) };
        nothing.copy_to(0, &mut []);
        nothing.copy_from(0, &[]);
        nothing.zero(0, 0);
        (PORTABLE.out)(nothing, &mut []);
        (PORTABLE.into)(nothing, &[]);
        (PORTABLE.zero)(nothing);
    }

    #[test]
    fn copies_between_racy_bytes_have_all_bytes_and_no_others() {
        let copies: [fn(RacyBytes<'_>, RacyBytes<'_>); 2] = [
            |dst, src| dst.copy_from_racy(0, src),
            portable::copy_between,
        ];
        let lengths = (0..SHORT.min(200)).chain(if cfg!(miri) { 0..0 } else { 4090..4100 });
        let lengths: Vec<usize> = lengths.collect();
        for copy in copies {
            for len in &lengths {
                for (from, to) in [(0, 0), (3, 0), (0, 5), (7, 9), (64, 63)] {
                    let (mut src, mut dst) = (Pages::new(8192), Pages::new(8192));
                    for (i, byte) in src.bytes().iter_mut().enumerate() {
                        *byte = pattern(i);
                    }
                    copy(dst.racy().slice(to, *len), src.racy().slice(from, *len));
                    let (before, rest) = dst.bytes().split_at(to);
                    let (copied, behind) = rest.split_at(*len);
                    assert!(before.iter().all(|&byte| byte == CANARY), "{len}");
                    assert!(*copied == src.bytes()[from..][..*len], "{len}");
                    assert!(behind.iter().all(|&byte| byte == CANARY), "{len}");
                }
            }
        }
    }

    /// Ranges of 10 bytes that are not in them, one of which ends where addresses do.
    const OUTSIDE: [(usize, usize); 5] = [
        (0, 11),
        (10, 1),
        (11, 0),
        (usize::MAX, 1),
        (usize::MAX - 3, 8),
    ];

    fn must_panic(what: &str, access: impl FnOnce() + std::panic::UnwindSafe) {
        assert!(std::panic::catch_unwind(access).is_err(), "{what}");
    }

    #[test]
    fn ranges_outside_panic_before_any_access() {
        let mut pages = Pages::new(4096);
        for (off, len) in OUTSIDE {
            let bytes = pages.racy().slice(64, 10);
            must_panic("copy_to", move || bytes.copy_to(off, &mut vec![0; len]));
            must_panic("copy_from", move || bytes.copy_from(off, &vec![0; len]));
            must_panic("zero", move || bytes.zero(off, len));
            must_panic("slice", move || _ = bytes.slice(off, len));
        }
        assert!(pages.bytes().iter().all(|&byte| byte == CANARY));
    }

    #[test]
    #[should_panic]
    fn a_portable_copy_of_another_length_panics() {
        let mut pages = Pages::new(4096);
        (PORTABLE.out)(pages.racy().slice(0, 9), &mut [0; 8]);
    }
}

/// The protocol of the module, on this processor: a writer that stores one number in every byte of a
/// page, readers that accept what the word says is whole.
#[cfg(not(loom))]
mod together {
    use std::ptr::NonNull;
    use std::thread;

    use pagewell_sync::atomic::{AtomicU64, Ordering, fence};
    use pagewell_sync::bytes::RacyBytes;

    const WRITES: u64 = if cfg!(miri) { 20 } else { 20_000 };

    fn validated_copies_are_whole(len: usize) {
        let memory: Vec<AtomicU64> = (0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let start = NonNull::from(&memory[..]).cast();
        // SAFETY: (a) whole words; (b) nothing else accesses them below.
        let bytes = unsafe { RacyBytes::new(start, len) };
        let word = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut copy = vec![0; len];
                    let mut seen = 0;
                    while seen < 2 * WRITES {
                        // ORDERING: R1 to R4 of the module's protocol.
                        let before = word.load(Ordering::Acquire);
                        bytes.copy_to(0, &mut copy);
                        fence(Ordering::Acquire);
                        if before.is_multiple_of(2) && word.load(Ordering::Relaxed) == before {
                            seen = before;
                            let nr = (before / 2) as u8;
                            assert!(copy.iter().all(|&byte| byte == nr));
                        }
                        if cfg!(miri) {
                            thread::yield_now();
                        }
                    }
                });
            }
            scope.spawn(|| {
                for nr in 1..=WRITES {
                    // ORDERING: W1 to W4 of the module's protocol.
                    word.store(2 * nr - 1, Ordering::Relaxed);
                    fence(Ordering::Release);
                    if nr as u8 == 0 {
                        bytes.zero(0, len);
                    } else {
                        bytes.copy_from(0, &vec![nr as u8; len]);
                    }
                    word.store(2 * nr, Ordering::Release);
                }
            });
        });
    }

    #[test]
    fn validated_copies_of_a_line_are_whole() {
        validated_copies_are_whole(64);
    }

    #[test]
    fn validated_copies_of_a_page_are_whole() {
        validated_copies_are_whole(if cfg!(miri) { 100 } else { 4096 });
    }
}

/// The protocol of the module, in all interleavings and all values that loads may return.
#[cfg(loom)]
mod modelled {
    use loom::sync::Arc;
    use loom::thread;
    use pagewell_sync::atomic::{AtomicU64, Ordering, fence};
    use pagewell_sync::bytes::RacyBytes;

    /// A page of two words, of which the bytes 4 to 12 are written.
    struct Page {
        word: AtomicU64,
        memory: [AtomicU64; 2],
    }

    /// What a writer does between W1 and W3.
    type Fence = fn();

    fn write_against_read(between: Fence) {
        loom::model(move || {
            let page = Arc::new(Page {
                word: AtomicU64::new(0),
                memory: [AtomicU64::new(0), AtomicU64::new(0)],
            });
            let writer = thread::spawn({
                let page = page.clone();
                move || {
                    // ORDERING: W1 to W4 of the module's protocol.
                    page.word.store(1, Ordering::Relaxed);
                    between();
                    RacyBytes::from_words(&page.memory).copy_from(4, &[7; 8]);
                    page.word.store(2, Ordering::Release);
                }
            });

            // ORDERING: R1 to R4 of the module's protocol.
            let before = page.word.load(Ordering::Acquire);
            let mut copy = [0; 16];
            RacyBytes::from_words(&page.memory).copy_to(0, &mut copy);
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && page.word.load(Ordering::Relaxed) == before {
                let mut whole = [0; 16];
                whole[4..12].fill(if before == 2 { 7 } else { 0 });
                assert_eq!(copy, whole, "a torn copy was validated");
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn validated_copy_is_never_torn() {
        write_against_read(|| fence(Ordering::Release));
    }

    #[test]
    #[should_panic(expected = "a torn copy was validated")]
    fn without_the_writers_fence_a_validated_copy_may_be_torn() {
        write_against_read(|| ());
    }

    #[test]
    fn writers_of_one_word_keep_each_others_bytes() {
        loom::model(|| {
            let memory = Arc::new([AtomicU64::new(0)]);
            let other = thread::spawn({
                let memory = memory.clone();
                move || RacyBytes::from_words(&*memory).copy_from(0, &[1; 3])
            });
            RacyBytes::from_words(&*memory).copy_from(3, &[2; 5]);
            other.join().unwrap();
            let mut copy = [0; 8];
            RacyBytes::from_words(&*memory).copy_to(0, &mut copy);
            assert_eq!(copy, [1, 1, 1, 2, 2, 2, 2, 2]);
        });
    }

    #[test]
    fn parts_are_zeroed_and_others_left() {
        loom::model(|| {
            let memory = [(); 3].map(|()| AtomicU64::new(u64::MAX));
            let bytes = RacyBytes::from_words(&memory);
            bytes.slice(1, 20).zero(2, 15);
            let mut copy = [0; 24];
            bytes.copy_to(0, &mut copy);
            let expected: [u8; 24] =
                std::array::from_fn(|i| if (3..18).contains(&i) { 0 } else { 0xFF });
            assert_eq!(copy, expected);
        });
    }
}
