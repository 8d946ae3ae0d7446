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
//! # Protocol
//!
//! ```text
//! a call, announced                          a call, counted                  who closes
//! 1 store the handle in the thread's line    1 users += 1                     a compare-and-swap the word: open to closing
//! 2 light fence                                                               b heavy fence
//! 3 load the slot's word: the handle?        2 load the word: the handle?     c users == 0, and no line has the handle?
//! 4 use the object                           3 use the object                 d so: the object is the closer's; word := free
//! 5 line := 0 (release)                      4 users -= 1 (release)             else: word := open; `PW_ERROR_BUSY`
//! ```
//!
//! Calls that call nothing of the program's are announced: two stores to a line of the thread's own. All others are counted, and so is a call in a call (in
//! a hook), and one of a thread that has no line. Nobody waits: a closer that meets a call gives up after a moment.
//!
//! Only files are announced. Other objects are used seldom, and their calls are all counted.
//!
//! # Ordering edges
//!
//! - E1. Store buffering between steps 1, 3 and a, c: the light and the heavy fence of an announced call; for a counted one both sides are sequentially
//!   consistent. Either the call sees that the word has changed, or the closer sees the call.
//! - E2. Step 5 (or 4, release) to c (acquire): what the call has done happens before the object is taken.
//! - E3. The word is stored (release) after the object, when a slot is filled; step 3 (acquire) loads it before the object.

mod hazards;
mod table;

pub(crate) use self::hazards::{NR_LINES, is_forked, own_line, prepare};
pub(crate) use self::table::{
    Counted, Free, Kind, Slot, Taken, add, mark_dead, tables, take, used, used_counted,
    used_shortly,
};
