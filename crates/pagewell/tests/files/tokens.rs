//! Tokens: what counts as a change, whose they are, and readers that go from page to page while writers publish several.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagewell::io::MemoryBackend;
use pagewell::{Cache, ErrorKind, File, OpenOptions, Token, TokenState, Torn, Writeback};
use pagewell_testkit::content;
use pagewell_testkit::wait::not_yet;

use crate::support::{PAGE, assert_all_free, cache};

const PAGES: usize = 4;

fn writable(cache: &Cache) -> File {
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let backend = MemoryBackend::writable(content(1, PAGES * PAGE));
    cache
        .open_backend_with(backend, "tokens", &options)
        .expect("a file in memory")
}

fn token(file: &File, page: u64) -> Token {
    let token = file.view(page, |v| Ok(v.token())).expect("a page");
    assert_eq!(token.page(), page);
    assert_eq!(file.token_state(&token), TokenState::Unchanged);
    token
}

/// Has a token from before, of page 1, and says whether it is good after `what` was done.
#[track_caller]
fn after(file: &File, what: impl Fn()) -> bool {
    // Of a view that had a reference, if the page was not marked; and of one without.
    let first = token(file, 1);
    file.pin(1).expect("a page");
    let token = token(file, 1);
    what();
    let is_unchanged = file.is_unchanged(&token);
    assert_eq!(is_unchanged, file.is_unchanged(&first));
    let state = file.token_state(&token);
    assert_eq!(is_unchanged, state == TokenState::Unchanged);
    assert_eq!(!is_unchanged, state == TokenState::Changed, "{token:?}");
    is_unchanged
}

