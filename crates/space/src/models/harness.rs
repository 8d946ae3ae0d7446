//! Initial state and final checks of the models: all counts are exact, and no frame is leaked.

use std::ops::Range;
use std::sync::Arc;

use loom::thread;
use pagewell_frame::{
    FRAME_BYTES, FrameNr, FramePool, FrameRef, HugePages, Nodes, Order, PoolConfig, UniqueFrame,
};

use crate::areas::options::Policy;
use crate::mm::space::{Space, Spaces};
use crate::motion::report::{Engine, Migrated};
use crate::words::claim::look;
use crate::words::pmd::Directory;

pub(super) const PAGE: u64 = FRAME_BYTES as u64;

pub(super) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.max_branches = 50_000;
    builder.check(model);
}

/// As [`explore`], for a space with one page ([`filled`]) in a pool of `nr_frames` on `nr_nodes`.
pub(super) fn explore_filled(
    preemptions: usize,
    (nr_frames, nr_nodes): (usize, usize),
    model: impl Fn(&Spaces, Arc<Space>) + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let spaces = spaces(nr_frames, nr_nodes);
        let space = filled(&spaces, 1);
        model(&spaces, space);
    });
}

pub(super) fn spaces(nr_frames: usize, nr_nodes: usize) -> Spaces {
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(nr_nodes);
    config.huge_pages = HugePages::System;
    Spaces::new(FramePool::new(&config).expect("a small pool"))
}

/// Spawns a thread that runs `work` with a clone of `handle`.
pub(super) fn spawn_with<H: Clone + 'static, T: 'static>(
    handle: &H,
    work: impl FnOnce(H) -> T + 'static,
) -> thread::JoinHandle<T> {
    let handle = handle.clone();
    thread::spawn(move || work(handle))
}

/// Migrates pages to node 1, without the repetitions of [`Space::migrate`].
pub(super) fn migrate_once(space: &Space, range: Range<u64>, engine: Engine) -> Migrated {
    let mut report = Migrated::default();
    space.mm.migrate_range(&range, 1, engine, &mut report);
    report
}

pub(super) fn page(byte: u8) -> [u8; FRAME_BYTES] {
    [byte; FRAME_BYTES]
}

/// Returns the bytes of a pinned page.
pub(super) fn bytes_of(reference: &FrameRef<'_>) -> [u8; FRAME_BYTES] {
    let mut bytes = page(0);
    reference.bytes().copy_to(0, &mut bytes);
    bytes
}

/// Creates a space with `nr` pages on node 0, the first at address 0, filled with 1, 2 and so on.
pub(super) fn filled(spaces: &Spaces, nr: u64) -> Arc<Space> {
    let space = spaces.space().expect("a space");
    let area = space.map(nr * PAGE, Policy::Bind(0)).expect("an area");
    assert_eq!(area.start, 0);
    for at in 0..nr {
        space
            .write(at * PAGE, &page(at as u8 + 1))
            .expect("a frame");
    }
    Arc::new(space)
}

/// Returns the byte that fills a page. Panics if the page is inconsistent.
pub(super) fn byte(space: &Space, at: u64) -> u8 {
    let mut buf = page(0xEE);
    space.read(at * PAGE, &mut buf).expect("a mapped page");
    assert!(buf.iter().all(|byte| *byte == buf[0]), "torn: {buf:x?}");
    buf[0]
}

/// Checks the counts, drops `left`, which must be all spaces, and checks that every frame is free.
pub(super) fn finish(spaces: &Spaces, left: Vec<Arc<Space>>) {
    let all: Vec<&Space> = left.iter().map(|space| &**space).collect();
    spaces.verify(&all).expect("exact counts");
    drop(left);
    assert_all_free(spaces);
}

pub(super) fn assert_all_free(spaces: &Spaces) {
    let stats = spaces.pool().stats();
    assert_eq!(stats.nr_available(), stats.nr_frames, "a frame was lost");
}

pub(super) fn first_frame(space: &Space) -> FrameNr {
    let pmd = Directory::look(space.mm.tables.pmd_word(0).expect("a directory"));
    let supply = &space.mm.shared.supply;
    let entries = supply.table_entries(pmd.table().expect("a table"));
    FrameNr::new(look(&entries[0]).frame())
}

pub(super) fn take_all(spaces: &Spaces) -> Vec<UniqueFrame<'_>> {
    let free = || spaces.pool().alloc(Order::ZERO);
    let taken: Vec<_> = std::iter::from_fn(free).collect();
    for frame in &taken {
        frame.bytes().copy_from(0, &page(0xF0));
    }
    taken
}

/// Checks that no other thread has written to the frames, and frees them.
pub(super) fn give_back(taken: Vec<UniqueFrame<'_>>) {
    for frame in taken {
        let mut buf = page(0);
        frame.bytes().copy_to(0, &mut buf);
        assert_eq!(buf, page(0xF0), "somebody wrote a frame that was free");
    }
}
