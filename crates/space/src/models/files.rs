//! Models of areas that map files: races with writes to the file, truncations and changes of areas.

use std::sync::Arc;

use loom::thread::JoinHandle;
use pagewell_cache::model::{ModelCache, ModelFile};
use pagewell_frame::FRAME_BYTES;

use super::harness::{
    PAGE, byte, bytes_of, explore, give_back, migrate_once, page, spawn_with, take_all,
};
use crate::areas::file::Sharing;
use crate::areas::options::{MapOptions, Policy};
use crate::error::{Error, ErrorKind};
use crate::mm::space::{Space, Spaces};
use crate::motion::report::Engine;
use crate::words::pte::Protection;

/// File of several pages, filled with 1, 2 and so on, mapped at address 0 of a space, and cached.
struct Mapped {
    cache: ModelCache,
    spaces: Spaces,
    file: ModelFile,
    space: Arc<Space>,
}

fn mapped(nr: u64, sharing: Sharing) -> Mapped {
    let mapped = untouched(nr, sharing);
    for at in 0..nr {
        // Fills the page and sets its accessed bit, so that reads hit.
        byte(&mapped.space, at);
        assert_eq!(byte(&mapped.space, at), at as u8 + 1);
    }
    mapped
}

/// As above, but the pages are not cached, and not accessed through the space.
fn untouched(nr: u64, sharing: Sharing) -> Mapped {
    mapped_as(1, nr, sharing, &MapOptions::new())
}

fn mapped_as(nr_nodes: usize, nr: u64, sharing: Sharing, options: &MapOptions) -> Mapped {
    let cache = ModelCache::new(24, nr_nodes);
    let spaces = Spaces::from_source(cache.frames());
    let bytes = (0..nr).flat_map(|at| page(at as u8 + 1)).collect();
    let file = cache.file(bytes);
    let space = Arc::new(spaces.space().expect("a space"));
    let area = space.map_mapped(file.mapped(), 0..nr * PAGE, sharing, options);
    assert_eq!(area.expect("an area").start, 0);
    Mapped {
        cache,
        spaces,
        file,
        space,
    }
}

impl Mapped {
    /// Spawns a thread that writes `bytes` at address 0. The write may fail as `refused`.
    fn spawn_write(&self, bytes: &'static [u8], refused: ErrorKind) -> JoinHandle<()> {
        spawn_with(&self.space, move |space| {
            if let Err(error) = space.write(0, bytes) {
                assert_eq!(error.kind(), refused);
            }
        })
    }

    fn finish(self) {
        self.file.sync();
        self.spaces.verify(&[&self.space]).expect("exact counts");
        drop((self.space, self.file));
        self.cache.evict_all();
        let stats = self.spaces.pool().stats();
        assert_eq!(stats.nr_available(), stats.nr_frames, "a frame was lost");
    }
}

/// Checks that `space` has no page at `addr`, past the end of its file.
fn assert_cut(space: &Space, addr: u64) {
    let mut buf = page(0);
    let kind = space.read(addr, &mut buf).map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::PastEnd), "a copy was left: {buf:x?}");
}

/// A write either fails, or is in the file until the truncation and does not reappear after it.
#[test]
fn loom_shared_write_vs_cut() {
    explore(2, || {
        let mapped = mapped(1, Sharing::Shared);
        let writer = mapped.spawn_write(&SEVENS, ErrorKind::PastEnd);
        mapped.file.resize(0);
        writer.join().unwrap();
        let written = mapped.space.write(0, &page(8));
        assert_eq!(written.unwrap_err().kind(), ErrorKind::PastEnd);
        mapped.file.resize(PAGE);
        assert_eq!(byte(&mapped.space, 0), 0, "what was cut off is back");
        mapped.finish();
    });
}

const SEVENS: [u8; FRAME_BYTES] = [7; FRAME_BYTES];

