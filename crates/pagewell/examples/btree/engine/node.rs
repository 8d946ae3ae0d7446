//! Page format: a slotted node. Pure functions over bytes.
//!
//! | bytes | contents |
//! |---|---|
//! | 0 to 8 | log sequence number of the last change |
//! | 8 to 12 | [`MAGIC`] |
//! | 12 to 14 | number of entries |
//! | 14 to 16 | height; 0 for leaves |
//! | 16 to 18 | offset of the lowest cell |
//! | 20 to 24 | identifier of the tree (in the root) |
//! | from 24 | slots of 8 bytes, by ascending keys |
//! | up to the end | cells, allocated from the end downwards |
//!
//! A slot is one integer: the cell's offset, the key's length, and the key's first four bytes as a
//! number, which decide most comparisons of a search. A cell is the length of its value (2 bytes),
//! the key, the value.
//!
//! In an inner node the value is the page number of a child (8 bytes), and the key is the child's
//! lower bound. The first key is empty, so it is not larger than any other.
//!
//! Lengths and offsets from a page are checked where they are used, so a page that is not a node
//! gives `Torn`, never a panic.

use std::cmp::Ordering;
use std::ops::Range;

use pagewell::Torn;

use super::access::{Bytes, part};

/// Size of a page in bytes.
pub(crate) const PAGE: usize = 4096;
/// Maximum length of a key in bytes.
pub(crate) const MAX_KEY: usize = 512;
/// Maximum length of a key and its value together. Four fit into a page, so a split leaves entries
/// in both halves.
pub(crate) const MAX_ENTRY: usize = 1000;

const MAGIC: u32 = u32::from_le_bytes(*b"PwB2");
const HEAD: usize = 24;
const SLOT: usize = 8;
/// Bytes of an entry beside its key and value: its slot, and the length of the value.
const OVERHEAD: usize = SLOT + 2;
/// Bytes of the longest entry of an inner node.
const MAX_INNER: usize = OVERHEAD + MAX_KEY + 8;

const AT_MAGIC: usize = 8;
const AT_COUNT: usize = 12;
const AT_HEIGHT: usize = 14;
const AT_CELLS: usize = 16;
const AT_TREE: usize = 20;

/// Result of a search: the key's position, or the position at which it would be inserted.
pub(super) type Place = Result<usize, usize>;

/// Header fields that a search needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) count: usize,
    pub(super) height: u16,
}

/// A decoded slot.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    key_len: usize,
    cell: usize,
}

impl Slot {
    #[inline(always)]
    fn read<B: Bytes + ?Sized>(node: &B, nr: usize) -> Result<Slot, Torn> {
        let word = node.u64(HEAD + nr * SLOT)?;
        Ok(Slot {
            first: (word >> 32) as u32,
            key_len: usize::from((word >> 16) as u16),
            cell: usize::from(word as u16),
        })
    }

    fn word(self) -> u64 {
        (u64::from(self.first) << 32) | ((self.key_len as u64) << 16) | self.cell as u64
    }

    #[inline(always)]
    fn key(self) -> usize {
        self.cell + 2
    }

    #[inline(always)]
    fn value(self) -> usize {
        self.key() + self.key_len
    }
}

/// Returns the first four bytes of a key, padded with zeros, as a number with the order of the
/// keys.
#[inline(always)]
fn first_of(key: &[u8]) -> u32 {
    match key.first_chunk() {
        Some(first) => u32::from_be_bytes(*first),
        None => key
            .iter()
            .zip([24, 16, 8])
            .fold(0, |all, (byte, shift)| all | (u32::from(*byte) << shift)),
    }
}

/// Reads the header of a node.
#[inline(always)]
pub(super) fn head<B: Bytes + ?Sized>(node: &B) -> Result<Head, Torn> {
    let word = node.u64(AT_MAGIC)?;
    if word as u32 != MAGIC {
        return Err(Torn);
    }
    Ok(Head {
        count: usize::from((word >> 32) as u16),
        height: (word >> 48) as u16,
    })
}

pub(super) fn lsn<B: Bytes + ?Sized>(node: &B) -> Result<u64, Torn> {
    node.u64(0)
}

/// Returns the identifier of the tree, from its root; 0 if the page has not been written.
pub(super) fn tree_id<B: Bytes + ?Sized>(root: &B) -> Result<u32, Torn> {
    Ok((root.u64(AT_TREE - 4)? >> 32) as u32)
}

/// Searches a node for `key`.
#[inline(always)]
pub(super) fn search<B: Bytes + ?Sized>(node: &B, head: Head, key: &[u8]) -> Result<Place, Torn> {
    let first = first_of(key);
    let (mut low, mut high) = (0, head.count);
    while low < high {
        let middle = low + (high - low) / 2;
        let slot = Slot::read(node, middle)?;
        let order = match slot.first.cmp(&first) {
            Ordering::Equal => compare_key(node, slot, key)?,
            order => order,
        };
        match order {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(Ok(middle)),
        }
    }
    Ok(Err(low))
}

