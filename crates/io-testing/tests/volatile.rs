//! The simulated device: what survives a crash, and what a failed sync does.

use std::collections::BTreeSet;
use std::io;

use pagewell_io::Backend;
use pagewell_io_testing::{SectorWrites, VolatileDevice, VolatileFile};

use support::{Rng, content, read_all, write};

#[path = "../../io/tests/support/mod.rs"]
mod support;

const SECTOR: usize = 512;

/// How many crashes show what may happen.
const CRASHES: u64 = 200;

/// A device with one file, of which these bytes are durable.
fn device(seed: u64, bytes: &[u8]) -> (VolatileDevice, VolatileFile) {
    let device = VolatileDevice::new(seed);
    let file = device.create("file").unwrap();
    write(&file, 0, bytes).unwrap();
    file.sync_data().unwrap();
    (device, file)
}

/// What a crash leaves of the file, if it leaves its name.
fn after_crash(device: &VolatileDevice, seed: u64) -> Option<Vec<u8>> {
    let file = device.crash(seed).open("file").ok()?;
    Some(read_all(&file))
}

/// All that crashes leave of the file.
fn ends(device: &VolatileDevice) -> BTreeSet<Option<Vec<u8>>> {
    (0..CRASHES).map(|seed| after_crash(device, seed)).collect()
}

/// What the file is now, and what it may be after a crash, byte by byte and sector by sector.
struct Model {
    now: Vec<u8>,
    /// Every size since the last sync.
    sizes: BTreeSet<usize>,
    /// All that the file was since the last sync, each as after one change.
    states: Vec<Vec<u8>>,
}

impl Model {
    fn new(bytes: Vec<u8>) -> Self {
        let mut model = Self {
            now: bytes,
            sizes: BTreeSet::new(),
            states: Vec::new(),
        };
        model.sync();
        model
    }

    fn write(&mut self, pos: usize, bytes: &[u8]) {
        let end = pos + bytes.len();
        self.now.resize(self.now.len().max(end), 0);
        self.now[pos..end].copy_from_slice(bytes);
        self.note();
    }

    fn set_size(&mut self, size: usize) {
        self.now.resize(size, 0);
        self.note();
    }

    fn sync(&mut self) {
        self.sizes.clear();
        self.states.clear();
        self.note();
    }

    fn note(&mut self) {
        self.sizes.insert(self.now.len());
        self.states.push(self.now.clone());
    }

    /// The bytes in `range` of `state`, as they are read in a file that does not end there.
    fn part(state: &[u8], range: std::ops::Range<usize>) -> Vec<u8> {
        range
            .map(|at| state.get(at).copied().unwrap_or(0))
            .collect()
    }

    /// Whether each sector of `survivor` is as it was at one time since the last sync.
    fn assert_whole_sectors(&self, survivor: &[u8], what: &str) {
        self.assert_size(survivor, what);
        for start in (0..survivor.len()).step_by(SECTOR) {
            let range = start..survivor.len().min(start + SECTOR);
            let fits =
                |state: &Vec<u8>| survivor[range.clone()] == Self::part(state, range.clone());
            assert!(self.states.iter().any(fits), "{what}: sector at {start}");
        }
    }

    /// Whether each byte of `survivor` is as it was at one time since the last sync.
    fn assert_bytes(&self, survivor: &[u8], what: &str) {
        self.assert_size(survivor, what);
        for (at, byte) in survivor.iter().enumerate() {
            let fits = |state: &Vec<u8>| *byte == state.get(at).copied().unwrap_or(0);
            assert!(self.states.iter().any(fits), "{what}: byte at {at}");
        }
    }

    fn assert_size(&self, survivor: &[u8], what: &str) {
        assert!(self.sizes.contains(&survivor.len()), "{what}: size");
    }
}

/// Writes random bytes somewhere in the first `end` bytes, to the file and the model.
fn write_somewhere(file: &VolatileFile, model: &mut Model, end: usize, rng: &mut Rng) {
    let pos = rng.below(end);
    let len = 1 + rng.below((end - pos).min(2000));
    let bytes: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
    write(file, pos as u64, &bytes).unwrap();
    model.write(pos, &bytes);
}