#[test]
fn a_token_says_what_has_become_of_its_page() {
    let cache = cache(64);
    let file = writable(&cache);
    let page = content(2, PAGE);
    let start = PAGE as u64;
    let write = |at: u64| assert_eq!(file.write_at(&page, at).expect("a write"), PAGE);

    // What is no change.
    assert!(after(&file, || ()));
    assert!(after(&file, || drop(file.pin(1).expect("a page"))));
    assert!(after(&file, || {
        file.read_at(&mut [0; 100], start).expect("a page");
    }));
    assert!(after(&file, || assert_eq!(token(&file, 1).page(), 1)));
    assert!(after(&file, || write(2 * start)));
    write(start);
    assert!(after(&file, || file
        .sync_all()
        .expect("a storage in memory")));
    assert!(after(&file, || file.pin_mut(1).expect("a page").cancel()));

    // What is one.
    assert!(!after(&file, || write(start)));
    assert!(!after(&file, || write(start)), "the same bytes");
    assert!(!after(&file, || {
        let pin = file.pin(1).expect("a page");
        write(start);
        drop(pin);
    }));
    assert!(!after(&file, || drop(file.pin_mut(1).expect("a page"))));
    assert!(!after(&file, || {
        let published = file.pin_mut(1).expect("a page").publish();
        drop(published);
    }));
    assert!(!after(&file, || {
        write(start);
        file.discard(0..u64::MAX).expect("a storage in memory");
    }));
    file.sync_all().expect("a storage in memory");
    assert!(!after(&file, || file.invalidate(0..u64::MAX)));
    assert!(!after(&file, || {
        file.invalidate(0..u64::MAX);
        assert_eq!(token(&file, 1).page(), 1);
    }));
    assert!(!after(&file, || {
        cache.reclaim(100);
    }));
    assert!(!after(&file, || {
        cache.reclaim(100);
        file.pin(1).expect("a page");
    }));

    // The end of the file.
    assert!(after(&file, || file.set_size(2 * start).expect("a cut")));
    assert!(!after(&file, || file.set_size(start + 100).expect("a cut")));
    assert!(!after(&file, || file.set_size(start + 99).expect("a cut")));
    assert!(after(&file, || file.set_size(start + 99).expect("no cut")));
    assert!(!after(&file, || {
        file.append(b"more").expect("room");
    }));
    assert!(!after(&file, || file.set_size(3 * start).expect("room")));
    assert!(!after(&file, || file.set_size(start).expect("a cut")));
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn a_page_that_is_given_up_keeps_its_tokens() {
    let cache = cache(64);
    let file = writable(&cache);
    let before = token(&file, 0);
    let mut page = file.pin_mut(0).expect("a page");
    // Locked is not changed, and is no claim.
    assert_eq!(file.token_state(&before), TokenState::Unchanged);
    page.fill(9);
    page.cancel();
    assert_eq!(file.token_state(&before), TokenState::Unchanged);
    assert_eq!(
        file.view(0, |v| v.u8(0)).expect("a page"),
        content(1, PAGE)[0]
    );
    // Of a guard of no thread too.
    let detached = file.pin_mut(0).expect("a page").detach();
    detached.cancel();
    assert!(file.is_unchanged(&before));
    assert_eq!(file.flush(0..u64::MAX).expect("a storage in memory"), 0);
    // The page is free to be written.
    drop(file.try_pin_mut(0).expect("nobody has it"));
    assert!(!file.is_unchanged(&before));
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn a_published_page_is_seen_and_stays_locked() {
    let cache = cache(64);
    let file = writable(&cache);
    for is_pinned in [false, true] {
        let pin = is_pinned.then(|| file.pin(0).expect("a page"));
        let mut page = file.pin_mut(0).expect("a page");
        page.fill(if is_pinned { 4 } else { 3 });
        page.set_lsn(7);
        let published = page.publish();
        let of_published = token(&file, 0);
        let byte = published[0];
        assert!(published.iter().all(|b| *b == byte));
        assert_eq!(file.view(0, |v| v.u8(77)).expect("a page"), byte);
        let refused = file.try_pin_mut(0).expect_err("it is locked");
        assert_eq!(refused.kind(), ErrorKind::Locked);
        let refused = file.write_at(b"x", 0).expect_err("it is our own");
        assert_eq!(refused.kind(), ErrorKind::Deadlock);
        file.sync_data().expect("a storage in memory");
        assert_eq!(cache.reclaim(100), 0, "the page stays, durable as it is");
        drop((published, pin));
        assert!(file.is_unchanged(&of_published), "to unlock is no change");
        file.write_at(&[1; PAGE], 0).expect("nobody has it");
        file.sync_all().expect("a storage in memory");
    }
    // Another thread waits until it is unlocked. Other wake-ups of the same call reach it where words share a bucket of the
    // wait table, which is not so for every page.
    for page in 0..PAGES as u64 {
        let start = page * PAGE as u64;
        let published = {
            let mut guard = file.pin_mut(page).expect("a page");
            guard.fill(5);
            guard.publish()
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| file.write_at(&[6; PAGE], start).expect("a write"));
            not_yet("a page that is locked is written", || {
                assert_eq!(file.view(page, |v| v.u8(0)).expect("a page"), 5);
                writer.is_finished()
            });
            drop(published);
            assert_eq!(writer.join().expect("no panic"), PAGE);
        });
        assert_eq!(file.view(page, |v| v.u8(0)).expect("a page"), 6);
    }
    // Cut off under its guard: nothing is left to unlock.
    let published = file.pin_mut(1).expect("a page").publish();
    file.set_size(10).expect("a cut");
    drop(published);
    file.set_size(2 * PAGE as u64).expect("room");
    file.pin_mut(1).expect("nobody has it").cancel();
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn tokens_are_of_one_file() {
    let ours = cache(64);
    let theirs = cache(64);
    let files = [writable(&ours), writable(&ours), writable(&theirs)];
    let tokens = files.each_ref().map(|file| token(file, 1));
    for (i, file) in files.iter().enumerate() {
        for (j, token) in tokens.iter().enumerate() {
            assert_eq!(file.is_unchanged(token), i == j, "token {j} at file {i}");
        }
        assert!(file.clone().is_unchanged(&tokens[i]), "of the same file");
    }
    // A page that the file does not have, and one that its index does not reach.
    let large = theirs
        .open_backend(MemoryBackend::new(vec![0; 1]), "small")
        .expect("a file in memory");
    assert!(tokens.iter().all(|token| !large.is_unchanged(token)));
    drop((files, large));

    // Closed and opened again, with the same slots and frames as likely as not.
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(3, 2 * PAGE)).expect("a file");
    let file = ours.open(&path).expect("the file");
    let before = token(&file, 1);
    drop(file);
    let file = ours.open(&path).expect("the file");
    let _now = token(&file, 1);
    assert_eq!(file.token_state(&before), TokenState::Changed);
    drop(file);
    assert_all_free(&ours);
}

