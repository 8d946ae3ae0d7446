//! The racy copies: exact bytes and nothing else, for every implementation; and their protocol.

/// The widths that this machine and build support. Prints which are skipped.
#[cfg(not(loom))]
fn supported_widths() -> Vec<pagewell_sync::bytes::width::Width> {
    let all = pagewell_sync::bytes::width::Width::ALL.into_iter();
    all.filter(|width| match width.check() {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    })
    .collect()
}

/// Effects that one thread can see, of the copy in use, of each width, and of the portable copy.
#[cfg(not(loom))]
mod alone {
    use std::mem::MaybeUninit;
    use std::ptr::NonNull;

    use pagewell_sync::bytes::width::{self, Width};
    use pagewell_sync::bytes::{RacyBytes, portable};

    use super::supported_widths;

    /// An implementation.
    #[derive(Clone, Copy, Debug)]
    enum Copies {
        /// By the selected width.
        Native,
        Portable,
        By(Width),
    }

    use Copies::{By, Native, Portable};

    impl Copies {
        fn out(self, src: RacyBytes<'_>, dst: &mut [u8]) {
            match self {
                Native => src.copy_to(0, dst),
                Portable => {
                    // SAFETY: the layouts are the same, and the copy stores initialised bytes only.
                    let dst = unsafe { &mut *(&raw mut *dst as *mut [MaybeUninit<u8>]) };
                    portable::copy_out(src, dst);
                }
                By(width) => width.copy(racy(dst), src),
            }
        }

        fn into(self, dst: RacyBytes<'_>, src: &mut [u8]) {
            match self {
                Native => dst.copy_from(0, src),
                Portable => portable::copy_in(dst, src),
                By(width) => width.copy(dst, racy(src)),
            }
        }

        fn zero(self, dst: RacyBytes<'_>) {
            match self {
                Native => dst.zero(0, dst.len()),
                Portable => portable::zero(dst),
                By(width) => width.zero(dst),
            }
        }
    }