/// Checks what crashes leave after random histories, of which `nr_sizes` tenths of the steps set a
/// size.
fn check_histories(
    sectors: SectorWrites,
    sync: impl Fn(&VolatileFile) -> io::Result<()>,
    nr_sizes: usize,
    size: impl Fn(&Model, &mut Rng) -> usize,
    check: impl Fn(&Model, &[u8], &str),
) {
    for seed in 0..CRASHES {
        let mut rng = Rng::new(seed);
        let (device, file) = device(seed, &content(5000));
        let device = device.with_sector_writes(sectors);
        let mut model = Model::new(content(5000));
        for _ in 0..rng.below(30) {
            match rng.below(10) {
                0 => {
                    sync(&file).unwrap();
                    model.sync();
                }
                step if step <= nr_sizes => {
                    let size = size(&model, &mut rng);
                    file.set_size(size as u64).unwrap();
                    model.set_size(size);
                }
                _ => write_somewhere(&file, &mut model, 8000, &mut rng),
            }
            assert_eq!(read_all(&file), model.now, "seed {seed}");
        }
        for crash in 0..10 {
            let survivor = after_crash(&device, crash).expect("a synced name");
            check(&model, &survivor, &format!("seed {seed}, crash {crash}"));
        }
    }
}

#[test]
fn what_is_synced_survives_and_of_the_rest_each_sector_is_one_that_was() {
    // Only longer: to cut would also change sectors that nobody has written.
    let size = |model: &Model, rng: &mut Rng| model.now.len() + rng.below(1000);
    let check = Model::assert_whole_sectors;
    check_histories(SectorWrites::Whole, VolatileFile::sync_data, 1, size, check);
}

#[test]
fn with_cut_files_and_torn_sectors_each_byte_is_one_that_was() {
    let size = |_: &Model, rng: &mut Rng| rng.below(8000);
    let check = Model::assert_bytes;
    check_histories(SectorWrites::Torn, VolatileFile::sync_all, 2, size, check);
}

#[test]
fn a_device_lives_on_after_each_of_many_crashes() {
    let (mut device, _) = device(1, &content(3000));
    let mut model = Model::new(content(3000));
    let mut rng = Rng::new(1);
    for crash in 0..100 {
        let file = device.open("file").unwrap();
        for _ in 0..5 {
            write_somewhere(&file, &mut model, 4000, &mut rng);
        }
        if rng.below(2) == 0 {
            file.sync_data().unwrap();
            model.sync();
        }
        device = device.crash(crash);
        let survivor = read_all(&device.open("file").unwrap());
        model.assert_whole_sectors(&survivor, &format!("crash {crash}"));
        model = Model::new(survivor);
    }
}

#[test]
fn unsynced_writes_are_kept_lost_torn_between_sectors_and_reordered() {
    let old = vec![0; 2 * SECTOR];
    let (device, file) = device(1, &old);
    write(&file, 0, &[1; 2 * SECTOR]).unwrap();
    write(&file, SECTOR as u64, &[2; SECTOR]).unwrap();
    let ends = ends(&device);
    let end = |first: u8, second: u8| Some([[first; SECTOR], [second; SECTOR]].concat());
    for expected in [
        (0, 0),
        (0, 1),
        // The later write, and nothing of the earlier one.
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ] {
        assert!(ends.contains(&end(expected.0, expected.1)), "{expected:?}");
    }
    assert_eq!(ends.len(), 6);
}

#[test]
fn sectors_are_torn_only_on_a_device_that_tears_them() {
    let (device, file) = device(1, &[0; SECTOR]);
    write(&file, 0, &[1; SECTOR]).unwrap();
    assert_eq!(ends(&device).len(), 2);
    let ends = ends(&device.with_sector_writes(SectorWrites::Torn));
    assert!(ends.len() > 2);
    for end in ends {
        let end = end.unwrap();
        let first = end.iter().filter(|&&byte| byte == 1).count();
        assert!(end[..first].iter().all(|&byte| byte == 1), "a first part");
    }
}

