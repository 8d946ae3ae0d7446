//! Tokens: pages that a writer changes while a reader traverses them, and words that repeat.

use pagewell_frame::{FRAME_BYTES, Torn, ViewOutcome};

use super::{
    FOREIGN, HALF, OURS, append, closed, cold, cold_half, evict, explore_file, leaf_frame,
    only_byte, pool, read, resize, spawn, token, vs_evict_and_reuse, warm, writable, write,
    write_at,
};
use crate::base::error::ErrorKind;
use crate::base::slot::{Slot, State};
use crate::index::token::{Token, TokenState};
use crate::mapping::record::Mapping;
use crate::read::reader::ReadPath;
use crate::read::viewer::{View, Viewer};

/// Pages of a tree: the parent names the child to which a key belongs.
const PARENT: u64 = 0;
const LEFT: u64 = 1;
const RIGHT: u64 = 2;
const HAS: u8 = 7;
const HAS_NOT: u8 = 8;

/// Returns the first byte of a page, and a token, by one view without a reference.
fn look(mapping: &Mapping, page: u64) -> Option<(u8, Token)> {
    match Viewer(mapping).look(page, None, &mut |v: &View<'_>| Ok((v.u8(0)?, v.token()))) {
        ViewOutcome::Done(seen) => Some(seen),
        _ => None,
    }
}

/// A writer moves a key to the right child in the order of the guide: the new place, the page that
/// names it, the old place. A reader finds the key, or detects that it must start over.
fn go_down_vs_split(
    preemptions: usize,
    is_hot: bool,
    look: fn(&Mapping, u64) -> Option<(u8, Token)>,
) {
    explore_file(
        preemptions,
        closed,
        pool::<12>,
        cold::<3>,
        move |_, mapping, _| {
            for (page, byte) in [(PARENT, LEFT as u8), (LEFT, HAS), (RIGHT, HAS_NOT)] {
                write(&mapping, page, byte);
                if is_hot {
                    warm(&mapping, page);
                }
            }
            let reader = spawn(&mapping, move |mapping| {
                if let Some((child, of_parent)) = look(&mapping, PARENT)
                    && let Some((has, _)) = look(&mapping, u64::from(child))
                    && mapping.is_unchanged(&of_parent)
                {
                    assert_eq!(has, HAS, "the key was missed in page {child}");
                }
            });
            write(&mapping, RIGHT, HAS);
            write(&mapping, PARENT, RIGHT as u8);
            write(&mapping, LEFT, HAS_NOT);
            reader.join().unwrap();
        },
    );
}

#[test]
fn loom_go_down_vs_split() {
    go_down_vs_split(2, true, look);
}

/// As the previous model, with a reference if the page is claimed or not accessed.
#[test]
fn loom_go_down_with_references_vs_split() {
    go_down_vs_split(1, false, |mapping, page| {
        let mut look = |v: &View<'_>| Ok((v.u8(0)?, v.token()));
        let seen = Viewer(mapping).view(page, &mut look, || 1);
        Some(seen.expect("a page"))
    });
}

/// Returns the token that a view makes, even if the view then fails.
fn token_of_any_view(mapping: &Mapping) -> Option<Token> {
    let mut made = None;
    let _ = Viewer(mapping).look(0, None, &mut |v: &View<'_>| {
        made = Some(v.token());
        Ok(())
    });
    made
}

