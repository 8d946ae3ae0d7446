//! What may be read, and what may survive: for each block of the file and for its size, the changes and when they were made.
//!
//! A change begins and ends at moments (*stamps*) of one count. A read from one moment to another may give what was written last before it began, or by any change that
//! began before it ended; so reads and writes of one place may overlap and the answer is still checked. A change that has failed, or of which nobody was told
//! how it ended, may have been made or not.
//!
//! A sync makes durable what had ended when it began. After a loss of power a place has what is durable, or anything that was written later.

use super::plan::{A_PAGE, FIRST, LARGEST, Shape, Value};
use crate::block::{BLOCK, block};

/// A moment.
pub(super) type Stamp = u64;

/// A change of a place.
#[derive(Clone, Debug)]
struct Change<V> {
    value: V,
    begun: Stamp,
    /// None: it is under way, has failed, or was given up.
    ended: Option<Stamp>,
}

/// The changes of one place, in the order of its one writer.
#[derive(Clone, Debug)]
pub(super) struct Place<V> {
    changes: Vec<Change<V>>,
    /// What had ended by then is durable.
    durable: Stamp,
}

impl<V: Copy + PartialEq> Place<V> {
    /// A place where `value` is durable.
    pub(super) fn new(value: V) -> Self {
        Self {
            changes: vec![Change {
                value,
                begun: 0,
                ended: Some(0),
            }],
            durable: 0,
        }
    }

    pub(super) fn begin(&mut self, value: V, begun: Stamp) {
        self.changes.push(Change {
            value,
            begun,
            ended: None,
        });
    }

    /// The last change was made.
    pub(super) fn end(&mut self, ended: Stamp) {
        if let Some(last) = self.changes.last_mut() {
            last.ended = Some(ended);
        }
    }

    /// What it is, as far as its writer knows; for a writer that was told of every change.
    pub(super) fn last(&self) -> V {
        let told = self
            .changes
            .iter()
            .rev()
            .find(|change| change.ended.is_some());
        told.map_or(self.changes[0].value, |change| change.value)
    }

    fn synced(&mut self, begun: Stamp) {
        self.durable = self.durable.max(begun);
    }

    /// The values that the place may have for a read that lasts from `from` to `to`.
    pub(super) fn readable(&self, from: Stamp, to: Stamp) -> impl Iterator<Item = V> {
        let oldest = self
            .changes
            .iter()
            .rposition(|change| change.ended.is_some_and(|ended| ended < from));
        let changes = &self.changes[oldest.unwrap_or(0)..];
        let may = changes.iter().filter(move |change| change.begun <= to);
        may.map(|change| change.value)
    }

    /// The values that may be there after a loss of power.
    pub(super) fn survivors(&self) -> impl Iterator<Item = V> {
        let oldest = self
            .changes
            .iter()
            .rposition(|change| change.ended.is_some_and(|ended| ended <= self.durable));
        self.changes[oldest.unwrap_or(0)..]
            .iter()
            .map(|change| change.value)
    }
}

impl Place<Value> {
    /// Whether each byte is one of what may survive: a write ended within the block.
    fn may_be_torn(&self, nr: usize, bytes: &[u8]) -> bool {
        let all: Vec<[u8; BLOCK]> = self
            .survivors()
            .map(|value| match value {
                Value::Zeros => [0; BLOCK],
                Value::Version(version) => block(nr as u64, version),
            })
            .collect();
        let is_one_of = |(at, byte): (usize, &u8)| all.iter().any(|may| may[at] == *byte);
        all.len() > 1 && bytes.iter().enumerate().all(is_one_of)
    }
}

/// All places.
#[derive(Debug)]
pub(super) struct Books {
    shape: Shape,
    now: Stamp,
    blocks: Vec<Place<Value>>,
    /// In bytes.
    pub(super) size: Place<u64>,
    /// Blocks that a misdirected transfer has touched: nothing is known of them.
    pub(super) tainted: Vec<bool>,
    /// How often something foreign was read there.
    pub(super) nr_noticed: u64,
}

