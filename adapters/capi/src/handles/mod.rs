//! Handles: how a number that a C program holds becomes an object, or an error.
//!
//! - Owns: the tables of handles, which threads are in which call, who may close.
//! - Calls: `error`.
//! - Promises: any 64 bits may be passed as a handle. A handle that was closed is never taken for an open one, however often its slot was used since.
//!   While a call uses an object, nobody takes it out.
//!
//! # What
//!
//! A handle is a number, and not an address: the number of a slot in a static table, a generation, and a kind. Slots are never given back to an
//! allocator, so to look at the slot of a handle that was closed long ago is well defined.
//!
//! | module | what |
//! |---|---|
//! | `hazards` | lines, in which threads announce calls |
//! | `table` | slots, in which objects are |
//! | `process` | those that the process has, and a thread's own line |
//! | `cell` | a cell that loom can watch |
//!
//! # Protocol
//!
//! ```text
//! a call, announced                          a call, counted                  who closes
//! 1 store the handle in the thread's line    1 users += 1                     a compare-and-swap the word: open to closing
//! 2 light fence                                                               b users += 0
//! 3 load the slot's word: the handle?        2 load the word: the handle?     c heavy fence
//! 4 use the object                           3 use the object                 d users was 0, and no line has the handle?
//! 5 line := 0 (release)                      4 users -= 1 (release)           e so: the object is the closer's; word := free
//!                                                                               else: word := open; `PW_ERROR_BUSY`
//! ```
//!
//! Calls that call nothing of the program's, but hooks on bytes, are announced: two stores to a line of the thread's own. All others are counted, and so is a call in a call (in
//! a hook), and one of a thread that has no line. Nobody waits: a closer that meets a call gives up after a moment.
//!
//! Only files are announced. Other objects are used seldom, and their calls are all counted.
//!
//! # Ordering edges
//!
//! - E1. Either the call sees that the word has changed, or the closer sees the call.
//!   Announced: store buffering between steps 1, 3 and a, d, which the light and the heavy fence exclude.
//!   Counted: steps 1 and b change one word, so one of them comes first, and the other acquires what was before it: b the count, or 1 the closing (a).
//! - E2. Step 5 (or 4, release) to d (acquire): what the call has done happens before the object is taken. A line may have the *next* call's handle by then, so step 1 is
//!   a release too.
//! - E3. The object is stored before the word (release), when a slot is filled; step 3 (acquire) loads the word before the object.
//!
//! Proved by: the models in `models`, one for each race: `cd models && cargo test --profile loom -p pagewell-capi-handles`, from the root of the repository. Each of
//! the edges and steps has a mutant that a model rejects: `handle-*` in `verify/mutants/capi.mutants`.

pub(crate) mod cell;
mod hazards;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod process;
mod table;

#[cfg(not(loom))]
pub(crate) use self::hazards::Line;
#[cfg(not(loom))]
pub(crate) use self::process::{
    Counted, Kind, NR_LINES, Taken, add, is_forked, mark_dead, own_line, tables, take,
    used_counted, with, with_shortly,
};
#[cfg(not(loom))]
pub(crate) use self::table::{Free, Slot, Table};
