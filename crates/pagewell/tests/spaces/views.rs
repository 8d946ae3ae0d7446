//! Views of memory spaces: what they see of pages of every kind, where they end, and what their closures may do.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell::frame::{FramePool, Nodes, PoolConfig};
use pagewell::io::MemoryBackend;
use pagewell::space::{
    CacheSpaces as _, ErrorKind, MapOptions, Op, Policy, Protection, Sharing, Space, Spaces,
};
use pagewell::{OpenOptions, PageView, Torn, Writeback};
use pagewell_testkit::content;

use crate::support::PAGE;

fn spaces(nr_nodes: usize) -> Spaces {
    let mut config = PoolConfig::new(4096);
    config.nodes = Nodes::Unbound(nr_nodes);
    Spaces::new(FramePool::new(&config).expect("a small pool"))
}

/// Works for pages of files and of spaces alike.
fn all(v: &PageView<'_>) -> Result<Vec<u8>, Torn> {
    let mut bytes = vec![0; v.len()];
    v.copy_to(0, &mut bytes)?;
    Ok(bytes)
}

fn refused(space: &Space, range: std::ops::Range<u64>) -> ErrorKind {
    let error = space.view(range, |_| Ok(())).expect_err("no view");
    assert_eq!(error.op(), Op::View);
    error.kind()
}

#[test]
fn a_view_has_the_bytes_of_its_range_and_ends_there() {
    let spaces = spaces(1);
    let space = spaces.space().expect("a space");
    for order in [0, 2, 9] {
        let size = (PAGE as u64) << order;
        let options = MapOptions::new().page_bytes(size as usize);
        let area = space.map_with(4 << 20, &options).expect("an area");
        let bytes = content(5, 2 * size as usize);
        space.write(area.start, &bytes).expect("frames");
        for (from, to) in [
            (0, size),
            (0, 1),
            (size - 1, size),
            (7, 90),
            (size, size + 64),
        ] {
            let range = area.start + from..area.start + to;
            // Twice: an entry that has just been made may be looked at by reference.
            for _ in 0..2 {
                let seen = space.view(range.clone(), all).expect("a page");
                assert!(seen == bytes[from as usize..to as usize]);
            }
            let out = space.view(range, |v| {
                assert_eq!(v.u8((to - from) as usize), Err(Torn));
                Ok(v.len() as u64)
            });
            assert_eq!(out, Ok(to - from));
        }
        // Over the border of a page, also by as much as there are numbers.
        for to in [size + 1, 2 * size, u64::MAX - area.start] {
            let range = area.start + size - 1..area.start + to;
            assert_eq!(refused(&space, range), ErrorKind::Misaligned);
        }
    }
}

#[test]
fn what_cannot_be_viewed_says_why() {
    let spaces = spaces(1);
    let space = spaces.space().expect("a space");
    let area = space.map(1 << 20, Policy::Local).expect("an area");
    #[allow(clippy::reversed_empty_ranges)] // As a program may ask.
    for empty in [5..5, 6..5, u64::MAX..0] {
        assert_eq!(refused(&space, empty), ErrorKind::InvalidRange);
    }
    assert_eq!(refused(&space, area.end..area.end + 1), ErrorKind::Unmapped);
    assert_eq!(
        refused(&space, u64::MAX - 1..u64::MAX),
        ErrorKind::InvalidRange
    );
    space.write(area.start, &[1; 8]).expect("a frame");
    space
        .protect(area.start..area.start + (1 << 20), Protection::None)
        .expect("an area");
    let page = area.start..area.start + 8;
    assert_eq!(refused(&space, page.clone()), ErrorKind::Protected);
    space
        .protect(area.clone(), Protection::Read)
        .expect("an area");
    assert_eq!(space.view(page.clone(), |v| v.u8(7)), Ok(1));
    let error = space.view(page.clone(), |v| v.u8(8)).expect_err("outside");
    assert_eq!(
        (error.kind(), error.op(), error.addr()),
        (ErrorKind::Malformed, Op::View, Some(area.start))
    );
    let forever = |v: &PageView<'_>| -> Result<(), Torn> {
        loop {
            v.check()?;
        }
    };
    assert_eq!(
        space.view(page, forever).expect_err("no end").kind(),
        ErrorKind::Malformed
    );
}

#[test]
fn what_was_never_written_is_zeros_and_gets_no_frame() {
    let spaces = spaces(1);
    let space = spaces.space().expect("a space");
    let area = space.map(4 << 20, Policy::Local).expect("an area");
    let free = spaces.pool().stats().nr_available();
    let page = area.start..area.start + PAGE as u64;
    for range in [page.clone(), area.start + 3..area.start + 14] {
        let seen = space.view(range.clone(), all).expect("zeros");
        assert!(seen == vec![0; (range.end - range.start) as usize]);
    }
    assert_eq!(spaces.pool().stats().nr_available(), free);
    // Also where there is a table already.
    space
        .write(area.start + PAGE as u64, &[1])
        .expect("a frame");
    let free = spaces.pool().stats().nr_available();
    assert!(space.view(page.clone(), all).expect("zeros") == [0; PAGE]);
    let error = space.view(page, |v| v.u8(PAGE)).expect_err("outside");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(spaces.pool().stats().nr_available(), free);
}

