//! Groups of files: what a tenant may have at most, and what it is guaranteed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::PAGE;
use pagewell::baseline::Eviction;
use pagewell::io::MemoryBackend;
use pagewell::{Cache, Error, ErrorKind, File, Group, OpenOptions, Writeback};
use pagewell_testkit::Rng;
use pagewell_testkit::wait::bounded;

const MIB: u64 = 1 << 20;

fn cache_of(bytes: u64, eviction: Eviction) -> Cache {
    let builder = Cache::builder().capacity(bytes).eviction(eviction);
    builder.build().unwrap()
}

fn cache() -> Cache {
    cache_of(16 * MIB, Eviction::Queues)
}

/// The bytes of every file here: each word says where it is.
fn content(pos: usize, len: usize) -> Vec<u8> {
    let words = (pos as u64..).step_by(8).take(len / 8);
    words.flat_map(u64::to_le_bytes).collect()
}

/// A file of so many pages in a group.
fn file_in(cache: &Cache, group: Option<&Group>, nr_pages: usize) -> File {
    let options = OpenOptions::new();
    let options = group.map_or(options.clone(), |group| options.group(group));
    file_with(cache, &options, nr_pages)
}

fn file_with(cache: &Cache, options: &OpenOptions, nr_pages: usize) -> File {
    let bytes = content(0, nr_pages * PAGE);
    let backend = match format!("{options:?}").contains("write: Some") {
        true => MemoryBackend::writable(bytes),
        false => MemoryBackend::new(bytes),
    };
    cache.open_backend_with(backend, "file", options).unwrap()
}

fn read_page(file: &File, page: usize) {
    let mut word = [0; 16];
    let at = page * PAGE + 128;
    assert_eq!(file.read_at(&mut word, at as u64).unwrap(), word.len());
    assert!(word[..] == content(at, word.len())[..]);
}

fn read_all(file: &File) {
    for page in 0..file.size() as usize / PAGE {
        read_page(file, page);
    }
}

/// How many pages are read in from storages by `what`.
fn fills_of(cache: &Cache, what: impl FnOnce()) -> u64 {
    let before = cache.stats().nr_fills;
    what();
    cache.stats().nr_fills - before
}