#[inline(always)]
fn compare_key<B: Bytes + ?Sized>(node: &B, slot: Slot, key: &[u8]) -> Result<Ordering, Torn> {
    let both = slot.key_len.min(key.len());
    let order = node.compare(slot.key(), &key[..both])?;
    Ok(order.then(slot.key_len.cmp(&key.len())))
}

/// Returns the position of the child that covers the key at `place`.
#[inline(always)]
pub(super) fn child_nr(place: Place) -> Result<usize, Torn> {
    // The first key is empty, so an entry with a key that is not larger always exists.
    place.or_else(|nr| nr.checked_sub(1).ok_or(Torn))
}

/// Returns the page number of child `nr` of an inner node.
#[inline(always)]
pub(super) fn child<B: Bytes + ?Sized>(node: &B, nr: usize) -> Result<u64, Torn> {
    let slot = Slot::read(node, nr)?;
    if node.u16(slot.cell)? != 8 {
        return Err(Torn);
    }
    node.u64(slot.value())
}

/// Copies the key of entry `nr` to `key`.
pub(super) fn copy_key<B: Bytes + ?Sized>(
    node: &B,
    nr: usize,
    key: &mut Vec<u8>,
) -> Result<(), Torn> {
    let slot = Slot::read(node, nr)?;
    if slot.key_len > MAX_KEY {
        return Err(Torn);
    }
    key.resize(slot.key_len, 0);
    node.copy_to(slot.key(), key)
}

/// Copies the value of entry `nr` to `value`.
#[inline(always)]
pub(super) fn copy_value<B: Bytes + ?Sized>(
    node: &B,
    nr: usize,
    value: &mut Vec<u8>,
) -> Result<(), Torn> {
    let slot = Slot::read(node, nr)?;
    let len = usize::from(node.u16(slot.cell)?);
    if len > MAX_ENTRY {
        return Err(Torn);
    }
    value.resize(len, 0);
    node.copy_to(slot.value(), value)
}

/// Returns the number of bytes between the slots and the cells.
fn room<B: Bytes + ?Sized>(node: &B, head: Head) -> Result<usize, Torn> {
    let cells = usize::from(node.u16(AT_CELLS)?);
    cells.checked_sub(HEAD + head.count * SLOT).ok_or(Torn)
}

/// Returns whether an entry with these lengths fits at `place`, where it replaces an entry with the
/// same key.
pub(super) fn has_room<B: Bytes + ?Sized>(
    node: &B,
    head: Head,
    place: Place,
    (key_len, value_len): (usize, usize),
) -> Result<bool, Torn> {
    let mut room = room(node, head)?;
    if let Ok(nr) = place {
        let slot = Slot::read(node, nr)?;
        room += OVERHEAD + slot.key_len + usize::from(node.u16(slot.cell)?);
    }
    Ok(room >= OVERHEAD + key_len + value_len)
}

/// Returns whether an inner node may be too full for one more entry.
pub(super) fn is_full<B: Bytes + ?Sized>(node: &B, head: Head) -> Result<bool, Torn> {
    Ok(room(node, head)? < MAX_INNER)
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), Torn> {
    let target = page
        .get_mut(at..)
        .and_then(|rest| rest.get_mut(..bytes.len()));
    target.ok_or(Torn)?.copy_from_slice(bytes);
    Ok(())
}

fn put_u16(page: &mut [u8], at: usize, number: usize) -> Result<(), Torn> {
    let number = u16::try_from(number).map_err(|_| Torn)?;
    put(page, at, &number.to_le_bytes())
}

pub(super) fn set_lsn(page: &mut [u8], lsn: u64) -> Result<(), Torn> {
    put(page, 0, &lsn.to_le_bytes())
}

pub(super) fn set_tree_id(page: &mut [u8], id: u32) -> Result<(), Torn> {
    put(page, AT_TREE, &id.to_le_bytes())
}

/// Makes the page an empty node, with the same log sequence number and identifier.
pub(super) fn init(page: &mut [u8], height: u16) -> Result<(), Torn> {
    page.get_mut(AT_MAGIC..AT_TREE).ok_or(Torn)?.fill(0);
    page.get_mut(HEAD..).ok_or(Torn)?.fill(0);
    put(page, AT_MAGIC, &MAGIC.to_le_bytes())?;
    put(page, AT_HEIGHT, &height.to_le_bytes())?;
    put_u16(page, AT_CELLS, page.len())
}

/// Whether the key had an entry before an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Present,
    Absent,
}

/// Inserts an entry, or replaces the value of the entry with this key. Returns `None`, and changes
/// nothing, if it does not fit.
pub(super) fn insert(page: &mut [u8], key: &[u8], value: &[u8]) -> Result<Option<Before>, Torn> {
    let head = head(page)?;
    let place = search(page, head, key)?;
    if !has_room(page, head, place, (key.len(), value.len()))? {
        return Ok(None);
    }
    let nr = match place {
        Err(nr) => nr,
        Ok(nr) => {
            let slot = Slot::read(page, nr)?;
            if usize::from(page.u16(slot.cell)?) == value.len() {
                put(page, slot.value(), value)?;
                return Ok(Some(Before::Present));
            }
            remove_at(page, head, nr)?;
            nr
        }
    };
    insert_at(page, nr, key, value)?;
    Ok(Some(match place {
        Ok(_) => Before::Present,
        Err(_) => Before::Absent,
    }))
}

