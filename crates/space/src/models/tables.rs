//! Models of tables that are replaced in a directory or freed while another thread accesses them.

use std::sync::Arc;

use pagewell_frame::{FRAME_BYTES, FrameNr, Order};

use super::harness::{
    PAGE, assert_all_free, byte, explore, filled, finish, migrate_once, page, spaces, spawn_with,
};
use crate::areas::options::Policy;
use crate::motion::report::Engine;
use crate::words::claim::claim_used;
use crate::words::pmd::Directory;

/// A reader is about to sleep on a migration entry when its table is unmapped and freed. The frame
/// then contains the same, unchanging word as data, whose writer wakes no thread.
#[test]
fn loom_wait_vs_table_reuse() {
    explore(2, || {
        let spaces = spaces(6, 1);
        let space = filled(&spaces, 1);
        let shared = &spaces.shared;
        let pmd = Directory::look(space.mm.tables.pmd_word(0).expect("a directory"));
        let word = &shared.supply.table_entries(pmd.table().expect("a table"))[0];
        let claim = claim_used(word).expect("a page");
        let moving = claim.before().to_migration();
        let frame = FrameNr::new(moving.frame());
        let turned = shared.supply.turn_to_migration(frame);
        turned.expect("few entries");
        claim.end(moving);
        let reader = spawn_with(&space, move |space| _ = space.read(0, &mut page(0)));
        space.unmap(0..PAGE).expect("a mapped page");
        let taken: Vec<_> = std::iter::from_fn(|| spaces.pool().alloc(Order::ZERO)).collect();
        for frame in &taken {
            let words = [moving.bits(); FRAME_BYTES / size_of::<u64>()];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            frame.bytes().copy_from(0, &bytes);
        }
        reader.join().unwrap();
        drop(taken);
        drop(space);
        assert_all_free(&spaces);
    });
}

/// A migration moves no page that its space does not map. When it has looked up a table, the space
/// writes, and so gets a copy of the table. A fork keeps the table, and maps another page in it.
#[test]
fn loom_migrate_vs_table_exchange() {
    explore(3, || {
        let spaces = spaces(12, 2);
        let space = spaces.space().expect("a space");
        space.map(2 * PAGE, Policy::Bind(0)).expect("an area");
        space.write(0, &page(1)).expect("a frame");
        let space = Arc::new(space);
        let fork = Arc::new(space.fork().expect("a fork"));
        // With the migration in the main thread, loom would not reach the relevant order.
        let looker = spawn_with(&space, move |space| {
            let report = migrate_once(&space, PAGE..2 * PAGE, Engine::Batched);
            assert_eq!((report.nr_moved, report.nr_there), (0, 0), "another's page");
            assert_eq!(report.not_moved, [], "another's page");
        });
        space.write(0, &page(2)).expect("a frame");
        fork.write(PAGE, &page(3)).expect("a frame");
        looker.join().unwrap();
        assert_eq!((byte(&space, 0), byte(&fork, 0), byte(&fork, 1)), (2, 1, 3));
        finish(&spaces, vec![space, fork]);
    });
}
