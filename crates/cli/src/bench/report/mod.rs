//! What came of the cells: figures and ratios, as tables for people and as JSON for programs.
//!
//! - **Owns** the texts, and how the rounds of a cell become one figure (a median with its spread, ratios round by round).
//! - **May call** `cases` for names of engines, `crew` for speeds, `plan`.
//! - **Promises** that no line is wider than 100 columns, whatever the machine is called; that the names of the JSON format stay.

mod cell;
mod cell_table;
mod format;
mod heading;
mod measured;
mod record;
#[cfg(test)]
pub(in crate::bench) mod sample;
mod scaling;
mod stats;
mod table;

pub(in crate::bench) use self::cell::cell_name;
pub(in crate::bench) use self::format::{COLUMNS, plural, time, times, wrap_at};
pub(in crate::bench) use self::heading::heading;
pub(in crate::bench) use self::measured::Measured;
pub(in crate::bench) use self::record::{print, print_hit_ratio};
pub(in crate::bench) use self::table::{report, summary};
