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

/// Which block is given up, or split.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// One that is owned by number.
    Raw(usize),
    /// What is at a frame, be it of this order or not.
    Any(usize, u8),
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
    IntoRaw(usize),
    SplitUnique(usize),
    Free(Target),
    Split(Target),
    /// A part of a run of frames that can be freed: which run, from where in it, how many.
    FreeRun(usize, usize, usize, FreeRange),
    FreeAny(usize, usize, FreeRange),
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

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![
        3 => any::<usize>().prop_map(Target::Raw),
        1 => (any::<usize>(), orders()).prop_map(|(nr, k)| Target::Any(nr, k)),
    ]
}

fn strategies() -> impl Strategy<Value = FreeRange> {
    (0..STRATEGIES.len()).prop_map(|which| STRATEGIES[which])
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0..40_usize,
        2 => 0..1200_usize,
        1 => prop_oneof![Just(usize::MAX), Just(u32::MAX as usize), Just(1 << 31)],
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = any::<usize>;
    let step = prop_oneof![
        8 => orders().prop_map(Step::Alloc),
        3 => requests().prop_map(Step::AllocBy),
        1 => (0..100_usize).prop_map(Step::AllocBulk),
        4 => which().prop_map(Step::DropUnique),
        4 => which().prop_map(Step::IntoRaw),
        5 => which().prop_map(Step::SplitUnique),
        4 => targets().prop_map(Step::Free),
        4 => targets().prop_map(Step::Split),
        8 => (which(), which(), which(), strategies())
            .prop_map(|(run, skip, len, strategy)| Step::FreeRun(run, skip, len, strategy)),
        2 => (which(), lengths(), strategies())
            .prop_map(|(first, nr, strategy)| Step::FreeAny(first, nr, strategy)),
        2 => (which(), which()).prop_map(|(range, at)| Step::CutRange(range, at)),
        2 => which().prop_map(Step::DropRange),
        3 => (which(), strategies()).prop_map(|(range, strategy)| Step::FreeRange(range, strategy)),
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
