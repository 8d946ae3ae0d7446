//! What each kind of operation writes to memory that threads share: stores, read-modify-writes, full fences and locks, counted
//! one by one. The table is also in `docs/benchmarks.md`: it is the claim about scaling.
//!
//! Everything is done by one thread, on what is warm, so the numbers are exact.

use std::collections::BTreeMap;

use pagewell::io::MemoryBackend;
use pagewell::space::{CacheSpaces as _, Policy, Sharing};
use pagewell::{Cache, File, HugePages, Nodes, OpenOptions, Writeback};
use pagewell_sync_testing::{Kind, Note, noted};

/// For each operation how many stores, read-modify-writes, full fences and locks; how many stores to the thread's own slots; and
/// the places: `s` for stores, `u` for read-modify-writes, `l` for locks.
const TABLE: &str = "
| read of 64 bytes, hit | 0 | 0 | 0 | 0 | 0 |  |
| read of 4 KiB, hit | 0 | 0 | 0 | 0 | 0 |  |
| view of an integer and 64 bytes, hit | 0 | 0 | 0 | 0 | 0 |  |
| view with a token, and its check, hit | 0 | 0 | 0 | 0 | 0 |  |
| read of 64 bytes by reference | 0 | 2 | 0 | 0 | 0 | frame's record 2u |
| pin, and its drop | 0 | 2 | 0 | 0 | 1 | frame's record 2u |
| pin of a page that is pinned again and again, and its drop | 0 | 0 | 0 | 0 | 2 |  |
| owned pin, and its drop | 0 | 4 | 0 | 0 | 1 | frame's record 2u, pins of the cache 2u |
| owned pin of a page that is pinned again and again, and its drop | 0 | 0 | 0 | 0 | 2 |  |
| read of 4 KiB, miss | 8 | 8 | 2 | 1 | 2 | frame's record 7s 2u, handle's sequence 1l, permits 2u, slot 1s 1u, statistics 1u, transfers 2u |
| first write to a clean page | 8 | 6 | 2 | 0 | 0 | counts of unclean frames 2u, dirty bits of the file 2u, frame's record 7s 1u, slot 1s 1u |
| write to a dirty page | 8 | 2 | 2 | 0 | 0 | frame's record 7s 1u, slot 1s 1u |
| pin to change, and its drop, dirty page | 12 | 6 | 3 | 2 | 4 | frame's record 10s 3u, guards of the file 2l, numbers of guards 1u, slot 2s 2u |
| append within a page | 9 | 2 | 2 | 1 | 0 | frame's record 7s 1u, size of the file 1s 1l, slot 1s 1u |
| append that begins a page | 9 | 6 | 2 | 1 | 2 | counts of unclean frames 2u, dirty bits of the file 2u, frame's record 7s 1u, size of the file 1s 1l, slot 1s 1u |
| clone of a handle, and its drop | 0 | 6 | 0 | 0 | 0 | handles of the file 6u |
| 32 reads of 4 KiB, misses that evict | 350 | 385 | 96 | 35 | 128 | frame's record 286s 160u, handle's sequence 32l, node 2l, permits 64u, queues 1l, slot 64s 64u, statistics 33u, transfers 64u |
| space: read of 64 bytes, hit | 0 | 0 | 0 | 0 | 0 |  |
| space: read of 4 KiB, hit | 0 | 0 | 0 | 0 | 0 |  |
| space: view of an integer and 64 bytes, hit | 0 | 0 | 0 | 0 | 0 |  |
| space: pin, and its drop | 1 | 5 | 0 | 1 | 0 | entry of the table 1s 1u, frame's record 4u, structure lock 1l |
| space: write to a page of its own | 1 | 1 | 0 | 0 | 2 | entry of the table 1s 1u |
| space: addition | 1 | 1 | 0 | 0 | 2 | entry of the table 1s 1u |
| mapped file, shared: read of 64 bytes, hit | 0 | 0 | 0 | 0 | 2 |  |
| mapped file, private: read of 64 bytes, hit | 0 | 0 | 0 | 0 | 2 |  |
";

const PAGE: u64 = 4096;
const PAGES: u64 = 64;
const BYTES: u64 = PAGES * PAGE;

fn cache() -> Cache {
    let builder = Cache::builder()
        .capacity(64 << 20)
        .nodes(Nodes::Unbound(1))
        .huge_pages(HugePages::Never);
    builder.build().unwrap()
}

fn open(cache: &Cache, bytes: usize) -> File {
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let backend = MemoryBackend::writable(vec![0xA5; bytes]);
    cache
        .open_backend_with(backend, "memory", &options)
        .unwrap()
}

/// A file whose pages are all cached and referenced, but for the last two.
fn cached(cache: &Cache) -> File {
    let file = open(cache, BYTES as usize);
    for _ in 0..2 {
        for page in 0..PAGES - 2 {
            file.read_at(&mut [0; 64], page * PAGE).unwrap();
        }
    }
    file
}

/// Does the first, to warm up, and counts what the second does.
fn second(mut operation: impl FnMut(u64)) -> Vec<Note> {
    operation(0);
    noted(|| operation(1)).1
}

