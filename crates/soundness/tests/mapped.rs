//! The handle of what shows a file's pages at addresses, used by who shows none.

#![forbid(unsafe_code)]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell::frame::TryGetFrame;
use pagewell::io::RacyBytes;
use pagewell::space::{CacheSpaces as _, ErrorKind, Sharing};
use pagewell::{File, OpenOptions, Writeback};
use pagewell_cache::{FileUser, MappedFile, PageMove, Spare, Tried};
use support::{House, PAGE, byte_of, cache};

fn zero(bytes: RacyBytes<'_>) {
    bytes.zero(0, bytes.len());
}

fn large_pages(cache: &pagewell::Cache) -> File {
    let options = OpenOptions::new()
        .write()
        .writeback(Writeback::Manual)
        .page_size(65536);
    support::open(cache, 64, &options)
}

/// Gets a frame into `spare`, which a write of the page would need that is pinned.
fn want_frame<'f>(file: &'f MappedFile, spare: &mut Spare<'f>) {
    let (tried, done) = file.try_edit((0, 8, 0), zero, spare).unwrap();
    let Tried::NotNow(wait) = tried else {
        panic!("{tried:?}");
    };
    assert!(done.is_none());
    file.wait(0, &wait, spare).unwrap();
}

/// A frame that a program got for one file went into the slot of another: of another cache, or of a page of another size.
#[test]
fn a_frame_for_one_file_is_not_used_for_another() {
    let (here, there) = (cache(512), cache(512));
    let (small, far, large) = (
        support::file(&here, 4),
        support::file(&there, 4),
        large_pages(&here),
    );
    let pins = [&small, &far, &large].map(|file| file.pin(0).unwrap());
    let mapped = [&small, &far, &large].map(|file| file.mapped());
    for from in &mapped {
        for to in &mapped {
            let mut spare = Spare::default();
            want_frame(from, &mut spare);
            let (tried, _) = to.try_edit((0, 8, 0), zero, &mut spare).unwrap();
            if std::ptr::eq(from, to) {
                assert_eq!(tried, Tried::Done);
            } else {
                // Its own is wanted, and used then. (If the first try was done above, the page is not pinned any more.)
                match tried {
                    Tried::NotNow(wait) => {
                        to.wait(0, &wait, &mut spare).unwrap();
                        let (tried, _) = to.try_edit((0, 8, 0), zero, &mut spare).unwrap();
                        assert_eq!(tried, Tried::Done);
                    }
                    tried => panic!("{tried:?}"),
                }
            }
            // The page is another one now: pinned again for the next round.
            std::mem::forget(to.try_pin(0, 8).unwrap());
        }
    }
    for pin in &pins {
        assert!(pin.iter().all(|byte| *byte & 0x80 != 0), "{:?}", &pin[..16]);
    }
    let mut buf = [0; 16];
    for file in [&small, &far, &large] {
        file.read_at(&mut buf, 0).unwrap();
        assert_eq!(buf[..8], [0; 8]);
        assert_eq!(buf[8..], [byte_of(0); 8]);
    }
}

/// What an access of one file has to wait for names a frame of its cache. Another cache may have no such frame: to wait for it there
/// was a panic.
#[test]
fn what_one_file_waits_for_is_no_wait_for_another() {
    let (large, small) = (cache(512), cache(32));
    let (ours, other) = (support::file(&large, 400), support::file(&small, 4));
    // A guard changes its page, and so many are not to be dirty.
    let mapped = ours.mapped();
    let waits = (0..400).map(|page| {
        let locked = ours.pin_mut(page).unwrap();
        let at = (page * PAGE as u64, 8, 0);
        let (tried, _) = mapped.try_edit(at, zero, &mut Spare::default()).unwrap();
        drop(locked);
        ours.sync_data().unwrap();
        match tried {
            Tried::NotNow(wait) => wait,
            tried => panic!("{tried:?}"),
        }
    });
    let elsewhere = other.mapped();
    for wait in waits {
        elsewhere.wait(0, &wait, &mut Spare::default()).unwrap();
    }
}

#[test]
fn accesses_over_the_end_of_a_page_are_refused() {
    let house = House::new();
    house.check();
    let mapped = house.file.mapped();
    let mut buf = vec![0; 4 * PAGE];
    for (pos, len) in [
        (0, PAGE + 1),
        (PAGE as u64 - 1, 2),
        (PAGE as u64, 4 * PAGE),
        (u64::MAX, 1),
        (u64::MAX - 7, 8),
        (1 << 60, PAGE),
    ] {
        assert!(!mapped.try_read_hit(pos, &mut buf[..len]));
        for len in [len, usize::MAX, usize::MAX - 4090, isize::MAX as usize] {
            // A length for which the end wrapped had `change` called with no bytes, and was said to be done; others were a panic.
            match mapped.try_edit((pos, len, 0), zero, &mut Spare::default()) {
                Ok((tried, _)) => assert_ne!(tried, Tried::Done, "{len} at {pos}"),
                Err(error) => assert_eq!(error.kind(), pagewell::ErrorKind::OutOfRange),
            }
        }
    }
    // Past the end of the file within its last page, and whole pages past it.
    let end = (support::PAGES * PAGE) as u64;
    assert!(matches!(
        mapped.try_read(end, &mut buf[..8]),
        Ok(Tried::PastEnd)
    ));
    assert!(matches!(
        mapped.try_read(u64::MAX, &mut buf[..1]),
        Ok(Tried::PastEnd)
    ));
    assert!(matches!(
        mapped.try_pin(u64::MAX, 8),
        Ok((Tried::PastEnd, None))
    ));
    assert!(matches!(
        mapped.try_pin(0, PAGE + 1),
        Ok((Tried::PastEnd, None))
    ));
    assert!(matches!(
        mapped.try_pin(0, usize::MAX),
        Ok((Tried::PastEnd, None))
    ));
    assert!(mapped.hold(u64::MAX, usize::MAX).is_err());
    drop(mapped.hold(0, usize::MAX).unwrap());
    for node in [1, 64, usize::MAX] {
        assert_ne!(mapped.move_page(0, node), PageMove::Done);
        assert_ne!(mapped.move_page(u64::MAX, node), PageMove::Done);
    }
    drop(mapped);
    house.tear_down();
}

