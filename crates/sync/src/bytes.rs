//! Memory that other threads may be writing, and copies from and to such memory.
//!
//! Readers copy the bytes of a page without a lock while a writer may be active, and validate the
//! copy afterwards. An ordinary copy would be a data race, which is undefined behavior even if the
//! reader discards it. Two implementations avoid that: assembly at the speed of `memcpy` for
//! x86-64, and relaxed atomics ([`portable`]) for other processors, loom, Miri and ThreadSanitizer.
//!
//! # Protocol
//!
//! The caller owns the sequence word, whose values do not repeat, and excludes other writers.
//!
//! ```text
//!     writer                                  reader
//!     W1  word.store(odd, Relaxed)            R1  word.load(Acquire), even
//!     W2  fence(Release)                      R2  bytes.copy_to(..)
//!     W3  bytes.copy_from(..) or zero(..)     R3  fence(Acquire)
//!     W4  word.store(even, Release)           R4  word.load(Relaxed), the same as in R1?
//! ```
//!
//! - E1: if R1 reads the store of W4, then W3 happens before R2, so R2 gets the bytes of W3 or of
//!   later writes.
//! - E2: if R2 gets any byte that W3 stored, then the fences W2 and R3 synchronize, so R4 reads
//!   what W1 stored, or something later, and the reader discards its copy.
//!
//! This module guarantees the following for E1 and E2:
//!
//! - P1: to the language, each byte is read by a relaxed load of the aligned `AtomicU64` that
//!   contains it, and written by a relaxed read-modify-write of that word (a store, if all its
//!   bytes are written). The portable copy does exactly this. Assembly may have any effects that
//!   code in the language could have. Here these are those of the portable copy: it writes no byte
//!   outside the range, and loads and stores only values that the portable copy could.
//! - P2: the loads of R2 are performed before R4, and the stores of W3 after W1 and before W4. For
//!   the portable copy this follows from P1 and the fences; for the assembly, see below.
//!
//! Bytes of one copy may come from different writes, in any combination; R4 detects this tearing.
//!
//! # Why the assembly keeps P2
//!
//! *Compiler.* No `asm!` of a copy has the options `pure`, `nomem` or `readonly`, so the compiler
//! assumes that it accesses all memory that it could reach, and synchronizes. No atomic access,
//! fence or other `asm!` moves across it, and it is not removed, repeated or split.
//!
//! *Processor.* Frames are ordinary write-back memory, for which both vendors guarantee that loads
//! are not reordered with older loads, nor stores with older stores or older loads (Intel, Software
//! Developer's Manual, volume 3, "Memory Ordering in P6 and More Recent Processor Families"; AMD,
//! Architecture Programmer's Manual, volume 2, "Multiprocessor Memory Access Ordering"). An access
//! of more than eight bytes, or across a cache line, may be done in several parts, in any order
//! among themselves, but each part keeps its place among the accesses of other instructions. So an
//! acquire or release fence only restrains the compiler.
//!
//! *Exemptions.* Non-temporal accesses are exempt, and stores of string instructions among
//! themselves; this module has neither.
//!
//! # Under tools
//!
//! loom, Miri and ThreadSanitizer (`cfg(pagewell_tsan)`) run the portable copy; the last two do not
//! see into assembly. loom models the fences, on its own atomics. ThreadSanitizer can detect
//! accesses to these bytes that do not use a `RacyBytes`, but cannot check E2: it does not model
//! fences, and relaxed accesses never race with each other.
//!
//! Verified by `tests/bytes.rs`, for both implementations, which has the protocol as a loom model
//! (`validated_copy_is_never_torn`) with a twin that lacks W2.
#![allow(unsafe_code)] // Reason: this module wraps raw memory and assembly.

mod copies;
mod place;
pub mod portable;
pub mod width;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
mod x86_64;

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
use portable::without_assembly as native;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
use x86_64 as native;

pub use place::{RacyBytes, RacySource};