/// As many misses as a batch of evictions makes room for, in a cache that is full.
fn misses() -> Vec<Note> {
    const PAGES: u64 = 1 << 14;
    let cache = Cache::builder()
        .capacity(PAGES / 2 * PAGE)
        .nodes(Nodes::Unbound(1))
        .huge_pages(HugePages::Never)
        .build()
        .unwrap();
    let file = open(&cache, (2 * PAGES * PAGE) as usize);
    let mut buf = vec![0; PAGE as usize];
    // Each page once, and not one after the other, which would be read ahead.
    let mut read = |nr: u64| {
        let page = nr * 7919 % (2 * PAGES);
        file.read_at(&mut buf, page * PAGE).unwrap()
    };
    for nr in 0..PAGES {
        read(nr);
    }
    noted(|| {
        for nr in PAGES..PAGES + 32 {
            read(nr);
        }
    })
    .1
}

fn operations() -> Vec<(&'static str, Vec<Note>)> {
    let cache = cache();
    let file = cached(&cache);
    let mut buf = vec![0; PAGE as usize];
    let mut table = Vec::new();

    table.push((
        "read of 64 bytes, hit",
        second(|_| {
            file.read_at(&mut buf[..64], 5 * PAGE).unwrap();
        }),
    ));
    table.push((
        "read of 4 KiB, hit",
        second(|_| {
            file.read_at(&mut buf, 5 * PAGE).unwrap();
        }),
    ));
    table.push((
        "view of an integer and 64 bytes, hit",
        second(|_| {
            file.view(5, |v| Ok((v.u64_le(8)?, v.copy_to(192, &mut buf[..64])?)))
                .unwrap();
        }),
    ));
    table.push((
        "view with a token, and its check, hit",
        second(|_| {
            let token = file.view(5, |v| Ok(v.token())).unwrap();
            assert!(file.is_unchanged(&token));
        }),
    ));
    table.push((
        "read of 64 bytes by reference",
        second(|_| {
            file.read_at_referenced(&mut buf[..64], 5 * PAGE).unwrap();
        }),
    ));
    table.push(("pin, and its drop", second(|_| drop(file.pin(5).unwrap()))));
    for _ in 0..100 {
        drop(file.pin(20).unwrap());
    }
    table.push((
        "pin of a page that is pinned again and again, and its drop",
        second(|_| drop(file.pin(20).unwrap())),
    ));
    table.push((
        "owned pin, and its drop",
        second(|_| drop(file.pin_owned(5).unwrap())),
    ));
    table.push((
        "owned pin of a page that is pinned again and again, and its drop",
        second(|_| drop(file.pin_owned(20).unwrap())),
    ));
    table.push((
        "read of 4 KiB, miss",
        second(|nr| {
            file.read_at(&mut buf, (PAGES - 2 + nr) * PAGE).unwrap();
        }),
    ));
    table.push((
        "first write to a clean page",
        second(|nr| {
            file.write_at(&[1; 64], (5 + nr) * PAGE).unwrap();
        }),
    ));
    table.push((
        "write to a dirty page",
        second(|_| {
            file.write_at(&[1; 64], 5 * PAGE).unwrap();
        }),
    ));
    table.push((
        "pin to change, and its drop, dirty page",
        second(|_| {
            file.pin_mut(5).unwrap()[0] = 1;
        }),
    ));
    let log = open(&cache, 0);
    table.push((
        "append within a page",
        second(|_| {
            log.append(&[1; 64]).unwrap();
        }),
    ));
    table.push(("append that begins a page", {
        let rest = PAGE as usize - log.size() as usize;
        log.append(&vec![1; rest]).unwrap();
        noted(|| log.append(&[1; 64]).unwrap()).1
    }));
    table.push((
        "clone of a handle, and its drop",
        second(|_| drop(file.clone())),
    ));
    file.sync_all().unwrap();
    table.push(("32 reads of 4 KiB, misses that evict", misses()));

    let space = cache.space().unwrap();
    let area = space.map(BYTES, Policy::Local).unwrap();
    let start = area.start;
    space.write(start, &[1; 64]).unwrap();
    space.write(start + PAGE, &[1; 64]).unwrap();
    table.push((
        "space: read of 64 bytes, hit",
        second(|_| {
            space.read(start, &mut buf[..64]).unwrap();
        }),
    ));
    table.push((
        "space: read of 4 KiB, hit",
        second(|_| {
            space.read(start, &mut buf).unwrap();
        }),
    ));
    table.push((
        "space: view of an integer and 64 bytes, hit",
        second(|_| {
            space
                .view(start..start + PAGE, |v| {
                    Ok((v.u64_le(8)?, v.copy_to(192, &mut buf[..64])?))
                })
                .unwrap();
        }),
    ));
    table.push((
        "space: pin, and its drop",
        second(|_| drop(space.pin(start, 64).unwrap())),
    ));
    table.push((
        "space: write to a page of its own",
        second(|_| {
            space.write(start, &[1; 64]).unwrap();
        }),
    ));
    table.push((
        "space: addition",
        second(|_| {
            space.fetch_add(start, 1).unwrap();
        }),
    ));
    for (sharing, name) in [
        (
            Sharing::Shared,
            "mapped file, shared: read of 64 bytes, hit",
        ),
        (
            Sharing::Private,
            "mapped file, private: read of 64 bytes, hit",
        ),
    ] {
        let shown = space.map_file(&file, 0..BYTES, sharing).unwrap();
        table.push((
            name,
            second(|_| space.read(shown.start + 5 * PAGE, &mut buf[..64]).unwrap()),
        ));
    }
    table
}

