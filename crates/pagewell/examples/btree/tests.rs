//! The tree beside a map of std's; with several threads; over losses of power, and kills.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagewell::io::{MemoryBackend, SectorWrites, VolatileDevice};
use pagewell::{Cache, OpenOptions};
use pagewell_testkit::rng::Rng;

use crate::engine::{Access, Error, MAX_ENTRY, MAX_KEY, Options, PAGE, Pins, Reader, Reads, Tree};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn cache() -> Cache {
    Cache::builder().capacity(8 << 20).build().expect("a cache")
}

/// A tree in memory.
fn in_memory(cache: &Cache, options: Options) -> Tree {
    let write = OpenOptions::new().write();
    let backend = || MemoryBackend::writable(Vec::new());
    let log = cache.open_backend_with(backend(), "log", &write);
    Tree::open_files(log.expect("a log"), options, |hook| {
        cache.open_backend_with(backend(), "data", &hook(OpenOptions::new().write()))
    })
    .expect("a tree")
}

/// A key: mostly of few, so that it is there already; of any length.
fn key(rng: &mut Rng) -> Vec<u8> {
    let nr = rng.below(600);
    let len = match nr % 7 {
        0 => nr as usize % (MAX_KEY - 8),
        1 => 0,
        _ => nr as usize % 13,
    };
    // Many keys with the same beginning.
    let mut key = vec![b'a' + (nr % 3) as u8; len];
    key.extend_from_slice(&nr.to_be_bytes()[8 - (nr as usize % 3 + 2)..]);
    key
}

fn value(rng: &mut Rng, key: &[u8]) -> Vec<u8> {
    let most = match rng.below(4) {
        0 => MAX_ENTRY - key.len(),
        _ => 150.min(MAX_ENTRY - key.len()),
    };
    let len = rng.below(most as u64 + 1) as usize;
    (0..len).map(|_| rng.below(256) as u8).collect()
}

