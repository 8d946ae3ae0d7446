//! The racy copy in relaxed atomics, for every target, loom, Miri and ThreadSanitizer.

use std::mem::MaybeUninit;

use super::WORD;
use crate::atomic::{AtomicU64, Ordering};

/// Where a range of bytes lies in words: a part of a first word, whole words, a part of a last one.
struct Parts<'a> {
    lead: usize,
    head: Option<(&'a AtomicU64, usize)>,
    body: &'a [AtomicU64],
    tail: Option<(&'a AtomicU64, usize)>,
}

fn parts(words: &[AtomicU64], off: usize, len: usize) -> Parts<'_> {
    let lead = off % WORD;
    let mut words = &words[off / WORD..];
    let mut rest = len;
    let mut head = None;
    if lead != 0 && len != 0 {
        let head_len = rest.min(WORD - lead);
        head = Some((&words[0], head_len));
        words = &words[1..];
        rest -= head_len;
    }
    let (body, after) = words.split_at(rest / WORD);
    let tail_len = rest % WORD;
    let tail = (tail_len != 0).then(|| (&after[0], tail_len));
    Parts {
        lead,
        head,
        body,
        tail,
    }
}

/// Copies the bytes from `off` on to `dst`.
pub fn copy_out(words: &[AtomicU64], off: usize, dst: &mut [MaybeUninit<u8>]) {
    let parts = parts(words, off, dst.len());
    let mut rest = dst;
    if let Some((word, len)) = parts.head {
        let (head, after) = rest.split_at_mut(len);
        head.write_copy_of_slice(&load(word)[parts.lead..][..len]);
        rest = after;
    }
    let (chunks, rest) = rest.as_chunks_mut::<WORD>();
    for (chunk, word) in chunks.iter_mut().zip(parts.body) {
        chunk.write_copy_of_slice(&load(word));
    }
    if let Some((word, len)) = parts.tail {
        rest.write_copy_of_slice(&load(word)[..len]);
    }
}

/// Copies `src` to the bytes from `off` on.
pub fn copy_in(words: &[AtomicU64], off: usize, src: &[u8]) {
    let parts = parts(words, off, src.len());
    let mut rest = src;
    if let Some((word, len)) = parts.head {
        let (head, after) = rest.split_at(len);
        store_part(word, parts.lead, head);
        rest = after;
    }
    let (chunks, rest) = rest.as_chunks::<WORD>();
    for (chunk, word) in chunks.iter().zip(parts.body) {
        word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
    if let Some((word, _)) = parts.tail {
        store_part(word, 0, rest);
    }
}

/// Makes the `len` bytes from `off` on zero.
pub fn zero(words: &[AtomicU64], off: usize, len: usize) {
    let parts = parts(words, off, len);
    if let Some((word, len)) = parts.head {
        store_part(word, parts.lead, &[0; WORD][..len]);
    }
    for word in parts.body {
        word.store(0, Ordering::Relaxed);
    }
    if let Some((word, len)) = parts.tail {
        store_part(word, 0, &[0; WORD][..len]);
    }
}

fn load(word: &AtomicU64) -> [u8; WORD] {
    word.load(Ordering::Relaxed).to_ne_bytes()
}

/// Changes some bytes of a word and leaves its others as they are.
fn store_part(word: &AtomicU64, at: usize, src: &[u8]) {
    let mut old = word.load(Ordering::Relaxed);
    loop {
        let mut bytes = old.to_ne_bytes();
        bytes[at..at + src.len()].copy_from_slice(src);
        let new = u64::from_ne_bytes(bytes);
        match word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(current) => old = current,
        }
    }
}