/// No write is made through an area after `change`, which makes writes fail as `expected`.
fn shared_write_vs_change(
    make: fn() -> Mapped,
    bytes: &'static [u8],
    change: fn(&Space) -> Result<(), Error>,
    expected: ErrorKind,
) {
    explore(2, move || {
        let mapped = make();
        let writer = mapped.spawn_write(bytes, expected);
        change(&mapped.space).expect("a mapped page");
        mapped.file.write(0, &page(8));
        writer.join().unwrap();
        assert_eq!(mapped.file.read(), page(8), "written after the change");
        mapped.finish();
    });
}

fn shared_write_vs_unmap(make: fn() -> Mapped, bytes: &'static [u8]) {
    let unmap = |space: &Space| space.unmap(0..PAGE);
    shared_write_vs_change(make, bytes, unmap, ErrorKind::Unmapped);
}

/// The writer finds the file in [`noted`](crate::areas::noted) without a lock.
#[test]
fn loom_shared_write_vs_unmap() {
    shared_write_vs_unmap(|| mapped(1, Sharing::Shared), &SEVENS);
}

/// As above. Unlike an unmapping, which also frees tables, this stops the writers once.
#[test]
fn loom_shared_write_vs_protect() {
    shared_write_vs_change(
        || mapped(1, Sharing::Shared),
        &SEVENS,
        |space| space.protect(0..PAGE, Protection::Read),
        ErrorKind::Protected,
    );
}

/// The writer looks up the areas: the page is cached, but no file is noted for the address.
#[test]
fn loom_slow_shared_write_vs_unmap() {
    let cached = || {
        let mapped = untouched(1, Sharing::Shared);
        mapped.file.read();
        mapped
    };
    shared_write_vs_unmap(cached, &SEVENS);
}

/// The writer looks up the areas, releases them to fill a page, and looks them up again.
#[test]
fn loom_missing_shared_write_vs_unmap() {
    shared_write_vs_unmap(|| untouched(1, Sharing::Shared), &[7]);
}

/// The first write to a page of a private area copies the page at one moment, not earlier than the
/// writer's own reads. The file does not get the write.
#[test]
fn loom_private_write_vs_write_to_the_file() {
    explore(2, || {
        let mapped = mapped(1, Sharing::Private);
        let writer = spawn_with(&mapped.file, |file| file.write(0, &page(2)));
        let before = byte(&mapped.space, 0);
        mapped.space.write(0, &[9]).expect("a frame");
        let mut copy = page(0);
        mapped.space.read(0, &mut copy).expect("a mapped page");
        writer.join().unwrap();
        assert_eq!(copy[0], 9);
        let rest = copy[1];
        assert!(
            copy[1..].iter().all(|byte| *byte == rest),
            "torn: {copy:x?}"
        );
        assert!(rest == 2 || (rest == 1 && before == 1), "{before} {rest}");
        let mut again = page(0);
        mapped.space.read(0, &mut again).expect("a mapped page");
        assert_eq!(again, copy, "a private page has changed");
        assert_eq!(mapped.file.read(), page(2));
        mapped.finish();
    });
}

/// No copy is left past the end of the file, whatever the order of events.
fn private_write_vs_cut(bytes: &'static [u8]) {
    explore(2, move || {
        let mapped = mapped(1, Sharing::Private);
        let writer = mapped.spawn_write(bytes, ErrorKind::PastEnd);
        mapped.file.resize(0);
        writer.join().unwrap();
        assert_cut(&mapped.space, 0);
        mapped.finish();
    });
}

#[test]
fn loom_private_write_vs_cut() {
    private_write_vs_cut(&[7]);
}

/// A write of a whole page reads nothing from the file.
#[test]
fn loom_private_whole_write_vs_cut() {
    private_write_vs_cut(&SEVENS);
}

/// Creates a private copy of page 0, and a thread that moves it to another node under its claim.
fn copied_and_moved() -> (Mapped, JoinHandle<()>) {
    let options = MapOptions::new().policy(Policy::Bind(0));
    let mapped = mapped_as(2, 1, Sharing::Private, &options);
    mapped.space.write(0, &page(9)).expect("a frame");
    let mover = spawn_with(&mapped.space, |space| {
        migrate_once(&space, 0..PAGE, Engine::Batched);
    });
    (mapped, mover)
}