impl Books {
    /// A file that has these values, all durable.
    pub(super) fn new(shape: Shape, values: &[Value]) -> Self {
        let mut blocks: Vec<_> = values.iter().map(|value| Place::new(*value)).collect();
        blocks.resize(shape.most_blocks(), Place::new(Value::Zeros));
        Self {
            shape,
            now: 1,
            tainted: vec![false; blocks.len()],
            blocks,
            size: Place::new((values.len() * BLOCK) as u64),
            nr_noticed: 0,
        }
    }

    pub(super) fn stamp(&mut self) -> Stamp {
        self.now += 1;
        self.now
    }

    pub(super) fn begin(&mut self, block: usize, value: Value) {
        let now = self.stamp();
        self.blocks[block].begin(value, now);
    }

    pub(super) fn end(&mut self, block: usize) {
        let now = self.stamp();
        self.blocks[block].end(now);
    }

    /// A sync of `blocks`, or of everything, that began then has succeeded.
    pub(super) fn synced(&mut self, begun: Stamp, blocks: Option<std::ops::Range<usize>>) {
        match blocks {
            Some(blocks) => self.blocks[blocks]
                .iter_mut()
                .for_each(|place| place.synced(begun)),
            None => {
                self.blocks.iter_mut().for_each(|place| place.synced(begun));
                self.size.synced(begun);
            }
        }
    }

