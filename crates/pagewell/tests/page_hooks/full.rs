//! Memory full of dirty pages: it is cleaned, with memory of the reserve.

use std::sync::Arc;
use std::time::Duration;

use pagewell::io::Direct;
use pagewell::{Cache, File, OpenOptions, PageHooks};
use pagewell_testkit::wait::bounded_by;
use pagewell_testkit::{Rng, scratch};

use crate::doubles::{Keyed, cache, memory, open, reopened};
use crate::support::{PAGE, assert_all_free};

/// Writes several times what the cache has, at random, and reads some of it meanwhile.
fn write_much(file: &File, nr_pages: u64, nr_writes: u64) -> Vec<u8> {
    let mut rng = Rng::new(7);
    let mut model = vec![0; nr_pages as usize * PAGE];
    file.set_size(model.len() as u64).unwrap();
    for nr in 0..nr_writes {
        let at = rng.index(model.len() - 9000);
        let len = if rng.one_in(2) { 8 } else { 9000 };
        let bytes = vec![nr as u8 | 1; len];
        assert_eq!(file.write_at(&bytes, at as u64).unwrap(), len);
        model[at..at + len].copy_from_slice(&bytes);
        let from = rng.index(model.len() - 100);
        let mut buf = [0; 100];
        file.read_at(&mut buf, from as u64).unwrap();
        assert!(buf == model[from..from + 100]);
    }
    model
}

/// As small as a cache may be.
fn smallest() -> Cache {
    (8..64)
        .find_map(|nr_frames| {
            let cache = Cache::builder()
                .capacity(nr_frames * crate::support::FRAME_COST)
                .nodes(pagewell::Nodes::Unbound(1))
                .build()
                .ok()?;
            let options = OpenOptions::new()
                .write()
                .page_hooks(Arc::new(Keyed::default()));
            let file = cache.open_backend_with(memory(), "file", &options).ok()?;
            file.write_at(&[1; 20_000], 0).ok()?;
            drop(file);
            Some(cache)
        })
        .expect("a few dozen frames are enough")
}

#[test]
fn the_smallest_cache_takes_a_file_of_any_size() {
    bounded_by(Duration::from_secs(100), "a small cache", || {
        let cache = smallest();
        let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
        let options = OpenOptions::new()
            .write()
            .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
        let file = open(&cache, &storage, &options);
        let model = write_much(&file, 100, 400);
        file.close().unwrap();
        assert!(reopened(&storage, &hooks) == model);
        drop(cache.quiesce().unwrap());
        assert_all_free(&cache);
    });
}

#[test]
fn files_of_the_system_are_cleaned_directly_and_not() {
    bounded_by(Duration::from_secs(200), "a full cache", || {
        for direct in [Direct::Auto, Direct::Never] {
            let dir = scratch::dir();
            let path = dir.path().join("file");
            let hooks = Arc::new(Keyed::default());
            let options = OpenOptions::new()
                .create()
                .direct(direct)
                .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
            // A reserve of one page, and one of several chunks.
            for nr_frames in [40, 600] {
                let cache = cache(nr_frames);
                let file = cache.open_with(&path, &options).unwrap();
                file.set_size(0).unwrap();
                let model = write_much(&file, 3 * nr_frames, nr_frames);
                file.sync_data().unwrap();
                assert_eq!(cache.stats().nr_unclean, 0);
                file.close().unwrap();
                let reader = OpenOptions::new()
                    .direct(direct)
                    .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
                let file = cache.open_with(&path, &reader).unwrap();
                assert!(crate::doubles::contents(&file) == model);
            }
        }
    });
}

#[test]
fn two_files_that_fill_the_memory_do_not_wait_for_each_others_reserve() {
    use pagewell_testkit::wait::{Gate, until};
    use std::io;
    bounded_by(Duration::from_secs(100), "two files", || {
        let gate = Arc::new(Gate::new());
        let out = {
            let gate = Arc::clone(&gate);
            move |page: &mut pagewell::OutgoingPage<'_>| -> io::Result<()> {
                gate.pass();
                page.bytes_mut()[1] ^= 1;
                Ok(())
            }
        };
        let back = |_: u64, bytes: &mut [u8]| {
            bytes[1] ^= 1;
            Ok(())
        };
        let slow = Arc::new(crate::doubles::Closures(out, back));
        let cache = cache(256);
        let options = OpenOptions::new()
            .write()
            .page_hooks(slow as Arc<dyn PageHooks>);
        let stuck = open(&cache, &memory(), &options);
        for page in 0..40 {
            stuck.write_at(&[1; PAGE], page * PAGE as u64).unwrap();
        }
        until("the hook has come to the gate", || gate.nr_arrived() != 0);
        let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
        let options = OpenOptions::new()
            .write()
            .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
        let file = open(&cache, &storage, &options);
        let model = write_much(&file, 600, 200);
        file.sync_data().unwrap();
        assert!(reopened(&storage, &hooks) == model);
        gate.open();
        stuck.sync_data().unwrap();
    });
}