#[test]
fn closures_may_fork_unmap_write_and_panic() {
    let spaces = spaces(2);
    let space = spaces.space().expect("a space");
    let area = space.map(1 << 20, Policy::Bind(0)).expect("an area");
    let page = area.start..area.start + PAGE as u64;
    space.write(area.start, &[1; PAGE]).expect("a frame");
    let mut nr_calls = 0;
    let seen = space.view(page.clone(), |v| {
        nr_calls += 1;
        space
            .write(area.start, &[nr_calls + 1; PAGE])
            .map_err(|_| Torn)?;
        let fork = space.fork().map_err(|_| Torn)?;
        let inner = fork.view(page.clone(), |w| w.u8(9)).map_err(|_| Torn)?;
        assert_eq!(inner, nr_calls + 1);
        Ok((v.u8(0)?, v.u8(PAGE - 1)?))
    });
    // The last look has a reference: its page is that of before its own write.
    assert!(nr_calls > 1);
    assert_eq!(seen, Ok((nr_calls, nr_calls)));
    let seen = space.view(page.clone(), |v| {
        space.migrate(page.clone(), 1).map_err(|_| Torn)?;
        v.u8(3)
    });
    assert_eq!(seen, Ok(nr_calls + 1));
    for _ in 0..2 {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            space.view(page.clone(), |_| -> Result<(), Torn> {
                panic!("by the closure")
            })
        }));
        assert!(panicked.is_err());
    }
    // What is looked at may go: then there is nothing to look at again.
    let gone = space.view(page.clone(), |v| {
        space.unmap(area.clone()).map_err(|_| Torn)?;
        v.u8(0)
    });
    assert_eq!(gone.expect_err("unmapped").kind(), ErrorKind::Unmapped);
    drop(space);
    let stats = spaces.pool().stats();
    assert_eq!(stats.nr_available(), stats.nr_frames);
}

#[test]
fn pages_of_files_are_viewed_shared_and_private() {
    let cache = pagewell::Cache::builder()
        .capacity(8 << 20)
        .build()
        .expect("a cache");
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let bytes = content(6, 2 * PAGE + 100);
    let file = cache
        .open_backend_with(MemoryBackend::writable(bytes.clone()), "viewed", &options)
        .expect("a file in memory");
    let space = cache.space().expect("a space");
    let page = |start: u64, nr: u64| start + nr * PAGE as u64..start + (nr + 1) * PAGE as u64;
    for sharing in [Sharing::Shared, Sharing::Private] {
        let area = space
            .map_file(&file, 0..2 * PAGE as u64 + 100, sharing)
            .expect("an area");
        let at = area.start;
        for _ in 0..2 {
            assert!(space.view(page(at, 0), all).expect("a page") == bytes[..PAGE]);
            assert!(space.view(page(at, 1), all).expect("a page") == bytes[PAGE..2 * PAGE]);
            let last = at + 2 * PAGE as u64;
            assert!(space.view(last..last + 100, all).expect("a page") == bytes[2 * PAGE..]);
            assert_eq!(refused(&space, last..last + 101), ErrorKind::PastEnd);
            assert_eq!(refused(&space, at + 10..last), ErrorKind::Misaligned);
        }
        if sharing == Sharing::Private {
            space.write(at + 5, &[1, 2, 3]).expect("a copy");
            let seen = space.view(at + 5..at + 8, all).expect("a page");
            assert_eq!(seen, [1, 2, 3]);
            assert_eq!(file.view(0, |v| all(v)).expect("a page"), bytes[..PAGE]);
        }
        // A closure may take the area away: it is no writer at work.
        let seen = space.view(page(at, 1), |v| {
            space.unmap(area.clone()).map_err(|_| Torn)?;
            v.u8(0)
        });
        assert_eq!(seen, Ok(bytes[PAGE]));
    }
}

/// Writes of whole pages, forks, migrations and protections, while others look: each answer is one write's.
#[test]
fn views_are_of_one_moment_while_everything_changes() {
    const ROUNDS: u32 = 1500;
    let spaces = spaces(2);
    let space = spaces.space().expect("a space");
    let area = space.map(1 << 20, Policy::Local).expect("an area");
    let page = area.start..area.start + PAGE as u64;
    let whole = |round: u32| [round.to_le_bytes(); PAGE / 4].concat();
    space.write(area.start, &whole(0)).expect("a frame");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let seen = space.view(page.clone(), |v| {
                        let first = v.u32_le(0)?;
                        for at in (0..PAGE).step_by(24) {
                            if v.u32_le(at)? != first {
                                v.check()?;
                                return Ok(None);
                            }
                        }
                        Ok(Some(first))
                    });
                    let round = seen.expect("a page").expect("a mixture of two writes");
                    assert!(round >= last, "{round} after {last}");
                    last = round;
                }
            });
        }
        for round in 1..=ROUNDS {
            space.write(area.start, &whole(round)).expect("a frame");
            match round % 5 {
                0 => {
                    let fork = space.fork().expect("a fork");
                    fork.write(area.start, &whole(u32::MAX)).expect("a frame");
                    drop(fork);
                }
                1 => {
                    let _ = space
                        .migrate(page.clone(), round as usize / 5 % 2)
                        .expect("a node");
                }
                2 => {
                    let read_only = Protection::Read;
                    space.protect(page.clone(), read_only).expect("an area");
                    let read_write = Protection::ReadWrite;
                    space.protect(page.clone(), read_write).expect("an area");
                }
                _ => {}
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(space.view(page, |v| v.u32_le(8)), Ok(ROUNDS));
    drop(space);
    let stats = spaces.pool().stats();
    assert_eq!(stats.nr_available(), stats.nr_frames);
}