    /// Checks what a read from `from` on has found in the blocks from `first` on.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn check_read(
        &mut self,
        first: usize,
        bytes: &[u8],
        from: Stamp,
    ) -> Result<(), String> {
        let to = self.stamp();
        let found: Vec<_> = (first..)
            .zip(bytes.chunks(BLOCK))
            .map(|(nr, bytes)| (nr, Value::of(nr, bytes)))
            .collect();
        for (nr, value) in &found {
            let place = &self.blocks[*nr];
            if value.is_some_and(|value| place.readable(from, to).any(|may| may == value)) {
                continue;
            }
            if self.tainted[*nr] {
                self.nr_noticed += 1;
                continue;
            }
            return Err(format!(
                "block {nr} reads as {value:?}; it may be {:?}",
                place.readable(from, to).collect::<Vec<_>>()
            ));
        }
        for of_page in found.chunk_by(|one, next| one.0 / A_PAGE == next.0 / A_PAGE) {
            self.check_page(of_page)?;
        }
        Ok(())
    }

    /// Within a page a read has all of a write or nothing of it: so what it has of a writer is what that had written there up to some moment.
    fn check_page(&self, found: &[(usize, Option<Value>)]) -> Result<(), String> {
        for writer in 0..self.shape.nr_threads {
            let own = || {
                found.iter().filter_map(|(nr, value)| match value {
                    Some(Value::Version(version))
                        if self.shape.owner(*nr) == Some(writer) && !self.tainted[*nr] =>
                    {
                        Some((*nr, *version))
                    }
                    _ => None,
                })
            };
            let Some(latest) = own().map(|(_, version)| version).max() else {
                continue;
            };
            for (nr, version) in own() {
                let missed = self.blocks[nr].changes.iter().find(|change| {
                    let Value::Version(other) = change.value else {
                        return false;
                    };
                    let is_due = other == latest || (other < latest && change.ended.is_some());
                    other > version && is_due
                });
                if let Some(missed) = missed {
                    return Err(format!(
                        "a page is torn: it has version {latest} and in block {nr} version \
                         {version}, without {:?}",
                        missed.value
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks how much a read of `len` bytes at `pos` was told to be.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn check_len(
        &mut self,
        (pos, len): (u64, usize),
        told: usize,
        from: Stamp,
        may_fail: bool,
    ) -> Result<(), String> {
        let to = self.stamp();
        let clamp = |size: u64| size.saturating_sub(pos).min(len as u64);
        let sizes: Vec<u64> = self.size.readable(from, to).collect();
        let least = sizes.iter().map(|size| clamp(*size)).min().unwrap_or(0);
        let most = sizes.iter().map(|size| clamp(*size)).max().unwrap_or(0);
        let told = told as u64;
        match told <= most && (told >= least || may_fail) && told.is_multiple_of(BLOCK as u64) {
            true => Ok(()),
            false => Err(format!(
                "{told} bytes read at {pos} of a file of {sizes:?} bytes, of {len}"
            )),
        }
    }

    /// Checks what a loss of power, or a good end, has left, and goes on with it. Returns the blocks of which parts were written, for the caller to write them anew with version
    /// [`FIRST`].
    ///
    /// # Errors
    ///
    /// What was lost, or is foreign.
    pub(super) fn check_survivors(
        &mut self,
        bytes: &[u8],
        unit: usize,
    ) -> Result<Vec<usize>, String> {
        let size = bytes.len() as u64;
        let sizes: Vec<u64> = self.size.survivors().collect();
        let is_between = sizes.iter().min() <= Some(&size) && Some(&size) <= sizes.iter().max();
        // The last page is written as a whole, and padded, if anything was written to it since the last sync, or to the size.
        let least = sizes.iter().min().map_or(0, |size| *size as usize / BLOCK);
        let last_page = least.saturating_sub(1) / LARGEST * LARGEST..self.blocks.len();
        let is_written = self.blocks[last_page]
            .iter()
            .any(|place| place.survivors().nth(1).is_some());
        let is_padded = (sizes.len() > 1 || is_written)
            && sizes
                .iter()
                .any(|was| *was <= size && was.next_multiple_of(unit as u64) == size);
        // (Between: a write in parts may have made it longer by some of them. A misdirected write may have made it anything.)
        let is_known = !self.tainted.contains(&true);
        if !(is_between || is_padded) && is_known {
            return Err(format!("{size} bytes survived, not one of {sizes:?}"));
        }
        let (mut values, mut torn) = (Vec::new(), Vec::new());
        // What is left of a block that is not whole is cut off by the caller.
        let whole = bytes.as_chunks::<BLOCK>().0.iter().enumerate();
        for (nr, bytes) in whole.take(self.blocks.len()) {
            let value = Value::of(nr, bytes);
            let place = &self.blocks[nr];
            // What lies behind the end of a file that has become shorter, or not, is zeros.
            let may_be_zeros = sizes.iter().any(|size| *size <= (nr * BLOCK) as u64);
            match value {
                Some(value) if place.survivors().any(|may| may == value) => values.push(value),
                Some(Value::Zeros) if may_be_zeros => values.push(Value::Zeros),
                _ if self.tainted[nr] => {
                    self.nr_noticed += 1;
                    values.push(Value::Version(FIRST));
                    torn.push(nr);
                }
                None if place.may_be_torn(nr, bytes) => {
                    values.push(Value::Version(FIRST));
                    torn.push(nr);
                }
                _ => {
                    return Err(format!(
                        "block {nr} survived as {value:?}; it may be {:?}",
                        place.survivors().collect::<Vec<_>>()
                    ));
                }
            }
        }
        let (nr_noticed, tainted) = (self.nr_noticed, std::mem::take(&mut self.tainted));
        *self = Self::new(self.shape, &values);
        (self.nr_noticed, self.tainted) = (nr_noticed, tainted);
        Ok(torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_may_give_what_was_there_or_what_came_while_it_lasted() {
        let mut place = Place::new(1);
        place.begin(2, 10);
        let may = |place: &Place<i32>, from, to| place.readable(from, to).collect::<Vec<_>>();
        assert_eq!(may(&place, 5, 9), [1]);
        assert_eq!(may(&place, 5, 10), [1, 2]);
        place.end(20);
        assert_eq!(may(&place, 15, 30), [1, 2]);
        assert_eq!(may(&place, 21, 30), [2]);
        // One that fails may have been made.
        place.begin(3, 40);
        assert_eq!(may(&place, 41, 42), [2, 3]);
        place.begin(4, 50);
        place.end(51);
        assert_eq!(may(&place, 52, 53), [4]);
        assert_eq!(place.last(), 4);
    }

    #[test]
    fn what_had_ended_before_a_sync_began_survives_or_something_later() {
        let mut place = Place::new(1);
        place.begin(2, 10);
        place.end(20);
        let may = |place: &Place<i32>| place.survivors().collect::<Vec<_>>();
        place.synced(19);
        assert_eq!(may(&place), [1, 2]);
        place.synced(20);
        assert_eq!(may(&place), [2]);
        place.begin(3, 30);
        place.synced(35);
        assert_eq!(may(&place), [2, 3]);
    }
}
