//! Pins that are announced instead of counted: what is promised of a pin holds, whatever becomes of the guard, of its thread, and of the page.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use pagewell::io::MemoryBackend;
use pagewell::{Cache, File, HugePages, Nodes, OpenOptions, OwnedPageGuard, PageGuard, Writeback};

const PAGE: usize = 4096;
const BYTE: u8 = 0xA5;

fn cache_of(nr_frames: u64) -> Cache {
    let builder = Cache::builder()
        .capacity(nr_frames * PAGE as u64)
        .nodes(Nodes::Unbound(1))
        .huge_pages(HugePages::Never);
    builder.build().unwrap()
}

fn open(cache: &Cache, nr_pages: usize) -> File {
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let backend = MemoryBackend::writable(vec![BYTE; nr_pages * PAGE]);
    cache
        .open_backend_with(backend, "announced", &options)
        .unwrap()
}

/// Pins a page until pins of it are announced. None where they never are: the system has no `membarrier(2)`.
fn announced(file: &File, page: u64) -> Option<PageGuard<'_>> {
    let mut pins = (0..100).map(|_| file.pin(page).unwrap());
    let guard = pins.find(PageGuard::is_announced);
    if guard.is_none() {
        println!("skipped: this system announces no pins");
    }
    guard
}

fn nr_marked(cache: &Cache) -> usize {
    cache.frames().pool().nr_marked()
}

/// Everything is given back when the file is closed.
#[track_caller]
fn assert_all_free(cache: &Cache) {
    let frames = cache.frames();
    frames.pool().verify().unwrap();
    let stats = frames.pool().stats();
    assert_eq!(frames.pool().nr_marked(), 0);
    assert_eq!(stats.nr_available(), stats.nr_frames, "{stats:?}");
}

fn is_full_of(guard: &[u8], byte: u8) -> bool {
    guard.len() == PAGE && guard.iter().all(|b| *b == byte)
}

