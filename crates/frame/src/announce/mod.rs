//! References that are announced instead of counted: taken and given back without a write to memory that threads share.
//!
//! - Owns: the slots in which threads announce, the marks of frames that may be announced, the one counted reference that stands
//!   for all announcements of a frame, and when that is given up; what keeps a pool that is left to announcements.
//! - Calls: `words`, `count`, `records`, `lists`.
//! - Promises: while there is an announcement that was found to hold, its frame has a counted reference more than anybody else
//!   can explain: it is not freed, and no freeze of it succeeds. If the holder borrows nothing, the pool is not freed either.
//!
//! # What
//!
//! A frame that many threads take references to has a *mark*, and one counted reference, the *mark's*, which belongs to this room. While
//! the mark is on, a thread takes a reference by storing the frame's number into a slot of its own, and gives it back by storing
//! zero. To find out whether anybody has one takes a fence in all threads ([`pagewell_sync::asymmetric`]), which costs microseconds;
//! so it is only asked where a mark was met, for many frames at once ([`Announcements::look`]). A frame without a mark costs
//! nobody anything.
//!
//! # Protocol
//!
//! ```text
//! announcer                                  a look, with the lock
//! 1 store the frame into a slot of its own   a mark := closed, in each frame that is asked for
//! 2 light fence                              b heavy fence
//! 3 load the mark: on? else end (5)          c load all slots (acquire)
//! 4 use the frame                            d no slot has the frame: mark := none; put the mark's reference
//! 5 slot := 0 (release)                        a slot has it: mark := on again; if the frame is retired, the slot is wanted
//! 6 light fence                              e heavy fence, if anything is wanted now that was not
//! 7 is the slot wanted? then look            f load the wanted slots again: as d
//! ```
//!
//! - A mark is set (none to on) by who has a reference, and has taken the mark's before. For a page of the cache it is the holder of the
//!   claim of the page's slot, so no claim meets a mark that is set meanwhile.
//! - A frame is *retired* (on to closed) when it is no longer what those who look for it find: by the holder of the claim that has
//!   replaced the page, or taken it out. Nobody can take a reference by the mark any more, and the mark's keeps the frame for those who did.
//! - A frame is *doubted* by who would evict or move it but for the mark. The next look asks for it.
//!
//! After step 3 the announcer has to check that the frame is the one that it wants: that the slot of the index is what it was before
//! step 1. So the mark was on while the frame was the page's.
//!
//! # Invariants
//!
//! - I1. A mark that is not `none` has one counted reference. It is given up only in steps d and f, with the lock.
//! - I2. Marks change with the lock only.
//! - I3. The slots of a block are stored to by its owner, whose serial the block has; others only take announcements out, by a
//!   compare-and-swap from the very word to zero. A word has the serial of who made it, so it never comes back after it was taken out
//!   by another.
//! - I4. Who gives a reference back finds its word in the slot; or it was handed over, and there is a counted reference for it.
//! - I5. Who ends an announcement whose holder borrows nothing touches nothing of the pool from step 5 on, but what is never freed (the *board*:
//!   the slots, and the *gate*), and what it has got hold of by the gate.
//! - I6. A pool is not freed while there are announcements, or references that were handed over, of holders that borrow nothing.
//!
//! # Ordering edges
//!
//! - E1. Store buffering between steps 1, 3 and a, c: the two fences. Either the announcer sees that the mark is closed, or the look sees
//!   the announcement.
//! - E2. Step 5 (release) to step c or f (acquire), and on to the put of the mark's reference (release) and the freeze or the free that
//!   it lets happen (acquire): what was done with the frame happens before it is changed. The look may load the next word of the slot instead: who
//!   stores that has seen the zero (acquire), and its step 1 is a release too. (Models do not need these two: in them the light fences of
//!   steps 2 and 6 are full ones.)
//! - E3. Store buffering between steps 5, 7 and d (wanted), f: either who ends the announcement sees that it is wanted, or the look sees
//!   that it has ended. So no frame that is retired is left behind.
//! - E4. A mark that is seen on (acquire) comes after the mark's reference was taken (release).
//! - E5. What a holder that borrows nothing did with the pool happens before the pool is freed: step 5 (release) to step c or f (acquire) of the look
//!   that lets go of the pool's keeper; of what was handed over, the put with the lock. What those did who have passed the gate: by its lock, which
//!   who lets go has. From there on by the counts of the pool's shares.
//!
//! # The end of the pool
//!
//! A holder that borrows from the pool is gone before the pool is. One that borrows nothing ([`OwnedHold`](crate::OwnedHold)) may be the last. It has no
//! share of the pool: that would be a count that threads share. Its word says what it is, and the owner of the pool keeps the pool for it:
//!
//! ```text
//! the owner of the pool, at its end           a holder that borrows nothing, at its end
//! o lock the gate                             4a load where the gate is, and which pool it was made for
//! p keep a share of the pool, with the lock   5  slot := 0 (release)
//! q look: slots of such holders are wanted    6  light fence
//!   (steps e, f)                              7  is the slot wanted? then
//! r no such word in a slot, and none handed   7a lock the gate: is it this pool's still? else nothing is left to do
//!   over: close the gate to this pool         7b look; r
//! s unlock the gate; let go of the share,     7c s
//!   if r says so
//! ```
//!
//! Nobody announces any more at p: who announces uses the pool, and who uses the pool has let go of it before its owner ends. So each announcement,
//! or its end, happens before q, and is seen there without a fence; E3 sees to it that the end of each that is seen is followed by a look. Between 5
//! and 7a another's look may find that nothing is left, and let go of the pool. Then the holder finds the gate closed to it, or another pool's: pools
//! that get a board in turn have numbers. That the slot may be wanted by the next pool then costs it a look at the gate.
//!
//! Only who has the gate lets go of the share, and closes the gate before. So at 7b the share is there, and nobody is dropping what the pool is a part
//! of; and when it is dropped nobody is at 7b, or gets there. (To close the gate in the drop of the pool, and wait there for those at 7b, is too late:
//! what else the pool is a part of is being dropped by then.) A look of somebody who has the pool anyhow, after p, takes the gate too, since it may be
//! the one that leaves no slot wanted.
//!
//! The holder of an announcement that was handed over finds its word gone, and the pool is kept for it (I6) until it has put the counted reference,
//! with the lock, inside of the gate; so it is out of the lock when the pool is freed.
//!
//! A holder that is leaked keeps its pool for ever. One that borrows from the pool, and is leaked, does not: its word is not that of the others.
//!
//! # The end of a thread
//!
//! Slots are found by the thread's number, which is handed on. A thread that finds a block in the name of another, which has
//! ended, hands the announcements over to the count, with the lock: it takes a counted reference to the frame, and takes the word out. The
//! holder of the reference finds the word gone, and puts the counted one. Until then the announcements stay where they are, and are as
//! good as any. If the word was gone already, the counted reference is put back; it is not the last, as no look can have given
//! up the mark's meanwhile.
//!
//! # Progress and failure
//!
//! To announce and to end are wait-free, but for a first use of a block and for what is wanted. A thread without a number or beyond the last
//! block, or with all slots taken, gets nothing, and counts. Where the system has no `membarrier(2)`, nothing is ever marked. Where it
//! refuses it later, marks stay as they are, as if all of them were announced, and no new ones are set; a pool that is left while there are announcements
//! may stay. A child of `fork(2)` must not look: what is left there is left for ever.
//!
//! Proved by: `tests/loom_announce.rs`, the models `loom_announced_*` of the cache; the litmus tests `announce-*`; the mutants
//! `announce-*`; `tests/announce.rs`.

mod board;
mod marks;
mod scores;
mod slot;
mod slots;

pub(crate) use self::board::Exit;
pub(crate) use self::marks::{Announcements, Keeper};
pub(crate) use self::slot::{Ended, Slot, Word};
