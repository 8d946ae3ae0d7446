//! loom models of the cache's protocols, named after the races that they explore. They run the
//! shipped code, with frames of two words. For each model, `verify/mutants` breaks the code in one
//! place and shows that the model fails.
//!
//! loom does not explore every reordering of weak machines; `verify/litmus` covers those.

mod announced;
mod blocks;
mod calls;
mod closing;
mod commits;
mod growth;
mod leaves;
mod locked_pages;
mod moves;
mod reads;
mod tokens;
mod writeback;
mod writes;

use std::ops::Range;
use std::sync::Arc;

use crate::base::slot::State;
use crate::dirty::commits::Sync as What;
use crate::dirty::writes::{Access, WriteOptions};
use crate::files::opened::Opened;
use crate::files::serve::files_of;
use crate::files::state::Files;
use crate::index::token::Token;
use crate::mapping::record::Mapping;
use crate::read::fill::{Fill, Filler};
use crate::read::lookup::{Found, Lookup};
use crate::read::reader::{FastRead, ReadPath, Reader};
use crate::read::viewer::{View, Viewer};
use crate::supply::clock::Marks;
use crate::supply::evict::Evictor;
use crate::supply::leaves::Leaves;
use crate::supply::parts::Supply;
use crate::supply::reclaim::reclaimer::Reclaimer;
use crate::write::growth::{Grower, Writer};
use crate::writeback::flush::Flusher;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::JoinHandle;
use pagewell_frame::{
    FRAME_BYTES, FrameNr, FramePool, FrameRef, HugePages, Nodes, PoolConfig, UniqueFrame,
    ViewOutcome,
};
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend};

/// Byte that initially fills the pages of the file, and a byte that none of them has.
const OURS: u8 = 0xA1;
const FOREIGN: u8 = 0xF0;

const HALF: usize = FRAME_BYTES / 2;

fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Explores a model of one open file, which ends as [`closed`] or [`clean`].
fn explore_file<B>(
    preemptions: usize,
    end: fn(&Files, Opened),
    pool: impl Fn() -> Arc<Files> + Send + Sync + 'static,
    open: impl Fn(&Arc<Files>) -> (Opened, B) + Send + Sync + 'static,
    model: impl Fn(&Arc<Files>, Arc<Mapping>, B) + Send + Sync + 'static,
) {
    explore(preemptions, move || {
        let files = pool();
        let (mapping, backend) = open(&files);
        model(&files, Arc::clone(mapping.mapping()), backend);
        end(&files, mapping);
    });
}

/// Starts a thread that has a reference to `value`.
fn spawn<T: Send + std::marker::Sync + 'static, R: Send + 'static>(
    value: &Arc<T>,
    work: impl FnOnce(Arc<T>) -> R + Send + 'static,
) -> JoinHandle<R> {
    let value = Arc::clone(value);
    loom::thread::spawn(move || work(value))
}

fn pool<const FRAMES: usize>() -> Arc<Files> {
    pool_of(FRAMES, 1)
}

fn two_nodes<const FRAMES: usize>() -> Arc<Files> {
    pool_of(FRAMES, 2)
}

fn pool_of(nr_frames: usize, nr_nodes: usize) -> Arc<Files> {
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(nr_nodes);
    config.huge_pages = HugePages::System;
    files_of(FramePool::new(&config).expect("a small pool"))
}

fn mapping<const PAGES: usize>(files: &Arc<Files>) -> (Opened, ()) {
    (mapping_of(files, vec![OURS; PAGES * FRAME_BYTES]), ())
}

fn mapping_of(files: &Arc<Files>, bytes: Vec<u8>) -> Opened {
    let backend = FaultBackend::new(MemoryBackend::new(bytes), |_, _| Fault::None);
    open(files, backend)
}

fn open(files: &Arc<Files>, backend: impl pagewell_io::Backend) -> Opened {
    Opened::simple(files, backend, Access::Read)
}

fn warm(mapping: &Mapping, page: u64) -> FrameNr {
    drop(Lookup(mapping).get(page, || 1).expect("a readable page"));
    let found = Lookup(mapping).get(page, || 1).expect("a readable page");
    found.reference.frame()
}

fn read_optimistically(mapping: &Mapping, page: u64) -> Option<Vec<u8>> {
    let mut buf = vec![0; FRAME_BYTES];
    let pos = page * FRAME_BYTES as u64;
    match Reader(mapping).read_page_optimistic(pos, &mut buf) {
        FastRead::Done => Some(buf),
        FastRead::Fallback => None,
    }
}

/// Starts a thread that reads page 0 once. All its bytes are one of `expected`.
fn optimistic_reader(mapping: &Arc<Mapping>, expected: &'static [u8]) -> JoinHandle<()> {
    spawn(mapping, move |mapping| {
        if let Some(bytes) = read_optimistically(&mapping, 0) {
            let byte = only_byte(&bytes);
            assert!(expected.contains(&byte), "foreign bytes: {byte:x}");
        }
    })
}

