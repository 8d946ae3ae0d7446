//! What is read is what was written.

use std::sync::Arc;
use std::time::Duration;

use pagewell::io::{Backend, Direct};
use pagewell::{Cache, File, OpenOptions, PageHooks};
use pagewell_testkit::wait::bounded_by;
use pagewell_testkit::{Rng, Seed, content, scratch};

use crate::doubles::{Checked, Keyed, cache, contents, manual, memory, open, reopened, stored};
use crate::support::{PAGE, assert_all_free};

/// How large the storage of a file of `size` bytes is.
fn stored_size(size: usize, page: usize) -> usize {
    size.next_multiple_of(page) + size % page
}

/// Sizes around the ends of pages.
fn sizes(page: usize) -> Vec<usize> {
    let near = |at: usize| [at.saturating_sub(1), at, at + 1];
    let mut sizes: Vec<usize> = (0..=3).flat_map(|nr| near(nr * page)).collect();
    sizes.extend([page / 2, 2 * page + 512]);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[test]
fn a_file_of_every_size_is_stored_in_whole_pages_and_read_back() {
    for page in [PAGE, 4 * PAGE] {
        for size in sizes(page) {
            let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
            let cache = cache(64);
            let options = manual(&hooks).page_size(page);
            let file = open(&cache, &storage, &options);
            let bytes = content(7, size);
            file.write_at(&bytes, 0).unwrap();
            file.close().unwrap();
            assert_all_free(&cache);
            let kept = stored(&storage);
            assert_eq!(kept.len(), stored_size(size, page), "{size} by {page}");
            assert!(
                kept.chunks(PAGE)
                    .zip(bytes.chunks(PAGE))
                    .all(|(kept, bytes)| {
                        // By chance a few bytes are the same.
                        let nr_same = kept.iter().zip(bytes).filter(|(a, b)| a == b).count();
                        nr_same <= 1 + bytes.len() / 16
                    })
            );
            let reader = OpenOptions::new()
                .page_size(page)
                .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
            assert_eq!(contents(&open(&cache, &storage, &reader)), bytes);
            assert_eq!(contents(&open(&cache, &storage, &options)), bytes);
        }
    }
}

#[test]
fn a_file_gets_every_size_from_every_other() {
    let sizes = sizes(PAGE);
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let cache = cache(64);
    let mut file = open(&cache, &storage, &manual(&hooks));
    for (nr, &from) in sizes.iter().enumerate() {
        for &to in &sizes {
            // What comes between the steps: nothing, a sync, a look from storage, another program.
            for between in 0..4 {
                let step = |file: File| match between {
                    0 => file,
                    1 => {
                        file.sync_data().unwrap();
                        file
                    }
                    2 => {
                        file.flush(0..u64::MAX).unwrap();
                        file.sync_data().unwrap();
                        file.invalidate(0..u64::MAX);
                        file
                    }
                    _ => {
                        file.close().unwrap();
                        open(&cache, &storage, &manual(&hooks))
                    }
                };
                let bytes = content(nr as u64 + 1, from);
                file.set_size(0).unwrap();
                file.write_at(&bytes, 0).unwrap();
                file = step(file);
                file.set_size(to as u64).unwrap();
                file = step(file);
                let mut model = bytes;
                model.resize(to, 0);
                assert!(contents(&file) == model, "{from} to {to}, {between}");
                // And up again: what was cut off does not come back.
                let more = to + PAGE + 3;
                file.set_size(more as u64).unwrap();
                file = step(file);
                model.resize(more, 0);
                assert!(contents(&file) == model, "{from} to {to} and up, {between}");
                file.append(b"end").unwrap();
                model.extend(b"end");
                file = step(file);
                assert!(contents(&file) == model, "{from} to {to} and on, {between}");
                file.sync_data().unwrap();
                assert_eq!(stored(&storage).len(), stored_size(model.len(), PAGE));
                if between == 3 {
                    assert!(reopened(&storage, &hooks) == model);
                }
            }
        }
    }
}

/// A file, and what it should have.
struct History {
    cache: Cache,
    file: Option<File>,
    model: Vec<u8>,
    /// What it was opened as.
    options: OpenOptions,
    page: usize,
}

const MOST: u64 = 60_000;

impl History {
    fn file(&self) -> &File {
        self.file.as_ref().unwrap()
    }

    /// A position: anywhere, or around the end of a page.
    fn place(&self, rng: &mut Rng) -> usize {
        match rng.below(3) {
            0 => rng.below(MOST) as usize,
            1 => self.model.len().saturating_sub(rng.index(30)) + rng.index(30),
            _ => (rng.index(6) * self.page + rng.index(5)).saturating_sub(2),
        }
    }

    fn step(&mut self, rng: &mut Rng, reopen: &mut dyn FnMut(&OpenOptions) -> File) {
        let page = self.page as u64;
        let at = self.place(rng);
        let pages = {
            let first = rng.below(MOST / page + 1);
            first * page..(first + 1 + rng.below(4)) * page
        };
        match rng.below(20) {
            0..=5 => {
                let most = if rng.one_in(3) { 20_000 } else { 200 };
                let bytes = content(rng.next_u64(), rng.index(most));
                assert_eq!(
                    self.file().write_at(&bytes, at as u64).unwrap(),
                    bytes.len()
                );
                if !bytes.is_empty() {
                    let end = at + bytes.len();
                    self.model.resize(self.model.len().max(end), 0);
                    self.model[at..end].copy_from_slice(&bytes);
                }
            }
            6..=8 => {
                let bytes = content(rng.next_u64(), rng.index(6000));
                if self.model.len() < 2 * MOST as usize {
                    self.file().append(&bytes).unwrap();
                    self.model.extend(&bytes);
                }
            }
            9 | 10 => {
                self.file().set_size(at as u64).unwrap();
                self.model.resize(at, 0);
            }
            11 | 14 => self.file().sync_data().unwrap(),
            12 => _ = self.file().flush(pages).unwrap(),
            13 => self.file().sync_range(pages).unwrap(),
            15 => self.file().invalidate(pages),
            16 => {
                let at = rng.below(MOST / page) * page;
                _ = self.file().flush(at..at + page).unwrap();
            }
            17 if rng.one_in(2) => {
                self.file.take().unwrap().close().unwrap();
                self.file = Some(reopen(&self.options));
            }
            _ => {}
        }
        assert_eq!(self.file().size(), self.model.len() as u64);
        let mut buf = vec![0xa5; rng.index(20_000)];
        let n = self.file().read_at(&mut buf, at as u64).unwrap();
        let expected = self.model.get(at..).unwrap_or_default();
        assert_eq!(n, expected.len().min(buf.len()));
        assert!(buf[..n] == expected[..n], "{n} bytes at {at}");
    }
}

fn run_history(
    rng: &mut Rng,
    options: OpenOptions,
    page: usize,
    mut reopen: impl FnMut(&Cache, &OpenOptions) -> File,
) -> Vec<u8> {
    // Few frames, so that pages come and go.
    let cache = cache(8 * (page / PAGE) as u64 + 24 + rng.below(40));
    let file = Some(reopen(&cache, &options));
    let mut history = History {
        cache: cache.clone(),
        file,
        model: Vec::new(),
        options,
        page,
    };
    for _ in 0..60 {
        let cache = history.cache.clone();
        history.step(rng, &mut |options| reopen(&cache, options));
    }
    let file = history.file.take().unwrap();
    assert!(contents(&file) == history.model);
    file.close().unwrap();
    assert_all_free(&cache);
    history.model
}

#[test]
fn random_histories_agree_with_a_vector() {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(120), "histories", move || {
        for part in 0..150 {
            let mut rng = seed.part(part);
            let page = PAGE << rng.below(3);
            let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
            let mut options = OpenOptions::new()
                .write()
                .page_size(page)
                .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
            if rng.one_in(2) {
                // As much as a manual history may have dirty is another matter.
                options = options.before_write(|_, _| Ok(()));
            }
            let model = run_history(&mut rng, options, page, |cache, options| {
                open(cache, &storage, options)
            });
            assert_eq!(stored(&storage).len(), stored_size(model.len(), page));
        }
    });
}