#[test]
fn a_page_that_is_pinned_once_is_counted_and_one_that_is_pinned_often_is_announced() {
    let cache = cache_of(256);
    let file = open(&cache, 64);
    for page in 0..64 {
        assert!(!file.pin(page).unwrap().is_announced());
    }
    assert_eq!(nr_marked(&cache), 0);
    let Some(guard) = announced(&file, 3) else {
        return;
    };
    assert!(is_full_of(&guard, BYTE));
    assert!(!file.pin_counted(3).unwrap().is_announced());
    assert!(!file.pin(4).unwrap().is_announced());
    assert_eq!(nr_marked(&cache), 1);
    drop(guard);
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn nested_pins_are_announced_until_a_thread_has_too_many() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let Some(first) = announced(&file, 0) else {
        return;
    };
    let mut guards = vec![first];
    guards.extend((0..40).map(|_| file.pin(0).unwrap()));
    let nr = guards.iter().filter(|guard| guard.is_announced()).count();
    assert!((2..40).contains(&nr), "{nr}");
    assert!(guards.iter().all(|guard| is_full_of(guard, BYTE)));
    // In no order; and then there is room again.
    while guards.len() > 1 {
        guards.swap_remove(guards.len() / 2);
    }
    assert!(file.pin(0).unwrap().is_announced());
    drop(guards);
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn a_writer_does_not_change_what_is_pinned() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let Some(guard) = announced(&file, 0) else {
        return;
    };
    file.write_at(&[1; PAGE], 0).unwrap();
    assert!(is_full_of(&guard, BYTE));
    assert!(is_full_of(&file.pin(0).unwrap(), 1));
    let mut page = file.pin_mut(0).unwrap();
    page.fill(2);
    drop(page);
    assert!(is_full_of(&guard, BYTE));
    assert!(is_full_of(&file.pin(0).unwrap(), 2));
    drop(guard);
    file.sync_all().unwrap();
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn the_frame_of_a_page_that_was_replaced_is_free_when_the_last_pin_goes() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let available = || cache.frames().pool().stats().nr_available();
    let before = {
        drop(file.pin(0).unwrap());
        available()
    };
    let Some(guard) = announced(&file, 0) else {
        return;
    };
    // So many that a look is made, which finds this one pinned.
    for _ in 0..100 {
        while !file.pin(1).unwrap().is_announced() {}
        file.write_at(&[1], 0).unwrap();
        file.write_at(&[1], PAGE as u64).unwrap();
    }
    cache.frames().pool().look_at_announced();
    assert!(is_full_of(&guard, BYTE));
    let pinned = available();
    drop(guard);
    assert_eq!(available(), pinned + 1, "the last pin frees the frame");
    // Page 1 has been read in too.
    assert!(available() + 2 >= before);
    file.sync_all().unwrap();
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn a_page_that_is_pinned_stays_and_one_that_was_pinned_often_can_go() {
    let cache = cache_of(64);
    let file = open(&cache, 1024);
    let Some(guard) = announced(&file, 0) else {
        return;
    };
    drop(announced(&file, 1));
    assert_eq!(nr_marked(&cache), 2);
    let at = guard.as_ptr();
    let mut buf = [0; PAGE];
    // Many times the cache.
    for page in 2..1024 {
        file.read_at(&mut buf, page * PAGE as u64).unwrap();
    }
    assert_eq!(nr_marked(&cache), 1, "a page that nobody pins keeps a mark");
    assert!(is_full_of(&guard, BYTE));
    let again = file.pin(0).unwrap();
    assert_eq!(again.as_ptr(), at, "a pinned page was evicted");
    drop((again, guard));
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn pages_that_were_pinned_often_make_room_for_the_last_frame() {
    // More marks than there is room for all the rest.
    let cache = cache_of(64);
    let file = open(&cache, 256);
    for page in 0..8 {
        drop(announced(&file, page));
    }
    // As many pins, counted, as the cache has room for: each needs a frame.
    let mut guards = Vec::new();
    for page in 100..256 {
        match file.pin(page) {
            Ok(guard) => guards.push(guard),
            Err(_) => break,
        }
    }
    assert_eq!(nr_marked(&cache), 0, "a mark has kept a frame");
    assert!(guards.len() >= 50, "{}", guards.len());
    drop(guards);
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn invalidating_and_cutting_leave_pins_alone() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let Some(guard) = announced(&file, 0) else {
        return;
    };
    file.invalidate(0..PAGE as u64);
    assert!(is_full_of(&guard, BYTE));
    let Some(other) = announced(&file, 3) else {
        return;
    };
    file.set_size(PAGE as u64).unwrap();
    assert!(is_full_of(&other, BYTE));
    assert!(file.pin(3).is_err());
    let again = file.pin(0).unwrap();
    assert_ne!(again.as_ptr(), guard.as_ptr());
    drop((again, guard, other));
    file.sync_all().unwrap();
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn the_last_page_is_cut_at_the_size_of_the_file() {
    let cache = cache_of(256);
    let file = open(&cache, 2);
    let Some(guard) = announced(&file, 1) else {
        return;
    };
    assert_eq!(guard.len(), PAGE);
    drop(guard);
    file.set_size(PAGE as u64 + 100).unwrap();
    let guard = announced(&file, 1).unwrap();
    assert_eq!(guard.len(), 100);
    file.write_at(&[7; 200], PAGE as u64).unwrap();
    assert_eq!(guard.len(), 100);
    assert!(guard.iter().all(|byte| *byte == BYTE));
    drop(guard);
    file.sync_all().unwrap();
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn guards_may_be_sent_and_dropped_elsewhere() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let Some(first) = announced(&file, 0) else {
        return;
    };
    // More than a thread has room for: what others have dropped is room again.
    for _ in 0..100 {
        let guard = file.pin(0).unwrap();
        assert!(guard.is_announced());
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(is_full_of(&guard, BYTE));
                drop(guard);
            });
        });
    }
    file.write_at(&[1; PAGE], 0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(is_full_of(&first, BYTE));
            drop(first);
        });
    });
    file.sync_all().unwrap();
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn guards_outlive_their_threads_and_successors_have_room() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    if announced(&file, 0).is_none() {
        return;
    }
    let mut guards = Vec::new();
    // One after the other, so that they have the same number, as a rule; each leaves more pins than half of what it has room for.
    for _ in 0..20 {
        let left = thread::scope(|scope| {
            let worker = scope.spawn(|| {
                drop(announced(&file, 0));
                let pins: Vec<_> = (0..9).map(|_| file.pin(0).unwrap()).collect();
                assert!(pins.iter().all(PageGuard::is_announced));
                pins
            });
            worker.join().unwrap()
        });
        guards.extend(left);
    }
    file.write_at(&[1; PAGE], 0).unwrap();
    assert!(guards.iter().all(|guard| is_full_of(guard, BYTE)));
    // Half of them elsewhere.
    let rest = guards.split_off(guards.len() / 2);
    thread::scope(|scope| {
        scope.spawn(move || drop(rest));
    });
    assert!(guards.iter().all(|guard| is_full_of(guard, BYTE)));
    drop(guards);
    file.sync_all().unwrap();
    drop(file);
    assert_all_free(&cache);
}

