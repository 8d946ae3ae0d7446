//! What is where in a page: a node with slots. Pure functions over bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 8 | the log sequence number of the last change |
//! | 8 to 12 | [`MAGIC`] |
//! | 12 to 14 | the number of entries |
//! | 14 to 16 | the height; 0 for leaves |
//! | 16 to 18 | where the cells begin |
//! | 18 to 20 | bytes of cells that no slot names any more |
//! | 24 and on | the slots, 8 bytes each, by ascending keys |
//! | up to the end | the cells, added from the end downwards |
//!
//! A slot is one integer: where its cell is, the length of the key, and the key's first four bytes as a number. Most comparisons of a search
//! need no more than that one load. A cell is the length of its value (2 bytes), the key, the value.
//!
//! In an inner node the value is the page of a child (8 bytes), and the key is the smallest that may be in it. The first entry's key is
//! empty, so it is not larger than any.
//!
//! All lengths that come from a page are checked where they are used, so a page that is no node gives `Torn`.

use std::cmp::Ordering;

use pagewell::Torn;

use super::bytes::{Bytes, part};

/// The size of a page.
pub(crate) const PAGE: usize = 4096;
/// The longest key.
pub(crate) const MAX_KEY: usize = 512;
/// The most that a key and its value have together. Four of them fit into a page, so a node that is split leaves something in both halves.
pub(crate) const MAX_ENTRY: usize = 1000;

const MAGIC: u32 = u32::from_le_bytes(*b"PwBt");
const HEAD: usize = 24;
const SLOT: usize = 8;
/// What an entry takes beside its key and value: its slot, and the length of the value.
const OVERHEAD: usize = SLOT + 2;
/// What the longest entry of an inner node takes.
const MAX_INNER: usize = OVERHEAD + MAX_KEY + 8;

const AT_MAGIC: usize = 8;
const AT_COUNT: usize = 12;
const AT_HEIGHT: usize = 14;
const AT_CELLS: usize = 16;
const AT_DEAD: usize = 18;

/// A place in a node: that of the key, or where it would be.
pub(super) type Place = Result<usize, usize>;

/// What the head of a node says that a search needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) count: usize,
    pub(super) height: u16,
}

/// A slot, taken apart.
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
}

/// The first four bytes of a key as a number that is ordered as keys are; a shorter key is filled up with zeros.
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

/// The head, of what is a node.
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

/// Looks for `key`.
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

/// Of an inner node: which entry the key at `place` belongs to.
#[inline(always)]
pub(super) fn child_nr(place: Place) -> Result<usize, Torn> {
    // The first entry's key is empty, so there is always one that is not larger.
    place.or_else(|nr| nr.checked_sub(1).ok_or(Torn))
}

/// The child that entry `nr` of an inner node names.
#[inline(always)]
pub(super) fn child<B: Bytes + ?Sized>(node: &B, nr: usize) -> Result<u64, Torn> {
    let slot = Slot::read(node, nr)?;
    if node.u16(slot.cell)? != 8 {
        return Err(Torn);
    }
    node.u64(slot.key() + slot.key_len)
}

/// Copies an entry's key to `key`.
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

/// Copies an entry's value to `value`.
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
    node.copy_to(slot.key() + slot.key_len, value)
}

/// How many bytes entries can still take, if the dead ones are collected.
fn room<B: Bytes + ?Sized>(node: &B, head: Head) -> Result<usize, Torn> {
    let slots = HEAD + head.count * SLOT;
    let cells = usize::from(node.u16(AT_CELLS)?);
    Ok(cells.checked_sub(slots).ok_or(Torn)? + usize::from(node.u16(AT_DEAD)?))
}

/// Whether an entry with a key and a value of these lengths can be put at `place`, if need be instead of the one that is there.
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

/// What an entry takes.
fn bytes_of(key: &[u8], value_len: usize) -> usize {
    OVERHEAD + key.len() + value_len
}

/// Whether an inner node may be too full for another entry.
pub(super) fn is_full<B: Bytes + ?Sized>(node: &B, head: Head) -> Result<bool, Torn> {
    Ok(room(node, head)? < MAX_INNER)
}

/// Whether a node has so few entries that it is to be merged with a neighbour.
pub(super) fn is_sparse<B: Bytes + ?Sized>(node: &B, head: Head) -> Result<bool, Torn> {
    Ok(room(node, head)? > (PAGE - HEAD) / 4 * 3)
}

