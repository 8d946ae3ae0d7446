//! Views: what closures see of pages, what becomes of their answers, and what they cannot do.

use std::cell::Cell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pagewell::io::MemoryBackend;
use pagewell::{Error, ErrorKind, File, Op, OpenOptions, Torn, View, Writeback};
use pagewell_testkit::wait::bounded_by;
use pagewell_testkit::{Seed, content};
use proptest::prelude::*;

use crate::support::{PAGE, assert_all_free, cache};

/// A file with these bytes, in a small cache.
fn file_of(bytes: Vec<u8>) -> File {
    cache(64)
        .open_backend(MemoryBackend::new(bytes), "viewed")
        .expect("a file in memory")
}

fn writable(bytes: Vec<u8>) -> (pagewell::Cache, File) {
    let cache = cache(64);
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let file = cache
        .open_backend_with(MemoryBackend::writable(bytes), "viewed", &options)
        .expect("a file in memory");
    (cache, file)
}

/// The view with a reference first, as of a page that is not cached, and then without.
fn both_ways<R: PartialEq + std::fmt::Debug>(
    file: &File,
    look: impl Fn(&View<'_>) -> Result<R, Torn>,
) -> R {
    file.invalidate(0..u64::MAX);
    let with_reference = file.view(0, &look).expect("an answer");
    file.pin(0).expect("a page");
    let nr_calls = Cell::new(0);
    let without = file
        .view(0, |v| {
            nr_calls.set(nr_calls.get() + 1);
            look(v)
        })
        .expect("an answer");
    assert_eq!(nr_calls.get(), 1, "it is a hit");
    assert_eq!(with_reference, without);
    without
}

/// Places in a page of `len` bytes: inside, around the end, and far out.
fn place(len: usize) -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..len,
        4 => (0..40_usize).prop_map(move |d| (len + 8).saturating_sub(d)),
        1 => (0..40_usize).prop_map(|d| usize::MAX - d),
        1 => any::<usize>(),
    ]
}

/// The `N` bytes of `bytes` at `at`, if there are as many.
fn at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn slice(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}

