//! Models of anonymous pages: races of accesses, forks, migrations and changes of areas.

use std::sync::Arc;

use pagewell_frame::{
    FRAME_BYTES, FrameKind, Order, PageView, Place, Torn, TryGetFrame, ViewOutcome,
};

use super::harness::{
    PAGE, assert_all_free, byte, bytes_of, explore, explore_filled, filled, finish, first_frame,
    give_back, migrate_once, page, spaces, spawn_with, take_all,
};
use crate::change::fork::ForkMode;
use crate::mm::space::Space;
use crate::motion::mover::Moving;
use crate::motion::report::{Engine, Migrated};

/// A fork that contains the second of two writes also contains the first.
#[test]
fn loom_fork_vs_two_writes_in_order() {
    explore(3, || {
        let spaces = spaces(12, 1);
        // The two writes are in two tables.
        let space = filled(&spaces, 3);
        let writer = spawn_with(&space, move |space| {
            space.write(0, &page(0xA)).expect("a frame");
            space.write(2 * PAGE, &page(0xB)).expect("a frame");
        });
        let fork = Arc::new(space.fork().expect("a fork"));
        let (first, second) = (byte(&fork, 0), byte(&fork, 2));
        assert!(first == 1 || first == 0xA);
        assert!(second == 3 || (second == 0xB && first == 0xA));
        writer.join().unwrap();
        assert_eq!(
            (byte(&fork, 0), byte(&fork, 2)),
            (first, second),
            "not a snapshot"
        );
        assert_eq!((byte(&space, 0), byte(&space, 2)), (0xA, 0xB));
        finish(&spaces, vec![space, fork]);
    });
}

/// Returns the bytes of page 0, by one optimistic read, or `None` if that fails.
fn read_once(space: &Space) -> Option<Vec<u8>> {
    let mut bytes = page(0);
    let is_read = space.mm.tables.read_page(0, &mut bytes);
    is_read.then(|| bytes.to_vec())
}

/// As [`read_once`], by one view without a reference.
fn view_once(space: &Space) -> Option<Vec<u8>> {
    match space.look(0, FRAME_BYTES, &mut words) {
        ViewOutcome::Done(bytes) => Some(bytes),
        _ => None,
    }
}

fn view(space: &Space) -> Option<Vec<u8>> {
    Some(space.view(0..PAGE, words).expect("a page"))
}

fn words(v: &PageView<'_>) -> Result<Vec<u8>, Torn> {
    let mut bytes = Vec::new();
    for at in (0..v.len()).step_by(8) {
        bytes.extend(v.array::<8>(at)?);
    }
    Ok(bytes)
}

/// Checks that bytes, if any were read, are those of one of these pages.
fn assert_one_of(fills: &[u8], bytes: Option<Vec<u8>>) {
    let is_one = |bytes: &Vec<u8>| fills.iter().any(|fill| *bytes == page(*fill));
    assert!(
        bytes.as_ref().is_none_or(is_one),
        "foreign bytes: {bytes:x?}"
    );
}

/// A reader sees each concurrent write entirely or not at all.
fn look_vs_write(preemptions: usize, look: fn(&Space) -> Option<Vec<u8>>) {
    explore_filled(preemptions, (8, 1), move |spaces, space| {
        let reader = spawn_with(&space, move |space| assert_one_of(&[1, 2, 3], look(&space)));
        space.write(0, &page(2)).expect("a frame");
        space.write(0, &page(3)).expect("a frame");
        reader.join().unwrap();
        assert_eq!(byte(&space, 0), 3);
        finish(spaces, vec![space]);
    });
}

#[test]
fn loom_read_vs_write() {
    look_vs_write(3, read_once);
}

/// The view may take a reference.
#[test]
fn loom_view_vs_write() {
    look_vs_write(2, view);
}

