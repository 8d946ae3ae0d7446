//! What can happen in a history, and how it is drawn. Numbers that name something are taken modulo how
//! many there are of it when the step comes, so that a history stays one when steps are left out.

use pagewell_frame::{AllocRequest, FreeRange, Order, Place};
use proptest::prelude::*;

use crate::support::{STRATEGIES, order};

/// The pool of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) nr_frames: usize,
    most_nodes: usize,
}

impl Scene {
    pub(crate) fn nr_nodes(&self) -> usize {
        self.most_nodes.min(self.nr_frames)
    }
}

pub(crate) fn scene() -> impl Strategy<Value = Scene> {
    // From 128 frames on threads have front caches; from 512 on pages are freed as page blocks.
    let nr_frames = prop_oneof![
        120 => 1..=128_usize,
        50 => 128..=600_usize,
        4 => 1000..=2100_usize,
        1 => Just(4096_usize),
    ];
    (nr_frames, 1..=3_usize).prop_map(|(nr_frames, most_nodes)| Scene {
        nr_frames,
        most_nodes,
    })
}

/// How a block is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum With {
    Alloc,
    AllocBy,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Alloc(u8),
    AllocBy(AllocRequest),
    AllocBulk(usize),
    DropUnique(usize),
    Publish(usize),
    SplitUnique(usize),
    CutRange(usize, usize),
    DropRange(usize),
    FreeRange(usize, FreeRange),
    GetOfRange(usize, usize),
    Get(usize),
    Put(usize),
    Unique(usize),
    Drain,
    /// Takes what is free in a block, and joins it or gives it back.
    Gather(usize, u8, bool),
}

fn orders() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0), 3 => 0..5_u8, 2 => 0..=Order::MAX.get()]
}

fn requests() -> impl Strategy<Value = AllocRequest> {
    let place = prop_oneof![
        1 => Just(Place::Anywhere),
        2 => (0..4_usize).prop_map(Place::Prefer),
        2 => (0..4_usize).prop_map(Place::Only),
    ];
    (orders(), place).prop_map(|(k, place)| AllocRequest {
        place,
        ..AllocRequest::new(order(k))
    })
}

fn strategies() -> impl Strategy<Value = FreeRange> {
    (0..STRATEGIES.len()).prop_map(|which| STRATEGIES[which])
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = any::<usize>;
    let step = prop_oneof![
        8 => orders().prop_map(Step::Alloc),
        3 => requests().prop_map(Step::AllocBy),
        1 => (0..100_usize).prop_map(Step::AllocBulk),
        4 => which().prop_map(Step::DropUnique),
        2 => which().prop_map(Step::Publish),
        8 => which().prop_map(Step::SplitUnique),
        8 => (which(), which()).prop_map(|(range, at)| Step::CutRange(range, at)),
        3 => which().prop_map(Step::DropRange),
        8 => (which(), strategies()).prop_map(|(range, strategy)| Step::FreeRange(range, strategy)),
        3 => (which(), which()).prop_map(|(range, at)| Step::GetOfRange(range, at)),
        4 => which().prop_map(Step::Get),
        4 => which().prop_map(Step::Put),
        1 => which().prop_map(Step::Unique),
        1 => Just(Step::Drain),
        2 => (which(), orders(), any::<bool>())
            .prop_map(|(first, k, is_joined)| Step::Gather(first, k, is_joined)),
    ];
    proptest::collection::vec(step, 0..60)
}
