//! Assembly of a block: [`take_free_within`] allocates the free parts, the caller adds the others,
//! and [`join`] joins them. The module also splits blocks, and frees many together.
//!
//! Blocks that are passed in are `Owned` and are consumed. The caller owns the blocks returned.

use std::ops::Range;

use pagewell_sync::{MutexGuard, lock};

use crate::lists::{Buddy, FreeLists};
use crate::words::{FrameKind, FrameNr, Order, blocks_of};

pub(crate) fn take_free_within(
    lists: &FreeLists,
    first: FrameNr,
    order: Order,
) -> Vec<(FrameNr, Order)> {
    if !lists.may_be_block(first, order) {
        return Vec::new();
    }
    let range = first.get()..first.get() + order.frames();
    let is_front = |nr| lists.meta(FrameNr::new(nr)).kind().0 == FrameKind::Front;
    let mut blocks = Vec::new();
    // The thread caches are not locked, so the check is a hint: a block that it misses stays there.
    if range.clone().any(is_front) {
        lists.fronts.with_all(|fronts, _| {
            for front in fronts {
                front.take_where(|frame, _| range.contains(&frame.get()), &mut blocks);
            }
        });
    }
    if let Some(node) = lists.node_of(first) {
        let mut buddy = lock(&lists.nodes[node].buddy);
        let is_within = |frame: FrameNr| range.contains(&frame.get());
        blocks.extend(
            buddy
                .depot
                .take_where(is_within)
                .map(|frame| (frame, Order::ZERO)),
        );
        blocks.extend(buddy.take_within(&lists.table, &range));
    }
    blocks.sort_unstable();
    for (frame, order) in &blocks {
        lists.adopt(*frame, *order);
    }
    blocks
}

pub(crate) fn join(lists: &FreeLists, parts: &[(FrameNr, Order)], order: Order) -> Option<FrameNr> {
    let (first, of_first) = *parts.first()?;
    let whole = of_first.max(order);
    let mut end = first.get();
    let is_row = parts.iter().all(|(frame, order)| {
        let is_next = frame.get() == end;
        end += order.frames();
        is_next
    });
    if !is_row || !lists.may_be_block(first, order) || end - first.get() != whole.frames() {
        for (frame, order) in parts {
            lists.free_to_node(*frame, *order);
        }
        return None;
    }
    for (frame, _) in parts {
        // This thread owns all parts, and so may change the kind of every frame in the block.
        lists.meta(*frame).set_kind(FrameKind::Tail, Order::ZERO);
    }
    lists.adopt(first, whole);
    cut(lists, first, whole, order);
    Some(first)
}

pub(crate) fn split(lists: &FreeLists, first: FrameNr, order: Order) {
    // The counts of the tails have the lock bit set already.
    for nr in first.get()..first.get() + order.frames() {
        lists.adopt(FrameNr::new(nr), Order::ZERO);
    }
}

/// Frees a block of order `whole`, except for the block of `order` at its start.
fn cut(lists: &FreeLists, first: FrameNr, whole: Order, order: Order) {
    let Some(node) = lists.node_of(first).filter(|_| whole > order) else {
        return;
    };
    lists.adopt(first, order);
    let rest = first.get() + order.frames()..first.get() + whole.frames();
    let mut buddy = lock(&lists.nodes[node].buddy);
    for (frame, part) in blocks_of(rest.start, rest.end, Order::MAX) {
        buddy.free(&lists.table, frame, part);
    }
}

/// Frees blocks to their nodes, with one lock acquisition for consecutive `handles` of a node.
/// `dissolve` consumes a handle. (Numbers instead of handles would cost instructions.)
pub(crate) fn free_bulk<H>(
    lists: &FreeLists,
    handles: impl IntoIterator<Item = H>,
    dissolve: impl Fn(H) -> (FrameNr, Order),
) {
    let mut locked: Option<(usize, MutexGuard<'_, Buddy>)> = None;
    // Consecutive single frames to be freed, all of the node whose lock is held.
    let mut row = 0..0;
    for handle in handles {
        let (frame, order) = dissolve(handle);
        let nr = frame.get();
        let Some(node) = lists.node_of(frame) else {
            continue;
        };
        let is_locked = locked.as_ref().is_some_and(|(of_node, _)| *of_node == node);
        if is_locked && order == Order::ZERO && row.end == nr {
            row.end = nr + 1;
            continue;
        }
        if let Some((_, buddy)) = &mut locked {
            free_row(lists, buddy, std::mem::take(&mut row));
        }
        if !is_locked {
            // No thread holds two node locks at once.
            drop(locked.take());
            locked = Some((node, lock(&lists.nodes[node].buddy)));
        }
        match &mut locked {
            Some((_, buddy)) if order > Order::ZERO => lists.free_to_buddy(buddy, frame, order),
            _ => row = nr..nr + 1,
        }
    }
    if let Some((_, buddy)) = &mut locked {
        free_row(lists, buddy, row);
    }
}

/// Frees consecutive single frames as the largest blocks, which avoids merging them one by one.
fn free_row(lists: &FreeLists, buddy: &mut MutexGuard<'_, Buddy>, row: Range<u32>) {
    for (frame, order) in blocks_of(row.start, row.end, Order::MAX) {
        for tail in frame.get() + 1..frame.get() + order.frames() {
            lists
                .meta(FrameNr::new(tail))
                .set_kind(FrameKind::Tail, Order::ZERO);
        }
        buddy.free(&lists.table, frame, order);
    }
}