/// The page is read while it is copied for a fork, which writes the old table and frame in place.
fn look_vs_fork_and_write(look: fn(&Space) -> Option<Vec<u8>>) {
    explore_filled(2, (12, 1), move |spaces, space| {
        let fork = space.fork().expect("a fork");
        let reader = spawn_with(&space, move |space| assert_one_of(&[1, 2], look(&space)));
        space.write(0, &page(2)).expect("a frame");
        fork.write(0, &page(3)).expect("a frame");
        reader.join().unwrap();
        drop((space, fork));
        assert_all_free(spaces);
    });
}

#[test]
fn loom_read_vs_fork_and_write() {
    look_vs_fork_and_write(read_once);
}

#[test]
fn loom_view_vs_fork_and_write() {
    look_vs_fork_and_write(view_once);
}

/// A view races with a migration there and back, and with reuse of the frames in between.
#[test]
fn loom_view_vs_migration() {
    explore_filled(2, (12, 2), |spaces, space| {
        let viewer = spawn_with(&space, |space| assert_one_of(&[1], view(&space)));
        for node in [1, 0] {
            let _ = space.migrate(0..PAGE, node).expect("a node");
            give_back(take_all(spaces));
        }
        viewer.join().unwrap();
        drop(space);
        assert_all_free(spaces);
    });
}

#[test]
fn loom_write_vs_write() {
    explore_filled(3, (6, 1), |spaces, space| {
        let other = spawn_with(&space, move |space| space.fetch_add(0, 1).expect("a frame"));
        space.fetch_add(0, 2).expect("a frame");
        other.join().unwrap();
        let before = u64::from_ne_bytes([1; 8]);
        assert_eq!(space.load(0), Ok(before + 3));
        finish(spaces, vec![space]);
    });
}

/// ABA: during one copy, the page moves away, its frame is reused, and the page moves back.
#[test]
fn loom_read_vs_migration_there_and_back() {
    explore_filled(2, (8, 2), |spaces, space| {
        // The page moves back to its old frame, the only free one of node 0.
        let alloc = || spaces.shared.supply.alloc_on(Order::ZERO, 0);
        let taken: Vec<_> = std::iter::from_fn(alloc).collect();
        let reader = spawn_with(&space, |space| assert_one_of(&[1], read_once(&space)));
        space.migrate(0..PAGE, 1).expect("a node");
        let other = alloc().expect("the frame");
        other.bytes().copy_from(0, &page(0xF0));
        drop(other);
        let back = space.migrate(0..PAGE, 0).expect("a node");
        assert_eq!(back.nr_moved, 1);
        reader.join().unwrap();
        drop(taken);
        assert_eq!(byte(&space, 0), 1);
        finish(spaces, vec![space]);
    });
}

fn migrate_vs_write(engine: Engine) {
    explore_filled(2, (8, 2), move |spaces, space| {
        let writer = spawn_with(&space, move |space| {
            space.write(0, &page(7)).expect("a frame");
            assert_eq!(byte(&space, 0), 7);
        });
        let report = space.migrate_with(0..PAGE, 1, engine).expect("a node");
        assert_eq!(report.nr_moved, 1);
        writer.join().unwrap();
        assert_eq!(byte(&space, 0), 7, "a lost write");
        finish(spaces, vec![space]);
    });
}

#[test]
fn loom_migrate_vs_write() {
    migrate_vs_write(Engine::EarlyStop);
}

#[test]
fn loom_migrate_vs_write_without_a_walk() {
    migrate_vs_write(Engine::Batched);
}

/// Counts stay exact, and no migration entry is left, at whatever moment the fork copies the table.
fn fork_vs_first_walk(engine: Engine) {
    explore_filled(2, (16, 2), move |spaces, space| {
        let forker = spawn_with(&space, move |space| {
            let fork = space.fork_with(ForkMode::Copy).expect("a fork");
            Arc::new(fork)
        });
        let report = space.migrate_with(0..PAGE, 1, engine).expect("a node");
        let fork = forker.join().unwrap();
        assert_eq!(report.nr_moved + report.not_moved.len(), 1);
        spaces.verify(&[&space, &fork]).expect("exact counts");
        fork.write(0, &page(9)).expect("a frame");
        assert_eq!((byte(&space, 0), byte(&fork, 0)), (1, 9));
        drop((space, fork));
        assert_all_free(spaces);
    });
}

