//! Tests of the tree: against a map, with several threads, over power failures and kills, and with
//! bad input.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagewell::io::{
    Backend, Fault, FaultBackend, MemoryBackend, Operation, SectorWrites, VolatileDevice,
};
use pagewell::{Cache, OpenOptions};
use pagewell_testkit::rng::Rng;

use crate::engine::{Access, Error, MAX_ENTRY, MAX_KEY, Options, PAGE, Question, Reader, Tree};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn cache() -> Cache {
    let builder = Cache::builder().capacity(2 << 20);
    let builder = builder.close_timeout(std::time::Duration::ZERO);
    builder.build().expect("a cache")
}

/// Opens a tree on backends, with frequent checkpoints.
fn open_on(cache: &Cache, log: impl Backend, data: impl Backend) -> Result<Tree, Error> {
    let options = Options {
        checkpoint_bytes: 60_000,
    };
    let log = cache.open_backend_with(log, "log", &OpenOptions::new().write())?;
    Tree::open_files(log, options, |write_ahead| {
        cache.open_backend_with(data, "data", &write_ahead(OpenOptions::new().write()))
    })
}

fn in_memory(cache: &Cache) -> Tree {
    let backend = || MemoryBackend::writable(Vec::new());
    open_on(cache, backend(), backend()).expect("a tree")
}

/// Opens a tree in a folder.
fn open_in(folder: &Path, cache: &Cache) -> Result<Tree, Error> {
    let options = Options {
        checkpoint_bytes: 200_000,
    };
    Tree::open(cache, &folder.join("data"), &folder.join("log"), options)
}

fn scan_all<P: Access>(reader: Reader<P>) -> Model {
    let mut all = Model::new();
    let scanned = reader.scan(b"", |key, value| {
        let last = all.insert(key.to_vec(), value.to_vec());
        assert_eq!(last, None, "a scan passed a key twice");
        ControlFlow::Continue(())
    });
    scanned.expect("a scan");
    all
}

fn contents(tree: &Tree) -> Model {
    scan_all(tree.reader())
}

/// Inserts an entry of any length into the tree and the model. Few keys, so that many inserts
/// replace a value.
fn step(tree: &Tree, model: &mut Model, rng: &mut Rng) -> Result<(), Error> {
    let nr = rng.below(600);
    let prefix = match nr % 7 {
        0 => nr as usize % (MAX_KEY - 8),
        _ => nr as usize % 13,
    };
    let mut key = vec![b'a' + (nr % 3) as u8; prefix];
    key.extend_from_slice(&nr.to_be_bytes()[6 - nr as usize % 3..]);
    let max = match rng.below(4) {
        0 => MAX_ENTRY - key.len(),
        _ => 150,
    };
    let value = vec![rng.below(256) as u8; rng.below(max as u64 + 1) as usize];
    // The model first: a change that fails may be durable.
    let was_present = model.insert(key.clone(), value.clone()).is_some();
    assert_eq!(tree.insert(&key, &value)?, was_present);
    Ok(())
}

/// Entry number `nr`, in no order of keys.
fn numbered(nr: u64) -> ([u8; 8], Vec<u8>) {
    let key = nr.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    (key, vec![nr as u8; nr as usize % 300])
}

#[test]
fn tree_equals_map() {
    for seed in 0..3 {
        let cache = cache();
        let tree = in_memory(&cache);
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        for _ in 0..4000 {
            step(&tree, &mut model, &mut rng).expect("an insert");
        }
        assert!(tree.data().size() > 20 * PAGE as u64, "nodes were split");
        assert!(contents(&tree) == model);
        let mut found = Vec::new();
        for (key, value) in &model {
            assert!(tree.reader().get(key, &mut found).expect("a get"));
            assert_eq!(&found, value);
            let mut first = None;
            let scanned = tree.reader().scan(&[&key[..], b"\0"].concat(), |key, _| {
                first = Some(key.to_vec());
                ControlFlow::Break(())
            });
            scanned.expect("a scan");
            let mut after = model.range(key.clone()..).skip(1);
            assert_eq!(first.as_ref(), after.next().map(|(key, _)| key));
        }
        assert!(
            !tree
                .reader()
                .get(b"no such key", &mut found)
                .expect("a get")
        );
        cache.verify().expect("a valid cache");
    }
}