fn check<P: Access>(reader: Reader<P>, model: &Model) {
    let mut all = Vec::new();
    let scanned = reader.scan(b"", |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    scanned.expect("a scan");
    assert!(all.iter().map(|(key, value)| (key, value)).eq(model));
    let mut found = Vec::new();
    for (key, value) in model {
        assert!(reader.get(key, &mut found).expect("a get"));
        assert_eq!(&found, value);
    }
    assert!(!reader.get(b"no such key", &mut found).expect("a get"));
}

/// A random change of the tree and of the model.
fn step(tree: &Tree, model: &mut Model, rng: &mut Rng) -> Result<(), Error> {
    let key = key(rng);
    // The model first: what fails may have been done.
    if rng.below(4) == 0 {
        let was_there = model.remove(&key).is_some();
        assert_eq!(tree.remove(&key)?, was_there);
    } else {
        let value = value(rng, &key);
        let was_there = model.insert(key.clone(), value.clone()).is_some();
        assert_eq!(tree.insert(&key, &value)?, was_there);
    }
    Ok(())
}

#[test]
fn a_tree_is_what_a_map_is() {
    for seed in 0..3 {
        let cache = cache();
        let tree = in_memory(
            &cache,
            Options {
                checkpoint_bytes: 100_000,
            },
        );
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        for _ in 0..4000 {
            step(&tree, &mut model, &mut rng).expect("a change");
        }
        assert!(tree.data().size() > 20 * PAGE as u64, "there were splits");
        check(tree.reader(), &model);
        check(Reader(Pins(tree.data())), &model);
        check(Reader(Reads(tree.data())), &model);
        let mut first = None;
        let from = tree.reader().scan(b"b", |key, _| {
            first = Some(key.to_vec());
            ControlFlow::Break(())
        });
        from.expect("a scan");
        let expected = model.range(b"b".to_vec()..).next();
        assert_eq!(first.as_ref(), expected.map(|(key, _)| key));
    }
}

/// Pages that the nodes of a tree take.
fn nr_used(tree: &Tree) -> u64 {
    tree.data().size() / PAGE as u64 - tree.nr_free() as u64
}

#[test]
fn a_tree_that_loses_its_entries_gives_its_pages_back_and_uses_them_again() {
    for seed in 0..3 {
        let cache = cache();
        let options = Options {
            checkpoint_bytes: 300_000,
        };
        let tree = in_memory(&cache, options);
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        let fill = |model: &mut Model, rng: &mut Rng| {
            for nr in 0..4000_u64 {
                // Long keys, so that the tree has three levels at least.
                let mut key = vec![b'k'; 150];
                key.extend_from_slice(&nr.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
                let value = vec![nr as u8; rng.below(200) as usize];
                tree.insert(&key, &value).expect("an insert");
                model.insert(key, value);
            }
        };
        fill(&mut model, &mut rng);
        let (most, size) = (nr_used(&tree), tree.data().size());
        assert!(most > 200, "{most} pages");
        // In an order of no key: each leaf becomes sparse slowly.
        let mut keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        while model.len() > 40 {
            let key = keys.swap_remove(rng.below(keys.len() as u64) as usize);
            assert!(tree.remove(&key).expect("a removal"));
            model.remove(&key);
            if model.len() % 500 == 0 {
                check(tree.reader(), &model);
            }
        }
        check(tree.reader(), &model);
        assert!(nr_used(&tree) < most / 10, "{} of {most}", nr_used(&tree));
        fill(&mut model, &mut rng);
        check(tree.reader(), &model);
        assert!(
            tree.data().size() < size + size / 10,
            "free pages are used again"
        );
        for key in model.keys() {
            tree.remove(key).expect("a removal");
        }
        check(tree.reader(), &Model::new());
        assert_eq!(nr_used(&tree), 1, "the root alone");
        cache.verify().expect("a whole cache");
    }
}

#[test]
fn free_pages_are_found_when_a_tree_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let nr_free = {
        let cache = cache();
        let tree = open_in(folder.path(), &cache);
        for nr in 0..2000 {
            let (key, value) = numbered(nr);
            tree.insert(&key, &value).expect("an insert");
        }
        for nr in 0..1990 {
            tree.remove(&numbered(nr).0).expect("a removal");
        }
        let nr_free = tree.nr_free();
        tree.close().expect("a close");
        nr_free
    };
    assert!(nr_free > 20, "{nr_free} free pages");
    let cache = cache();
    let tree = open_in(folder.path(), &cache);
    assert_eq!(tree.nr_free(), nr_free);
    assert_eq!(contents(&tree).len(), 10);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    for seed in 0..3 {
        let cache = cache();
        let options = Options {
            checkpoint_bytes: 100_000,
        };
        let tree = in_memory(&cache, options);
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        let mut change = |model: &mut Model, times| {
            for _ in 0..times {
                step(&tree, model, &mut rng).expect("a change");
            }
        };
        change(&mut model, 1500);
        let (first, was_first) = (tree.snapshot(), model.clone());
        change(&mut model, 1500);
        let (second, was_second) = (tree.snapshot(), model.clone());
        assert_eq!(second.nr_kept(), 0);
        for key in was_second.keys() {
            tree.remove(key).expect("a removal");
        }
        model.clear();
        change(&mut model, 1500);
        check(first.reader(), &was_first);
        check(second.reader(), &was_second);
        assert!(first.nr_kept() > 20 && second.nr_kept() > 20);
        drop(first);
        check(second.reader(), &was_second);
        drop(second);
        // Nothing is kept for nobody; and the tree is what it is.
        let third = tree.snapshot();
        check(third.reader(), &contents(&tree));
        check(tree.reader(), &contents(&tree));
    }
}

#[test]
fn a_snapshot_is_of_one_moment_while_others_write() {
    const NR: u64 = 400;
    let cache = cache();
    let options = Options {
        checkpoint_bytes: 1 << 20,
    };
    let tree = in_memory(&cache, options);
    let key = |nr: u64| {
        nr.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_be_bytes()
            .to_vec()
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // One writer, which puts keys in in an order, and takes them out in the same: a moment has neighbours by number only.
        scope.spawn(|| {
            for round in 0..6 {
                for nr in 0..NR {
                    tree.insert(&key(nr), &vec![round; 20 + nr as usize])
                        .expect("an insert");
                }
                for nr in 0..NR {
                    tree.remove(&key(nr)).expect("a removal");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let snapshot = tree.snapshot();
                    let all = || {
                        let mut all = Model::new();
                        let scanned = snapshot.reader().scan(b"", |key, value| {
                            all.insert(key.to_vec(), value.to_vec());
                            ControlFlow::Continue(())
                        });
                        scanned.expect("a scan");
                        all
                    };
                    let found = all();
                    let is_in = |nr: &u64| found.contains_key(&key(*nr));
                    let nr_in = (0..NR).filter(is_in).count() as u64;
                    assert_eq!(nr_in, found.len() as u64);
                    // The first so many, or the last.
                    let is_filling = (0..nr_in).all(|nr| is_in(&nr));
                    let is_emptying = (NR - nr_in..NR).all(|nr| is_in(&nr));
                    assert!(is_filling || is_emptying, "{nr_in} keys of no moment");
                    assert_eq!(all(), found, "a second scan finds the same");
                }
            });
        }
    });
    cache.verify().expect("a whole cache");
}

