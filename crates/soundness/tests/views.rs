//! Views: closures that go where they should not, stay too long, nest, write, evict and panic, while everything around them changes.

#![forbid(unsafe_code)]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell::frame::{FrameKind, Order, Place};
use pagewell::{ErrorKind, Torn, View};
use support::{House, PAGE, PAGES, byte_of, cache, file, frames_of};

/// Accesses at places that no page has, and at all ends of numbers.
fn go_astray(v: &View<'_>) {
    let far = [
        PAGE - 3,
        PAGE,
        PAGE + 1,
        1 << 31,
        1 << 63,
        usize::MAX - 7,
        usize::MAX,
    ];
    for at in far {
        assert_eq!(v.u64_le(at), Err(Torn));
        assert_eq!(v.u128_be(at), Err(Torn));
        assert_eq!(v.array::<5000>(at), Err(Torn));
        assert_eq!(v.copy_to(at, &mut [0; 64]), Err(Torn));
        assert_eq!(v.compare(at, &[0; 64]), Err(Torn));
        assert_eq!(v.search(at, 8, 1, |_, _| unreachable!()), Err(Torn));
        for len in far {
            assert!(v.part(at..at.wrapping_add(len).max(PAGE + 1)).is_err());
            assert_eq!(v.search(4, at, len, |_, _| unreachable!()), Err(Torn));
        }
        #[allow(clippy::reversed_empty_ranges)] // What a torn page may say.
        let reversed = at..0;
        assert!(v.part(reversed).is_err());
    }
    // A part is as narrow as it was made, however it is asked.
    let part = v.part(8..16).unwrap();
    for at in far.into_iter().chain([1, 8, usize::MAX - 8]) {
        assert_eq!(part.u64_le(at), Err(Torn));
    }
    assert_eq!(part.len(), 8);
}

#[test]
fn what_goes_astray_gets_nothing() {
    let house = House::new();
    for page in 0..PAGES {
        let byte = house.file.view(page as u64, |v| {
            go_astray(v);
            v.u8(PAGE - 1)
        });
        assert_eq!(byte.unwrap(), byte_of(page));
    }
    house.tear_down();
}

/// Views in views, of the same page and others, deeper than it has tries; with guards, writes and evictions in between.
#[test]
fn views_nest_and_their_closures_do_what_they_like() {
    fn nest(house: &House, depth: u64, of: &View<'_>) -> Result<u8, Torn> {
        if depth == 0 {
            return of.u8(7);
        }
        let page = depth % 3;
        let pin = house.file.pin(page).map_err(|_| Torn)?;
        house.cache.reclaim(2);
        let byte = [byte_of(page as usize); 9];
        house
            .file
            .write_at(&byte, page * PAGE as u64)
            .map_err(|_| Torn)?;
        drop(house.file.pin_mut((depth + 1) % 3).map_err(|_| Torn)?);
        let inner = house.file.view(page, |v| nest(house, depth - 1, v));
        assert_eq!(pin[7], byte_of(page as usize));
        drop(pin);
        of.check()?;
        inner.map_err(|_| Torn)
    }
    let house = House::new();
    for depth in 0..5 {
        let byte = house.file.view(0, |v| nest(&house, depth, v)).unwrap();
        assert!((0..3).any(|page| byte == byte_of(page)), "{byte}");
    }
    house.tear_down();
}

/// What is leaked in a closure is the program's loss: nothing is broken, and pages that are not held can go.
#[test]
fn closures_may_leak_panic_and_fail() {
    let cache = cache(64);
    let file = file(&cache, 8);
    for round in 0..3 {
        let page = file.view(0, |v| {
            let part = v.part(0..PAGE / 2)?;
            part.u8(0)?;
            std::mem::forget(file.pin(1));
            Ok(v.len())
        });
        assert_eq!(page.unwrap(), PAGE);
        for _ in 0..2 {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                file.view(2, |v| {
                    file.view(3, |_| -> Result<(), Torn> { panic!("inside of two") })
                        .map_err(|_| Torn)?;
                    v.u8(0)
                })
            }));
            assert!(panicked.is_err(), "{round}");
        }
        let error = file.view(4, |_| Err::<(), _>(Torn)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
    cache.reclaim(1000);
    let left = frames_of(cache.frames().pool(), FrameKind::Page);
    assert_eq!(left.len(), 1, "the page that was leaked, and no other");
    assert!(file.pin(1).unwrap()[..] == [byte_of(1); PAGE]);
    cache.verify().unwrap();
}

/// Looks that last, while their page is replaced, moved, evicted, and its frame used for other files: what comes out was one page's.
#[test]
fn looks_that_last_give_one_state_of_their_page() {
    let cache = cache(64);
    let (viewed, other) = (file(&cache, 4), file(&cache, 40));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let bytes = viewed.view(0, |v| {
                    let first = v.u8(0)?;
                    for at in (1..PAGE).step_by(3) {
                        if v.u8(at)? != first {
                            // No whole page is mixed: a torn one, to be looked at again.
                            v.check()?;
                            return Ok(None);
                        }
                    }
                    Ok(Some(first))
                });
                assert!(bytes.unwrap().is_some(), "a mixture came out");
            }
        });
        let mut buf = [0; PAGE];
        for round in 0..600_u32 {
            let byte = [round as u8; PAGE];
            if round.is_multiple_of(3) {
                viewed.pin_mut(0).unwrap().copy_from_slice(&byte);
            } else {
                viewed.write_at(&byte, 0).unwrap();
            }
            if round.is_multiple_of(7) {
                viewed.sync_all().unwrap();
                cache.reclaim(1000);
                for page in 0..40 {
                    other.read_at(&mut buf, page * PAGE as u64).unwrap();
                }
            }
            let frames = cache.frames();
            for frame in frames_of(frames.pool(), FrameKind::Page) {
                if let Some(to) = frames.make_room(Order::ZERO, Place::Anywhere) {
                    let _ = frames.move_page(frame, to);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    cache.verify().unwrap();
}
