//! Hazards: references that are published instead of counted, without a write to shared memory.
//!
//! - Owns: the hazard slots of threads; the protection of frames; the keeper of an orphaned pool.
//! - Guarantees: while a validated hazard exists, its frame has one counted reference more than
//!   other threads can account for: the frame is not freed, and no freeze of it succeeds. If the
//!   hazard is owned, the pool is not freed either.
//!
//! A frame to which a thread often acquires references can be *protected* (`mark`), by one more
//! counted reference, the *protection reference*. While the protection is on, a thread acquires a
//! reference by storing the frame's number into a hazard slot of its own, and releases it by
//! storing zero. Detecting whether any thread has published a frame takes a fence in all threads
//! ([`pagewell_sync::asymmetric`]), which costs microseconds. Only a *scan*
//! ([`Announcements::look`]) does that, for many frames at once. A hazard is *borrowed* from the
//! pool ([`Hold`](crate::Hold)) or *owned* ([`OwnedHold`](crate::OwnedHold)).
//!
//! # Protocol
//!
//! ```text
//! publisher                                scan, under the lock
//! 1 store the frame in a slot of its own   a protection := closed, in each queried frame
//! 2 light fence                            b heavy fence
//! 3 load the protection: on? else go to 5  c load all slots (acquire)
//! 4 use the frame                          d in no slot: protection := none; put its reference
//! 5 slot := 0 (release)                      in a slot: on again; if retired, the slot is awaited
//! 6 light fence                            e heavy fence, if a slot is newly awaited
//! 7 is the slot awaited? then scan         f load the slots again: as d
//! ```
//!
//! - The thread that sets the protection (none to on) holds a reference, and has acquired the
//!   protection reference before. For a cache page it holds the claim of the page's slot, so a
//!   protection never appears under another thread's claim.
//! - The holder of the claim that replaced or removed the page *retires* the frame (on to closed).
//!   No further hazard is valid, and the protection reference keeps the frame for those that exist.
//! - A thread that would evict or move the frame but for the protection *queries* it (`doubt`): the
//!   next scan covers the frame.
//! - A slot is *awaited* (`is_wanted`) if a scan needs the end of its hazard.
//!
//! After step 3 the publisher checks that the slot of the index is what it was before step 1. So
//! the protection was on while the frame was the page's.
//!
//! # Invariants
//!
//! - I1. A protection other than `none` has one counted reference. It is given up only in steps d
//!   and f: the protection is reset under the lock, then the reference is put without it.
//! - I2. Protections change only under the lock.
//! - I3. Only its owner, whose serial the block has, stores to the slots of a block. Other threads
//!   only clear hazards, by a compare-and-swap from the exact word to zero. A word contains the
//!   serial of its publisher, so it never recurs after the publisher's successor has cleared it.
//! - I4. The holder of a hazard finds its word in the slot, unless the hazard was transferred and
//!   has a counted reference.
//! - I5. From step 5 on, the holder of an owned hazard accesses only memory that is never freed
//!   (the *hazard table*: slots and *gate*), and the pool if it can enter the gate.
//! - I6. A pool is not freed while it has owned hazards, in slots or transferred to the count.
//!
//! # Ordering edges
//!
//! - E1. Store buffering between steps 1, 3 and a, c: the two fences. Either the publisher sees
//!   that the protection is closed, or the scan sees the hazard.
//! - E2. Step 5 (release) to step c or f (acquire), and on to the put of the protection reference
//!   (release) and the freeze or the free that it allows (acquire): accesses under the hazard
//!   happen before the frame is changed. The scan may load the slot's next word instead: its
//!   publisher has seen the zero (acquire), and its step 1 is a release too. (Models do not need
//!   these two: in them the light fences of steps 2 and 6 are full ones.)
//! - E3. Store buffering between steps 5, 7 and d (awaited), f: either the holder sees that its
//!   slot is awaited, or the scan sees the zero. So no retired frame is leaked.
//! - E4. A protection that is seen on (acquire) comes after its reference was acquired (release).
//! - E5. Uses of the pool under an owned hazard happen before the pool is freed: step 5 (release)
//!   to step c or f (acquire) of the scan that releases the keeper; for a transferred hazard, the
//!   put and the lock acquired after it. The gate's lock, which the releasing thread holds, orders
//!   threads that passed the gate; then the counts of the pool's strong references do.
//!
//! # The end of the pool
//!
//! A borrowed hazard ends before the pool does. An owned one may be the last user. It has no strong
//! reference, whose count would be shared. Its word is marked, and the pool's owner leaves one
//! strong reference for all such hazards, the *keeper*:
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
//! At p no thread publishes any more: publishers use the pool, and these uses end before its owner
//! does. So each hazard, or its end, happens before q and is seen there without a fence. By E3 a
//! scan follows the end of each hazard that is seen. Between 5 and 7a another thread's scan may
//! find no hazard and release the pool. The holder then finds the gate closed, or another pool's:
//! pools that reuse a hazard table have different *terms*. If the next pool awaits the slot, the
//! holder checks the gate once unnecessarily.
//!
//! Only a thread that holds the gate takes the keeper, and closes the gate first. So at 7b the
//! keeper exists, and no thread is dropping the value that contains the pool. When that value is
//! dropped, no thread is at 7b or gets there. (Closing the gate in the drop of the pool would be
//! too late: other fields of that value are being dropped by then.) After p, a scan by another user
//! of the pool locks the gate too, since it may be the one that leaves no slot awaited.
//!
//! The holder of a transferred hazard finds its word gone. The pool is kept for it (I6) until it
//! has put the counted reference inside of the gate, so it releases the lock before the pool is
//! freed.
//!
//! A leaked owned hazard keeps its pool forever. A leaked borrowed one does not.
//!
//! # The end of a thread
//!
//! Blocks are found by thread numbers, which are reused. A thread that finds its block owned by an
//! earlier thread, which has ended, *transfers* that thread's hazards to the count, under the lock:
//! it acquires a counted reference to the frame, and clears the word. The holder of the hazard
//! finds the word gone, and puts the counted reference. Until the transfer the hazards stay valid.
//! If the word was gone already, the counted reference is put again. It is not the last, as no scan
//! can have given up the protection reference under the lock.
//!
//! # Progress and failure
//!
//! Publishing and clearing are wait-free, except for the first use of a block and for awaited
//! slots. A thread without a number, beyond the last block or without an empty slot counts its
//! references. Without `membarrier(2)` no frame is ever protected. If the system refuses it later,
//! protections stay as if all frames were published, no new ones are set, and an orphaned pool with
//! hazards may stay. A child of `fork(2)` must not scan: inherited hazards are leaked.
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