#[test]
fn unsynced_sizes_are_kept_or_lost_and_what_is_new_is_zeros() {
    let (device, file) = device(1, &content(100));
    file.set_size(50).unwrap();
    file.set_size(2000).unwrap();
    let sizes: BTreeSet<usize> = ends(&device)
        .into_iter()
        .map(|end| {
            let end = end.unwrap();
            let cut = end.get(50) == Some(&0);
            let rest = if cut { 50 } else { end.len().min(100) };
            assert_eq!(end[..rest], content(100)[..rest]);
            assert!(end[rest..].iter().all(|&byte| byte == 0));
            end.len()
        })
        .collect();
    assert_eq!(sizes, BTreeSet::from([50, 100, 2000]));
}

#[test]
fn a_new_name_is_durable_after_a_sync_of_the_directory_or_the_first_of_the_file() {
    let found = |make: fn(&VolatileDevice)| {
        let device = VolatileDevice::new(1);
        make(&device);
        ends(&device)
    };
    let empty = Some(Vec::new());
    let neither = found(|device| drop(device.create("file").unwrap()));
    assert_eq!(neither, BTreeSet::from([None, empty.clone()]));
    let directory = found(|device| {
        device.create("file").unwrap();
        device.sync_dir().unwrap();
    });
    assert_eq!(directory, BTreeSet::from([empty.clone()]));
    for sync in [VolatileFile::sync_data, VolatileFile::sync_all] {
        let device = VolatileDevice::new(1);
        sync(&device.create("file").unwrap()).unwrap();
        assert_eq!(ends(&device), BTreeSet::from([empty.clone()]));
    }
    // Also a file that another handle has made, and nobody has synced.
    let opened = found(|device| {
        device.create("file").unwrap();
        device.open("file").unwrap().sync_data().unwrap();
    });
    assert_eq!(opened, BTreeSet::from([empty]));
}

/// The names after a crash, and the first byte of each file.
fn names_after(device: &VolatileDevice, seed: u64) -> Vec<(String, Option<u8>)> {
    let after = device.crash(seed);
    let first = |name: &String| read_all(&after.open(name).unwrap()).first().copied();
    after
        .names()
        .into_iter()
        .map(|name| (name.clone(), first(&name)))
        .collect()
}

#[test]
fn a_rename_happens_or_not_and_a_durable_one_has_happened() {
    for durable in [false, true] {
        let device = VolatileDevice::new(1);
        for (name, byte) in [("new", 2), ("old", 1)] {
            let file = device.create(name).unwrap();
            write(&file, 0, &[byte]).unwrap();
            file.sync_data().unwrap();
        }
        device.rename("new", "old").unwrap();
        if durable {
            device.sync_dir().unwrap();
        }
        assert_eq!(device.names(), ["old"]);
        assert_eq!(read_all(&device.open("old").unwrap()), [2]);
        let ends: BTreeSet<_> = (0..CRASHES)
            .map(|seed| names_after(&device, seed))
            .collect();
        let before = vec![("new".to_owned(), Some(2)), ("old".to_owned(), Some(1))];
        let after = vec![("old".to_owned(), Some(2))];
        let expected = match durable {
            true => BTreeSet::from([after]),
            false => BTreeSet::from([before, after]),
        };
        assert_eq!(ends, expected);
    }
}

#[test]
fn a_file_never_loses_its_durable_name_to_another_one() {
    // A log that is rotated: the old one gets another name, and a new one takes its place.
    let device = VolatileDevice::new(1);
    let log = device.create("log").unwrap();
    write(&log, 0, &[1]).unwrap();
    log.sync_data().unwrap();
    device.rename("log", "log.old").unwrap();
    device.create("log").unwrap();
    let ends: BTreeSet<_> = (0..CRASHES)
        .map(|seed| names_after(&device, seed))
        .collect();
    assert_eq!(ends.len(), 3);
    for end in ends {
        assert!(end.iter().any(|(_, byte)| *byte == Some(1)), "{end:?}");
    }
}

#[test]
fn a_removed_file_may_come_back_and_can_be_used_until_then() {
    let (device, file) = device(1, b"bytes");
    device.remove("file").unwrap();
    let error = device.open("file").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(read_all(&file), b"bytes");
    assert_eq!(
        ends(&device),
        BTreeSet::from([None, Some(b"bytes".to_vec())])
    );
}