#[test]
fn a_group_never_has_more_than_its_maximum_whoever_reads_and_writes() {
    for eviction in [Eviction::Queues, Eviction::Clock] {
        let cache = cache_of(16 * MIB, eviction);
        let group = cache.group("tenant").max(MIB).build().unwrap();
        let options = OpenOptions::new().group(&group);
        let files: Vec<File> = [options.clone(), options.write()]
            .iter()
            .map(|options| file_with(&cache, options, 2000))
            .collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|seed| {
                    let (files, group) = (&files, &group);
                    scope.spawn(move || {
                        let mut rng = Rng::new(seed);
                        for _ in 0..1500 {
                            let page = rng.below(2000) as usize;
                            match rng.below(4) {
                                0 => {
                                    let at = (page * PAGE) as u64;
                                    files[1].write_at(&content(page * PAGE, 64), at).unwrap();
                                }
                                nr => read_page(&files[nr as usize % 2], page),
                            }
                            assert!(group.used() <= MIB);
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(group.used() <= MIB);
                    thread::yield_now();
                }
            });
            for worker in workers {
                worker.join().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(group.used() > MIB / 2, "{group:?}");
        drop(files);
        assert_eq!(group.used(), 0);
        cache.verify().unwrap();
    }
}

#[test]
fn pages_of_every_size_and_sparse_ones_keep_to_the_maximum() {
    for page_size in [4 << 10, 16 << 10, 64 << 10] {
        let cache = cache();
        let group = cache.group("tenant").max(MIB).build().unwrap();
        let options = OpenOptions::new().group(&group).page_size(page_size);
        let file = file_with(&cache, &options, 8192);
        // A leaf of its own for each page, as far as there are any.
        for _ in 0..2 {
            for page in (0..8192).step_by(512) {
                read_page(&file, page);
                assert!(group.used() <= MIB);
            }
        }
        for page in 0..1000 {
            read_page(&file, page);
            assert!(group.used() <= MIB, "{group:?}");
        }
        assert!(group.used() > MIB / 2, "{group:?}");
    }
    // As many leaves as pages, and more than the group may have of both.
    let cache = cache();
    let group = cache.group("tenant").max(MIB).build().unwrap();
    let options = OpenOptions::new().group(&group).write();
    let file = file_with(&cache, &options, 1);
    for round in 0..2 {
        for page in 0..200_u64 {
            file.write_at(&[7; 16], page * 512 * PAGE as u64).unwrap();
            assert!(group.used() <= MIB, "{round}, {group:?}");
        }
    }
}

#[test]
fn a_group_at_its_maximum_takes_nothing_from_others() {
    let cache = cache();
    let group = cache.group("tenant").max(2 * MIB).build().unwrap();
    let hot = file_in(&cache, None, 1000);
    read_all(&hot);
    let large = file_in(&cache, Some(&group), 8000);
    read_all(&large);
    read_all(&large);
    assert_eq!(fills_of(&cache, || read_all(&hot)), 0);
    // Unless the cache is full too: then all give.
    let scanned = file_in(&cache, None, 8000);
    read_all(&scanned);
    assert!(group.used() < 2 * MIB, "{group:?}");
}

/// The same policy as of a cache of that size: twice as many pages as there is room for, in turn.
#[test]
fn a_group_is_a_cache_of_its_own_that_a_loop_does_not_wash_out() {
    let cache = cache();
    let group = cache.group("tenant").max(2 * MIB).build().unwrap();
    let file = file_in(&cache, Some(&group), 1000);
    for _ in 0..20 {
        read_all(&file);
    }
    let fills = fills_of(&cache, || {
        for _ in 0..10 {
            read_all(&file);
        }
    });
    assert!(
        (4000..6500).contains(&fills),
        "{fills} of 10000 reads missed"
    );
}

#[test]
fn what_is_guaranteed_is_not_evicted_for_others() {
    for eviction in [Eviction::Queues, Eviction::Clock] {
        let cache = cache_of(16 * MIB, eviction);
        let group = cache.group("shop").min(4 * MIB).build().unwrap();
        let file = file_in(&cache, Some(&group), 1000);
        read_all(&file);
        let rest = file_in(&cache, Some(&group), 4000);
        read_all(&rest);
        assert!(group.used() > 8 * MIB);
        let others = file_in(&cache, None, 3500);
        for _ in 0..12 {
            read_all(&others);
        }
        // What it had beyond has gone, and no more.
        assert!((4 * MIB..6 * MIB).contains(&group.used()), "{group:?}");
        drop(rest);
        read_all(&file);
        for _ in 0..12 {
            read_all(&others);
        }
        assert_eq!(fills_of(&cache, || read_all(&file)), 0, "{eviction:?}");
        assert!(cache.reclaim(10_000) > 0);
        assert_eq!(fills_of(&cache, || read_all(&file)), 0);
        // Now nobody is guaranteed anything.
        cache.group("shop").min(0).build().unwrap();
        for _ in 0..12 {
            read_all(&others);
        }
        assert!(fills_of(&cache, || read_all(&file)) > 0);
    }
}

#[test]
fn frames_of_a_guaranteed_group_that_has_gone_are_for_others() {
    let cache = cache();
    let group = cache.group("shop").min(12 * MIB).build().unwrap();
    for _ in 0..3 {
        let file = file_in(&cache, Some(&group), 2800);
        read_all(&file);
        drop(file);
        assert_eq!(group.used(), 0);
        let other = file_in(&cache, None, 3500);
        read_all(&other);
        assert!(fills_of(&cache, || read_all(&other)) < 200);
    }
    cache.verify().unwrap();
}

#[test]
fn limits_may_change_and_a_lower_one_evicts() {
    let cache = cache();
    let group = cache.group("tenant").build().unwrap();
    assert_eq!((group.min(), group.max()), (0, None));
    let file = file_in(&cache, Some(&group), 3000);
    read_all(&file);
    assert!(group.used() > 10 * MIB);
    let same = cache.group("tenant").max(2 * MIB).build().unwrap();
    assert_eq!(same.max(), Some(2 * MIB));
    assert!(group.used() <= 2 * MIB);
    read_all(&file);
    assert!((MIB..=2 * MIB).contains(&group.used()));
    // What is not named stays.
    cache.group("tenant").min(MIB).build().unwrap();
    assert_eq!((group.min(), group.max()), (MIB, Some(2 * MIB)));
    cache.group("tenant").max(u64::MAX).build().unwrap();
    assert_eq!(group.max(), None);
    read_all(&file);
    assert!(group.used() > 10 * MIB);
    cache.verify().unwrap();
}

#[test]
fn a_limit_that_pins_do_not_allow_stays_as_it_was() {
    let cache = cache();
    let group = cache.group("tenant").max(4 * MIB).build().unwrap();
    let file = file_in(&cache, Some(&group), 600);
    let pins: Vec<_> = (0..600).map(|page| file.pin(page).unwrap()).collect();
    let error = cache.group("tenant").max(2 * MIB).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfFrames);
    assert!(error.to_string().contains("pinned"), "{error}");
    assert_eq!(group.max(), Some(4 * MIB));
    drop(pins);
    cache.group("tenant").max(2 * MIB).build().unwrap();
    assert!(group.used() <= 2 * MIB);
}

#[test]
fn a_group_whose_pages_are_all_pinned_says_so_and_others_go_on() {
    bounded("pinned", || {
        for eviction in [Eviction::Queues, Eviction::Clock] {
            let cache = cache_of(16 * MIB, eviction);
            let group = cache.group("tenant").max(MIB).build().unwrap();
            let file = file_in(&cache, Some(&group), 600);
            let mut pins = Vec::new();
            let error = (0..600)
                .find_map(|page| match file.pin(page) {
                    Ok(pin) => {
                        pins.push(pin);
                        None
                    }
                    Err(error) => Some(error),
                })
                .unwrap();
            assert_eq!(error.kind(), ErrorKind::OutOfFrames);
            let text = error.to_string();
            assert!(
                text.contains("group 'tenant' may have 256 frames"),
                "{text}"
            );
            assert!(text.contains("pinned"), "{text}");
            read_all(&file_in(&cache, None, 5000));
            pins.truncate(100);
            read_all(&file);
        }
    });
}

#[test]
fn dirty_pages_of_a_group_are_written_back_for_its_sake() {
    bounded("dirty", || {
        let cache = cache();
        let group = cache.group("tenant").max(MIB).build().unwrap();
        let options = OpenOptions::new().group(&group).write();
        let files = [(); 2].map(|()| file_with(&cache, &options, 2000));
        let block = content(0, PAGE);
        for page in 0..2000 {
            for file in &files {
                file.write_at(&block, (page * PAGE) as u64).unwrap();
            }
            assert!(group.used() <= MIB);
        }
        // One whose pages nobody writes back is told so.
        let manual = options.writeback(Writeback::Manual);
        let file = file_with(&cache, &manual, 2000);
        let error = (0..2000)
            .find_map(|page| file.write_at(&block, (page * PAGE) as u64).err())
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::Throttled, "{error}");
        read_all(&file_in(&cache, Some(&group), 600));
        assert!(group.unclean() > 0);
        file.sync_data().unwrap();
        for file in &files {
            file.sync_data().unwrap();
        }
        assert_eq!(group.unclean(), 0);
        let too_long = vec![1; MIB as usize];
        let error = file.append(&too_long).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfFrames, "{error}");
    });
}