#[test]
fn a_guard_that_is_leaked_keeps_its_frame_and_no_other() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let Some(guard) = announced(&file, 0) else {
        return;
    };
    let bytes: *const u8 = guard.as_ptr();
    std::mem::forget(guard);
    file.write_at(&[1; PAGE], 0).unwrap();
    for page in 1..4 {
        let guard = announced(&file, page).unwrap();
        assert!(is_full_of(&guard, BYTE));
    }
    assert_ne!(file.pin(0).unwrap().as_ptr(), bytes);
    file.sync_all().unwrap();
    drop(file);
    let stats = cache.frames().pool().stats();
    assert_eq!(stats.nr_available() + 1, stats.nr_frames, "{stats:?}");
    assert_eq!(nr_marked(&cache), 1);
}

#[test]
fn a_guard_keeps_its_frame_when_other_handles_go() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let other = file.clone();
    let Some(guard) = announced(&file, 0) else {
        return;
    };
    drop(other);
    drop(cache.clone());
    assert!(is_full_of(&guard, BYTE));
    drop(guard);
    let frames = cache.frames();
    drop(file);
    drop(cache);
    let stats = frames.pool().stats();
    assert_eq!(stats.nr_available(), stats.nr_frames);
}

/// Pinners, writers of whole pages, readers far away that evict, and a thread that takes pages out: every pinned page is whole, and stays as it is.
#[test]
fn pinned_pages_stay_whole_beside_writers_and_evictions() {
    const HOT: u64 = 4;
    let cache = cache_of(64);
    let file = open(&cache, 512);
    for page in 0..HOT {
        file.write_at(&[1; PAGE], page * PAGE as u64).unwrap();
    }
    file.sync_all().unwrap();
    let (is_over, start) = (AtomicBool::new(false), Barrier::new(5));
    let (file, is_over, start) = (&file, &is_over, &start);
    let nr_announced = thread::scope(|scope| {
        let pinners: Vec<_> = (0..2_u64)
            .map(|worker| {
                scope.spawn(move || {
                    start.wait();
                    let (mut kept, mut nr_announced) = (Vec::new(), 0);
                    for round in 0..20_000_u64 {
                        let guard = file.pin((round + worker) % HOT).unwrap();
                        let first = guard[0];
                        assert!(is_full_of(&guard, first));
                        nr_announced += u64::from(guard.is_announced());
                        if round % 64 == 0 {
                            kept.push((guard, first));
                        }
                        if kept.len() > 8 {
                            let (guard, first) = kept.swap_remove((round % 7) as usize);
                            assert!(is_full_of(&guard, first), "a pinned page has changed");
                        }
                    }
                    nr_announced
                })
            })
            .collect();
        scope.spawn(move || {
            start.wait();
            let mut byte = 0_u8;
            while !is_over.load(Ordering::Relaxed) {
                byte = byte.wrapping_add(1);
                let page = u64::from(byte) % HOT;
                file.write_at(&[byte; PAGE], page * PAGE as u64).unwrap();
                thread::yield_now();
                if byte.is_multiple_of(16) {
                    file.sync_all().unwrap();
                }
            }
        });
        scope.spawn(move || {
            start.wait();
            let mut buf = [0; PAGE];
            for page in (HOT..512).cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                file.read_at(&mut buf, page * PAGE as u64).unwrap();
            }
        });
        scope.spawn(move || {
            start.wait();
            while !is_over.load(Ordering::Relaxed) {
                file.invalidate(0..HOT * PAGE as u64);
                thread::yield_now();
            }
        });
        let nr: Vec<u64> = pinners.into_iter().map(|p| p.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        nr.into_iter().sum::<u64>()
    });
    println!("{nr_announced} pins were announced");
    let cache = Arc::new(cache);
    file.sync_all().unwrap();
    assert!(nr_marked(&cache) <= 64);
}