#[test]
fn scans_that_read_ahead_find_what_others_find() {
    let folder = tempfile::tempdir().expect("a folder");
    // Far less than the tree has.
    let small = Cache::builder().capacity(1 << 20).build();
    let small = small.expect("a cache");
    let tree = open_in(folder.path(), &small);
    let mut model = Model::new();
    for nr in 0..20_000 {
        let (key, value) = numbered(nr);
        tree.insert(&key, &value).expect("an insert");
        model.insert(key.to_vec(), value);
    }
    assert!(tree.data().size() > 3 << 20);
    for nr_threads in [0, 1, 4] {
        let mut expected = model.range(vec![0x40]..);
        let scanned = tree.scan_ahead(nr_threads, &[0x40], |key, value| {
            let next = expected.next().expect("no more than there is");
            assert_eq!((&next.0[..], &next.1[..]), (key, value));
            ControlFlow::Continue(())
        });
        scanned.expect("a scan");
        assert_eq!(expected.next(), None, "all that there is");
        // One that ends early leaves no thread behind that waits.
        let mut nr_seen = 0;
        let scanned = tree.scan_ahead(nr_threads, b"", |_, _| {
            nr_seen += 1;
            match nr_seen {
                500 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        scanned.expect("a scan");
        assert_eq!(nr_seen, 500);
    }
}

#[test]
fn what_is_too_long_is_an_error() {
    let cache = cache();
    let tree = in_memory(&cache, Options::default());
    let too_long = |result| matches!(result, Err(Error::TooLong { .. }));
    assert!(too_long(tree.insert(&[0; MAX_KEY + 1], b"")));
    assert!(too_long(tree.insert(b"key", &[0; MAX_ENTRY])));
    assert!(too_long(tree.remove(&[0; MAX_KEY + 1])));
    let (longest, most) = ([7; MAX_KEY], [8; MAX_ENTRY - MAX_KEY]);
    assert!(matches!(tree.insert(&longest, &most), Ok(false)));
    assert!(matches!(tree.insert(b"", b""), Ok(false)));
    let model = Model::from([(vec![], vec![]), (longest.to_vec(), most.to_vec())]);
    check(tree.reader(), &model);
}

#[test]
fn keys_are_found_while_nodes_are_split() {
    const NR: u64 = 3000;
    let cache = cache();
    let tree = in_memory(
        &cache,
        Options {
            checkpoint_bytes: 1 << 20,
        },
    );
    // The first writer's in order, so that its last keys are in the leaf that is split next; the other's in none.
    let key = |writer: u64, nr: u64| match writer {
        0 => nr.to_be_bytes(),
        _ => (nr.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 63).to_be_bytes(),
    };
    // Of the first writer so long that a leaf has few.
    let value = |writer: u64, nr: u64| match writer {
        0 => vec![nr as u8; 800 + nr as usize % 100],
        _ => vec![nr as u8; nr as usize % 200],
    };
    let inserted = [AtomicU64::new(0), AtomicU64::new(0)];
    let (is_over, nr_writing) = (AtomicBool::new(false), AtomicU64::new(2));
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (tree, inserted, is_over, nr_writing) =
                (&tree, &inserted[writer as usize], &is_over, &nr_writing);
            scope.spawn(move || {
                for nr in 0..NR {
                    tree.insert(&key(writer, nr), &value(writer, nr))
                        .expect("an insert");
                    inserted.store(nr + 1, Ordering::Release);
                }
                if nr_writing.fetch_sub(1, Ordering::Relaxed) == 1 {
                    is_over.store(true, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let (mut rng, mut found) = (Rng::new(1), Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                let writer = rng.below(2);
                let nr_inserted = inserted[writer as usize].load(Ordering::Acquire);
                if nr_inserted == 0 {
                    continue;
                }
                let nr = match rng.below(4) {
                    0 => rng.below(nr_inserted),
                    _ => nr_inserted - 1 - rng.below(nr_inserted.min(4)),
                };
                let is_there = match rng.below(3) {
                    0 => Reader(Pins(tree.data())).get(&key(writer, nr), &mut found),
                    1 => Reader(Reads(tree.data())).get(&key(writer, nr), &mut found),
                    _ => tree.reader().get(&key(writer, nr), &mut found),
                };
                assert!(is_there.expect("a get"), "a key was missed");
                assert_eq!(found, value(writer, nr));
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let nr_before: u64 = inserted.iter().map(|nr| nr.load(Ordering::Acquire)).sum();
                let (mut nr_seen, mut last) = (0, Vec::new());
                let scanned = tree.reader().scan(b"", |key, _| {
                    assert!(nr_seen == 0 || key > &last[..], "keys in order, each once");
                    last = key.to_vec();
                    nr_seen += 1;
                    ControlFlow::Continue(())
                });
                scanned.expect("a scan");
                assert!(nr_seen >= nr_before, "a scan has missed a key");
            }
        });
    });
    let mut model = Model::new();
    for writer in 0..2 {
        for nr in 0..NR {
            model.insert(key(writer, nr).to_vec(), value(writer, nr));
        }
    }
    check(tree.reader(), &model);
    cache.verify().expect("a whole cache");
}

fn open_on(device: &VolatileDevice, cache: &Cache) -> Result<Tree, Error> {
    let open = |name| device.open(name).or_else(|_| device.create(name));
    let failed = |_| Error::NoTree("the device fails");
    let (log, data) = (open("log").map_err(failed)?, open("data").map_err(failed)?);
    let write = OpenOptions::new().write();
    let options = Options {
        checkpoint_bytes: 60_000,
    };
    let log = cache.open_backend_with(log, "log", &write)?;
    Tree::open_files(log, options, |hook| {
        cache.open_backend_with(data, "data", &hook(OpenOptions::new().write()))
    })
}

fn contents(tree: &Tree) -> Model {
    let mut all = Model::new();
    let scanned = tree.reader().scan(b"", |key, value| {
        all.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    });
    scanned.expect("a scan");
    all
}

/// Changes a tree until the power fails. Returns what it may hold afterwards: what it held after each change since the last sync.
fn until_the_power_fails(
    device: &VolatileDevice,
    before: Vec<Model>,
    (seed, rng): (u64, &mut Rng),
) -> Vec<Model> {
    let cache = Cache::builder()
        .capacity(1 << 20)
        .close_timeout(std::time::Duration::ZERO)
        .build()
        .expect("a cache");
    let Ok(tree) = open_on(device, &cache) else {
        return before;
    };
    let mut model = contents(&tree);
    assert!(
        before.contains(&model),
        "seed {seed}: what was synced is there, and nothing in part"
    );
    let mut possible = vec![model.clone()];
    loop {
        // The change under way may be done or not.
        let changed = step(&tree, &mut model, rng);
        possible.push(model.clone());
        if changed.is_err() {
            return possible;
        }
        if rng.below(20) == 0 {
            if tree.sync().is_err() {
                return possible;
            }
            possible = vec![model.clone()];
        }
        if rng.below(100) == 0 {
            // Some pages get to the storage early.
            let _ = tree.data().flush(0..tree.data().size());
        }
    }
}

fn survives_losses_of_power(make: impl Fn(u64) -> VolatileDevice) -> usize {
    let mut most = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut device = make(seed);
        let mut possible = vec![Model::new()];
        // Several in a row: also during recovery, and soon after it.
        for _ in 0..4 {
            device.power_off_after(rng.below(120));
            possible = until_the_power_fails(&device, possible, (seed, &mut rng));
            most = most.max(possible[0].len());
            device = device.crash(rng.below(1 << 32));
        }
    }
    most
}

#[test]
fn what_was_synced_survives_losses_of_power() {
    let most = survives_losses_of_power(VolatileDevice::new);
    assert!(most > 50, "the tree gets somewhere: {most} keys");
}

#[test]
fn what_was_synced_survives_torn_sectors() {
    survives_losses_of_power(|seed| {
        VolatileDevice::new(seed).with_sector_writes(SectorWrites::Torn)
    });
}

#[test]
#[should_panic(expected = "what was synced is there")]
fn a_device_that_does_not_sync_is_noticed() {
    survives_losses_of_power(|seed| VolatileDevice::new(seed).with_sync_stubbed_out());
}

/// The folder of the tree that `the_program_that_is_killed` writes to; without it that is no test.
const FOLDER: &str = "PAGEWELL_BTREE_FOLDER";

fn open_in(folder: &std::path::Path, cache: &Cache) -> Tree {
    let options = Options {
        checkpoint_bytes: 200_000,
    };
    Tree::open(cache, &folder.join("data"), &folder.join("log"), options).expect("a tree")
}

fn numbered(nr: u64) -> ([u8; 8], Vec<u8>) {
    let key = nr.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    (key, vec![nr as u8; nr as usize % 300])
}

/// Inserts one key after the other, and says which are durable.
#[test]
fn the_program_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let cache = cache();
    let tree = open_in(folder.as_ref(), &cache);
    for nr in contents(&tree).len() as u64.. {
        let (key, value) = numbered(nr);
        tree.insert(&key, &value).expect("an insert");
        if nr % 8 == 0 {
            tree.sync().expect("a sync");
            println!("\nsynced {nr}");
        }
    }
}

#[test]
fn what_was_synced_survives_kills() {
    use std::io::BufRead as _;

    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = Rng::new(9);
    let mut nr_before = 0;
    for round in 0..6 {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "--nocapture",
                "tests::the_program_that_is_killed",
            ])
            .env(FOLDER, folder.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a child");
        let out = std::io::BufReader::new(child.stdout.take().expect("its output"));
        let wanted = nr_before + 8 + rng.below(1500);
        let synced = out
            .lines()
            .filter_map(|line| line.ok()?.strip_prefix("synced ")?.parse().ok())
            .find(|nr: &u64| *nr >= wanted);
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        let synced = synced.expect("it inserts until it is killed");
        let cache = cache();
        let tree = open_in(folder.path(), &cache);
        let found = contents(&tree);
        let nr_found = found.len() as u64;
        assert!(
            nr_found > synced,
            "round {round}: {synced} was synced, there are {nr_found}"
        );
        for nr in 0..nr_found {
            let (key, value) = numbered(nr);
            assert_eq!(found.get(&key[..]), Some(&value), "round {round}: key {nr}");
        }
        nr_before = nr_found;
        tree.close().expect("a close");
    }
}

#[test]
fn the_example_counts_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let counts = |times: u64| {
        let words = crate::run(folder.path()).expect("a tree");
        assert!(words.contains(&("the".to_owned(), 6 * times)), "{words:?}");
        assert!(words.contains(&("tree".to_owned(), 2 * times)));
    };
    counts(1);
    counts(2);
}