#[test]
fn loom_fork_vs_first_walk() {
    fork_vs_first_walk(Engine::EarlyStop);
}

#[test]
fn loom_fork_vs_first_walk_without_a_walk() {
    fork_vs_first_walk(Engine::Batched);
}

/// A thread that waits for a migration entry is woken if another thread changes the space such that
/// the second walk does not find the entry at its address.
fn change_vs_write_between_the_walks(change: fn(&Space)) {
    explore_filled(2, (20, 2), move |spaces, space| {
        let fork = space.fork_with(ForkMode::Copy).expect("a fork");
        let fork = Arc::new(fork);
        // Fails if the page is no longer mapped.
        let writer = spawn_with(&fork, |fork| _ = fork.write(0, &page(5)));
        // With the migration in the main thread, loom would not reach the relevant order.
        let migration = spawn_with(&space, move |space| {
            migrate_once(&space, 0..PAGE, Engine::EarlyStop);
        });
        change(&fork);
        writer.join().unwrap();
        migration.join().unwrap();
        assert_eq!(byte(&space, 0), 1);
        finish(spaces, vec![space, fork]);
    });
}

#[test]
fn loom_unmap_vs_write_between_the_walks() {
    change_vs_write_between_the_walks(|fork| fork.unmap(0..PAGE).expect("an area"));
}