/// Everything that a view gives at one place, and that a slice gives there.
fn assert_agrees(v: &View<'_>, bytes: &[u8], place: usize, other: &[u8]) {
    assert_eq!(v.len(), bytes.len());
    assert_eq!(v.is_empty(), bytes.is_empty());
    macro_rules! integers {
        ($($little:ident $big:ident: $type:ty),*) => {$(
            let expected = at(bytes, place);
            assert_eq!(v.$little(place).ok(), expected.map(<$type>::from_le_bytes));
            assert_eq!(v.$big(place).ok(), expected.map(<$type>::from_be_bytes));
        )*};
    }
    integers! {
        u16_le u16_be: u16, i16_le i16_be: i16, u32_le u32_be: u32, i32_le i32_be: i32,
        u64_le u64_be: u64, i64_le i64_be: i64, u128_le u128_be: u128, i128_le i128_be: i128
    }
    assert_eq!(v.u8(place).ok(), bytes.get(place).copied());
    assert_eq!(v.i8(place).ok(), bytes.get(place).map(|b| *b as i8));
    assert_eq!(v.array::<0>(place).ok(), at(bytes, place));
    assert_eq!(v.array::<13>(place).ok(), at(bytes, place));
    assert_eq!(v.array::<200>(place).ok(), at(bytes, place));

    let there = slice(bytes, place, other.len());
    let mut copy = vec![0; other.len()];
    let copied = v.copy_to(place, &mut copy);
    assert_eq!(copied.ok().map(|()| &copy[..]), there);
    assert_eq!(
        v.compare(place, other).ok(),
        there.map(|there| there.cmp(other))
    );
    let part = v.part(place..place.saturating_add(other.len()));
    // A range that would end past all numbers is cut there, and is outside nevertheless.
    assert_eq!(part.is_ok(), there.is_some());
    if let (Ok(part), Some(there)) = (part, there) {
        assert_eq!(part.len(), there.len());
        assert_eq!(part.u16_le(1).ok(), at(there, 1).map(u16::from_le_bytes));
        assert_eq!(part.equals(there), Ok(true));
        assert_eq!(part.equals(other), Ok(there == other));
        for len in [0, 1, 3, 4, 7, 8, 9, other.len() / 2, other.len()] {
            let shorter = &other[..len.min(other.len())];
            assert_eq!(part.compare_all(shorter), Ok(there.cmp(shorter)));
            assert_eq!(part.starts_with(shorter), Ok(there.starts_with(shorter)));
            let start = &there[..len.min(there.len())];
            assert_eq!(part.starts_with(start), Ok(true));
        }
        let longer = [there, &[0]].concat();
        assert_eq!(part.compare_all(&longer), Ok(Ordering::Less));
        assert_eq!(part.starts_with(&longer), Ok(false));
        assert_eq!(part.equals(&longer), Ok(false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn all_accesses_agree_with_a_slice(
        seed in any::<u64>(),
        len in prop_oneof![1..40_usize, 4000..=PAGE],
        places in proptest::collection::vec(place(PAGE), 20),
        other_len in prop_oneof![0..20_usize, 0..200_usize],
        similar in any::<bool>(),
        flip in any::<u8>(),
    ) {
        let bytes = content(seed, len);
        let file = file_of(bytes.clone());
        for place in places {
            let place = if len < 100 { place % 60 } else { place };
            // What compares equal for a while, as well as what does not.
            let mut other = content(seed.wrapping_add(1), other_len);
            if similar && let Some(there) = slice(&bytes, place, other_len) {
                other.copy_from_slice(there);
                let at = other_len.saturating_sub(1 + usize::from(flip) % 10);
                if let Some(last) = other.get_mut(at) {
                    *last ^= flip & 0x81;
                }
            }
            both_ways(&file, |v| {
                assert_agrees(v, &bytes, place, &other);
                Ok(())
            });
        }
    }

    #[test]
    fn searches_agree_with_those_of_a_slice(
        mut keys in proptest::collection::vec(any::<u16>(), 0..200),
        width in 2..12_usize,
        start in 0..100_usize,
        wanted in any::<u16>(),
    ) {
        keys.sort_unstable();
        keys.dedup();
        let mut bytes = content(1, PAGE);
        for (nr, key) in keys.iter().enumerate() {
            bytes[start + nr * width..][..2].copy_from_slice(&key.to_le_bytes());
        }
        let file = file_of(bytes);
        for wanted in keys.iter().copied().chain([wanted, 0, u16::MAX]) {
            let found = both_ways(&file, |v| {
                v.search(start, width, keys.len(), |v, at| Ok(v.u16_le(at)?.cmp(&wanted)))
            });
            assert_eq!(found, keys.binary_search(&wanted));
        }
    }
}

#[test]
fn a_search_of_slots_that_are_not_all_in_the_page_is_torn_and_none_panics() {
    let file = file_of(content(3, PAGE));
    let compared = |v: &View<'_>, (at, width, count), order| {
        v.search(at, width, count, |_, slot| {
            assert!(slot <= PAGE);
            Ok(order)
        })
    };
    for (at, width, count) in [
        (0, 1, PAGE + 1),
        (1, 4096, 1),
        (usize::MAX, 1, 1),
        (0, usize::MAX, 2),
        (0, 2, usize::MAX),
        (PAGE + 1, 0, 0),
        (0, 1 << 33, 1 << 33),
    ] {
        both_ways(&file, |v| {
            assert_eq!(compared(v, (at, width, count), Ordering::Less), Err(Torn));
            Ok(())
        });
    }
    both_ways(&file, |v| {
        // Slots of no bytes, as many as there are numbers: all are in the page, and in 64 steps the end is reached.
        let all = (5, 0, usize::MAX);
        assert_eq!(compared(v, all, Ordering::Less)?, Err(usize::MAX));
        assert_eq!(compared(v, all, Ordering::Greater)?, Err(0));
        assert_eq!(compared(v, (PAGE, 8, 0), Ordering::Less)?, Err(0));
        assert!(compared(v, (0, 4, 1024), Ordering::Equal)?.is_ok());
        Ok(())
    });
}

/// The error of a view of page 1 of a file of two pages.
fn refused(look: impl FnMut(&View<'_>) -> Result<(), Torn>) -> Error {
    let file = file_of(content(5, 2 * PAGE));
    for _ in 0..2 {
        file.pin(1).expect("a page");
    }
    let error = file.view(1, look).expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(error.op(), Op::View);
    assert_eq!(error.path(), Some(file.path()));
    assert!(error.to_string().contains("page 1"), "{error}");
    error
}

#[test]
fn what_leads_out_of_a_page_that_does_not_change_is_malformed() {
    let nr_calls = Cell::new(0);
    refused(|v| {
        nr_calls.set(nr_calls.get() + 1);
        v.u64_le(PAGE - 7).map(drop)
    });
    assert!(nr_calls.get() > 1, "without a reference, and with one");
    // The closure's own opinion counts as much.
    refused(|_| Err(Torn));
}

#[test]
fn a_circle_in_the_file_ends_as_malformed() {
    bounded_by(Duration::from_secs(60), "circles", circles);
}

fn circles() {
    let walk = |v: &View<'_>| -> Result<(), Torn> {
        let mut at = 0;
        loop {
            at = usize::from(v.u16_le(at)?) % 4000;
        }
    };
    let error = refused(walk);
    assert!(error.to_string().contains("accesses"), "{error}");
    refused(|v| {
        loop {
            v.check()?;
        }
    });
    refused(|v| {
        loop {
            v.compare(0, &[0; 2000])?;
        }
    });
    refused(|v| {
        loop {
            v.search(0, 4, 1000, |v, at| Ok(v.u32_le(at)?.cmp(&7)))?
                .ok();
        }
    });
    // It ends for who takes no notice too: from then on all accesses fail, and the answer does not count.
    refused(|v| {
        while v.u8(0).is_ok() {}
        assert_eq!(v.u8(0), Err(Torn));
        assert_eq!(v.copy_to(0, &mut [0; 100]), Err(Torn));
        Ok(())
    });
}

#[test]
fn a_long_way_through_a_page_is_no_circle() {
    let file = file_of(content(6, PAGE));
    let expected = content(6, PAGE).iter().map(|b| u64::from(*b)).sum::<u64>() * 60;
    let sum = both_ways(&file, |v| {
        let mut sum = 0;
        for _ in 0..60 {
            for at in 0..v.len() {
                sum += u64::from(v.u8(at)?);
            }
        }
        Ok(sum)
    });
    assert_eq!(sum, expected);
}

#[test]
fn a_view_fills_what_is_missing_and_ends_where_the_file_does() {
    let bytes = content(7, 2 * PAGE + 100);
    let file = file_of(bytes.clone());
    for page in [2, 0, 1] {
        let expected = bytes[page * PAGE..].chunks(PAGE).next();
        let all = |v: &View<'_>| {
            let mut all = vec![0; v.len()];
            v.copy_to(0, &mut all)?;
            Ok(all)
        };
        // Read in; marked; a hit.
        for _ in 0..3 {
            let got = file.view(page as u64, all).expect("a page");
            assert_eq!(Some(&got[..]), expected);
        }
    }
    for page in [3, u64::MAX >> 12, u64::MAX] {
        let error = file.view(page, |_| Ok(())).expect_err("no such page");
        assert_eq!(error.kind(), ErrorKind::OutOfRange);
        assert_eq!(error.op(), Op::View);
    }
}

#[test]
fn views_in_sequence_read_ahead() {
    let nr_pages = 48_u64;
    let cache = cache(1024);
    let file = cache
        .open_backend(MemoryBackend::new(content(8, 48 * PAGE)), "viewed")
        .expect("a file in memory");
    let mut nr_fills = 0;
    for page in 0..nr_pages {
        let before = cache.stats().nr_free;
        file.view(page, |v| v.u8(0)).expect("a page");
        nr_fills += u64::from(cache.stats().nr_free != before);
    }
    assert!(nr_fills < nr_pages / 4, "{nr_fills} fills");
}

#[test]
fn a_closure_that_panics_holds_nothing() {
    let (cache, file) = writable(content(9, PAGE));
    // With a reference, as the page is not there; and without.
    for _ in 0..3 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            file.view(0, |_| -> Result<(), Torn> { panic!("by the closure") })
        }));
        assert!(panicked.is_err());
        assert_eq!(cache.reclaim(100), 1, "nobody has the page");
        file.pin(0).expect("a page");
    }
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn a_closure_may_use_the_page_that_it_looks_at() {
    let (cache, file) = writable(vec![1; 2 * PAGE]);
    for _ in 0..3 {
        let both = file.view(0, |v| {
            let other = file.view(1, |w| w.u8(0)).map_err(|_| Torn)?;
            let same = file.view(0, |w| w.u8(9)).map_err(|_| Torn)?;
            Ok((v.u8(0)?, other, same))
        });
        assert_eq!(both.expect("two views"), (1, 1, 1));
    }
    // A look that writes to its page is repeated, and what comes out is one state of the page.
    let mut nr_calls = 0_u8;
    let seen = file.view(0, |v| {
        nr_calls += 1;
        file.write_at(&[nr_calls; PAGE], 0).expect("a write");
        Ok((v.u8(0)?, v.u8(PAGE - 1)?))
    });
    let (first, last) = seen.expect("an answer");
    assert!(
        nr_calls > 1,
        "a look at a page that has changed does not count"
    );
    assert_eq!(first, last);
    // The last look had a reference; so its page is the one from before its own write.
    assert_eq!(first, nr_calls - 1);
    assert_eq!(file.view(0, |v| v.u8(0)).expect("a page"), nr_calls);
    // So is one that has its page taken away.
    file.sync_all().expect("a storage in memory");
    let seen = file.view(0, |v| {
        cache.reclaim(100);
        v.u8(5)
    });
    assert_eq!(seen.expect("an answer"), nr_calls);
    // And one that replaces it, or cuts it off.
    for _ in 0..2 {
        file.pin(1).expect("a page");
    }
    let seen = file.view(1, |v| {
        file.pin_mut(1).map_err(|_| Torn)?.fill(7);
        file.set_size(PAGE as u64 + 8).map_err(|_| Torn)?;
        Ok((v.len(), v.u8(7)?))
    });
    assert!(matches!(seen.expect("an answer"), (8, 7)));
    drop(file);
    assert_all_free(&cache);
}