#[test]
fn names_are_files_of_their_own() {
    let device = VolatileDevice::new(1);
    let [one, other] = ["one", "other"].map(|name| device.create(name).unwrap());
    assert_ne!(one.id(), other.id());
    assert_eq!(one.id(), device.open("one").unwrap().id());
    let error = device.create("one").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    device.sync_dir().unwrap();
    let after = device.crash(1);
    assert_ne!(one.id(), after.open("one").unwrap().id());
}

/// What readers see after a sync that failed, and what a crash leaves after one more that succeeded.
fn after_failed_sync(seed: u64, again: fn(&VolatileFile)) -> (Vec<u8>, Vec<u8>) {
    let (device, file) = device(seed, &[1; SECTOR]);
    write(&file, 0, &[2; SECTOR]).unwrap();
    device.fail_next_sync(1);
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    let seen = read_all(&file);
    again(&file);
    file.sync_data().unwrap();
    (seen, after_crash(&device, seed).unwrap())
}

#[test]
fn after_a_failed_sync_the_next_one_succeeds_with_the_bytes_lost_or_not() {
    let ends: BTreeSet<_> = (0..CRASHES)
        .map(|seed| after_failed_sync(seed, |_| {}))
        .collect();
    let of = |seen: u8, left: u8| (vec![seen; SECTOR], vec![left; SECTOR]);
    // Dropped; kept, but not written; written.
    assert_eq!(ends, BTreeSet::from([of(1, 1), of(2, 1), of(2, 2)]));
}

#[test]
fn what_is_written_again_after_a_failed_sync_is_durable_after_the_next() {
    for seed in 0..CRASHES {
        let (_, left) = after_failed_sync(seed, |file| write(file, 0, &[2; SECTOR]).unwrap());
        assert_eq!(left, [2; SECTOR]);
    }
}

#[test]
fn who_writes_everything_again_survives_any_number_of_failed_syncs() {
    for seed in 0..CRASHES {
        let mut rng = Rng::new(seed);
        let (device, file) = device(seed, &content(3000));
        let mut now = content(3000);
        for _ in 0..5 {
            for _ in 0..4 {
                let pos = rng.below(4000);
                let bytes = vec![rng.next() as u8; 1 + rng.below(1500)];
                write(&file, pos as u64, &bytes).unwrap();
                now.resize(now.len().max(pos + bytes.len()), 0);
                now[pos..][..bytes.len()].copy_from_slice(&bytes);
            }
            device.fail_next_sync(rng.below(3) as u64);
            while file.sync_data().is_err() {
                write(&file, 0, &now).unwrap();
            }
        }
        assert_eq!(after_crash(&device, seed).unwrap(), now, "seed {seed}");
    }
}

#[test]
fn sizes_and_names_remain_to_be_synced_after_a_failed_sync() {
    for seed in 0..CRASHES {
        let device = VolatileDevice::new(seed);
        let file = device.create("file").unwrap();
        file.set_size(700).unwrap();
        device.fail_next_sync(2);
        file.sync_data().unwrap_err();
        device.sync_dir().unwrap_err();
        file.sync_data().unwrap();
        assert_eq!(device.nr_syncs(), 3);
        assert_eq!(after_crash(&device, seed).unwrap(), [0; 700]);
    }
}

#[test]
fn a_sync_that_is_stubbed_out_is_found_out() {
    let device = VolatileDevice::new(1).with_sync_stubbed_out();
    let file = device.create("file").unwrap();
    write(&file, 0, &[1; SECTOR]).unwrap();
    file.sync_all().unwrap();
    device.sync_dir().unwrap();
    let synced = Some(vec![1; SECTOR]);
    assert!(ends(&device).iter().any(|end| *end != synced));
}