#[test]
fn what_a_look_changes_voids_its_own_token() {
    let cache = cache(64);
    let file = writable(&cache);
    file.pin(0).expect("a page");
    file.pin(0).expect("a page");
    let mut leaked = Vec::new();
    let last = file
        .view(0, |v| {
            let before = v.token();
            file.write_at(&[leaked.len() as u8; 8], 0)
                .map_err(|_| Torn)?;
            leaked.extend([before, v.token()]);
            v.u8(0)?;
            Ok(v.token())
        })
        .expect("an answer");
    // Each look wrote, so each token was of a page that was gone by then, the last one's, with a reference, too.
    assert!(leaked.len() > 2);
    assert!(leaked.iter().all(|token| !file.is_unchanged(token)));
    assert!(!file.is_unchanged(&last));
    assert!(format!("{last:?}").contains("page: 0"), "{last:?}");
    drop(file);
    assert_all_free(&cache);
}

/// A key moves to and fro between two pages, and a third one says where it is; by pages that are published in order, and by plain
/// writes in order; with pins, evictions and syncs in between.
#[test]
fn readers_that_check_their_tokens_miss_nothing() {
    const ROUNDS: u64 = 3000;
    let cache = cache(64);
    let file = writable(&cache);
    // Page 0 says in which page the key is; the page with the key has the round, the other one 0.
    for (page, value) in [(0, 1_u64), (1, 1), (2, 0)] {
        let at = page * PAGE as u64;
        file.write_at(&value.to_le_bytes(), at).expect("a write");
    }
    let (is_over, nr_found) = (AtomicBool::new(false), AtomicU64::new(0));
    let look = || -> Option<u64> {
        let (page, of_parent) = file
            .view(0, |v| Ok((v.u64_le(0)?, v.token())))
            .expect("a page");
        let round = file.view(page, |v| v.u64_le(0)).expect("a page");
        file.is_unchanged(&of_parent).then_some(round)
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Relaxed) {
                    if let Some(round) = look() {
                        assert_ne!(round, 0, "the key was missed after round {last}");
                        assert!(round >= last, "round {round} after {last}");
                        last = round;
                        nr_found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = file.sync_data();
                cache.reclaim(3);
                drop(file.pin(1));
            }
        });
        for round in 2..=ROUNDS {
            let (to, from) = (2 - round % 2, 1 + round % 2);
            if round % 3 == 0 {
                for (page, value) in [(to, round), (0, to), (from, 0)] {
                    let at = page * PAGE as u64;
                    file.write_at(&value.to_le_bytes(), at).expect("a write");
                }
            } else {
                let mut published = Vec::new();
                for (page, value) in [(to, round), (0, to), (from, 0)] {
                    let mut guard = file.pin_mut(page).expect("a page");
                    guard[..8].copy_from_slice(&value.to_le_bytes());
                    published.push(guard.publish());
                }
                drop(published);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(nr_found.into_inner() > 0);
    assert_eq!(look(), Some(ROUNDS));
    drop(file);
    assert_all_free(&cache);
}