#[test]
fn entry_that_is_too_long_is_refused() {
    let cache = cache();
    let tree = in_memory(&cache);
    let error = tree.insert(&[0; MAX_KEY + 1], b"").expect_err("too long");
    assert_eq!(
        error.to_string(),
        "cannot insert: a key of 513 bytes exceeds 512"
    );
    let error = tree.insert(b"key", &[0; MAX_ENTRY]).expect_err("too long");
    assert_eq!(
        error.to_string(),
        "cannot insert: an entry of 1003 bytes exceeds 1000"
    );
    let (key, value) = ([7; MAX_KEY], [8; MAX_ENTRY - MAX_KEY]);
    assert!(!tree.insert(&key, &value).expect("an insert"));
    assert!(!tree.insert(b"", b"").expect("an insert"));
    let model = Model::from([(vec![], vec![]), (key.to_vec(), value.to_vec())]);
    assert!(contents(&tree) == model);
    let longer = tree.reader().get(&[7; 2 * PAGE], &mut Vec::new());
    assert!(!longer.expect("a get"));
}

#[test]
fn readers_miss_no_key_while_nodes_are_split() {
    const NR: u64 = 3000;
    let cache = cache();
    let tree = in_memory(&cache);
    // The first writer inserts in order of keys, so that its last keys are in the leaf that is
    // split next. Long values: a leaf holds few.
    let entry = |writer: u64, nr: u64| match writer {
        0 => (nr.to_be_bytes(), vec![nr as u8; 800 + nr as usize % 100]),
        _ => {
            let key = nr.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 63;
            (key.to_be_bytes(), vec![nr as u8; nr as usize % 200])
        }
    };
    let inserted = [AtomicU64::new(0), AtomicU64::new(0)];
    let nr_inserted = |writer: u64| inserted[writer as usize].load(Ordering::Acquire);
    let is_over = || nr_inserted(0) == NR && nr_inserted(1) == NR;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (tree, inserted) = (&tree, &inserted);
            scope.spawn(move || {
                for nr in 0..NR {
                    let (key, value) = entry(writer, nr);
                    tree.insert(&key, &value).expect("an insert");
                    inserted[writer as usize].store(nr + 1, Ordering::Release);
                }
            });
        }
        scope.spawn(|| {
            let (mut rng, mut found) = (Rng::new(1), Vec::new());
            while !is_over() {
                let writer = rng.below(2);
                let nr = nr_inserted(writer);
                if nr == 0 {
                    continue;
                }
                let nr = match rng.below(4) {
                    0 => rng.below(nr),
                    _ => nr - 1 - rng.below(nr.min(4)),
                };
                let (key, value) = entry(writer, nr);
                let is_present = tree.reader().get(&key, &mut found);
                assert!(is_present.expect("a get"), "a get missed a key");
                assert_eq!(found, value);
            }
        });
        scope.spawn(|| {
            while !is_over() {
                let nr_before = nr_inserted(0) + nr_inserted(1);
                let found = contents(&tree);
                assert!(found.len() as u64 >= nr_before, "a scan missed a key");
            }
        });
    });
    let entries = (0..2).flat_map(|writer| (0..NR).map(move |nr| entry(writer, nr)));
    let model: Model = entries.map(|(key, value)| (key.to_vec(), value)).collect();
    assert!(contents(&tree) == model);
    cache.verify().expect("a valid cache");
}

/// Pages as a reader may see them during a split: inner nodes after it, leaves before it.
struct DuringSplit {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Access for DuringSplit {
    type Token = ();

    fn ask<Q: Question>(&self, page: u64, question: &mut Q) -> Result<(Q::Answer, ()), Error> {
        let at = page as usize * PAGE;
        let bytes = match self.before.get(at..at + PAGE) {
            Some(leaf) if leaf[14..16] == [0, 0] => leaf,
            _ => &self.after[at..at + PAGE],
        };
        let answer = question.ask(bytes).map_err(Error::damaged(page))?;
        Ok((answer, ()))
    }