/// As [`announced`], a pin that borrows nothing.
fn owned(file: &File, page: u64) -> Option<OwnedPageGuard> {
    let mut pins = (0..100).map(|_| file.pin_owned(page).unwrap());
    let guard = pins.find(OwnedPageGuard::is_announced);
    if guard.is_none() {
        println!("skipped: this system announces no pins");
    }
    guard
}

#[test]
fn an_owned_pin_keeps_its_bytes_whatever_becomes_of_page_file_and_cache() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let Some(written) = owned(&file, 0) else {
        return;
    };
    let (cut, invalid, closed) = (owned(&file, 3), owned(&file, 1), owned(&file, 2));
    let [cut, invalid, closed] = [cut, invalid, closed].map(Option::unwrap);
    assert!(!file.pin_owned_counted(0).unwrap().is_announced());
    file.write_at(&[1; PAGE], 0).unwrap();
    file.invalidate(PAGE as u64..2 * PAGE as u64);
    file.set_size(3 * PAGE as u64).unwrap();
    assert_ne!(file.pin(0).unwrap().as_ptr(), written.as_ptr());
    file.sync_all().unwrap();
    let guards = [written, invalid, cut, closed];
    let all_are_whole = || guards.iter().all(|guard| is_full_of(guard, BYTE));
    assert!(all_are_whole());
    drop(file);
    assert!(all_are_whole());
    let stats = cache.frames().pool().stats();
    assert_eq!(stats.nr_available() + 4, stats.nr_frames, "{stats:?}");
    // What is free is used for something else.
    let other = open(&cache, 300);
    let mut buf = [0; PAGE];
    for page in 0..300 {
        other.write_at(&[7; PAGE], page * PAGE as u64).unwrap();
        other.read_at(&mut buf, page * PAGE as u64).unwrap();
        if page % 16 == 15 {
            other.sync_all().unwrap();
        }
    }
    assert!(all_are_whole());
    drop(other);
    drop(cache);
    assert!(all_are_whole());
    // A cache that comes after it uses its slots only when the pins are gone.
    let next = cache_of(64);
    let file = open(&next, 2);
    drop(owned(&file, 0));
    assert!(all_are_whole());
    drop(guards);
    assert!(owned(&file, 1).is_some());
    drop(file);
    assert_all_free(&next);
}

