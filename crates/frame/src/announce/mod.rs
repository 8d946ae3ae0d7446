//! Hazards: references that a thread publishes in a slot of its own instead of counting them.
//! Threads that reference the same frame therefore do not write to a common word.
//!
//! - Owns: the hazard slots of threads; the protection of frames; the keeper of an orphaned pool.
//! - Guarantees: while a validated hazard exists, its frame has one counted reference more than
//!   other threads can account for: the frame is not freed, and no freeze of it succeeds. If the
//!   hazard is owned, the pool is not freed either.
//!
//! A frame to which a thread often acquires references can be *protected* (`mark`), by one more
//! counted reference, the *protection reference*. While the protection is on, a thread acquires a
//! reference by storing the frame's number into a hazard slot of its own, and releases it by
//! storing zero. Seeing all hazards of other threads takes a fence in all threads
//! ([`pagewell_sync::asymmetric`]), some microseconds. Only a *scan* ([`Announcements::look`])
//! executes it, once for many frames. A hazard is *borrowed* from the pool ([`Hold`](crate::Hold))
//! or *owned* ([`OwnedHold`](crate::OwnedHold)).
//!
//! # Protocol
//!
//! ```text
//! publisher                                scan, under the lock
//! 1 store the frame in a slot of its own   a protection := closed, in each queried frame
//! 2 light fence                            b heavy fence
//! 3 load the protection: on? else go to 5  c load all slots (acquire)
//! 4 use the frame                          d in no slot: protection := none; put its reference
//! 5 slot := 0 (release)                      in a slot: queried: on again; retired: await it
//! 6 light fence                            e heavy fence, if a slot is newly awaited
//! 7 is the slot awaited? then scan         f load the slots again: as d
//! ```
//!
//! - The thread that sets the protection (none to on) holds a reference of its own, and acquires
//!   the protection reference first. For a cache page it also holds the claim of the page's slot,
//!   so a protection never appears while another thread holds the claim.
//! - A thread that replaces or removes the page *retires* the frame (on to closed) under the claim.
//!   Later hazards are not valid. The protection reference keeps the frame for earlier ones.
//! - A thread that fails to evict or move a frame only because of the protection *queries* the
//!   frame (`doubt`): the next scan covers it.
//! - A slot is *awaited* (`is_wanted`) if a scan has to be repeated when its hazard ends.
//!
//! After step 3 the publisher checks that the index slot still has its value from before step 1.
//! The protection was therefore on while the frame belonged to the page.
//!
//! # Invariants
//!
//! - I1. A protection other than `none` has one counted reference. Only steps d and f give it up:
//!   they reset the protection under the lock, and put the reference after releasing the lock.
//! - I2. Protections change only under the lock.
//! - I3. Only its owner, whose serial the block has, stores hazards in a block. Others only clear
//!   hazards, by a compare-and-swap from the exact word to zero. A word contains its publisher's
//!   serial, so it never recurs after the publisher's successor has cleared it.
//! - I4. A hazard's holder finds its word in the slot, unless a counted reference has replaced it.
//! - I5. From step 5 on, the holder of an owned hazard accesses only memory that is never freed
//!   (the *hazard table*: slots and *gate*), and the pool only if it can enter the gate.
//! - I6. A pool is not freed while it has owned hazards, in slots or transferred to the count.
//!
//! # Ordering edges
//!
//! - E1. The publisher stores the hazard (1), then loads the protection (3). The scan closes the
//!   protection (a), then loads the slots (c). By the fences of 2 and b, either the publisher sees
//!   that the protection is closed, or the scan sees the hazard (store buffering).
//! - E2. Step 5 (release) synchronizes with step c or f (acquire). The later put of the protection
//!   reference (release) synchronizes with the freeze or the free that it allows (acquire). So
//!   accesses under the hazard happen before the frame is changed. If the scan loads the slot's
//!   next word instead of the zero, that word's publisher has seen the zero (acquire), and its step
//!   1 is a release. (Models pass without these two orderings: their light fences are full.)
//! - E3. The holder stores zero (5), then loads the awaited flag (7). The scan sets that flag (d),
//!   then loads the slot (f). By the fences of 6 and e, either the holder sees that its slot is
//!   awaited, or the scan sees the zero (store buffering). So no retired frame is leaked.
//! - E4. The store that sets the protection (release) synchronizes with the load that sees it on
//!   (acquire): the protection reference is acquired before that thread accesses the frame.
//! - E5. Uses of the pool under an owned hazard happen before the pool is freed: step 5 (release)
//!   to step c or f (acquire) of the scan that releases the keeper; for a transferred hazard, the
//!   put and the lock acquired after it. The gate's lock, which the releasing thread holds, orders
//!   threads that entered the gate. The counts of the pool's strong references order the rest.
//!
//! # The end of the pool
//!
//! A borrowed hazard ends before the pool does, but an owned hazard may be the last user of the
//! pool. A strong reference for each owned hazard would be a count that all threads write. Instead,
//! the hazard's word has the `OWNED` bit, and the pool's owner leaves one strong reference for all
//! such hazards, the *keeper*. The pool is then *orphaned*:
//!
//! ```text
//! owner of the pool, at its end               owned hazard, at its end
//! o lock the gate                             4a load the gate's address and the pool's term
//! p store the keeper, under the lock          5  slot := 0 (release)
//! q scan: slots with owned hazards            6  light fence
//!   are awaited (steps e, f)                  7  is the slot awaited? then
//! r no owned hazard, in a slot or             7a lock the gate: still this pool's? else end
//!   transferred: close the gate               7b scan; r
//! s unlock the gate; if closed, drop keeper   7c s
//! ```
//!
//! From step p on no thread publishes a hazard, since a publisher uses the pool only while its
//! owner exists. Each hazard was therefore stored before step q, which sees it, or a later zero,
//! without a fence. By E3 another scan follows the end of each hazard that q sees. Between 5 and 7a
//! another thread's scan may release the pool. The holder then finds the gate closed, or of another
//! pool: pools that reuse a hazard table have different *terms*.
//!
//! A thread takes the keeper only while it holds the gate, and closes the gate before it releases
//! the lock. So at 7b the keeper exists, and when the value that contains the pool is dropped, no
//! thread is at 7b or gets there. (In the drop of the pool it would be too late to close the gate:
//! other fields of the value may have been dropped.) After p, a scan by another user of the pool
//! locks the gate too, since it may be the one that finds no owned hazard.
//!
//! By I6 the holder of a transferred hazard can enter the gate, puts the counted reference, and
//! unlocks the gate before the pool is freed. A leaked owned hazard keeps its pool forever.
//!
//! # The end of a thread
//!
//! A thread's number selects its block of slots, and is reused. A new owner of a block *transfers*
//! the hazards of the ended thread to the count, under the lock: it acquires a counted reference to
//! the frame of each hazard, then clears the word. Until then the hazards stay valid. The holder of
//! a transferred hazard finds that the word was cleared, and puts the counted reference. If the
//! holder has cleared the word first, the new owner puts the reference. That put is not the last
//! one: no scan gives up the protection reference while another thread holds the lock.
//!
//! # Progress and failure
//!
//! Publishing and clearing are wait-free, except for the first use of a block and for awaited
//! slots. A thread without a number, a block or an empty slot acquires counted references. Without
//! `membarrier(2)` no frame is ever protected. If the system refuses it later, a scan resets only
//! protections that an earlier scan has closed behind a fence. Other protections never end, no new
//! ones are set, and an orphaned pool with hazards may never be freed. A child of `fork(2)` must
//! not scan: inherited hazards are leaked.
//!
//! Verified by `tests/loom_announce.rs`, the models `loom_announced_*` of the cache, the litmus
//! tests and the mutants `announce-*`, and `files/announced.rs` in the tests of `pagewell`.

mod board;
mod marks;
mod scores;
mod slot;
mod slots;

pub(crate) use self::board::Exit;
pub(crate) use self::marks::{Announcements, Keeper};
pub(crate) use self::slot::{Ended, Slot, Word};