/// Whether two neighbours are to become one: all entries have room, and some is left for more. If one has next to nothing it is enough that they have room, or it
/// might stay for ever.
pub(super) fn fit_together(left: &[u8], right: &[u8]) -> Result<bool, Torn> {
    let all = PAGE - HEAD;
    let used = |node: &[u8]| {
        let head = head(node)?;
        let used = all.checked_sub(room(node, head)?).ok_or(Torn)?;
        // The separator comes down.
        let separator = if head.height > 0 { MAX_KEY } else { 0 };
        Ok((head.count, used, separator))
    };
    let (left, right) = (used(left)?, used(right)?);
    let most = if left.0.min(right.0) <= 1 {
        all
    } else {
        all / 4 * 3
    };
    Ok(left.1 + right.1 + right.2 <= most)
}

/// Of an inner node: which entry `key` belongs to.
pub(super) fn number_of(node: &[u8], key: &[u8]) -> Result<usize, Torn> {
    child_nr(search(node, head(node)?, key)?)
}

/// Child number `nr` of an inner node, and the next one. `None` if one of them is none.
pub(super) fn neighbours(node: &[u8], nr: usize) -> Result<Option<(u64, u64)>, Torn> {
    if nr + 1 >= head(node)?.count {
        return Ok(None);
    }
    Ok(Some((child(node, nr)?, child(node, nr + 1)?)))
}

/// The key of entry `nr`.
pub(super) fn key_of(node: &[u8], nr: usize) -> Result<Vec<u8>, Torn> {
    if nr >= head(node)?.count {
        return Err(Torn);
    }
    Ok(entry(node, nr)?.0.to_vec())
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), Torn> {
    let rest = page.get_mut(at..).ok_or(Torn)?;
    rest.get_mut(..bytes.len())
        .ok_or(Torn)?
        .copy_from_slice(bytes);
    Ok(())
}

fn put_u16(page: &mut [u8], at: usize, number: usize) -> Result<(), Torn> {
    let number = u16::try_from(number).map_err(|_| Torn)?;
    put(page, at, &number.to_le_bytes())
}

pub(super) fn set_lsn(page: &mut [u8], lsn: u64) -> Result<(), Torn> {
    put(page, 0, &lsn.to_le_bytes())
}

/// Makes an empty node. Its log sequence number stays.
pub(super) fn init(page: &mut [u8], height: u16) -> Result<(), Torn> {
    page.get_mut(AT_MAGIC..).ok_or(Torn)?.fill(0);
    put(page, AT_MAGIC, &MAGIC.to_le_bytes())?;
    put(page, AT_HEIGHT, &height.to_le_bytes())?;
    put_u16(page, AT_CELLS, page.len())
}

/// Whether an entry was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    There,
    Missing,
}

/// Puts an entry in, or a new value into the entry that there is. `None` if there is no room; nothing has changed then.
pub(super) fn insert(page: &mut [u8], key: &[u8], value: &[u8]) -> Result<Option<Was>, Torn> {
    let head = head(page)?;
    let place = search(page, head, key)?;
    if let Ok(nr) = place {
        let slot = Slot::read(page, nr)?;
        if usize::from(page.u16(slot.cell)?) == value.len() {
            put(page, slot.key() + slot.key_len, value)?;
            return Ok(Some(Was::There));
        }
    }
    if !has_room(page, head, place, (key.len(), value.len()))? {
        return Ok(None);
    }
    let was = match place {
        Ok(nr) => {
            remove_at(page, head, nr)?;
            Was::There
        }
        Err(_) => Was::Missing,
    };
    let nr = place.unwrap_or_else(|nr| nr);
    insert_at(page, nr, key, value)?;
    Ok(Some(was))
}

/// Puts an entry before entry `nr`; there is room.
fn insert_at(page: &mut [u8], nr: usize, key: &[u8], value: &[u8]) -> Result<(), Torn> {
    let count = head(page)?.count;
    let slots = HEAD + count * SLOT;
    let cell_len = 2 + key.len() + value.len();
    if usize::from(page.u16(AT_CELLS)?) < slots + SLOT + cell_len {
        collect(page)?;
    }
    let cells = usize::from(page.u16(AT_CELLS)?);
    let cell = cells.checked_sub(cell_len).ok_or(Torn)?;
    if nr > count || cell < slots + SLOT {
        return Err(Torn);
    }
    put_u16(page, cell, value.len())?;
    put(page, cell + 2, key)?;
    put(page, cell + 2 + key.len(), value)?;
    let at = HEAD + nr * SLOT;
    page.copy_within(at..slots, at + SLOT);
    let slot = Slot {
        first: first_of(key),
        key_len: key.len(),
        cell,
    };
    put(page, at, &slot.word().to_le_bytes())?;
    put_u16(page, AT_CELLS, cell)?;
    put_u16(page, AT_COUNT, count + 1)
}

/// Takes the entry of `key` out.
pub(super) fn remove(page: &mut [u8], key: &[u8]) -> Result<Was, Torn> {
    let head = head(page)?;
    match search(page, head, key)? {
        Ok(nr) => {
            remove_at(page, head, nr)?;
            Ok(Was::There)
        }
        Err(_) => Ok(Was::Missing),
    }
}

