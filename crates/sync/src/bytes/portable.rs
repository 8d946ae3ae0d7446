//! Racy copies with relaxed atomics, for loom, Miri, ThreadSanitizer and processors other than
//! x86-64. Public only for tests and benchmarks; other code uses [`RacyBytes`].
//!
//! Every access is to a whole aligned `AtomicU64`, because racing accesses of different sizes are
//! undefined behavior even if all are atomic. A copy to part of a word preserves its other bytes,
//! even if other threads write them concurrently.

use std::mem::MaybeUninit;

use super::place::{RacyBytes, WORD};
use crate::atomic::{AtomicU64, Ordering};

/// Copies all of `src` to `dst`. Panics if their lengths differ.
pub fn copy_out(src: RacyBytes<'_>, dst: &mut [MaybeUninit<u8>]) {
    assert_eq!(src.len(), dst.len());
    let src = Parts::of(src);
    let (head, dst) = dst.split_at_mut(src.head.len);
    let (body, tail) = dst.as_chunks_mut::<WORD>();
    if let Some(word) = src.head.word {
        head.write_copy_of_slice(&load(word)[src.head.start..][..src.head.len]);
    }
    for (chunk, word) in body.iter_mut().zip(src.body) {
        chunk.write_copy_of_slice(&load(word));
    }
    if let Some(word) = src.tail.word {
        tail.write_copy_of_slice(&load(word)[..src.tail.len]);
    }
}

/// Loads the `N` bytes of `src` from `off` on.
///
/// # Safety
///
/// (r) These bytes are in `src`.
#[inline]
#[must_use]
pub unsafe fn load_value<const N: usize>(src: RacyBytes<'_>, off: usize) -> [u8; N] {
    let mut bytes = [MaybeUninit::uninit(); N];
    // SAFETY: (r).
    copy_out(unsafe { src.part(off, N) }, &mut bytes);
    // SAFETY: `copy_out` has initialized all of `bytes`.
    bytes.map(|byte| unsafe { byte.assume_init() })
}

/// Copies `src` to all of `dst`. Panics if their lengths differ.
pub fn copy_in(dst: RacyBytes<'_>, src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    let dst = Parts::of(dst);
    let (head, src) = src.split_at(dst.head.len);
    let (body, tail) = src.as_chunks::<WORD>();
    dst.head.store(head);
    for (word, chunk) in dst.body.iter().zip(body) {
        store(word, *chunk);
    }
    dst.tail.store(tail);
}

/// Copies `src` to all of `dst`. Panics if their lengths differ.
pub fn copy_between(dst: RacyBytes<'_>, src: RacyBytes<'_>) {
    assert_eq!(dst.len(), src.len());
    let mut piece = [0; 8 * WORD];
    let mut off = 0;
    while off < src.len() {
        let piece = &mut piece[..(src.len() - off).min(8 * WORD)];
        src.copy_to(off, piece);
        dst.copy_from(off, piece);
        off += piece.len();
    }
}

/// Zeros `dst`.
pub fn zero(dst: RacyBytes<'_>) {
    let dst = Parts::of(dst);
    dst.head.store(&[0; WORD][..dst.head.len]);
    for word in dst.body {
        store(word, [0; WORD]);
    }
    dst.tail.store(&[0; WORD][..dst.tail.len]);
}

struct Part<'a> {
    word: Option<&'a AtomicU64>,
    start: usize,
    len: usize,
}

/// A byte range: the end of a word (`head`), whole words (`body`) and the beginning of a word
/// (`tail`). A range within one word that does not start at its first byte is all head.
struct Parts<'a> {
    head: Part<'a>,
    body: &'a [AtomicU64],
    tail: Part<'a>,
}

impl<'a> Parts<'a> {
    fn of(bytes: RacyBytes<'a>) -> Self {
        let (words, start) = bytes.words();
        let words = &words[start / WORD..];
        let start = start % WORD;
        let head_len = match start {
            0 => 0,
            start => bytes.len().min(WORD - start),
        };
        let (head, words) = words.split_at(usize::from(head_len != 0));
        let (body, words) = words.split_at((bytes.len() - head_len) / WORD);
        let tail_len = (bytes.len() - head_len) % WORD;
        let (tail, _) = words.split_at(usize::from(tail_len != 0));
        Self {
            head: Part {
                word: head.first(),
                start,
                len: head_len,
            },
            body,
            tail: Part {
                word: tail.first(),
                start: 0,
                len: tail_len,
            },
        }
    }
}

impl Part<'_> {
    /// Preserves the other bytes of the word.
    fn store(&self, bytes: &[u8]) {
        let Some(word) = self.word else { return };
        // ORDERING: all Relaxed; the caller's fences order these bytes (E1, E2 of the parent
        // module). The loop ends unless other threads keep changing this word, which writers of one
        // page do not, since they exclude each other.
        let mut old = word.load(Ordering::Relaxed);
        loop {
            let mut new = old.to_ne_bytes();
            new[self.start..][..self.len].copy_from_slice(bytes);
            let new = u64::from_ne_bytes(new);
            match word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => old = current,
            }
        }
    }
}

fn load(word: &AtomicU64) -> [u8; WORD] {
    // ORDERING: Relaxed; the caller's acquire fence orders this load before the check of the
    // sequence word (E2 of the parent module).
    word.load(Ordering::Relaxed).to_ne_bytes()
}

fn store(word: &AtomicU64, bytes: [u8; WORD]) {
    // ORDERING: Relaxed; the caller's earlier release fence and later release store order this
    // store (E2 and E1 of the parent module).
    word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
}

/// Functions that take the place of the assembly in builds without it.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
pub(super) mod without_assembly {
    pub(in super::super) use super::{
        copy_between, copy_in, copy_out, copy_out as copy_out_inlined, load_value, zero,
    };
    use crate::bytes::place::RacyBytes;
    use crate::bytes::width::Width;

    #[cfg(not(loom))]
    #[inline]
    pub(in super::super) fn expect_write(_: *const u8) {}

    pub(in super::super) fn copy_with(width: Width, _: RacyBytes<'_>, _: RacyBytes<'_>) {
        unreachable!("a build without assembly does not support {width:?}");
    }

    pub(in super::super) fn zero_with(width: Width, _: RacyBytes<'_>) {
        unreachable!("a build without assembly does not support {width:?}");
    }
}