/// Versions start over while a token is made, and reach the previous value in the same frame.
fn vs_versions_that_start_over(change: impl Fn(&Mapping) + Send + Sync + Copy + 'static) {
    explore_file(3, closed, pool::<4>, writable, move |_, mapping, _| {
        let slot = || mapping.index().look(0).expect("a slot").slot;
        let (first, frame) = (slot(), slot().frame());
        // Write until the slot has its last version.
        let mut nr_writes = 0_u8;
        loop {
            let before = slot();
            if before.rewritten().starts_over(before) {
                break;
            }
            nr_writes += 1;
            write(&mapping, 0, nr_writes);
        }
        let last = slot();
        assert_ne!(first, last);
        let reader = spawn(&mapping, move |mapping| token_of_any_view(&mapping));
        change(&mapping);
        let made = reader.join().unwrap();
        let mut is_back = false;
        for byte in 101..=110 {
            write(&mapping, 0, byte);
            is_back |= slot() == last && slot().frame() == frame;
            if let Some(token) = &made {
                assert_eq!(mapping.token_state(token), TokenState::Changed, "{byte}");
            }
        }
        assert!(is_back, "a word that does not come back shows nothing");
    });
}

#[test]
fn loom_token_vs_versions_that_start_over() {
    vs_versions_that_start_over(|mapping| write(mapping, 0, 100));
}

/// As the previous model, but without a fence between the claim and the next generation.
#[test]
fn loom_token_vs_touch_that_starts_over() {
    vs_versions_that_start_over(|mapping| mapping.claim_present(0).expect("a page").touch());
}

/// The page is evicted and its leaf is removed while a token is made. Then the leaf is created
/// again, at a version at which the page repeats its word, in the same frame.
#[test]
fn loom_token_vs_leaf_remade() {
    explore_file(3, closed, pool::<12>, cold::<4>, |files, mapping, _| {
        // A neighbouring leaf keeps the memory that both share.
        warm(&mapping, 2);
        let frame = warm(&mapping, 0);
        let leaf_frame = leaf_frame(&mapping);
        let word = mapping.index().look(0).expect("a slot").slot;
        let reader = spawn(&mapping, move |mapping| token_of_any_view(&mapping));
        drop(evict(files.supply(), frame));
        drop(evict(files.supply(), leaf_frame));
        let made = reader.join().unwrap();
        assert!(mapping.index().leaf(mapping.claims(), 0).is_none());
        // Raise the minimum slot version, as removals of other leaves do.
        let claims = mapping.claims();
        while {
            let floor = Slot::empty_at(claims.version_floor());
            floor.filled(frame).of_page() != word.of_page()
        } {
            claims.raise_version_floor(claims.version_floor() + 1);
        }
        assert_eq!(warm(&mapping, 0), frame);
        let back = mapping.index().look(0).expect("a slot").slot;
        assert_eq!(back, word, "a word that does not come back shows nothing");
        if let Some(token) = &made {
            assert_eq!(mapping.token_state(token), TokenState::Changed);
        }
    });
}

/// A claim that changes nothing keeps tokens valid, and is distinguished from a change.
#[test]
fn loom_token_vs_claim() {
    explore_file(3, closed, pool::<4>, writable, |_, mapping, _| {
        let token = token(&mapping, 0).expect("a page that nobody has claimed");
        let other = spawn(&mapping, move |mapping| drop(mapping.claim_present(0)));
        assert_ne!(mapping.token_state(&token), TokenState::Changed);
        other.join().unwrap();
        assert_eq!(mapping.token_state(&token), TokenState::Unchanged);
        let claim = mapping.claim_present(0).expect("a page");
        assert_eq!(mapping.token_state(&token), TokenState::Busy);
        assert!(!mapping.is_unchanged(&token));
        claim.touch();
        assert_eq!(mapping.token_state(&token), TokenState::Changed);
        assert_eq!(read(&mapping, 0, ReadPath::Optimistic), [OURS; FRAME_BYTES]);
        let seen = mapping.index().look(0).expect("a slot");
        assert!(matches!(seen.slot.state(), State::Present(_)));
    });
}

/// Returns all bytes of a page, and reads each word by a separate access.
fn words(v: &View<'_>) -> Result<Vec<u8>, Torn> {
    let mut bytes = Vec::new();
    for at in (0..v.len()).step_by(8) {
        bytes.extend(v.array::<8>(at)?);
    }
    Ok(bytes)
}