fn remove_at(page: &mut [u8], head: Head, nr: usize) -> Result<(), Torn> {
    let (at, slots) = (HEAD + nr * SLOT, HEAD + head.count * SLOT);
    if nr >= head.count || slots > page.len() {
        return Err(Torn);
    }
    let slot = Slot::read(page, nr)?;
    let dead = 2 + slot.key_len + usize::from(page.u16(slot.cell)?);
    let all_dead = usize::from(page.u16(AT_DEAD)?) + dead;
    page.copy_within(at + SLOT..slots, at);
    put_u16(page, AT_DEAD, all_dead)?;
    put_u16(page, AT_COUNT, head.count - 1)
}

/// Entry `nr`: its key and value.
fn entry(page: &[u8], nr: usize) -> Result<(&[u8], &[u8]), Torn> {
    let slot = Slot::read(page, nr)?;
    let key = part(page, slot.key(), slot.key_len)?;
    let value_len = usize::from(page.u16(slot.cell)?);
    Ok((key, part(page, slot.key() + slot.key_len, value_len)?))
}

/// Writes the cells anew, without the dead ones.
fn collect(page: &mut [u8]) -> Result<(), Torn> {
    let old = page.to_vec();
    let head = head(&old[..])?;
    init(page, head.height)?;
    append_all(page, &old, 0..head.count)
}

/// Puts these entries of `from` behind those of `page`, which are smaller.
fn append_all(page: &mut [u8], from: &[u8], entries: std::ops::Range<usize>) -> Result<(), Torn> {
    for nr in entries {
        let (key, value) = entry(from, nr)?;
        let end = head(page)?.count;
        // There is room for what came from a page: no `collect` in `collect`, unless the page has lied about its dead bytes.
        if room(page, head(page)?)? < bytes_of(key, value.len()) {
            return Err(Torn);
        }
        insert_at(page, end, key, value)?;
    }
    Ok(())
}

/// Moves the upper half of `left`, by bytes, to `right`, which is empty. Returns the key from which on `right` has the entries.
pub(super) fn split(left: &mut [u8], right: &mut [u8]) -> Result<Vec<u8>, Torn> {
    let old = left.to_vec();
    let head = head(&old[..])?;
    if head.count < 2 {
        return Err(Torn);
    }
    let mut sizes = Vec::with_capacity(head.count);
    for nr in 0..head.count {
        let (key, value) = entry(&old, nr)?;
        sizes.push(bytes_of(key, value.len()));
    }
    let half = sizes.iter().sum::<usize>() / 2;
    let (mut kept, mut bytes) = (0, 0);
    while kept < head.count && bytes < half {
        bytes += sizes[kept];
        kept += 1;
    }
    let kept = kept.clamp(1, head.count - 1);
    init(left, head.height)?;
    append_all(left, &old, 0..kept)?;
    init(right, head.height)?;
    let (last, first) = (entry(&old, kept - 1)?.0, entry(&old, kept)?.0);
    if head.height == 0 {
        append_all(right, &old, kept..head.count)?;
        // The shortest key that is larger than all on the left.
        let common = last.iter().zip(first).take_while(|(a, b)| a == b).count();
        return Ok(part(first, 0, common + 1)?.to_vec());
    }
    // The key goes up, and the first entry stands for all that is smaller in the other ones of this half.
    let separator = first.to_vec();
    insert_at(right, 0, &[], entry(&old, kept)?.1)?;
    append_all(right, &old, kept + 1..head.count)?;
    Ok(separator)
}

/// Makes `root` the parent of two nodes that are as high as it was, of which the second begins at `key`.
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

/// Puts all entries of `right`, which begins at `separator`, behind those of `left`; they fit.
pub(super) fn merge(left: &mut [u8], right: &[u8], separator: &[u8]) -> Result<(), Torn> {
    let (ours, theirs) = (head(left)?, head(right)?);
    if ours.height != theirs.height {
        return Err(Torn);
    }
    collect(left)?;
    if theirs.height == 0 {
        return append_all(left, right, 0..theirs.count);
    }
    // Its first entry stood for all that is smaller than the second; now there are entries before it.
    let first = entry(right, 0)?.1;
    if room(left, head(left)?)? < bytes_of(separator, first.len()) {
        return Err(Torn);
    }
    insert_at(left, ours.count, separator, first)?;
    append_all(left, right, 1..theirs.count)
}

/// Makes a page what no node is. Its log sequence number stays.
pub(super) fn make_free(page: &mut [u8]) -> Result<(), Torn> {
    page.get_mut(AT_MAGIC..).ok_or(Torn)?.fill(0);
    Ok(())
}
