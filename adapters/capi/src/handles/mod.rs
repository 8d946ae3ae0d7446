//! Handles: numbers by which a C program refers to objects.
//!
//! - Owns: the tables of handles, the hazard slots, the check before an object is closed.
//! - Calls: `error`.
//! - Promises: any 64 bits may be passed as a handle. A closed handle is never taken for an open
//!   one. While a call uses an object, no other thread takes it out of its slot.
//!
//! # Concepts
//!
//! A handle is no address, but the number of a slot in a static table, a generation, and a kind.
//! Table slots are never freed, so a load from the slot of a closed handle is well defined.
//!
//! | module | contents |
//! |---|---|
//! | `hazards` | hazard slots (`Line`), in which threads publish calls |
//! | `table` | table slots, which contain objects |
//! | `process` | the table of each kind of object; the hazard slot of the calling thread |
//! | `per_process` | values with one instance in each process |
//! | `cell` | a cell that loom can check |
//!
//! # Protocol
//!
//! ```text
//! published call                 counted call             closing thread
//! 1 store the handle in the      1 users += 1             a compare-and-swap the word: open
//!   thread's hazard slot                                    to closing
//! 2 light fence                                           b users += 0
//! 3 load the table slot's word:  2 load the word: is it   c heavy fence
//!   is it the handle?              the handle?
//! 4 use the object               3 use the object         d is users 0, and the handle in no
//! 5 hazard slot := 0 (release)   4 users -= 1 (release)     hazard slot?
//!                                                         e if so: take the object; word := free
//!                                                           else: word := open; `PW_ERROR_BUSY`
//! ```
//!
//! A call with a file is published if it is frequent and calls no function of the program except
//! the page codec: reads, pins, views, advice, `pw_prefetch`, `pw_invalidate`, `pw_size`. All other
//! calls are counted, also calls within a call (in a callback) and calls of a thread without a
//! hazard slot. No thread waits for the end of a call: a closing thread gives up at once if it
//! finds a counted call, and after a short time if it finds a published one.
//!
//! Calls with other objects than files are all counted: their close skips step c and the scan of d.
//!
//! # Ordering edges
//!
//! - E1. Either the call sees that the word has changed, or the closing thread sees the call. For a
//!   published call, the light and the heavy fence exclude store buffering between steps 1, 3 and
//!   a, d. For a counted call, steps 1 and b are read-modify-writes of one word. If step 1 comes
//!   first, step b sees the count; otherwise step 1 acquires the change of step a.
//! - E2. Step 5 (or 4, release) to d (acquire): the effects of the call happen before the object is
//!   taken. Step 1 is a release, too: step d may find the *next* call's handle in the hazard slot.
//! - E3. A fill stores the object before the word (release); step 3 (acquire) loads the word before
//!   the object.
//!
//! Verified by the models in `models`, one for each race; from the root of the repository:
//! `cd models && cargo test --profile loom -p pagewell-capi-handles`. They reject a mutant of each
//! edge and step: `handle-*` in `verify/mutants/capi.mutants`.

pub(crate) mod cell;
mod hazards;
#[cfg(all(test, loom))]
mod models;
mod per_process;
#[cfg(not(loom))]
mod process;
mod table;

#[cfg(not(loom))]
pub(crate) use self::hazards::Line;
#[cfg(not(loom))]
pub(crate) use self::per_process::{PerProcess, this as this_process};
#[cfg(not(loom))]
pub(crate) use self::process::{
    Calls, Counted, Kind, NR_LINES, Taken, add, check_process, mark_dead, own_line, reserve,
    tables, take, used_counted, with, with_shortly,
};
#[cfg(not(loom))]
pub(crate) use self::table::{Free, Slot, Table};
