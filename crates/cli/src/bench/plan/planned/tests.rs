use super::*;

const ROOMY: Limits = Limits {
    nr_cpus: 6,
    memory: Some(64 << 30),
    users_file: None,
};

fn full() -> Settings {
    Settings {
        quick: false,
        ..Settings::quick()
    }
}

#[test]
fn the_quick_plan_has_short_runs_of_every_case() {
    let plan = Plan::new(&Settings::quick(), ROOMY);
    for &case in Bench::Refcount.cases() {
        for threads in [1, 6] {
            let cell = Cell {
                case,
                block: 0,
                file_bytes: 0,
                threads,
                forks: 0,
            };
            assert!(plan.refcount.contains(&cell), "{cell:?}");
        }
    }
    for (case, file_bytes) in [
        (Case::SameHot, 1 << 20),
        (Case::DiffHot, 1 << 20),
        (Case::SameRandom, 256 << 20),
    ] {
        for (block, threads) in [(64, 1), (64, 6), (4096, 1), (4096, 6)] {
            let cell = Cell {
                case,
                block,
                file_bytes,
                threads,
                forks: 0,
            };
            assert!(plan.cells().any(|planned| *planned == cell), "{cell:?}");
        }
    }
    let of = |case: Case, block, threads| without_file(case, block, threads);
    let page_block = block_bytes(Order::PAGE_BLOCK);
    assert!(plan.contig.contains(&of(Case::Order9, page_block, 6)));
    assert!(plan.contig.contains(&of(Case::Lengths, 63 << 12, 1)));
    assert!(plan.alloc.contains(&of(Case::Order0Private, 4096, 1)));
    assert!(plan.alloc.contains(&of(Case::Order9Mixed, page_block, 6)));
    for (case, block, file_bytes, threads) in [
        (Case::WriteHot, 64, 64 << 20, 6),
        (Case::WriteRandom, 4096, 64 << 20, 1),
        (Case::WriteCommit64, 64, 64 << 20, 6),
        (Case::Append, 128, 1 << 20, 6),
        (Case::AppendCommit64, 128, 1 << 20, 1),
        (Case::Writeback, 1 << 20, 64 << 20, 1),
    ] {
        let cell = Cell {
            case,
            block,
            file_bytes,
            threads,
            forks: 0,
        };
        assert!(plan.cells().any(|planned| *planned == cell), "{cell:?}");
    }
    // Write: two cases with two blocks and three with one, each with two numbers of threads, and one more.
    // Contig: two numbers of threads, four lengths, fragmentation. Alloc: two private cases
    // with two numbers of threads, two mixed ones with one.
    // Reads that miss: one block with two numbers of threads.
    // Space: seven cases with two numbers of threads. Fork: two cases. Migrate: three, and the second walk beside them.
    let nr_writes = (2 * 2 + 3) * 2 + 1;
    let nr_spaces = 7 * 2 + 2 + 3;
    let nr_misses = 2;
    // Three cases with two numbers of threads.
    let nr_trees = 3 * 2;
    // Each case has its own number of threads.
    let nr_cold = 6;
    // Two cases with two numbers of threads.
    let nr_pins = 2 * 2;
    assert_eq!(
        plan.cells().count(),
        6 + 12
            + nr_misses
            + nr_writes
            + (2 + 4 + 1)
            + (4 + 2)
            + nr_spaces
            + nr_trees
            + nr_cold
            + nr_pins
    );
    assert!(plan.migrate.iter().all(|cell| cell.forks == 100));
    assert!(plan.notes.is_empty());
}

#[test]
fn the_full_plan_has_every_block_that_fits_in_its_file() {
    let plan = Plan::new(&full(), ROOMY);
    let cells_of = |file_bytes| {
        let stage = plan
            .read
            .iter()
            .find(|stage| stage.file_bytes == file_bytes);
        stage.map_or(0, |stage| stage.cells.len())
    };
    // Cases x blocks x numbers of threads (1, 2, 4, 6).
    assert_eq!(cells_of(4 << 10), 3 * 6 * 4);
    assert_eq!(cells_of(1 << 20), 3 * 7 * 4);
    // And the reads that miss, of one block.
    assert_eq!(cells_of(256 << 20), 3 * 7 * 4 + 4);
}