    fn is_unchanged(&self, (): &()) -> Result<bool, Error> {
        Ok(true)
    }
}

#[test]
fn scan_during_split_passes_each_key_once() {
    let cache = cache();
    let tree = in_memory(&cache);
    let image = || {
        let mut bytes = vec![0; tree.data().size() as usize];
        tree.data().read_at(&mut bytes, 0).expect("a read");
        bytes
    };
    let mut nr_splits = 0;
    for nr in 0..300 {
        let (before, expected) = (image(), contents(&tree));
        let (key, value) = numbered(nr);
        tree.insert(&key, &value).expect("an insert");
        let after = image();
        if after.len() == before.len() + PAGE {
            nr_splits += 1;
            let mut found = scan_all(Reader(DuringSplit { before, after }));
            found.remove(&key[..]);
            assert!(found == expected, "entry {nr}");
        }
    }
    assert!(nr_splits > 5, "{nr_splits} splits");
}

/// Changes a tree until the power fails. Returns the possible contents after recovery: those after
/// each change since the last sync.
fn run_until_power_failure(
    device: &VolatileDevice,
    before: Vec<Model>,
    (seed, rng): (u64, &mut Rng),
) -> Vec<Model> {
    let open = |name| device.open(name).or_else(|_| device.create(name));
    let (Ok(log), Ok(data)) = (open("log"), open("data")) else {
        return before;
    };
    let cache = cache();
    let tree = match open_on(&cache, log, data) {
        Ok(tree) => tree,
        Err(Error::Cache(_)) => return before,
        Err(error) => {
            panic!("seed {seed}: the tree cannot be opened after a power failure: {error}")
        }
    };
    let mut model = contents(&tree);
    assert!(
        before.contains(&model),
        "seed {seed}: after a power failure, synced changes are lost, or others are there in part"
    );
    let mut possible = vec![model.clone()];
    loop {
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
            // Writes some pages early.
            let _ = tree.data().flush(0..tree.data().size());
        }
    }
}

fn survives_power_failures(make: impl Fn(u64) -> VolatileDevice) {
    let mut max = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut device = make(seed);
        let mut possible = vec![Model::new()];
        // Several in a row: also during recovery, and soon after it.
        for _ in 0..4 {
            device.power_off_after(rng.below(120));
            possible = run_until_power_failure(&device, possible, (seed, &mut rng));
            max = max.max(possible[0].len());
            device = device.crash(rng.below(1 << 32));
        }
    }
    assert!(max > 50, "no tree got more than {max} keys");
}

#[test]
fn synced_changes_survive_power_failures() {
    survives_power_failures(VolatileDevice::new);
}

#[test]
fn synced_changes_survive_torn_sectors() {
    survives_power_failures(|seed| {
        VolatileDevice::new(seed).with_sector_writes(SectorWrites::Torn)
    });
}

#[test]
#[should_panic(expected = "after a power failure")]
fn device_that_does_not_sync_is_detected() {
    survives_power_failures(|seed| VolatileDevice::new(seed).with_sync_stubbed_out());
}

/// Folder of the tree that `killed_program` writes to; without it that test does nothing.
const FOLDER: &str = "PAGEWELL_BTREE_FOLDER";

/// Inserts one entry after the other, and prints which are durable.
#[test]
fn killed_program() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let cache = cache();
    let tree = open_in(folder.as_ref(), &cache).expect("a tree");
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
fn synced_changes_survive_kills() {
    use std::io::BufRead as _;

    let folder = tempfile::tempdir().expect("a folder");
    let (mut rng, mut nr_before) = (Rng::new(9), 0);
    for round in 0..6 {
        let mut child = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "--nocapture", "tests::killed_program"])
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
        child.kill().expect("a running child");
        child.wait().expect("its end");
        let synced = synced.expect("the child inserts until it is killed");
        let cache = cache();
        let tree = open_in(folder.path(), &cache).expect("a tree");
        let found = contents(&tree);
        nr_before = found.len() as u64;
        assert!(
            nr_before > synced,
            "round {round}: {nr_before}, {synced} synced"
        );
        let entries = (0..nr_before).map(numbered);
        let expected: Model = entries.map(|(key, value)| (key.to_vec(), value)).collect();
        assert!(found == expected, "round {round}");
        tree.close().expect("a close");
    }
}