/// A truncation drops a private copy while it is moved under the claim of its entry. The copy is
/// dropped from its old or its new frame, and freed once.
#[test]
fn loom_cut_vs_move_under_claim() {
    explore(2, || {
        let (mapped, mover) = copied_and_moved();
        mapped.file.resize(0);
        mover.join().unwrap();
        assert_cut(&mapped.space, 0);
        mapped.finish();
    });
}

/// The same for a pinned copy: the pin is the last reference to the frame.
#[test]
fn loom_cut_of_pinned_vs_move_under_claim() {
    explore(2, || {
        let (mapped, mover) = copied_and_moved();
        let (reference, _) = mapped.space.pin_frame(0, FRAME_BYTES).expect("a page");
        mapped.file.resize(0);
        let taken = take_all(&mapped.spaces);
        for _ in 0..2 {
            assert_eq!(bytes_of(&reference), page(9), "a pinned page has changed");
        }
        mover.join().unwrap();
        drop(reference);
        give_back(taken);
        mapped.finish();
    });
}

/// A reader gets all bytes from the file's page or all from the copy, and no later ones.
#[test]
fn loom_private_read_vs_first_write() {
    explore(3, || {
        let mapped = mapped(1, Sharing::Private);
        let reader = spawn_with(&mapped.space, move |space| {
            let mut buf = page(0);
            space.read(0, &mut buf).expect("a mapped page");
            assert!(
                buf == page(1) || buf == page(9),
                "the file was read past its copy: {buf:x?}"
            );
        });
        mapped.space.write(0, &page(9)).expect("a frame");
        mapped.file.write(0, &page(2));
        reader.join().unwrap();
        assert_eq!(byte(&mapped.space, 0), 9);
        mapped.finish();
    });
}

/// A private copy in a table that a fork is copying is dropped from both tables.
fn fork_vs_cut(preemptions: usize, comes_first: fn(Mapped) -> (Mapped, Arc<Space>)) {
    explore(preemptions, move || {
        let mapped = mapped(2, Sharing::Private);
        mapped.space.write(PAGE, &page(9)).expect("a frame");
        let (mapped, fork) = comes_first(mapped);
        assert_cut(&mapped.space, PAGE);
        assert_cut(&fork, PAGE);
        assert_eq!((byte(&mapped.space, 0), byte(&fork, 0)), (1, 8));
        mapped
            .spaces
            .verify(&[&mapped.space, &fork])
            .expect("exact counts");
        drop(fork);
        mapped.finish();
    });
}

fn fork_and_copy(space: &Space) -> Arc<Space> {
    let fork = space.fork().expect("a fork");
    fork.write(0, &page(8)).expect("a frame");
    Arc::new(fork)
}

#[test]
fn loom_fork_vs_cut() {
    fork_vs_cut(2, |mapped| {
        let forker = spawn_with(&mapped.space, move |space| fork_and_copy(&space));
        mapped.file.resize(PAGE);
        let fork = forker.join().unwrap();
        (mapped, fork)
    });
}

/// The same race. The order of the two threads decides which interleavings the model reaches.
#[test]
fn loom_cut_vs_fork() {
    fork_vs_cut(2, |mapped| {
        let cutter = spawn_with(&mapped.file, |file| file.resize(PAGE));
        let fork = fork_and_copy(&mapped.space);
        cutter.join().unwrap();
        (mapped, fork)
    });
}

/// A write through a shared area does not change the bytes of a pin in that area.
#[test]
fn loom_shared_write_vs_pin() {
    explore(2, || {
        let mapped = mapped(1, Sharing::Shared);
        let writer = spawn_with(&mapped.space, move |space| {
            space.write(0, &page(2)).expect("a frame")
        });
        let (reference, _) = mapped.space.pin_frame(0, FRAME_BYTES).expect("a page");
        let first = bytes_of(&reference);
        writer.join().unwrap();
        assert_eq!(first, bytes_of(&reference), "a pinned page has changed");
        drop(reference);
        assert_eq!(byte(&mapped.space, 0), 2);
        mapped.finish();
    });
}