/// A page with a chain: where it begins and how many links it has, the sum of their values, which state of the page it is, and the links,
/// each with where the next one is, and a value.
fn chain(state: u64, rng: &mut pagewell_testkit::Rng) -> Vec<u8> {
    const LINK: usize = 10;
    let mut page = vec![state as u8; PAGE];
    let mut places: Vec<usize> = (0..350)
        .map(|nr| 32 + nr * LINK + state as usize % 7)
        .collect();
    for i in (1..places.len()).rev() {
        places.swap(i, rng.below(i as u64 + 1) as usize);
    }
    places.truncate(20 + rng.below(200) as usize);
    let mut sum = 0_u64;
    for (nr, place) in places.iter().enumerate() {
        let next = places.get(nr + 1).copied().unwrap_or(0);
        let value = rng.next_u64();
        sum = sum.wrapping_add(value);
        page[*place..][..2].copy_from_slice(&(next as u16).to_le_bytes());
        page[place + 2..][..8].copy_from_slice(&value.to_be_bytes());
    }
    page[..2].copy_from_slice(&(places[0] as u16).to_le_bytes());
    page[2..4].copy_from_slice(&(places.len() as u16).to_le_bytes());
    page[8..16].copy_from_slice(&sum.to_le_bytes());
    page[16..24].copy_from_slice(&state.to_le_bytes());
    page
}