#[test]
fn a_page_is_copied_to_a_block_of_its_size_or_not_at_all() {
    let house = House::new();
    house.check();
    {
        let frames = house.frames();
        let mapped = house.file.mapped();
        let block = frames
            .pool()
            .alloc(pagewell::frame::Order::new(1).unwrap())
            .unwrap();
        block.bytes().zero(0, 2 * PAGE);
        assert_eq!(mapped.try_copy(1, block.bytes()).unwrap(), Tried::Done);
        let mut buf = [0; PAGE];
        block.bytes().copy_to(0, &mut buf);
        assert_eq!(buf, [byte_of(1); PAGE]);
        // What does not fit is a panic, and nobody's page is changed by it.
        let short = || mapped.try_copy(1, block.bytes().slice(0, 100));
        assert!(catch_unwind(AssertUnwindSafe(short)).is_err());
    }
    house.tear_down();
}

/// A change that panics leaves either what was there before, or what it has made of it, and nobody else's page.
#[test]
fn a_change_that_panics_or_stays_away_changes_no_pin() {
    let house = House::new();
    house.check();
    {
        let mapped = house.file.mapped();
        for page in 0..support::PAGES as u64 {
            let mut spare = Spare::default();
            for _ in 0..3 {
                let change = |_: RacyBytes<'_>| -> () { panic!("a change that panics") };
                let edit = || {
                    let pos = page * PAGE as u64;
                    let (tried, _) = mapped.try_edit((pos, PAGE, 0), change, &mut spare).unwrap();
                    if let Tried::NotNow(wait) = tried {
                        mapped.wait(pos, &wait, &mut spare).unwrap();
                    }
                };
                let _ = catch_unwind(AssertUnwindSafe(edit));
            }
        }
    }
    house.tear_down();
}

#[test]
fn a_page_of_a_file_that_is_given_up_is_whoevers_has_it_last() {
    let cache = cache(256);
    let file = support::file(&cache, 2);
    let mapped = file.mapped();
    drop(mapped.hold(0, 1).unwrap());
    let (_, reference) = mapped.try_pin(0, PAGE).unwrap();
    let reference = reference.unwrap();
    // The cache has it too.
    let reference = reference.try_unique().unwrap_err();
    file.invalidate(0..PAGE as u64);
    let frame = reference.frame();
    // Now it is this reference's alone, and may be written: no slot names it, and no pin has it.
    let pin = file.pin(0).unwrap();
    let unique = reference.try_unique().unwrap();
    unique.bytes().zero(0, PAGE);
    assert!(*pin == [byte_of(0); PAGE]);
    let frames = cache.frames();
    assert!(matches!(frames.pool().try_get(frame), TryGetFrame::Locked));
}

/// Somebody who shows a file, and is told of cuts: panics, looks, and is in the way of spaces.
#[test]
fn a_user_of_a_file_that_misbehaves_is_left_alone() {
    struct Panics(std::sync::Mutex<Option<MappedFile>>);
    impl FileUser for Panics {
        fn cut(&self, _: u64) {
            if let Some(file) = &*self.0.lock().unwrap() {
                let mut buf = [0; 8];
                let _ = file.try_read(0, &mut buf);
                let _ = file.try_pin(7, 8);
            }
            panic!("told of a cut");
        }
    }
    let cache = cache(256);
    let file = support::file(&cache, 8);
    let pin = file.pin(7).unwrap();
    let user = file
        .mapped()
        .user_or_else(|| Arc::new(Panics(std::sync::Mutex::default())))
        .unwrap();
    *user.0.lock().unwrap() = Some(file.mapped());
    let cut = || file.set_size(PAGE as u64);
    let _ = catch_unwind(AssertUnwindSafe(cut));
    assert!(*pin == [byte_of(7); PAGE]);
    let mut buf = [0; PAGE];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), PAGE);
    assert_eq!(buf, [byte_of(0); PAGE]);
    let space = cache.space().unwrap();
    let error = space.map_file(&file, 0..PAGE as u64, Sharing::Private);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::OtherFrames);
    *user
        .0
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = None;
}

#[test]
fn a_wait_of_another_file_is_none() {
    let (here, there) = (cache(128), cache(4096));
    let (file, far) = (support::file(&here, 4), support::file(&there, 4));
    let mut filler = Vec::new();
    {
        // So that the page is in a frame of a number that the other cache does not have.
        let frames = there.frames();
        while filler.len() < 2000
            && let Some(frame) = frames.pool().alloc(pagewell::frame::Order::ZERO)
        {
            filler.push(frame.into_withheld());
        }
    }
    let held = far.pin_mut(0).unwrap();
    let (mapped, others) = (file.mapped(), far.mapped());
    let mut spare = Spare::default();
    let (tried, _) = others.try_edit((0, 8, 0), zero, &mut spare).unwrap();
    let Tried::NotNow(wait) = tried else {
        panic!("{tried:?}");
    };
    // It names a frame of the other cache: it is over at once, or a panic.
    let wait_here = || mapped.wait(0, &wait, &mut Spare::default());
    let _ = catch_unwind(AssertUnwindSafe(wait_here));
    drop(held);
    let mut buf = [0; PAGE];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), PAGE);
    assert_eq!(buf, [byte_of(0); PAGE]);
}