#[test]
fn a_file_is_in_one_group() {
    let cache = cache();
    let folder = pagewell_testkit::scratch::dir();
    let path = folder.path().join("file");
    std::fs::write(&path, content(0, 3 * PAGE)).unwrap();
    let groups = ["a", "b"].map(|name| cache.group(name).build().unwrap());
    let [in_a, in_b] = [0, 1].map(|nr| OpenOptions::new().group(&groups[nr]));
    let kind = |opened: Result<File, Error>| opened.unwrap_err().kind();
    let file = cache.open_with(&path, &in_a).unwrap();
    let error = cache.open_with(&path, &in_b).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionsMismatch);
    assert!(
        error.to_string().contains("open in group 'a', not in 'b'"),
        "{error}"
    );
    // What names none is of the file's.
    let again = cache.open(&path).unwrap();
    read_all(&again);
    assert!(groups[0].used() >= 3 * PAGE as u64);
    drop((file, again));
    let file = cache.open(&path).unwrap();
    assert_eq!(
        kind(cache.open_with(&path, &in_a)),
        ErrorKind::OptionsMismatch
    );
    drop(file);
    cache.open_with(&path, &in_b).unwrap();
    let other = self::cache();
    assert_eq!(
        kind(other.open_with(&path, &in_a)),
        ErrorKind::InvalidConfig
    );
    let options = in_b.page_size(64 << 10);
    let small = cache.group("b").max(64 << 10).build().unwrap();
    assert_eq!(small.max(), Some(64 << 10));
    let error = cache.open_with(&path, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(
        error.to_string().contains("take 67 at the least"),
        "{error}"
    );
}

