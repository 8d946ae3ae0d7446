//! The table: which rooms there are, and in which order.
//!
//! ```toml
//! ["crates/cache/src"]     # a crate's sources, or a folder in them with an order of its own
//! rooms = [                # bottom up
//!   { name = "base", owns = "slots and page states" },
//!   { name = "index", owns = "the index of a file's pages", calls = ["base"] },
//! ]
//! apart = ["models"]       # files and folders that are left out, and that nothing may import
//! holds = "later"          # a proposal: checked only when it is asked for
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// All orders of rooms.
#[derive(Debug, Clone)]
pub struct Table {
    orders: BTreeMap<String, Order>,
}

/// The rooms of one folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The rooms, bottom up.
    pub rooms: Vec<Room>,
    /// Files and folders that are left out, and that nothing may import.
    #[serde(default)]
    pub apart: Vec<String>,
    /// Whether the code keeps this order.
    #[serde(default)]
    pub holds: Holds,
}

/// Whether the code keeps an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// It must.
    #[default]
    Now,
    /// It is a proposal, which is checked only when it is asked for.
    Later,
}

/// A file or folder of code.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    /// The name of the file or folder, without `.rs`.
    pub name: String,
    /// What it owns, for readers.
    pub owns: String,
    /// The rooms below it that it may import from; all of them if there is no list.
    pub calls: Option<Vec<String>>,
}

/// Why one room may not import from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The other one stands above.
    Order,
    /// The other one is not in its list.
    List,
}

impl Table {
    /// Reads the text of a table.
    pub fn parse(text: &str) -> Result<Self, String> {
        let orders: BTreeMap<String, Order> = toml::from_str(text).map_err(|e| e.to_string())?;
        for (folder, order) in &orders {
            order.check().map_err(|e| format!("[{folder}]: {e}"))?;
            let is_inner = |src: &String| inner(folder, src).is_some();
            if !is_src(folder) && !orders.keys().any(|src| is_src(src) && is_inner(src)) {
                return Err(format!("[{folder}] is in no folder `src` of the table"));
            }
        }
        Ok(Self { orders })
    }

    /// The folders with the sources of crates, and the order of each.
    pub fn crates(&self) -> impl Iterator<Item = (&str, &Order)> {
        self.orders
            .iter()
            .filter(|(folder, _)| is_src(folder))
            .map(|(folder, order)| (folder.as_str(), order))
    }

    /// The orders of a crate, each with the folder, from `src` on: that of `src` itself has an empty name.
    pub fn orders_of(&self, src: &str) -> impl Iterator<Item = (&str, &Order)> {
        self.orders
            .iter()
            .filter_map(move |(folder, order)| Some((inner(folder, src)?, order)))
    }
}

/// Whether a folder of the table has all the sources of a crate.
fn is_src(folder: &str) -> bool {
    folder.ends_with("/src")
}

/// What is left of a folder's path behind `src`, if it is that or inside of it.
fn inner<'f>(folder: &'f str, src: &str) -> Option<&'f str> {
    let inner = folder.strip_prefix(src)?;
    inner
        .strip_prefix('/')
        .or(inner.is_empty().then_some(inner))
}

impl Order {
    fn check(&self) -> Result<(), String> {
        let mut below = BTreeSet::new();
        for room in &self.rooms {
            let name = &room.name;
            if room.owns.trim().is_empty() {
                return Err(format!("`{name}` does not say what it owns"));
            }
            for called in room.calls.iter().flatten() {
                if !below.contains(called) {
                    return Err(format!(
                        "`{name}` calls `{called}`, which is no room below it"
                    ));
                }
            }
            if !below.insert(name.clone()) {
                return Err(format!("`{name}` is listed twice"));
            }
            if self.apart.contains(name) {
                return Err(format!("`{name}` is both a room and apart"));
            }
        }
        Ok(())
    }

    /// Where a room stands, from the bottom; `None` if it is not listed.
    pub fn position(&self, room: &str) -> Option<usize> {
        self.rooms.iter().position(|other| other.name == room)
    }

    /// Why `from` may not import from `to`, if it may not. What is not listed stands above all that is.
    pub fn forbids(&self, from: &str, to: &str) -> Option<Against> {
        let above_all = self.rooms.len();
        let (from, to) = (self.position(from), self.position(to));
        if from == to {
            return None;
        }
        if to.unwrap_or(above_all) > from.unwrap_or(above_all) {
            return Some(Against::Order);
        }
        let calls = from.and_then(|from| self.rooms[from].calls.as_ref())?;
        let called = to.is_some_and(|to| calls.contains(&self.rooms[to].name));
        (!called).then_some(Against::List)
    }
}