/// The view returns no bytes of the reused frame.
#[test]
fn loom_view_vs_evict_and_reuse() {
    vs_evict_and_reuse(|mapping| {
        if let ViewOutcome::Done(bytes) = Viewer(mapping).look(0, None, &mut words) {
            assert_eq!(only_byte(&bytes), OURS);
        }
    });
}

/// A view sees all of a write or nothing of it, with or without a reference.
#[test]
fn loom_view_vs_write() {
    explore_file(2, closed, pool::<4>, writable, |_, mapping, _| {
        let viewer = spawn(&mapping, move |mapping| {
            let bytes = Viewer(&mapping).view(0, &mut words, || 1).expect("a page");
            let byte = only_byte(&bytes);
            assert!(byte == OURS || byte == 1 || byte == 2);
        });
        write(&mapping, 0, 1);
        write(&mapping, 0, 2);
        viewer.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
    });
}

/// If a check within a view passes, all bytes read before the check are of one moment.
#[test]
fn loom_view_that_checks_vs_write() {
    explore_file(3, closed, pool::<4>, writable, |_, mapping, _| {
        let viewer = spawn(&mapping, move |mapping| {
            let _ = Viewer(&mapping).look(0, None, &mut |v: &View<'_>| {
                let bytes = words(v)?;
                v.check()?;
                let byte = only_byte(&bytes);
                assert!(byte == OURS || byte == 1, "seen before the answer counts");
                Ok(())
            });
        });
        write(&mapping, 0, 1);
        viewer.join().unwrap();
    });
}

#[test]
fn loom_view_that_goes_round_in_circles_ends() {
    explore_file(1, closed, pool::<4>, writable, |_, mapping, _| {
        let viewer = spawn(&mapping, move |mapping| {
            let circle = Viewer(&mapping).view(0, &mut circle, || 1);
            assert_eq!(circle.expect_err("no way out").kind(), ErrorKind::Malformed);
        });
        write(&mapping, 0, FOREIGN);
        viewer.join().unwrap();
    });
}

fn circle(v: &View<'_>) -> Result<(), Torn> {
    loop {
        v.check()?;
        v.u8(FRAME_BYTES - 1)?;
    }
}

/// A view of a page that is truncated and grows ends where the file ended while it had these bytes.
#[test]
fn loom_view_vs_cut_and_growth() {
    explore_file(2, closed, pool::<5>, writable, |_, mapping, _| {
        let viewer = spawn(&mapping, move |mapping| {
            let bytes = view_bytes(&mapping);
            let (first, last) = bytes.split_at(HALF);
            assert!(first.iter().all(|b| *b == OURS), "{bytes:x?}");
            let is_one = |byte| last.len() == HALF && last.iter().all(|b| *b == byte);
            assert!(last.is_empty() || is_one(OURS) || is_one(2), "{bytes:x?}");
        });
        resize(&mapping, HALF as u64);
        append(&mapping, &[2; HALF]);
        viewer.join().unwrap();
    });
}

/// A view that sees a write after a growth of the page does not end at the old end.
#[test]
fn loom_view_vs_growth_and_write() {
    explore_file(2, closed, pool::<5>, cold_half, |_, mapping, _| {
        warm(&mapping, 0);
        let viewer = spawn(&mapping, move |mapping| {
            let bytes = view_bytes(&mapping);
            let states = [vec![OURS; HALF], [[OURS; HALF], [2; HALF]].concat()];
            let last = [[3; HALF], [2; HALF]].concat();
            assert!(states.contains(&bytes) || bytes == last, "{bytes:x?}");
        });
        append(&mapping, &[2; HALF]);
        write_at(&mapping, 0, &[3; HALF]);
        viewer.join().unwrap();
    });
}

fn view_bytes(mapping: &Mapping) -> Vec<u8> {
    Viewer(mapping).view(0, &mut words, || 1).expect("a page")
}
