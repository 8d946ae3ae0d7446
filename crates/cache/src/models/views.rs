//! Views against evictions and writes.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::{FRAME_BYTES, Torn, ViewOutcome};

use super::{
    FOREIGN, OURS, assert_at_rest, explore, mapping, only_byte, pool, read, scribble, warm,
    writable, write,
};
use crate::base::error::ErrorKind;
use crate::mapping::record::Mapping;
use crate::read::fill::{Fill, Filler};
use crate::read::lookup::Lookup;
use crate::read::reader::ReadPath;
use crate::read::viewer::{View, Viewer};
use crate::supply::evict::Evictor;
use crate::supply::policy::clock::Marks;
use crate::write::bytes::Writer;
use crate::write::growth::Grower;

/// Returns all bytes of a page, and reads each word by a separate access.
fn words(v: &View<'_>) -> Result<Vec<u8>, Torn> {
    let mut bytes = Vec::new();
    for at in (0..v.len()).step_by(8) {
        bytes.extend(v.array::<8>(at)?);
    }
    Ok(bytes)
}

/// The page is filled again in its reused frame. The view returns no bytes in between.
#[test]
fn loom_view_vs_evict_and_reuse() {
    explore(3, || {
        let files = pool(4);
        let mapping = mapping(&files, 1);
        let frame = warm(&mapping, 0);
        let viewer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                if let ViewOutcome::Done(bytes) = Viewer(&mapping).look(0, None, &mut words) {
                    assert_eq!(only_byte(&bytes), OURS);
                }
            })
        };
        if let Some(unique) = Evictor(files.supply()).try_evict(frame, Marks::Ignored) {
            scribble(&unique);
            drop(unique);
            if let Ok(Fill::Filled(reference, _)) = Filler(&mapping).fill(0, 1) {
                assert_eq!(reference.frame(), frame);
                drop(reference);
                drop(Lookup(&mapping).get(0, || 1));
            }
        }
        viewer.join().unwrap();
        drop(mapping);
        assert_at_rest(&files);
    });
}

/// A view sees all of a write or nothing of it, with or without a reference.
#[test]
fn loom_view_vs_write() {
    explore(2, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let viewer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let bytes = Viewer(&mapping).view(0, &mut words, || 1).expect("a page");
                let byte = only_byte(&bytes);
                assert!(byte == OURS || byte == 1 || byte == 2);
            })
        };
        write(&mapping, 0, 1);
        write(&mapping, 0, 2);
        viewer.join().unwrap();
        assert_eq!(only_byte(&read(&mapping, 0, ReadPath::Optimistic)), 2);
        drop(mapping);
        assert_at_rest(&files);
    });
}

/// If a check within a view passes, all bytes read before the check are of one moment.
#[test]
fn loom_view_that_checks_vs_write() {
    explore(3, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let viewer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let _ = Viewer(&mapping).look(0, None, &mut |v: &View<'_>| {
                    let bytes = words(v)?;
                    v.check()?;
                    let byte = only_byte(&bytes);
                    assert!(byte == OURS || byte == 1, "seen before the answer counts");
                    Ok(())
                });
            })
        };
        write(&mapping, 0, 1);
        viewer.join().unwrap();
        drop(mapping);
        assert_at_rest(&files);
    });
}

#[test]
fn loom_view_that_goes_round_in_circles_ends() {
    explore(1, || {
        let files = pool(4);
        let (mapping, _) = writable(&files);
        let viewer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let circle = Viewer(&mapping).view(0, &mut circle, || 1);
                assert_eq!(circle.expect_err("no way out").kind(), ErrorKind::Malformed);
            })
        };
        write(&mapping, 0, FOREIGN);
        viewer.join().unwrap();
        drop(mapping);
        assert_at_rest(&files);
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
    explore(2, || {
        let half = FRAME_BYTES / 2;
        let files = pool(5);
        let (mapping, _) = writable(&files);
        let viewer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let bytes = view_bytes(&mapping);
                let (first, last) = bytes.split_at(half);
                assert!(first.iter().all(|b| *b == OURS), "{bytes:x?}");
                let is_one = |byte| last.len() == half && last.iter().all(|b| *b == byte);
                assert!(last.is_empty() || is_one(OURS) || is_one(2), "{bytes:x?}");
            })
        };
        let grower = Grower(&mapping);
        grower.resize(half as u64).expect("a healthy storage");
        grower.append_bytes(&vec![2; half], 0).expect("room");
        viewer.join().unwrap();
        drop(mapping);
        assert_at_rest(&files);
    });
}

/// A view that sees a write after a growth of the page does not end at the old end.
#[test]
fn loom_view_vs_growth_and_write() {
    explore(2, || {
        let half = FRAME_BYTES / 2;
        let files = pool(5);
        let (mapping, _) = super::cold(&files, half);
        warm(&mapping, 0);
        let viewer = {
            let mapping = Arc::clone(mapping.mapping());
            thread::spawn(move || {
                let bytes = view_bytes(&mapping);
                let states = [vec![OURS; half], [vec![OURS; half], vec![2; half]].concat()];
                let last = [vec![3; half], vec![2; half]].concat();
                assert!(states.contains(&bytes) || bytes == last, "{bytes:x?}");
            })
        };
        Grower(&mapping)
            .append_bytes(&vec![2; half], 0)
            .expect("room");
        Writer(&mapping)
            .write_bytes(&vec![3; half], 0, 0)
            .expect("a writable page");
        viewer.join().unwrap();
        drop(mapping);
        assert_at_rest(&files);
    });
}

fn view_bytes(mapping: &Mapping) -> Vec<u8> {
    Viewer(mapping).view(0, &mut words, || 1).expect("a page")
}