#[test]
fn random_histories_of_files_of_the_system_agree_with_a_vector() {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(120), "histories", move || {
        for part in 0..40 {
            let mut rng = seed.part(part);
            let page = PAGE << rng.below(2);
            let dir = scratch::dir();
            let path = dir.path().join("file");
            let hooks = Arc::new(Keyed::default());
            let direct = if rng.one_in(2) {
                Direct::Auto
            } else {
                Direct::Never
            };
            let options = OpenOptions::new()
                .create()
                .direct(direct)
                .page_size(page)
                .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
            let model = run_history(&mut rng, options.clone(), page, |cache, options| {
                cache.open_with(&path, options).unwrap()
            });
            let len = std::fs::metadata(&path).unwrap().len() as usize;
            assert_eq!(len, stored_size(model.len(), page));
            let reader = OpenOptions::new()
                .page_size(page)
                .direct(direct)
                .page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
            let file = cache(64).open_with(&path, &reader).unwrap();
            assert!(contents(&file) == model);
        }
    });
}

#[test]
fn readers_see_what_was_written_and_never_what_is_stored() {
    let (storage, hooks) = (memory(), Arc::new(Checked::default()));
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    let bytes = content(3, PAGE - 8);
    file.write_at(&bytes, 0).unwrap();
    let pin = file.pin(0).unwrap();
    file.sync_data().unwrap();
    // The same frame, with the same bytes.
    assert!(*pin == bytes[..] && contents(&file) == bytes);
    assert_eq!(&stored(&storage)[PAGE - 8..PAGE - 4], b"sum:");
    drop(pin);
    file.invalidate(0..u64::MAX);
    assert!(contents(&file) == bytes);
}