/// While the log cannot be made durable, no sync succeeds, and no page is written.
#[test]
fn page_is_refused_while_log_is_full() {
    static IS_FULL: AtomicBool = AtomicBool::new(false);
    static NR_WRITES: AtomicU64 = AtomicU64::new(0);
    let memory = || MemoryBackend::writable(Vec::new());
    let log = FaultBackend::with_script(memory(), |operation| match operation {
        Operation::Write { .. } if IS_FULL.load(Ordering::Relaxed) => {
            Fault::Fail(std::io::ErrorKind::StorageFull.into())
        }
        _ => Fault::None,
    });
    let data = FaultBackend::with_script(memory(), |operation| {
        let is_write = matches!(operation, Operation::Write { .. });
        NR_WRITES.fetch_add(u64::from(is_write), Ordering::Relaxed);
        Fault::None
    });
    let cache = cache();
    let tree = open_on(&cache, log, data).expect("a tree");
    let nr_before = NR_WRITES.load(Ordering::Relaxed);
    IS_FULL.store(true, Ordering::Relaxed);
    tree.insert(b"key", b"value").expect("an insert in memory");
    let error = tree.sync().expect_err("a full log").to_string();
    assert!(error.contains("log"), "{error}");
    assert!(tree.data().flush(0..PAGE as u64).is_err());
    assert!(tree.checkpoint().is_err());
    assert_eq!(NR_WRITES.load(Ordering::Relaxed), nr_before);
    assert_eq!(contents(&tree).len(), 1);
    IS_FULL.store(false, Ordering::Relaxed);
    tree.sync().expect("a sync");
    tree.close().expect("a close");
    assert!(NR_WRITES.load(Ordering::Relaxed) > nr_before);
}

/// Contents of the data file and the log.
type Files = [Vec<u8>; 2];

fn read_files(folder: &Path) -> Files {
    ["data", "log"].map(|name| std::fs::read(folder.join(name)).expect("a file"))
}

/// Opens a tree in files with these contents.
fn open_files(folder: &Path, cache: &Cache, [data, log]: [&[u8]; 2]) -> Result<Tree, Error> {
    std::fs::write(folder.join("data"), data).expect("a file");
    std::fs::write(folder.join("log"), log).expect("a file");
    open_in(folder, cache)
}

/// Makes a tree of 1000 entries. Returns its files after a checkpoint, after one change and a sync
/// more, and after a close.
fn make_in(folder: &Path) -> [Files; 3] {
    let cache = cache();
    let tree = open_in(folder, &cache).expect("a tree");
    for nr in 0..1000 {
        let (key, value) = numbered(nr);
        tree.insert(&key, &value).expect("an insert");
    }
    tree.checkpoint().expect("a checkpoint");
    let after_checkpoint = read_files(folder);
    tree.insert(&numbered(3).0, b"changed").expect("an insert");
    tree.sync().expect("a sync");
    let after_sync = read_files(folder);
    tree.close().expect("a close");
    [after_checkpoint, after_sync, read_files(folder)]
}

#[test]
fn files_that_are_not_one_tree_are_refused() {
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [_, _, [data, log]] = make_in(folder.path());
    let [_, _, [_, foreign]] = make_in(other.path());
    let text = b"some text";
    for (files, why) in [
        (
            [&data[..], &foreign],
            "the log is not the one of the data file",
        ),
        (
            [&data, &[]],
            "the data file is not empty, and the log is missing",
        ),
        ([&data, &[7; 3 * PAGE]], "the log file has no valid head"),
        ([&data, text], "the log file has no valid head"),
        ([&[], &log], "the data file is empty, and the log is not"),
        (
            [&[7; 3 * PAGE], &log],
            "the log is not the one of the data file",
        ),
        ([text, &log], "the log is not the one of the data file"),
    ] {
        let opened = open_files(folder.path(), &cache(), files);
        let error = opened.map(|_| ()).expect_err(why).to_string();
        assert_eq!(error, format!("cannot open the tree: {why}"));
        assert!(read_files(folder.path())[0] == files[0], "a changed file");
    }
}