#[test]
fn little_memory_makes_the_large_file_smaller_and_is_told() {
    let limits = Limits {
        memory: Some(100 << 20),
        ..ROOMY
    };
    let only_reads = Settings {
        benches: vec![Bench::Read],
        ..full()
    };
    let plan = Plan::new(&only_reads, limits);
    let sizes: Vec<u64> = plan.read.iter().map(|stage| stage.file_bytes).collect();
    assert_eq!(sizes, [4 << 10, 1 << 20, 16 << 20]);
    assert_eq!(plan.notes.len(), 1);
    // What is forked and migrated fits too, and it is said.
    let plan = Plan::new(&full(), limits);
    assert!(plan.fork.iter().all(|cell| cell.block == 33 << 20));
    for cell in &plan.migrate {
        let copies = u64::from(cell.forks) + 2;
        assert!(cell.block == FRAME_BYTES as u64 || cell.block * copies <= 50 << 20);
    }
    // One each for the files that are read, those that are written, spaces, forks, and migrations.
    assert_eq!(plan.write[0].file_bytes, 16 << 20);
    assert_eq!(plan.notes.len(), 5);
}

#[test]
fn a_users_file_is_read_as_it_is() {
    let limits = Limits {
        users_file: Some(5000),
        ..ROOMY
    };
    let plan = Plan::new(&full(), limits);
    assert_eq!(plan.read.len(), 1);
    assert!(plan.read[0].cells.iter().all(|cell| cell.block <= 5000));
    assert!(!plan.read[0].has(Case::DiffHot));
    assert!(plan.notes[0].contains("diff-hot"));
    assert!(plan.write.is_empty(), "a user's file is not written to");
}

#[test]
fn reads_that_miss_are_of_files_that_are_large_enough() {
    let misses = |sizes: &[u64], users_file| {
        let settings = Settings {
            cases: vec![Case::MissBuffered, Case::SameHot],
            sizes: sizes.to_vec(),
            threads: vec![1],
            ..full()
        };
        let limits = Limits {
            users_file,
            ..ROOMY
        };
        let plan = Plan::new(&settings, limits);
        let cells = plan.cells().filter(|c| c.case == Case::MissBuffered);
        let cells: Vec<_> = cells.map(|c| (c.file_bytes, c.block)).collect();
        (cells, plan.notes)
    };
    assert_eq!(misses(&[], None), (vec![(256 << 20, 4096)], vec![]));
    let two = vec![(8 << 20, 4096), (1 << 20, 4096)];
    assert_eq!(misses(&[4096, 8 << 20, 65_536], None), (two, vec![]));
    assert_eq!(misses(&[], Some(3 << 20)).0, [(3 << 20, 4096)]);
    let (cells, notes) = misses(&[], Some(5000));
    assert!(cells.is_empty() && notes[0].contains("miss-buffered"));
}

#[test]
fn a_block_that_a_threads_part_has_no_room_for_is_left_out() {
    let settings = Settings {
        benches: vec![Bench::Write],
        cases: vec![Case::WriteRandom, Case::Append],
        sizes: vec![64 << 10],
        threads: vec![1, 2, 40],
        ..full()
    };
    let plan = Plan::new(&settings, ROOMY);
    let of = |case, block| {
        let cells = plan.cells();
        let wanted = cells.filter(|cell| cell.case == case && cell.block == block);
        wanted.map(|cell| cell.threads).collect::<Vec<_>>()
    };
    assert_eq!(of(Case::WriteRandom, 64 << 10), [1]);
    assert_eq!(of(Case::WriteRandom, 16 << 10), [1, 2]);
    // A page for each of 40 threads is more than the file has.
    assert_eq!(of(Case::WriteRandom, 64), [1, 2]);
    assert_eq!(of(Case::Append, 128), [1, 2, 40]);
}

#[test]
fn a_file_is_written_from_end_to_end_by_one_thread() {
    let settings = Settings {
        cases: vec![Case::Writeback],
        blocks: vec![64 << 10, 1 << 20, 2 << 20],
        sizes: vec![1 << 20],
        ..full()
    };
    let plan = Plan::new(&settings, ROOMY);
    let blocks: Vec<(u64, u32)> = plan.cells().map(|c| (c.block, c.threads)).collect();
    assert_eq!(blocks, [(64 << 10, 1), (1 << 20, 1)]);
}

#[test]
fn more_workers_than_processors_are_told() {
    let settings = Settings {
        threads: vec![7],
        ..Settings::quick()
    };
    assert!(Plan::new(&settings, ROOMY).notes[0].contains("7 workers share 6"));
}

#[test]
fn mixed_cases_need_two_threads() {
    let limits = Limits {
        nr_cpus: 1,
        ..ROOMY
    };
    let plan = Plan::new(&full(), limits);
    assert!(plan.alloc.iter().all(|cell| !cell.case.needs_partner()));
    assert!(plan.notes.iter().any(|note| note.contains("mixed")));
}

#[test]
fn one_processor_is_measured_once() {
    let settings = full();
    assert_eq!(numbers_of_workers(&settings, 1), [1]);
    assert_eq!(numbers_of_workers(&settings, 2), [1, 2]);
    assert_eq!(
        numbers_of_workers(&settings, 96),
        [1, 2, 4, 8, 16, 32, 64, 96]
    );
}