#[test]
fn the_pages_of_a_request_come_together_and_in_order() {
    let (storage, hooks) = (memory(), Arc::new(Checked::default()));
    // A reserve of eight chunks of eight pages.
    let cache = cache(4096);
    let file = open(&cache, &storage, &manual(&hooks));
    for page in 0..20 {
        file.write_at(&[1; PAGE - 8], page * PAGE as u64).unwrap();
    }
    file.set_size(20 * PAGE as u64).unwrap();
    assert_eq!(file.flush(0..u64::MAX).unwrap(), 20);
    assert_eq!(*hooks.calls.lock().unwrap(), [8, 8, 4]);
    file.sync_data().unwrap();
    assert_eq!(hooks.calls.lock().unwrap().len(), 3);
}

#[test]
fn a_reader_finds_out_that_the_file_has_grown_or_was_cut() {
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let (writers, readers) = (cache(64), cache(64));
    let file = open(&writers, &storage, &manual(&hooks));
    let options = OpenOptions::new().page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
    let reader = open(&readers, &storage, &options);
    assert_eq!(reader.size(), 0);
    let mut model = Vec::new();
    for (nr, size) in [100, 5000, 4096, 4095, 3 * 4096 + 1, 7, 0, 9000]
        .into_iter()
        .enumerate()
    {
        file.set_size(size).unwrap();
        model.resize(size as usize, 0);
        if size != 0 {
            file.write_at(&[nr as u8; 50], size - 7).unwrap();
            model.resize(size as usize + 43, 0);
            model[size as usize - 7..].fill(nr as u8);
        }
        file.sync_data().unwrap();
        assert_eq!(reader.refresh().unwrap(), model.len() as u64);
        reader.invalidate(0..u64::MAX);
        assert!(contents(&reader) == model);
    }
}

#[test]
fn a_truncating_open_repairs_a_file_of_an_impossible_size() {
    let dir = scratch::dir();
    let path = dir.path().join("file");
    let hooks = Arc::new(Keyed::default());
    for size in [1, PAGE - 1] {
        std::fs::write(&path, vec![1; size]).unwrap();
        let error = cache(64).open_with(&path, &manual(&hooks)).unwrap_err();
        assert_eq!(error.kind(), pagewell::ErrorKind::Corrupt, "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), size as u64);

        let cache = cache(64);
        let file = cache.open_with(&path, &manual(&hooks).truncate()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(file.size(), 0);
        file.write_at(&content(3, PAGE + 10), 0).unwrap();
        file.close().map_err(|(_, error)| error).unwrap();
        let file = cache.open_with(&path, &manual(&hooks)).unwrap();
        assert!(contents(&file) == content(3, PAGE + 10));
    }
}

#[test]
fn a_storage_of_an_impossible_size_is_refused() {
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let cache = cache(64);
    for size in [1, 8, PAGE - 1] {
        storage.modify(|bytes| *bytes = vec![1; size]);
        for options in [
            manual(&hooks),
            OpenOptions::new().page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>),
        ] {
            let opened = cache.open_backend_with(Arc::clone(&storage), "file", &options);
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), pagewell::ErrorKind::Corrupt, "{error}");
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains(&format!("{size} bytes")), "{source}");
        }
    }
    // A reader meets it later.
    storage.modify(|bytes| bytes.resize(PAGE, 1));
    let options = OpenOptions::new().page_hooks(Arc::clone(&hooks) as Arc<dyn PageHooks>);
    let reader = open(&cache, &storage, &options);
    storage.modify(|bytes| bytes.truncate(17));
    let error = reader.refresh().unwrap_err();
    assert_eq!(error.kind(), pagewell::ErrorKind::Corrupt, "{error}");
    assert_eq!(reader.size(), PAGE as u64);
    let mut buf = [0; 10];
    let error = reader.read_at(&mut buf, 0).unwrap_err();
    assert_eq!(error.kind(), pagewell::ErrorKind::Truncated, "{error}");
    drop(reader);
    assert_all_free(&cache);
}

#[test]
fn who_names_other_hooks_for_an_open_file_is_told() {
    let (storage, hooks) = (memory(), Arc::new(Keyed::default()));
    let cache = cache(64);
    let file = open(&cache, &storage, &manual(&hooks));
    let again =
        |options: &OpenOptions| cache.open_backend_with(Arc::clone(&storage), "file", options);
    let other = again(&manual(&Arc::new(Keyed::default()))).unwrap_err();
    assert_eq!(
        other.kind(),
        pagewell::ErrorKind::OptionsMismatch,
        "{other}"
    );
    // Who names none gets the file's, as with other options.
    let named_none = again(&OpenOptions::new()).unwrap();
    file.append(b"bytes").unwrap();
    assert_eq!(contents(&named_none), b"bytes");
    assert!(again(&manual(&hooks)).is_ok());
    drop((file, named_none));
    let plain = again(&OpenOptions::new()).unwrap();
    assert_eq!(plain.size(), storage.size().unwrap());
    let error = again(&OpenOptions::new().page_hooks(hooks)).unwrap_err();
    assert_eq!(
        error.kind(),
        pagewell::ErrorKind::OptionsMismatch,
        "{error}"
    );
}