    /// Some bytes of a [`Pages`] or of an array of words.
    fn racy(bytes: &mut [u8]) -> RacyBytes<'_> {
        // SAFETY: (a) words that have some of the bytes have no others than what they are a part of;
        // (b) borrowed exclusively for as long.
        unsafe { RacyBytes::new(NonNull::from(&mut *bytes).cast(), bytes.len()) }
    }

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
            self.copies.out(src, &mut self.dst.bytes()[dst_at..][..len]);
            let src = &mut self.src.bytes()[src_at..][..len];
            Self::expect("copy_to", of, self.dst.bytes(), dst_at, src);

            self.dst.bytes()[dst_at..][..len].fill(CANARY);
            self.copies.into(self.dst.racy().slice(dst_at, len), src);
            Self::expect("copy_from", of, self.dst.bytes(), dst_at, src);

            self.copies.zero(self.dst.racy().slice(dst_at, len));
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
        short_lengths_at_all_alignments(Native);
    }

    #[test]
    fn portable_copies_short_lengths_at_all_alignments() {
        short_lengths_at_all_alignments(Portable);
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
        lengths_around_those_of_pages(Native);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for an interpreter")]
    fn portable_copies_lengths_around_those_of_pages() {
        lengths_around_those_of_pages(Portable);
    }

    /// Both loops of the native copy, and what they do at their ends, depend on the distance modulo a
    /// page and on the alignment of the destination.
    fn at_all_distances(copies: Copies) {
        let mut check = Check::new(copies, 4096);
        for dst_off in 0..4096 {
            for len in [257, 384, 511, 1000, 2100] {
                check.run(0, dst_off, len);
                check.run(7, dst_off, len);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for an interpreter")]
    fn native_copies_at_all_distances() {
        at_all_distances(Native);
    }

    /// All alignments of the destination modulo the widest move.
    #[test]
    fn every_width_copies_short_lengths_at_all_alignments() {
        let longest = if cfg!(miri) { 40 } else { 700 };
        for width in supported_widths() {
            let mut check = Check::new(By(width), longest);
            for src_off in [0, 1, 16, 31, 33, 63] {
                for dst_off in 0..if cfg!(miri) { 9 } else { 66 } {
                    for len in 0..=longest {
                        check.run(src_off, dst_off, len);
                    }
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for an interpreter")]
    fn every_width_copies_lengths_around_those_of_pages() {
        for width in supported_widths() {
            lengths_around_those_of_pages(By(width));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for an interpreter")]
    fn every_width_copies_at_all_distances() {
        for width in supported_widths() {
            at_all_distances(By(width));
        }
    }

    /// Two pages between two that nobody may access: an access outside of a copy's bytes that leaves the page
    /// is a crash.
    struct Fenced(NonNull<u8>);

    impl Fenced {
        const LEN: usize = 2 * 4096;

        fn new() -> Self {
            let len = Self::LEN + 2 * 4096;
            // SAFETY: a new mapping.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(start, libc::MAP_FAILED);
            let first = NonNull::new(start.cast::<u8>().wrapping_add(4096)).unwrap();
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: two pages of it, which nobody uses yet.
            let done = unsafe { libc::mprotect(first.as_ptr().cast(), Self::LEN, access) };
            assert_eq!(done, 0);
            Self(first)
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: these pages are ours, and initialised as zeros.
            unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), Self::LEN) }
        }
    }

    impl Drop for Fenced {
        fn drop(&mut self) {
            let start = self.0.as_ptr().wrapping_sub(4096);
            // SAFETY: the whole mapping, which nobody borrows any more.
            let done = unsafe { libc::munmap(start.cast(), Self::LEN + 2 * 4096) };
            assert_eq!(done, 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no memory protection")]
    fn every_width_stays_within_pages_at_their_borders() {
        let (mut src, mut dst) = (Fenced::new(), Fenced::new());
        for (i, byte) in src.bytes().iter_mut().enumerate() {
            *byte = pattern(i);
        }
        let lengths = || {
            (0..=1100)
                .chain(2040..=2060)
                .chain(4080..=4200)
                .chain([8192])
        };
        let all = supported_widths().into_iter().map(By);
        for copies in all.chain([Native, Portable]) {
            for len in lengths() {
                let end = Fenced::LEN - len;
                // At both borders, and a few bytes from one, so that alignments differ.
                let near = |at: usize| [at, at.min(1), at.min(24)];
                for (src_at, dst_at) in [(0, 0), (end, end), (0, end), (end, 0)]
                    .into_iter()
                    .chain(near(end).map(|at| (at, end)))
                    .chain(near(end).map(|at| (end, at)))
                {
                    let from = src.bytes()[src_at..][..len].to_vec();
                    copies.out(
                        racy(&mut src.bytes()[src_at..][..len]),
                        &mut dst.bytes()[dst_at..][..len],
                    );
                    assert!(dst.bytes()[dst_at..][..len] == from, "{copies:?} {len}");
                    copies.into(
                        racy(&mut dst.bytes()[dst_at..][..len]),
                        &mut src.bytes()[src_at..][..len],
                    );
                    copies.zero(racy(&mut dst.bytes()[dst_at..][..len]));
                    assert!(
                        dst.bytes().iter().all(|&byte| byte == 0),
                        "{copies:?} {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_selected_width_is_supported_until_another_is_selected() {
        let has_assembly = cfg!(all(target_arch = "x86_64", not(any(miri, pagewell_tsan))));
        assert_eq!(width::selected().is_some(), has_assembly);
        for width in Width::ALL {
            let before = width::selected();
            match width::select(width) {
                Ok(()) => assert_eq!(width::selected(), Some(width)),
                Err(why) => {
                    assert!(why.to_string().contains(width.name()), "{why}");
                    assert_eq!(width::selected(), before);
                    must_panic("copy", move || width.copy(racy(&mut []), racy(&mut [])));
                }
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
        let lengths = || {
            (0..=65)
                .chain(100..=4000)
                .step_by(if cfg!(miri) { 97 } else { 1 })
        };
        for width in Width::ALL.map(|width| width::select(width).map(|()| width)) {
            for len in lengths() {
                let mut dst = [CANARY; 2 * 4001];
                let (unchecked, inlined) = dst.split_at_mut(4001);
                // SAFETY: (r) 5 + 4000 bytes are in the page; (d) the half is as long and ours.
                unsafe { src.copy_to_unchecked(5, unchecked.as_mut_ptr(), len) };
                src.copy_to_inlined(5, &mut inlined[..len]);
                for dst in [unchecked, inlined] {
                    assert!(
                        (0..len).all(|i| dst[i] == pattern(5 + i)),
                        "{width:?} {len}"
                    );
                    assert!(
                        dst[len..].iter().all(|&byte| byte == CANARY),
                        "{width:?} {len}"
                    );
                }
            }
        }
    }

    /// Values of `N` bytes at all places of a page's two ends, by both implementations, and at none outside of it.
    fn values_are_whole_wherever_they_lie<const N: usize>() {
        let mut pages = Pages::new(4096);
        for (i, byte) in pages.bytes().iter_mut().enumerate() {
            *byte = pattern(i);
        }
        let src = pages.racy();
        for off in (0..130).chain(4096 - N - 70..=4096 - N) {
            let expected: [u8; N] = std::array::from_fn(|i| pattern(off + i));
            assert_eq!(src.source().load(off), Some(expected), "{N} at {off}");
            // SAFETY: (r) `off` is at most the page's size less `N`.
            let portable: [u8; N] = unsafe { portable::load_value(src, off) };
            assert_eq!(portable, expected, "{N} at {off}");
        }
        for off in [4097 - N, 4096, 4097, usize::MAX - N, usize::MAX] {
            let is_inside = N == 0 && off == 4096;
            assert_eq!(
                src.source().load::<N>(off).is_some(),
                is_inside,
                "{N} at {off}"
            );
        }
    }

    #[test]
    fn values_of_all_widths_are_whole_wherever_they_lie() {
        values_are_whole_wherever_they_lie::<0>();
        values_are_whole_wherever_they_lie::<1>();
        values_are_whole_wherever_they_lie::<2>();
        values_are_whole_wherever_they_lie::<3>();
        values_are_whole_wherever_they_lie::<4>();
        values_are_whole_wherever_they_lie::<8>();
        values_are_whole_wherever_they_lie::<13>();
        values_are_whole_wherever_they_lie::<16>();
        values_are_whole_wherever_they_lie::<70>();
    }

    #[test]
    fn parts_are_given_if_they_are_inside() {
        let mut pages = Pages::new(4096);
        let bytes = pages.racy().slice(64, 10).source();
        for (off, len) in OUTSIDE {
            assert!(bytes.get(off, len).is_none(), "{len} at {off}");
        }
        for (off, len) in [(0, 10), (10, 0), (3, 7)] {
            assert_eq!(bytes.get(off, len).unwrap().len(), len);
        }
        assert_eq!(
            bytes.get(3, 7).unwrap().as_ptr(),
            bytes.as_ptr().wrapping_add(3)
        );
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
        for copies in supported_widths().into_iter().map(By).chain([Portable]) {
            copies.out(nothing, &mut []);
            copies.into(nothing, &mut []);
            copies.zero(nothing);
        }
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
        Portable.out(pages.racy().slice(0, 9), &mut [0; 8]);
    }

    #[test]
    fn a_copy_of_another_length_by_any_width_panics() {
        for width in supported_widths() {
            must_panic("copy", move || {
                let mut pages = Pages::new(4096);
                By(width).out(pages.racy().slice(0, 129), &mut [0; 128]);
            });
        }
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
    use pagewell_sync::bytes::width::Width;

    const WRITES: u64 = if cfg!(miri) { 20 } else { 20_000 };

    /// Bytes of words, for a copy between racy bytes.
    fn racy_words(words: &mut [u64], len: usize) -> RacyBytes<'_> {
        assert!(len <= size_of_val(words));
        // SAFETY: (a) whole words; (b) borrowed exclusively for as long.
        unsafe { RacyBytes::new(NonNull::from(words).cast(), len) }
    }

    /// With copies by moves of `width`, or by the copy in use.
    fn validated_copies_are_whole(len: usize, width: Option<Width>) {
        let memory: Vec<AtomicU64> = (0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        let start = NonNull::from(&memory[..]).cast();
        // SAFETY: (a) whole words; (b) nothing else accesses them below.
        let bytes = unsafe { RacyBytes::new(start, len) };
        let word = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut copy = vec![0; len];
                    let mut copy_in_words = vec![0_u64; len.div_ceil(8)];
                    let mut seen = 0;
                    while seen < 2 * WRITES {
                        // ORDERING: R1 to R4 of the module's protocol.
                        let before = word.load(Ordering::Acquire);
                        match width {
                            None => bytes.copy_to(0, &mut copy),
                            Some(width) => {
                                width.copy(racy_words(&mut copy_in_words, len), bytes);
                            }
                        }
                        fence(Ordering::Acquire);
                        if before.is_multiple_of(2) && word.load(Ordering::Relaxed) == before {
                            if width.is_some() {
                                racy_words(&mut copy_in_words, len).copy_to(0, &mut copy);
                            }
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
                let mut page = vec![0_u64; len.div_ceil(8)];
                for nr in 1..=WRITES {
                    // ORDERING: W1 to W4 of the module's protocol.
                    word.store(2 * nr - 1, Ordering::Relaxed);
                    fence(Ordering::Release);
                    match (width, nr as u8) {
                        (None, 0) => bytes.zero(0, len),
                        (None, nr) => bytes.copy_from(0, &vec![nr; len]),
                        (Some(width), 0) => width.zero(bytes),
                        (Some(width), nr) => {
                            page.fill(u64::from_ne_bytes([nr; 8]));
                            width.copy(bytes, racy_words(&mut page, len));
                        }
                    }
                    word.store(2 * nr, Ordering::Release);
                }
            });
        });
    }

    #[test]
    fn validated_copies_of_a_line_are_whole() {
        validated_copies_are_whole(64, None);
    }

    #[test]
    fn validated_copies_of_a_page_are_whole() {
        validated_copies_are_whole(if cfg!(miri) { 100 } else { 4096 }, None);
    }

    #[test]
    fn validated_copies_of_a_page_by_each_width_are_whole() {
        for width in super::supported_widths() {
            let len = if cfg!(miri) { 100 } else { 4096 };
            validated_copies_are_whole(len, Some(width));
        }
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
