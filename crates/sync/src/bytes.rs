//! Memory that other threads may be writing, and the copies from it and to it.
//!
//! [`RacyBytes`] is what the bytes of a page are handed out as, and [`RacySource`] to who may only read them: readers
//! copy them without a lock while a writer may be at work, and find out afterwards whether what they got is whole. A plain
//! copy would be a data race, which is undefined whether or not anybody looks at its result. So
//! there are two implementations that are not: assembly at the speed of `memcpy` for x86-64, and
//! relaxed atomics ([`portable`]) for other processors, loom, Miri and ThreadSanitizer.
//!
//! # Protocol
//!
//! The sequence word is the caller's. It is odd while a writer is at work, and never repeats.
//!
//! ```text
//!     writer                                  reader
//!     W1  word.store(odd, Relaxed)            R1  word.load(Acquire), even
//!     W2  fence(Release)                      R2  bytes.copy_to(..)
//!     W3  bytes.copy_from(..) or zero(..)     R3  fence(Acquire)
//!     W4  word.store(even, Release)           R4  word.load(Relaxed), the same as in R1?
//! ```
//!
//! - E1: if R1 reads what W4 stored, then W3 happens before R2, which gets the bytes of W3 or later
//!   ones.
//! - E2: if R2 gets any byte that W3 stored, then the fences W2 and R3 synchronise, so R4 reads
//!   what W1 stored, or something later, and the reader discards its copy.
//!
//! What this module promises for both to hold:
//!
//! - P1: for the language, each byte is read by a relaxed load of the aligned `AtomicU64` that has
//!   it, and written by a relaxed read-modify-write of it (a store, if all its bytes are written).
//!   This is what the portable copy does. The assembly is an opaque function, of which the language
//!   needs to know no more than a story that its effects agree with, and this is the story: it
//!   writes no byte, and gets or leaves no value, that such loads and stores could not.
//! - P2: the loads of R2 are done before R4, and the stores of W3 after W1 and before W4. For the
//!   portable copy this follows from P1 and the fences. For the assembly it takes an argument.
//!
//! The bytes of one copy may be of different writers and in any order (tearing); the word tells.
//!
//! # Why the assembly keeps P2
//!
//! *The compiler.* No `asm!` here has the options `pure`, `nomem` or `readonly`. So each may read
//! and write all memory that it could reach, and may synchronise, as far as the compiler knows: no
//! atomic access, fence or other `asm!` moves across it, and it is not removed, repeated or split.
//!
//! *The processor.* Frames are ordinary write-back memory, for which both vendors promise that
//! loads are not reordered with older loads, nor stores with older stores or older loads (Intel,
//! Software Developer's Manual, volume 3, "Memory Ordering in P6 and More Recent Processor
//! Families"; AMD, Architecture Programmer's Manual, volume 2, "Multiprocessor Memory Access
//! Ordering"). This is about accesses of every width: one of more than eight bytes, or across a
//! cache line, may be done in several parts, in any order among themselves, but each part keeps its
//! place among the accesses of other instructions. So an acquire or release fence is no
//! instruction, and only holds the compiler back.
//!
//! *String instructions* (`rep movsb`, one of the [variants](variant)). Their stores may become visible
//! in any order among themselves, but are not reordered with the stores of other instructions, as long as
//! what says that they are there is a store of its own, which W4 is (Intel, the same volume, "Memory-Ordering
//! Model for String Operations on Write-Back (WB) Memory"; AMD has no exemption for them). Of their loads
//! neither vendor exempts any.
//!
//! *What is left out.* Exempt from these promises are non-temporal accesses. There are none here.
//!
//! # Under tools
//!
//! - loom runs the portable copy over its own atomics, a word at a time, and models the fences.
//! - ThreadSanitizer (`cfg(pagewell_tsan)`) cannot see into assembly, so it gets the portable copy.
//!   It models no fences: it can show that some code accesses these bytes by other means than a
//!   `RacyBytes`, and says nothing about E2, since relaxed accesses never race with each other.
//! - Miri gets the portable copy, having no assembly.
//!
//! Proved by: `tests/bytes.rs`, which holds both implementations against the same expectations, and
//! has the protocol above as a loom model (`validated_copy_is_never_torn`) with a twin that lacks
//! W2.
//!
//! | module | what |
//! |---|---|
//! | `place` | [`RacyBytes`] and [`RacySource`]: where the bytes are |
//! | [`portable`], `x86_64` | the copies of each build |
//! | [`variant`] | which way long copies go, and why |
//! | `copies` | what the two types copy by |
#![allow(unsafe_code)] // Reason: raw memory and assembly are what this module is there to wrap.

mod copies;
mod place;
pub mod portable;
pub mod variant;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
mod x86_64;

pub use place::{RacyBytes, RacySource};