#[test]
fn loom_move_vs_write_between_the_walks() {
    change_vs_write_between_the_walks(|fork| {
        fork.move_to_free(0..PAGE).expect("an area");
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// A fork that maps the page in a table of its own is dropped.
    Unmap,
    /// A fork that shares the table copies it, to write the page.
    Fork,
    Both,
}

/// Another thread drops and copies entries at any moment of the walks, or of the undo after a pin.
fn migration_vs(beside: Beside, is_pinned: bool, preemptions: usize) {
    explore_filled(preemptions, (20, 2), move |spaces, space| {
        let leaving =
            (beside != Beside::Fork).then(|| space.fork_with(ForkMode::Copy).expect("a fork"));
        let copying = (beside != Beside::Unmap).then(|| Arc::new(space.fork().expect("a fork")));
        let pin = is_pinned.then(|| space.pin(0, 8).expect("a page"));
        let other = spawn_with(&copying, move |copying| {
            drop(leaving);
            if let Some(copying) = copying {
                copying.write(0, &page(5)).expect("a frame");
            }
        });
        let report = migrate_once(&space, 0..PAGE, Engine::EarlyStop);
        assert!(!is_pinned || report.nr_moved == 0);
        drop(pin);
        other.join().unwrap();
        assert_eq!(byte(&space, 0), 1);
        assert!(copying.iter().all(|copying| byte(copying, 0) == 5));
        finish(spaces, std::iter::once(space).chain(copying).collect());
    });
}

#[test]
fn loom_unmap_between_the_walks() {
    migration_vs(Beside::Unmap, false, 2);
}

#[test]
fn loom_fork_between_the_walks() {
    migration_vs(Beside::Fork, false, 2);
}

#[test]
fn loom_fork_and_unmap_between_the_walks() {
    migration_vs(Beside::Both, false, 1);
}

#[test]
fn loom_undo_vs_unmap() {
    migration_vs(Beside::Unmap, true, 2);
}

#[test]
fn loom_undo_vs_fork() {
    migration_vs(Beside::Fork, true, 2);
}

#[test]
fn loom_undo_vs_fork_and_unmap() {
    migration_vs(Beside::Both, true, 1);
}

/// A page that is mapped once is either moved under the claim of its entry, or pinned first, and
/// then not moved: the frame of the pin is not freed and reused.
#[test]
fn loom_pin_vs_move_under_claim() {
    explore_filled(2, (8, 2), |spaces, space| {
        let pinner = spawn_with(&space, |space| {
            let (reference, _) = space.pin_frame(0, FRAME_BYTES).expect("a page");
            for _ in 0..2 {
                assert_eq!(bytes_of(&reference), page(1), "a pinned page has changed");
                let named = first_frame(&space);
                assert_eq!(named, reference.frame(), "a pinned page was moved");
            }
        });
        let report = migrate_once(&space, 0..PAGE, Engine::Batched);
        let taken = take_all(spaces);
        pinner.join().unwrap();
        give_back(taken);
        assert_eq!(report.nr_moved + report.not_moved.len(), 1);
        assert_eq!(byte(&space, 0), 1);
        finish(spaces, vec![space]);
    });
}

/// One thread moves the page under its entry's claim, another by walks. At least one succeeds.
#[test]
fn loom_move_under_claim_vs_isolation() {
    explore_filled(2, (8, 2), |spaces, space| {
        let frame = first_frame(&space);
        let other = spawn_with(spaces, move |spaces| {
            let supply = &spaces.shared.supply;
            let to = supply.alloc_on(Order::ZERO, 0).expect("a frame");
            let TryGetFrame::Taken(reference) = spaces.pool().try_get(frame) else {
                return;
            };
            let kind = (FrameKind::Anon, Order::ZERO);
            if reference.meta().kind() == kind && supply.try_isolate(frame) {
                drop(reference);
                let mut batch = vec![Moving::new(supply, frame, to, None)];
                supply.move_batch(&mut batch, Engine::Batched, &mut Migrated::default());
            }
        });
        migrate_once(&space, 0..PAGE, Engine::Batched);
        other.join().unwrap();
        assert_eq!(byte(&space, 0), 1);
        finish(spaces, vec![space]);
    });
}

/// After the walk has restored the first of two entries, the new frame is mapped once, but must not
/// be written in place. The parent's entry is restored first, and the parent writes.
#[test]
fn loom_copy_on_write_vs_second_walk() {
    explore_filled(2, (16, 2), |spaces, space| {
        let fork = Arc::new(space.fork_with(ForkMode::Copy).expect("a fork"));
        let writer = spawn_with(&space, move |space| {
            space.write(0, &page(5)).expect("a frame")
        });
        space
            .migrate_with(0..PAGE, 1, Engine::EarlyStop)
            .expect("a node");
        writer.join().unwrap();
        assert_eq!((byte(&space, 0), byte(&fork, 0)), (5, 1), "a foreign write");
        finish(spaces, vec![space, fork]);
    });
}

#[test]
fn loom_pin_vs_write() {
    explore_filled(2, (8, 1), |spaces, space| {
        let writer = spawn_with(&space, move |space| {
            space.write(0, &page(2)).expect("a frame")
        });
        let (reference, _) = space.pin_frame(0, FRAME_BYTES).expect("a page");
        let first = bytes_of(&reference);
        writer.join().unwrap();
        assert_eq!(first, bytes_of(&reference), "a pinned page has changed");
        drop(reference);
        assert_eq!(byte(&space, 0), 2);
        finish(spaces, vec![space]);
    });
}

/// A writer is about to claim an entry of a table that is then unmapped, freed and reused for data.
#[test]
fn loom_unmap_vs_write() {
    explore_filled(2, (8, 1), |spaces, space| {
        let writer = spawn_with(&space, move |space| _ = space.write(0, &page(2)));
        space.unmap(0..PAGE).expect("a mapped page");
        let other = spaces.shared.supply.alloc(Order::ZERO, Place::Anywhere);
        let other = other.expect("a frame");
        other.bytes().copy_from(0, &page(0xF0));
        writer.join().unwrap();
        give_back(vec![other]);
        finish(spaces, vec![space]);
    });
}
