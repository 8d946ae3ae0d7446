//! Pages that nobody has written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagewell::{ErrorKind, OutgoingPage, PageHooks};

use crate::doubles::{
    Closures, Keyed, cache, contents, is_corrupt, manual, memory, open, reopened, stored,
};
use crate::support::PAGE;

#[test]
fn holes_are_zeros_in_the_storage_and_for_readers_and_no_hook_sees_them() {
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    file.write_at(b"far", 5 * PAGE as u64 + 10).unwrap();
    file.sync_data().unwrap();
    assert_eq!(hooks.nr_out.load(Ordering::Relaxed), 1);
    assert_eq!(stored(&storage)[..5 * PAGE], vec![0; 5 * PAGE]);
    file.invalidate(0..u64::MAX);
    let mut model = vec![0; 5 * PAGE + 10];
    model.extend(b"far");
    assert!(contents(&file) == model);
    assert_eq!(hooks.nr_in.load(Ordering::Relaxed), 1);
    // A page of zeros that somebody has written is none.
    file.write_at(&[0; PAGE], PAGE as u64).unwrap();
    file.sync_data().unwrap();
    assert_ne!(stored(&storage)[PAGE..2 * PAGE], [0; PAGE]);
    file.invalidate(0..u64::MAX);
    assert!(contents(&file) == model);
    assert_eq!(hooks.nr_in.load(Ordering::Relaxed), 3);
    assert!(reopened(&storage, &hooks) == model);
}

/// Hooks that refuse holes.
struct NoHoles(Keyed);

impl PageHooks for NoHoles {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        self.0.before_write(pages)
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.after_read(page, bytes)
    }

    fn hole(&self, page: u64) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("page {page} is lost"),
        ))
    }
}

#[test]
fn a_program_may_refuse_holes() {
    let (storage, hooks) = (memory(), Arc::new(NoHoles(Keyed::default())));
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    for page in 0..4 {
        file.write_at(&[7; PAGE], page * PAGE as u64).unwrap();
    }
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    assert_eq!(contents(&file), [7; 4 * PAGE]);
    file.invalidate(0..u64::MAX);
    // The device has lost a page, and says zeros.
    storage.modify(|bytes| bytes[2 * PAGE..3 * PAGE].fill(0));
    is_corrupt(file.pin(2).map(drop), 2);
    let error = file.pin(2).map(drop).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "page 2 is lost");
    for page in [0, 1, 3] {
        assert_eq!(*file.pin(page).unwrap(), [7; PAGE]);
    }
    // Writing it anew makes it good.
    file.write_at(&[8; PAGE], 2 * PAGE as u64).unwrap();
    file.sync_data().unwrap();
    file.invalidate(0..u64::MAX);
    assert_eq!(*file.pin(2).unwrap(), [8; PAGE]);
}

#[test]
fn a_hook_that_stores_zeros_for_what_is_none_is_refused() {
    let clears = |page: &mut OutgoingPage<'_>| {
        page.bytes_mut().fill(0);
        Ok(())
    };
    let (storage, hooks) = (
        memory(),
        Arc::new(Closures(clears, |_, _: &mut [u8]| Ok(()))),
    );
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    file.write_at(&[0; 2 * PAGE], 0).unwrap();
    // Zeros may be stored as zeros.
    file.sync_data().unwrap();
    file.write_at(&[1], PAGE as u64 + 7).unwrap();
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("(page 1)"), "{error}");
    assert_eq!(file.stats().nr_dirty, 1);
    assert_eq!(stored(&storage), [0; 2 * PAGE]);
    file.discard(0..u64::MAX).unwrap();
    file.sync_data().unwrap();
}