/// Pins page 0 if it is present in the slot that this thread has seen, and reads it twice.
fn pin_seen(mapping: &Mapping) {
    if let Some(seen) = mapping.index().look(0)
        && matches!(seen.slot.state(), State::Present(_))
        && let Ok(Some(Found { reference, .. })) = Lookup(mapping).try_get_seen(seen)
    {
        for _ in 0..2 {
            assert_ours(&copy_of(&reference));
        }
    }
}

/// While a thread calls `look`, page 0 is evicted, and filled again in its reused frame and slot.
fn vs_evict_and_reuse(look: impl Fn(&Mapping) + Send + Sync + Copy + 'static) {
    explore_file(
        3,
        closed,
        pool::<4>,
        mapping::<1>,
        move |files, mapping, _| {
            let frame = warm(&mapping, 0);
            let looker = spawn(&mapping, move |mapping| look(&mapping));
            if let Some(unique) = evict(files.supply(), frame) {
                scribble(&unique);
                drop(unique);
                if let Ok(Fill::Filled(reference, _)) = Filler(&mapping).fill(0, 1) {
                    assert_eq!(reference.frame(), frame, "another frame");
                    drop(reference);
                    drop(Lookup(&mapping).get(0, || 1));
                }
            }
            looker.join().unwrap();
        },
    );
}

fn token(mapping: &Mapping, page: u64) -> Option<Token> {
    match Viewer(mapping).look(page, None, &mut |v: &View<'_>| Ok(v.token())) {
        ViewOutcome::Done(token) => Some(token),
        _ => None,
    }
}

fn read(mapping: &Mapping, page: u64, path: ReadPath) -> Vec<u8> {
    let mut buf = vec![0; FRAME_BYTES];
    let n = Reader(mapping)
        .read_pages(&mut buf, page * FRAME_BYTES as u64, path, |_, left| left)
        .expect("a readable page");
    buf.truncate(n);
    buf
}

fn assert_ours(bytes: &[u8]) {
    assert!(bytes.iter().all(|b| *b == OURS), "foreign: {bytes:x?}");
}

fn scribble(unique: &UniqueFrame<'_>) {
    unique.bytes().copy_from(0, &[FOREIGN; FRAME_BYTES]);
}

/// Evicts the content of `frame`, even if its accessed bit is set.
fn evict(supply: &Supply, frame: FrameNr) -> Option<UniqueFrame<'_>> {
    Evictor(supply).try_evict(frame, Marks::Ignored)
}

fn copy_of(reference: &FrameRef<'_>) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_BYTES];
    reference.bytes().copy_to(0, &mut bytes);
    bytes
}

fn resize(mapping: &Mapping, size: u64) {
    Grower(mapping).resize(size).expect("a healthy storage");
}

fn append(mapping: &Mapping, bytes: &[u8]) -> Range<u64> {
    Grower(mapping).append_bytes(bytes, 0).expect("room")
}

fn flush(mapping: &Mapping) {
    Flusher(mapping).flush(0..1).expect("a healthy storage");
}

/// Creates the leaf of `page` if it is missing. Returns its frame.
fn make_leaf(mapping: &Mapping, page: u64) -> FrameNr {
    let made = Leaves(mapping.supply()).leaf_or_new(mapping.index(), mapping.number(), page);
    made.expect("a frame").reference.frame()
}

fn leaf_frame(mapping: &Mapping) -> FrameNr {
    let leaf = mapping.index().leaf(mapping.claims(), 0).expect("a leaf");
    leaf.reference.frame()
}

fn assert_at_rest(files: &Files) {
    files.supply().pool().verify().expect("a consistent pool");
    let stats = files.supply().pool().stats();
    assert_eq!(stats.nr_available(), stats.nr_frames, "a frame was lost");
}

fn other_node(files: &Files, frame: FrameNr) -> usize {
    1 - files
        .supply()
        .pool()
        .node_of(frame)
        .expect("a frame of the pool")
}

#[derive(Debug)]
struct SharedBackend(Arc<FaultBackend<MemoryBackend>>);