#[test]
fn without_power_every_call_fails_and_the_last_change_may_survive() {
    let mut ends = Vec::new();
    for off_after in 0..5 {
        let (device, file) = device(1, &[0; SECTOR]);
        device.power_off_after(off_after);
        let answers = [
            write(&file, 0, &[1; SECTOR]),
            file.sync_data(),
            file.set_size(1),
            file.sync_all(),
        ];
        for (nr, answer) in answers.iter().enumerate() {
            assert_eq!(answer.is_ok(), (nr as u64) < off_after);
        }
        let is_off = off_after < 4;
        assert_eq!(file.size().is_err(), is_off);
        assert_eq!(file.read_at(&[], 0).is_err(), is_off);
        assert_eq!(device.open("file").is_err(), is_off);
        assert!(device.create("new").is_err());
        assert!(device.rename("file", "new").is_err());
        assert!(device.remove("file").is_err());
        ends.push(
            (0..CRASHES)
                .filter_map(|seed| after_crash(&device, seed))
                .collect::<BTreeSet<_>>(),
        );
        let error = device.sync_dir().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
    let (old, new, cut) = (vec![0; SECTOR], vec![1; SECTOR], vec![1]);
    let expected = [
        vec![old.clone(), new.clone()],
        vec![old, new.clone()],
        vec![new.clone(), cut.clone()],
        vec![new, cut.clone()],
        vec![cut],
    ];
    assert_eq!(ends, expected.map(BTreeSet::from_iter));
}

#[test]
fn the_same_seeds_give_the_same_ends() {
    let end = |seed: u64| {
        let (device, file) = device(seed, &content(5000));
        let mut model = Model::new(content(5000));
        let mut rng = Rng::new(7);
        for _ in 0..10 {
            write_somewhere(&file, &mut model, 8000, &mut rng);
        }
        device.fail_next_sync(1);
        file.sync_data().unwrap_err();
        let seen = read_all(&file);
        write_somewhere(&file, &mut model, 8000, &mut rng);
        (seen, after_crash(&device, seed))
    };
    assert_eq!(end(1), end(1));
    assert_ne!(end(1), end(2));
}

#[test]
fn a_direct_file_takes_any_bytes_by_way_of_whole_blocks() {
    for alignment in [512, 4096] {
        let device = VolatileDevice::new(7).with_direct_transfers(alignment);
        let file = device.create("file").unwrap();
        assert_eq!(file.alignment(), alignment);
        let mut rng = Rng::new(alignment as u64);
        let mut expected = Vec::new();
        for nr in 0_usize..300 {
            let pos = rng.below(20_000);
            if nr.is_multiple_of(7) {
                file.set_size(pos as u64).unwrap();
                expected.resize(pos, 0);
            } else {
                let mut bytes = content(nr + 1 + rng.below(6000));
                bytes.drain(..nr);
                write(&file, pos as u64, &bytes).unwrap();
                let end = pos + bytes.len();
                expected.resize(expected.len().max(end), 0);
                expected[pos..end].copy_from_slice(&bytes);
            }
            assert_eq!(file.size().unwrap(), expected.len() as u64);
        }
        assert!(read_all(&file) == expected);
        file.sync_data().unwrap();
        let after = device.crash(1).open("file").unwrap();
        assert!(read_all(&after) == expected);
    }
}

#[test]
fn a_crash_leaves_a_direct_file_as_long_as_it_was_or_is_or_as_its_last_block() {
    let sizes_of = |device: VolatileDevice| -> BTreeSet<u64> {
        let device = device.with_direct_transfers(512);
        let file = device.create("file").unwrap();
        write(&file, 0, &[1; 100]).unwrap();
        file.sync_data().unwrap();
        write(&file, 100, &[2; 500]).unwrap();
        let of_crash = |seed| {
            let bytes = after_crash(&device, seed).unwrap();
            assert_eq!(bytes[..100], [1; 100]);
            assert!(bytes.iter().skip(600).all(|byte| *byte == 0));
            bytes.len() as u64
        };
        (0..CRASHES).map(of_crash).collect()
    };
    assert_eq!(
        sizes_of(VolatileDevice::new(3)),
        BTreeSet::from([100, 600, 1024])
    );
    let broken = VolatileDevice::new(3).with_padding_kept();
    let sizes = sizes_of(broken);
    assert!(!sizes.contains(&600), "{sizes:?}");

    let device = VolatileDevice::new(3).with_direct_transfers(512);
    let file = device.create("file").unwrap();
    write(&file, 0, &[1; 600]).unwrap();
    file.sync_data().unwrap();
    let of_crash = |seed| after_crash(&device, seed).unwrap().len();
    assert!((0..CRASHES).all(|seed| of_crash(seed) == 600));
}