#[test]
fn torn_record_ends_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let [_, [data, log], [newer_data, _]] = make_in(folder.path());
    let mut torn = log.clone();
    // The log contains one record.
    torn[2 * PAGE + 100] ^= 1;
    let (key, value) = numbered(3);
    for (log, expected) in [(&log, &b"changed"[..]), (&torn, &value)] {
        let (cache, mut found) = (cache(), Vec::new());
        let tree = open_files(folder.path(), &cache, [&data, log]).expect("a tree");
        assert!(tree.reader().get(&key, &mut found).expect("a get"));
        assert_eq!(found, expected);
        assert!(tree.insert(&key, b"again").expect("an insert"));
    }
    // No crash causes this: the record was durable before its page was written.
    let cache = cache();
    let tree = open_files(folder.path(), &cache, [&newer_data, &torn]).expect("a tree");
    let error = tree
        .insert(&key, b"again")
        .expect_err("a lost record")
        .to_string();
    assert!(
        error.ends_with("its last change is not in the log"),
        "{error}"
    );
}

#[test]
fn damaged_pages_give_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let [_, _, [data, log]] = make_in(folder.path());
    let (mut rng, mut nr_errors) = (Rng::new(5), 0);
    let mut count = |is_error| nr_errors += u32::from(is_error);
    for _ in 0..40 {
        let mut damaged = data.clone();
        for _ in 0..1 + rng.below(20) {
            // Header and slots more often.
            let end = [40, PAGE][rng.index(2)];
            let at = rng.index(data.len() / PAGE) * PAGE + rng.index(end);
            damaged[at] = rng.below(256) as u8;
        }
        let cache = cache();
        let Ok(tree) = open_files(folder.path(), &cache, [&damaged, &log]) else {
            count(true);
            continue;
        };
        for nr in (0..1000).step_by(7) {
            let key = numbered(nr).0;
            count(tree.reader().get(&key, &mut Vec::new()).is_err());
            count(tree.insert(&key, &[0; 200]).is_err());
        }
        let scanned = tree.reader().scan(b"", |_, _| ControlFlow::Continue(()));
        count(scanned.is_err());
    }
    assert!(nr_errors > 200, "{nr_errors} errors");
}

#[test]
fn damaged_root_does_not_cause_endless_loop() {
    let folder = tempfile::tempdir().expect("a folder");
    let [_, _, [data, log]] = make_in(folder.path());
    let slots = 24..24 + 8 * usize::from(data[12]);
    let (mut cyclic, mut unordered) = (data.clone(), data.clone());
    for at in slots.clone().step_by(8) {
        let [cell, key_len] = [at, at + 2].map(|at| u16::from_le_bytes([data[at], data[at + 1]]));
        // The child is the root.
        cyclic[usize::from(cell + 2 + key_len)..][..8].fill(0);
    }
    for at in slots.skip(2 * 8).step_by(8) {
        // The separator is the second one.
        unordered.copy_within(32..40, at);
    }
    for (data, why) in [(cyclic, "its parent's"), (unordered, "is not larger")] {
        let cache = cache();
        let tree = open_files(folder.path(), &cache, [&data, &log]).expect("a tree");
        let scanned = tree.reader().scan(b"", |_, _| ControlFlow::Continue(()));
        let error = scanned.expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn example_counts_words() {
    let folder = tempfile::tempdir().expect("a folder");
    for times in 1..3 {
        let words = crate::run(folder.path()).expect("a tree");
        assert!(words.contains(&("the".to_owned(), 6 * times)), "{words:?}");
        assert!(words.contains(&("tree".to_owned(), 2 * times)));
    }
}