impl pagewell_io::Backend for SharedBackend {
    fn read_at(
        &self,
        bufs: &[pagewell_sync::bytes::RacyBytes<'_>],
        pos: u64,
    ) -> std::io::Result<usize> {
        self.0.read_at(bufs, pos)
    }

    fn size(&self) -> std::io::Result<u64> {
        self.0.size()
    }

    fn id(&self) -> pagewell_io::FileId {
        self.0.id()
    }
}

/// Opens a file of half a page for reading. Returns its backend too.
fn shared_half(files: &Arc<Files>) -> (Opened, Arc<FaultBackend<MemoryBackend>>) {
    shared_of(files, HALF)
}

fn shared<const PAGES: usize>(files: &Arc<Files>) -> (Opened, Arc<FaultBackend<MemoryBackend>>) {
    shared_of(files, PAGES * FRAME_BYTES)
}

fn shared_of(files: &Arc<Files>, len: usize) -> (Opened, Arc<FaultBackend<MemoryBackend>>) {
    let content = MemoryBackend::new(vec![OURS; len]);
    let backend = Arc::new(FaultBackend::new(content, |_, _| Fault::None));
    (open(files, SharedBackend(Arc::clone(&backend))), backend)
}

fn writable_on(files: &Arc<Files>, backend: impl pagewell_io::Backend) -> Opened {
    Opened::simple(files, backend, Access::Write(WriteOptions::default()))
}

fn cold_half(files: &Arc<Files>) -> (Opened, Arc<MemoryBackend>) {
    cold_of(files, HALF)
}

fn cold<const PAGES: usize>(files: &Arc<Files>) -> (Opened, Arc<MemoryBackend>) {
    cold_of(files, PAGES * FRAME_BYTES)
}

fn cold_of(files: &Arc<Files>, len: usize) -> (Opened, Arc<MemoryBackend>) {
    let backend = Arc::new(MemoryBackend::writable(vec![OURS; len]));
    (writable_on(files, seen(&backend)), backend)
}

/// Returns a backend whose calls are visible to loom, which does not see the bytes of a backend,
/// and so would reorder calls only if other accesses around them happened to conflict.
fn seen(backend: &Arc<MemoryBackend>) -> FaultBackend<Arc<MemoryBackend>> {
    let nr_calls = AtomicUsize::new(0);
    FaultBackend::with_script(Arc::clone(backend), move |_| {
        // ORDERING: Relaxed; loom must see the access, which orders nothing.
        nr_calls.fetch_add(1, Ordering::Relaxed);
        Fault::None
    })
}

fn writable(files: &Arc<Files>) -> (Opened, Arc<MemoryBackend>) {
    let (mapping, backend) = cold::<1>(files);
    warm(&mapping, 0);
    (mapping, backend)
}

fn write(mapping: &Mapping, page: u64, byte: u8) {
    write_at(mapping, page * FRAME_BYTES as u64, &[byte; FRAME_BYTES]);
}

fn write_at(mapping: &Mapping, pos: u64, bytes: &[u8]) {
    let n = Writer(mapping).write_bytes(bytes, pos, 0);
    assert_eq!(n.expect("a writable page"), bytes.len());
}

#[track_caller]
fn only_byte(bytes: &[u8]) -> u8 {
    assert_eq!(bytes.len(), FRAME_BYTES);
    assert!(bytes.iter().all(|b| *b == bytes[0]), "torn: {bytes:x?}");
    bytes[0]
}

fn stored(backend: &MemoryBackend) -> Vec<u8> {
    let size = pagewell_io::Backend::size(backend).unwrap() as usize;
    let words: Vec<_> = (0..size.div_ceil(8))
        .map(|_| pagewell_sync::atomic::AtomicU64::new(0))
        .collect();
    let bytes = pagewell_sync::bytes::RacyBytes::from_words(&words).slice(0, size);
    assert_eq!(
        pagewell_io::Backend::read_at(backend, &[bytes], 0).unwrap(),
        size
    );
    let mut copy = vec![0; size];
    bytes.copy_to(0, &mut copy);
    copy
}

fn sync(mapping: &Mapping) {
    Flusher(mapping)
        .sync(What::Data)
        .expect("a healthy storage");
}

/// Asserts that page 0 has `byte` in all places, also in the backend after a sync.
#[track_caller]
fn assert_synced(mapping: &Mapping, backend: &MemoryBackend, byte: u8) {
    assert_eq!(only_byte(&read(mapping, 0, ReadPath::Referenced)), byte);
    sync(mapping);
    assert_eq!(only_byte(&stored(backend)), byte);
}

fn is_dirty(mapping: &Mapping) -> bool {
    let writes = mapping.writes_if_any();
    writes.is_some_and(|writes| writes.any_dirty(0..1).is_some())
}

/// Closes the file, and asserts that then every frame is free. No page is evicted before: an
/// eviction could hide a wrong slot.
fn closed(files: &Files, mapping: Opened) {
    drop(mapping);
    assert_at_rest(files);
}

/// Asserts that after a sync all pages can be evicted, and that then every frame is free.
fn clean(files: &Files, mapping: Opened) {
    sync(&mapping);
    assert!(!is_dirty(&mapping));
    assert_eq!(
        files.shared.pressure.nr_unclean(),
        0,
        "pages are unclean after a sync"
    );
    Reclaimer(files.supply()).evict_pages(usize::MAX);
    let seen = mapping.index().look(0);
    assert!(
        seen.is_none_or(|seen| seen.slot.state() == State::Empty),
        "a clean page was not evicted"
    );
    closed(files, mapping);
}