/// What the places are that a source file, or a count, writes to. One that is not named here fails the test.
const PLACES: [(&str, &str); 26] = [
    ("cache/src/base/page_state.rs", "frame's record"),
    ("cache/src/dirty/hook.rs", "guards of the file"),
    ("cache/src/dirty/handles.rs", "handles of the file"),
    ("cache/src/dirty/page_set.rs", "dirty bits of the file"),
    ("cache/src/dirty/pressure.rs", "counts of unclean frames"),
    ("cache/src/index/claim.rs", "slot"),
    ("cache/src/mapping/record.rs", "size of the file"),
    ("cache/src/mapping/shared.rs", "numbers of guards"),
    ("cache/src/mapping/users.rs", "handles of the file"),
    ("cache/src/read/ahead.rs", "handle's sequence"),
    ("cache/src/supply/evict.rs", "slot"),
    ("cache/src/supply/clock.rs", "hand of all"),
    ("cache/src/supply/reclaim/batch.rs", "queues"),
    ("cache/src/supply/parts.rs", "statistics"),
    ("cache/src/supply/permits.rs", "permits"),
    ("cache/src/supply/transfers.rs", "transfers"),
    ("frame/src/alloc/allocator.rs", "node"),
    ("frame/src/alloc/low.rs", "node"),
    ("frame/src/announce/marks.rs", "marks"),
    ("frame/src/count/", "frame's record"),
    ("frame/src/lists/", "node"),
    ("frame/src/records/", "frame's record"),
    (
        "pagewell_cache::mapping::record::Mapping",
        "handles of the file",
    ),
    (
        "pagewell_cache::mapping::shared::Shared",
        "pins of the cache",
    ),
    ("space/src/access/", "structure lock"),
    ("space/src/words/claim.rs", "entry of the table"),
];

/// The place of a note.
fn place_of(note: &Note) -> &'static str {
    let site = note.site.trim_start_matches("crates/");
    let known = PLACES.iter().find(|(start, _)| site.starts_with(start));
    let (_, place) = known.unwrap_or_else(|| panic!("{note:?}: which place is that?"));
    place
}

/// A row of the table: how many full fences, which stores, read-modify-writes and locks, and where; stores to what is the
/// thread's own.
fn row(name: &str, notes: &[Note]) -> String {
    // A thread announces itself by stores to its own slot, which only visitors look at (`pagewell_sync::per_thread`), and pins likewise;
    // what it pins again and again it notes for itself.
    let is_own = |note: &&Note| {
        note.site.ends_with("sync/src/per_thread.rs") || note.site.contains("frame/src/announce/s")
    };
    let own = notes.iter().filter(is_own).count();
    let all_stores = notes
        .iter()
        .filter(is_own)
        .all(|note| note.kind == Kind::Store);
    assert!(all_stores, "{name}: a visit, or a thread that is new");
    let nr = |kind| {
        let shared = notes.iter().filter(|note| !is_own(note));
        shared.filter(|note| note.kind == kind).count()
    };
    let mut places: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for note in notes.iter().filter(|note| !is_own(note)) {
        let kind = match note.kind {
            Kind::Store => 0,
            Kind::Update => 1,
            Kind::Lock => 2,
            Kind::Fence => continue,
        };
        places.entry(place_of(note)).or_default()[kind] += 1;
    }
    let places: Vec<String> = places
        .iter()
        .map(|(place, counts)| {
            let counts = ["s", "u", "l"].iter().zip(counts);
            let counts = counts.filter(|(_, nr)| **nr != 0);
            let counts: Vec<_> = counts.map(|(kind, nr)| format!("{nr}{kind}")).collect();
            format!("{place} {}", counts.join(" "))
        })
        .collect();
    let (stores, updates) = (nr(Kind::Store), nr(Kind::Update));
    let (fences, locks) = (nr(Kind::Fence), nr(Kind::Lock));
    let places = places.join(", ");
    format!("| {name} | {stores} | {updates} | {fences} | {locks} | {own} | {places} |")
}

#[test]
fn operations_write_to_shared_memory_no_more_than_the_table_says() {
    let table: Vec<String> = operations()
        .iter()
        .map(|(name, notes)| row(name, notes))
        .collect();
    let table = table.join("\n");
    println!("{table}");
    assert_eq!(table, TABLE.trim());
    let claimed = include_str!("../../../docs/benchmarks.md");
    for row in table.lines() {
        assert!(claimed.contains(row), "docs/benchmarks.md has not: {row}");
    }
}