#[test]
fn limits_out_of_range_are_refused_with_numbers() {
    let cache = cache();
    let refused = |min: u64, max: u64, expected: &str| {
        let error = cache.group("tenant").min(min).max(max).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(expected), "{error}");
    };
    refused(0, 0, "must be at least 65536");
    refused(0, 65_535, "must be at least 65536");
    refused(
        2 * MIB,
        MIB,
        "a minimum of 2097152 bytes and a maximum of 1048576",
    );
    refused(u64::MAX, u64::MAX, "of the cache's");
    refused(16 * MIB, u64::MAX, "of the cache's");
    let other = cache.group("other").min(12 * MIB).build().unwrap();
    refused(4 * MIB, 8 * MIB, "12582912 are guaranteed to other groups");
    drop(other);
    cache
        .group("tenant")
        .min(4 * MIB)
        .max(8 * MIB)
        .build()
        .unwrap();
    let groups: Vec<Group> = (0..127)
        .map(|nr| cache.group(nr.to_string()).build().unwrap())
        .collect();
    let error = cache.group("one more").build().unwrap_err();
    assert!(error.to_string().contains("as many groups"), "{error}");
    drop(groups);
    cache.group("one more").build().unwrap();
}

/// Files come and go in groups that come and go, in a cache that is always short of frames.
#[test]
fn groups_that_come_and_go_leave_nothing_behind() {
    let cache = cache_of(4 * MIB, Eviction::Queues);
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for round in 0..10 {
                    let name = format!("group {}", rng.below(3) + 10 * seed);
                    let max = MIB / 4 * (1 + rng.below(4));
                    let min = max / 4 * rng.below(2);
                    let group = cache.group(name).min(min).max(max).build().unwrap();
                    let file = file_in(cache, Some(&group), 400);
                    for _ in 0..300 {
                        read_page(&file, rng.below(400) as usize);
                    }
                    assert!(group.used() <= max, "{round}");
                    drop(file);
                    assert_eq!(group.used(), 0, "{round}");
                }
            });
        }
    });
    let all = file_in(&cache, None, 2000);
    read_all(&all);
    drop(all);
    cache.verify().unwrap();
}
