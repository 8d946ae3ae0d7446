use pagewell_frame::{FramePool, PoolConfig};
use pagewell_sync::atomic::Ordering;

use crate::areas::options::Policy;
use crate::error::ErrorKind;
use crate::mm::space::Spaces;
use crate::words::claim::look;
use crate::words::counts::{MAPPING, MAX_MAPPINGS, MAX_MIGRATION_ENTRIES, MIGRATION};
use crate::words::pmd::Directory;
use crate::words::pte::State;

/// A table cannot be copied if a page in it has the maximum number of (fabricated) entries.
#[test]
fn an_entry_too_many_is_an_error_and_changes_nothing() {
    for (one, most) in [(MAPPING, MAX_MAPPINGS), (MIGRATION, MAX_MIGRATION_ENTRIES)] {
        let spaces = Spaces::new(FramePool::new(&PoolConfig::new(256)).unwrap());
        let space = spaces.space().unwrap();
        let area = space.map(8192, Policy::Local).unwrap();
        space.write(area.start, b"ours").unwrap();
        space.write(area.start + 4096, b"more").unwrap();
        let fork = space.fork().unwrap();
        let pmd = Directory::look(space.mm.tables.pmd_word(area.start).unwrap());
        let word = &spaces.shared.supply.table_entries(pmd.table().unwrap())[1];
        let before = look(word);
        let State::Present(frame) = before.state() else {
            panic!("{before:?}");
        };
        let counts = crate::supply::view::counts_of(spaces.pool(), frame);
        if one == MIGRATION {
            // ORDERING: Relaxed, here and below; there is one thread.
            word.store(before.to_migration().bits(), Ordering::Relaxed);
            counts.fetch_add(MIGRATION.wrapping_sub(MAPPING), Ordering::Relaxed);
        }
        let made_up = u64::from(most - 1) * one;
        counts.fetch_add(made_up, Ordering::Relaxed);
        let error = fork.write(area.start, b"forks").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooManyEntries);
        counts.fetch_sub(made_up, Ordering::Relaxed);
        if one == MIGRATION {
            word.store(before.bits(), Ordering::Relaxed);
            counts.fetch_sub(MIGRATION.wrapping_sub(MAPPING), Ordering::Relaxed);
        }
        spaces.verify(&[&space, &fork]).unwrap();
        fork.write(area.start, b"fork").unwrap();
        let mut buf = [0; 4];
        space.read(area.start, &mut buf).unwrap();
        assert_eq!(&buf, b"ours");
        drop((space, fork));
        let stats = spaces.pool().stats();
        assert_eq!(stats.nr_available(), stats.nr_frames);
    }
}