/// Walks the chain to its end: the state, how many links it says and has, and the sum it says and has.
fn walk(v: &View<'_>) -> Result<(u64, [u64; 2], [u64; 2]), Torn> {
    let state = v.u64_le(16)?;
    let (mut at, mut nr, mut sum) = (usize::from(v.u16_le(0)?), 0, 0_u64);
    while at != 0 {
        sum = sum.wrapping_add(v.u64_be(at + 2)?);
        at = v.u16_le(at)?.into();
        nr += 1;
    }
    Ok((state, [v.u16_le(2)?.into(), nr], [v.u64_le(8)?, sum]))
}

/// One thread replaces a page, in ways that change it where it is, move it, and evict it; others walk the chain in it.
#[test]
fn viewers_of_a_page_that_is_replaced_see_whole_pages() {
    const STATES: u64 = 4000;
    let mut rng = Seed::of_run().rng();
    let (cache, file) = writable(chain(0, &mut rng));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                let mut is_last_round = false;
                while !is_last_round {
                    is_last_round = is_over.load(Relaxed);
                    let (state, nr, sum) = file.view(0, walk).expect("a whole page");
                    assert_eq!(nr[0], nr[1], "links of state {state}");
                    assert_eq!(sum[0], sum[1], "sum of state {state}");
                    assert!(state >= last, "state {state} after {last}");
                    last = state;
                }
                assert_eq!(last, STATES);
            });
        }
        for state in 1..=STATES {
            let page = chain(state, &mut rng);
            match state % 4 {
                0 => {
                    let pin = file.pin(0).expect("a page");
                    file.write_at(&page, 0).expect("a write");
                    assert_ne!(pin[16..24], page[16..24]);
                }
                1 => file.pin_mut(0).expect("a page").copy_from_slice(&page),
                _ => assert_eq!(file.write_at(&page, 0).expect("a write"), PAGE),
            }
            if state % 16 == 3 {
                file.sync_data().expect("a storage in memory");
                cache.reclaim(100);
            }
        }
        is_over.store(true, Relaxed);
    });
    drop(file);
    assert_all_free(&cache);
}