#[test]
fn the_frames_of_owned_pins_are_free_when_they_go() {
    let cache = cache_of(256);
    let file = open(&cache, 4);
    let Some(guard) = owned(&file, 0) else {
        return;
    };
    let more: Vec<_> = (0..40).map(|_| file.pin_owned(0).unwrap()).collect();
    assert!(more.iter().any(|guard| !guard.is_announced()));
    drop(file);
    let nr_free = || cache.frames().pool().stats().nr_available();
    let all = cache.frames().pool().nr_frames();
    assert_eq!(nr_free() + 1, all);
    drop(more);
    assert!(is_full_of(&guard, BYTE));
    assert_eq!(nr_free() + 1, all);
    drop(guard);
    assert_all_free(&cache);
}

#[test]
fn owned_pins_outlive_their_threads_and_then_the_cache() {
    let mut guards = Vec::new();
    {
        let cache = cache_of(256);
        let file = open(&cache, 4);
        if owned(&file, 0).is_none() {
            return;
        }
        // As of borrowed ones: successors hand over what is left to the count.
        for _ in 0..20 {
            let worker = {
                let file = file.clone();
                thread::spawn(move || {
                    drop(owned(&file, 0));
                    let pins: Vec<_> = (0..9).map(|_| file.pin_owned(0).unwrap()).collect();
                    assert!(pins.iter().all(OwnedPageGuard::is_announced));
                    pins
                })
            };
            guards.extend(worker.join().unwrap());
        }
        file.write_at(&[1; PAGE], 0).unwrap();
        file.sync_all().unwrap();
    }
    assert!(guards.iter().all(|guard| is_full_of(guard, BYTE)));
    let rest = guards.split_off(guards.len() / 2);
    thread::spawn(move || drop(rest)).join().unwrap();
    assert!(guards.iter().all(|guard| is_full_of(guard, BYTE)));
    drop(guards);
}

/// A guard in a variable of a thread goes when the thread has no number any more, and the cache has gone.
#[test]
fn an_owned_pin_goes_with_the_variables_of_its_thread() {
    thread_local! {
        static KEPT: RefCell<Option<OwnedPageGuard>> = const { RefCell::new(None) };
    }
    thread::spawn(|| {
        // Registered before the thread has a number.
        KEPT.with(|kept| kept.borrow_mut().take());
        let cache = cache_of(64);
        let file = open(&cache, 4);
        let guard = owned(&file, 0);
        KEPT.with(|kept| *kept.borrow_mut() = guard);
    })
    .join()
    .unwrap();
}

#[test]
fn pins_of_tasks_are_announced_too() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    let cache = cache_of(64);
    let file = open(&cache, 4);
    drop(file.pin(0).unwrap());
    let pinned = || {
        let mut future = pin!(file.pin_async(0));
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Ready(pinned) => pinned.unwrap(),
            Poll::Pending => panic!("a page that is cached"),
        }
    };
    if owned(&file, 0).is_none() {
        return;
    }
    let guard = pinned();
    assert!(guard.is_announced());
    assert!(is_full_of(&guard, BYTE));
    drop(guard);
    drop(file);
    assert_all_free(&cache);
}

/// Threads end their announcements of caches while others drop the last handle, and make the next cache, which gets the same slots.
#[test]
fn caches_end_while_threads_end_their_owned_pins() {
    const NR_WORKERS: usize = 3;
    let gone = Barrier::new(NR_WORKERS + 1);
    for round in 0..300_u64 {
        let cache = cache_of(64);
        let file = open(&cache, 4);
        thread::scope(|scope| {
            for worker in 0..NR_WORKERS as u64 {
                let (file, cache, gone) = (file.clone(), cache.clone(), &gone);
                scope.spawn(move || {
                    let page = (worker + round) % 2;
                    let mut pins: Vec<_> = (0..30).map(|_| file.pin_owned(page).unwrap()).collect();
                    let kept = pins.split_off(27);
                    drop(pins);
                    gone.wait();
                    drop((file, cache));
                    for guard in kept {
                        assert!(is_full_of(&guard, BYTE));
                        drop(guard);
                    }
                });
            }
            gone.wait();
            drop((file, cache));
        });
    }
}