/// Removes entry `nr`, and moves the cells below its cell up, so that a node has no unused cells.
fn remove_at(page: &mut [u8], head: Head, nr: usize) -> Result<(), Torn> {
    let removed = Slot::read(page, nr)?;
    let end = removed.value() + usize::from(page.u16(removed.cell)?);
    let len = end - removed.cell;
    let cells = usize::from(page.u16(AT_CELLS)?);
    let (at, slots_end) = (HEAD + nr * SLOT, HEAD + head.count * SLOT);
    if slots_end > cells || cells > removed.cell || end > page.len() {
        return Err(Torn);
    }
    page.copy_within(cells..removed.cell, cells + len);
    page.copy_within(at + SLOT..slots_end, at);
    for nr in 0..head.count - 1 {
        let mut slot = Slot::read(page, nr)?;
        if slot.cell < removed.cell {
            slot.cell += len;
            put(page, HEAD + nr * SLOT, &slot.word().to_le_bytes())?;
        }
    }
    put_u16(page, AT_CELLS, cells + len)?;
    put_u16(page, AT_COUNT, head.count - 1)
}

/// Inserts an entry before entry `nr`.
fn insert_at(page: &mut [u8], nr: usize, key: &[u8], value: &[u8]) -> Result<(), Torn> {
    let count = head(page)?.count;
    let slots_end = HEAD + count * SLOT;
    let cells = usize::from(page.u16(AT_CELLS)?);
    let cell = cells.checked_sub(2 + key.len() + value.len()).ok_or(Torn)?;
    if nr > count || cell < slots_end + SLOT {
        return Err(Torn);
    }
    put_u16(page, cell, value.len())?;
    put(page, cell + 2, key)?;
    put(page, cell + 2 + key.len(), value)?;
    let at = HEAD + nr * SLOT;
    page.copy_within(at..slots_end, at + SLOT);
    let slot = Slot {
        first: first_of(key),
        key_len: key.len(),
        cell,
    };
    put(page, at, &slot.word().to_le_bytes())?;
    put_u16(page, AT_CELLS, cell)?;
    put_u16(page, AT_COUNT, count + 1)
}

/// Returns the key and the value of entry `nr`.
fn entry(page: &[u8], nr: usize) -> Result<(&[u8], &[u8]), Torn> {
    let slot = Slot::read(page, nr)?;
    let value_len = usize::from(page.u16(slot.cell)?);
    let key = part(page, slot.key(), slot.key_len)?;
    Ok((key, part(page, slot.value(), value_len)?))
}

/// Appends these entries of `from`, whose keys are larger than those of `page`.
fn append_all(page: &mut [u8], from: &[u8], entries: Range<usize>) -> Result<(), Torn> {
    for nr in entries {
        let (key, value) = entry(from, nr)?;
        insert_at(page, head(page)?.count, key, value)?;
    }
    Ok(())
}

/// Moves the upper half of `left`, by bytes, to `right`. Returns the separator: the lower bound of
/// the keys of `right`.
pub(super) fn split(left: &mut [u8], right: &mut [u8]) -> Result<Vec<u8>, Torn> {
    let old = left.to_vec();
    let head = head(&old[..])?;
    if head.count < 2 {
        return Err(Torn);
    }
    let size = |nr| entry(&old, nr).map(|(key, value)| OVERHEAD + key.len() + value.len());
    let total = (0..head.count).try_fold(0, |sum, nr| Ok(sum + size(nr)?))?;
    let (mut kept, mut bytes) = (0, 0);
    while kept < head.count && bytes < total / 2 {
        bytes += size(kept)?;
        kept += 1;
    }
    let kept = kept.clamp(1, head.count - 1);
    init(left, head.height)?;
    append_all(left, &old, 0..kept)?;
    init(right, head.height)?;
    let (last, first) = (entry(&old, kept - 1)?.0, entry(&old, kept)?.0);
    if head.height == 0 {
        append_all(right, &old, kept..head.count)?;
        // The shortest key that is larger than all keys of the left half.
        let common = last.iter().zip(first).take_while(|(a, b)| a == b).count();
        return Ok(part(first, 0, common + 1)?.to_vec());
    }
    // The separator moves to the parent. The first key of an inner node is empty.
    let separator = first.to_vec();
    insert_at(right, 0, &[], entry(&old, kept)?.1)?;
    append_all(right, &old, kept + 1..head.count)?;
    Ok(separator)
}

/// Makes `root`, which was split into two nodes, their parent; the second node begins at `key`.
pub(super) fn make_parent(
    root: &mut [u8],
    left: u64,
    (key, right): (&[u8], u64),
) -> Result<(), Torn> {
    let height = head(root)?.height.checked_add(1).ok_or(Torn)?;
    init(root, height)?;
    insert_at(root, 0, &[], &left.to_le_bytes())?;
    insert_at(root, 1, key, &right.to_le_bytes())
}
