//! What safe code may reach: the doors that are shut. `tests/` tries the ones that are open.
//!
//! Nothing that a program can do without `unsafe` may change bytes behind a pin, a word of a protocol or an owner's count,
//! or read out of bounds (`docs/adr/0015-soundness-of-public-items.md`). Where the compiler sees to that, an example here
//! must not compile; before it stands the same, as it is meant to be, which must. So an example that fails for another
//! reason than the door is noticed; a nightly compiler compares the codes of the errors too (`.ci/nightly`).
//!
//! Why not `trybuild`: it compares the whole text of each error, which changes with the compiler, and needs a build of the
//! workspace of its own.
//!
//! # Bytes of a pool (H4)
//!
//! Whoever has the number of a frame may read what is in it:
//!
//! ```
//! use pagewell::frame::{FrameNr, FramePool, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let mut buf = [1; 64];
//! pool.bytes(FrameNr::new(0), 64).copy_to(0, &mut buf);
//! assert_eq!(buf, [0; 64]);
//! ```
//!
//! ```compile_fail,E0599
//! use pagewell::frame::{FrameNr, FramePool, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let buf = [1; 64];
//! pool.bytes(FrameNr::new(0), 64).copy_from(0, &buf);
//! ```
//!
//! ```compile_fail,E0599
//! use pagewell::frame::{FrameNr, FramePool, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! pool.bytes(FrameNr::new(0), 64).zero(0, 64);
//! ```
//!
//! There is no way back from what only reads:
//!
//! ```
//! use pagewell::io::{RacyBytes, RacySource};
//! fn source(bytes: RacyBytes<'_>) -> RacySource<'_> {
//!     bytes.into()
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use pagewell::io::{RacyBytes, RacySource};
//! fn bytes(source: RacySource<'_>) -> RacyBytes<'_> {
//!     source.into()
//! }
//! ```
//!
//! ```compile_fail,E0616
//! use pagewell::io::{RacyBytes, RacySource};
//! fn bytes(source: RacySource<'_>) -> RacyBytes<'_> {
//!     source.0
//! }
//! ```
//!
//! # Views
//!
//! A closure looks, and gives back what it has found:
//!
//! ```
//! use pagewell::{Cache, File};
//! fn first(file: &File) -> u8 {
//!     file.view(0, |v| v.part(0..10)?.u8(0)).unwrap()
//! }
//! ```
//!
//! The view itself does not get out of it, nor a part of it,
//!
//! ```compile_fail
//! use pagewell::{Cache, File};
//! fn first(file: &File) -> u8 {
//!     file.view(0, |v| v.part(0..10)).unwrap().u8(0).unwrap()
//! }
//! ```
//!
//! ```compile_fail,E0521
//! use pagewell::{Cache, File};
//! fn first(file: &File) -> u8 {
//!     let mut out = None;
//!     file.view(0, |v| {
//!         out = Some(v);
//!         Ok(())
//!     })
//!     .unwrap();
//!     out.unwrap().u8(0).unwrap()
//! }
//! ```
//!
//! nor goes it to another thread, nor can the bytes be had by a reference, which nothing would keep true:
//!
//! ```compile_fail,E0277
//! use pagewell::{Cache, File};
//! fn first(file: &File) -> u8 {
//!     file.view(0, |v| std::thread::scope(|s| s.spawn(|| v.u8(0)).join().unwrap()))
//!         .unwrap()
//! }
//! ```
//!
//! ```compile_fail
//! use pagewell::{Cache, File};
//! fn first(file: &File) -> u8 {
//!     file.view(0, |v| Ok(v[0])).unwrap()
//! }
//! ```
//!
//! # Words of protocols (U1)
//!
//! ```
//! use pagewell::frame::{FrameNr, FramePool, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let record = pool.meta(FrameNr::new(0));
//! let _ = (record.kind(), record.owner(), record.private(), record.count());
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FrameNr, FramePool, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let record = pool.meta(FrameNr::new(0));
//! let _ = record.state();
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FrameNr, FramePool, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let _ = pool.words(FrameNr::new(0));
//! ```
//!
//! ```compile_fail,E0616
//! use pagewell::frame::{FrameNr, FramePool, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let _ = pool.meta(FrameNr::new(0)).refs.put();
//! ```
//!
//! The view that hits go by, and whatever makes a reference of a number:
//!
//! ```
//! use pagewell::frame::{FramePool, FrameRef, Order, PoolConfig, TryGetFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let view = pool.view();
//! let range = pool.alloc(Order::ZERO).unwrap().split();
//! let TryGetFrame::Taken(reference) = pool.try_get(range.first()) else { panic!() };
//! # drop(reference);
//! # let _ = view;
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FramePool, FrameRef, Order, PoolConfig, TryGetFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let view = pool.view();
//! let _ = view.bytes(0, 0, 64);
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FramePool, FrameRef, Order, PoolConfig, TryGetFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let view = pool.view();
//! let _ = view.word(0, 0);
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FramePool, FrameRef, Order, PoolConfig, TryGetFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let range = pool.alloc(Order::ZERO).unwrap().split();
//! let reference = FrameRef::from_raw(&pool, range.first());
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FramePool, FrameRef, Order, PoolConfig, TryGetFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let range = pool.alloc(Order::ZERO).unwrap().split();
//! let TryGetFrame::Taken(reference) = pool.try_get(range.first()) else { panic!() };
//! let _ = reference.freeze(2);
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FramePool, FrameRef, Order, PoolConfig, TryGetFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let range = pool.alloc(Order::ZERO).unwrap().split();
//! let TryGetFrame::Taken(reference) = pool.try_get(range.first()) else { panic!() };
//! let _: &[u8] = reference.slice(64);
//! ```
//!
//! # What a record says is believed (U1)
//!
//! ```
//! use pagewell::frame::{FrameKind, FramePool, Order, PoolConfig, UniqueFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let block = pool.alloc(Order::ZERO).unwrap();
//! let frame = block.into_withheld();
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FrameKind, FramePool, Order, PoolConfig, UniqueFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let block = pool.alloc(Order::ZERO).unwrap();
//! let frame = block.publish(FrameKind::Page, (0, 0), 1);
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FrameKind, FramePool, Order, PoolConfig, UniqueFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let block = pool.alloc(Order::ZERO).unwrap();
//! let frame = block.publish_with(FrameKind::Leaf, (0, 0), [4096, 0], 2);
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::frame::{FrameKind, FramePool, Order, PoolConfig, UniqueFrame};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let block = pool.alloc(Order::ZERO).unwrap();
//! let frame = block.into_withheld();
//! let (one, another) = (
//!     UniqueFrame::from_withheld(&pool, frame),
//!     UniqueFrame::from_withheld(&pool, frame),
//! );
//! ```
//!
//! # Bytes for as long as the handle, and no longer
//!
//! ```
//! use pagewell::frame::{FramePool, Order, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let block = pool.alloc(Order::ZERO).unwrap();
//! let bytes = block.bytes();
//! bytes.zero(0, 64);
//! drop(block);
//! ```
//!
//! ```compile_fail,E0505
//! use pagewell::frame::{FramePool, Order, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let block = pool.alloc(Order::ZERO).unwrap();
//! let bytes = block.bytes();
//! drop(block);
//! bytes.zero(0, 64);
//! ```
//!
//! ```compile_fail,E0505
//! use pagewell::frame::{FramePool, Order, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let block = pool.alloc(Order::ZERO).unwrap();
//! let bytes = block.bytes();
//! let range = block.split();
//! bytes.zero(0, 64);
//! ```
//!
//! A range, to whose frames others can have references:
//!
//! ```
//! use pagewell::frame::{FramePool, Order, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let range = pool.alloc(Order::new(2).unwrap()).unwrap().split();
//! let reference = range.get(1).unwrap();
//! let bytes = reference.raw_bytes().unwrap();
//! bytes.zero(0, 64);
//! drop(reference);
//! assert_eq!(range.bytes().len(), 4 * 4096);
//! ```
//!
//! ```compile_fail,E0505
//! use pagewell::frame::{FramePool, Order, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let range = pool.alloc(Order::new(2).unwrap()).unwrap().split();
//! let reference = range.get(1).unwrap();
//! let bytes = reference.raw_bytes().unwrap();
//! drop(reference);
//! bytes.zero(0, 64);
//! ```
//!
//! ```compile_fail,E0599
//! use pagewell::frame::{FramePool, Order, PoolConfig};
//! # let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
//! let range = pool.alloc(Order::new(2).unwrap()).unwrap().split();
//! range.bytes().zero(0, 64);
//! ```
//!
//! # A page that somebody has a reference to (U4)
//!
//! ```
//! use pagewell::Cache;
//! use pagewell::io::MemoryBackend;
//! # let cache = Cache::builder().build().unwrap();
//! let file = cache.open_backend(MemoryBackend::new(vec![7; 4096]), "file").unwrap();
//! let mapped = file.mapped();
//! drop(mapped.hold(0, 1).unwrap());
//! let (_, reference) = mapped.try_pin(0, 4096).unwrap();
//! let reference = reference.unwrap();
//! let mut buf = [0; 8];
//! reference.bytes().copy_to(0, &mut buf);
//! assert!(reference.raw_bytes().is_none());
//! ```
//!
//! ```compile_fail,E0599
//! use pagewell::Cache;
//! use pagewell::io::MemoryBackend;
//! # let cache = Cache::builder().build().unwrap();
//! let file = cache.open_backend(MemoryBackend::new(vec![7; 4096]), "file").unwrap();
//! let mapped = file.mapped();
//! drop(mapped.hold(0, 1).unwrap());
//! let (_, reference) = mapped.try_pin(0, 4096).unwrap();
//! let reference = reference.unwrap();
//! reference.bytes().zero(0, 8);
//! ```
//!
//! What a storage is given to write it may read, and keep for the call:
//!
//! ```
//! use pagewell::io::{Backend, FileId, RacyBytes, RacySource};
//! use std::io;
//! #[derive(Debug)]
//! struct Storage(std::sync::Mutex<Vec<u8>>);
//! impl Backend for Storage {
//!     fn read_at(&self, _: &[RacyBytes<'_>], _: u64) -> io::Result<usize> {
//!         Ok(0)
//!     }
//!     fn size(&self) -> io::Result<u64> {
//!         Ok(0)
//!     }
//!     fn id(&self) -> FileId {
//!         FileId { device: 1, inode: 1 }
//!     }
//!     fn write_at(&self, bufs: &[RacySource<'_>], _: u64) -> io::Result<()> {
//!         let mut bytes = self.0.lock().unwrap();
//!         bytes.resize(bufs[0].len(), 0);
//!         bufs[0].copy_to(0, &mut bytes);
//!         Ok(())
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0053
//! use pagewell::io::{Backend, FileId, RacyBytes, RacySource};
//! use std::io;
//! #[derive(Debug)]
//! struct Storage(std::sync::Mutex<Vec<u8>>);
//! impl Backend for Storage {
//!     fn read_at(&self, _: &[RacyBytes<'_>], _: u64) -> io::Result<usize> {
//!         Ok(0)
//!     }
//!     fn size(&self) -> io::Result<u64> {
//!         Ok(0)
//!     }
//!     fn id(&self) -> FileId {
//!         FileId { device: 1, inode: 1 }
//!     }
//!     fn write_at(&self, bufs: &[RacyBytes<'_>], _: u64) -> io::Result<()> {
//!         Ok(())
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0521
//! use pagewell::io::{Backend, FileId, RacyBytes, RacySource};
//! use std::io;
//! #[derive(Debug)]
//! struct Storage(std::sync::Mutex<Vec<RacyBytes<'static>>>);
//! impl Backend for Storage {
//!     fn read_at(&self, bufs: &[RacyBytes<'_>], _: u64) -> io::Result<usize> {
//!         self.0.lock().unwrap().extend(bufs); // to be written to when the page is pinned
//!         Ok(0)
//!     }
//!     fn size(&self) -> io::Result<u64> {
//!         Ok(0)
//!     }
//!     fn id(&self) -> FileId {
//!         FileId { device: 1, inode: 1 }
//!     }
//! }
//! ```
//!
//! The bytes that an edit is given are for the call too:
//!
//! ```
//! use pagewell_cache::{Cache, MappedFile, Spare};
//! use pagewell::io::RacyBytes;
//! fn edit(file: &MappedFile) {
//!     let mut kept: Vec<usize> = Vec::new();
//!     let change = |bytes: RacyBytes<'_>| kept.push(bytes.len());
//!     let _ = file.try_edit((0, 8, 0), change, &mut Spare::default());
//! }
//! ```
//!
//! ```compile_fail,E0521
//! use pagewell_cache::{Cache, MappedFile, Spare};
//! use pagewell::io::RacyBytes;
//! fn edit(file: &MappedFile) {
//!     let mut kept: Vec<RacyBytes<'_>> = Vec::new();
//!     let change = |bytes: RacyBytes<'_>| kept.push(bytes);
//!     let _ = file.try_edit((0, 8, 0), change, &mut Spare::default());
//! }
//! ```
//!
//! # Pins
//!
//! ```
//! use pagewell::{File, PageGuard};
//! use pagewell::space::{Pin, Space};
//! fn read(page: &PageGuard<'_>) -> u8 {
//!     page[0]
//! }
//! ```
//!
//! ```compile_fail,E0594
//! use pagewell::{File, PageGuard};
//! use pagewell::space::{Pin, Space};
//! fn write(page: &mut PageGuard<'_>) {
//!     page[0] = 1;
//! }
//! ```
//!
//! ```compile_fail,E0594
//! use pagewell::space::{Pin, Space};
//! fn write(pin: &mut Pin<'_>) {
//!     pin[0] = 1;
//! }
//! ```
//!
//! A slice does not outlive its guard, nor a guard its file:
//!
//! ```
//! use pagewell::{File, OwnedPageGuard};
//! fn keep(file: File) -> OwnedPageGuard {
//!     file.pin_owned(0).unwrap()
//! }
//! ```
//!
//! ```compile_fail,E0515
//! use pagewell::{File, OwnedPageGuard};
//! fn keep<'a>(file: File) -> &'a [u8] {
//!     &file.pin_owned(0).unwrap()
//! }
//! ```
//!
//! ```compile_fail,E0515
//! use pagewell::{File, PageGuard};
//! fn keep<'a>(file: File) -> PageGuard<'a> {
//!     file.pin(0).unwrap()
//! }
//! ```
//!
//! A guard that changes a page stays on its thread, where a call that would wait for it is found; a detached one may go:
//!
//! ```
//! use pagewell::{DetachedPageGuardMut, File};
//! fn sent<T: Send>(_: T) {}
//! fn send(file: &File) {
//!     let guard: DetachedPageGuardMut<'_> = file.pin_mut(0).unwrap().detach();
//!     sent(guard);
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use pagewell::{File, PageGuardMut};
//! fn sent<T: Send>(_: T) {}
//! fn send(file: &File) {
//!     let guard: PageGuardMut<'_> = file.pin_mut(0).unwrap();
//!     sent(guard);
//! }
//! ```
//!
//! # Whose answers are trusted
//!
//! A scheme of counting is; to be one takes `unsafe`:
//!
//! ```
//! use pagewell::refcount::RefScheme;
//! fn name<S: RefScheme>() -> &'static str {
//!     S::NAME
//! }
//! ```
//!
//! ```compile_fail,E0200
//! use pagewell::refcount::{Put, RefScheme, TryGet};
//! use std::sync::atomic::AtomicU32;
//! #[derive(Debug)]
//! enum Mine {}
//! impl RefScheme for Mine {
//!     const NAME: &'static str = "mine";
//!     const LOCKED: u32 = 0;
//!     fn is_locked(_: &AtomicU32) -> bool {
//!         false
//!     }
//!     fn count(_: &AtomicU32) -> u32 {
//!         1
//!     }
//!     fn try_add(_: &AtomicU32, _: u32) -> TryGet {
//!         TryGet::Taken
//!     }
//!     fn get(_: &AtomicU32) {}
//!     fn sub_and_test(_: &AtomicU32, _: u32) -> Put {
//!         Put::Last
//!     }
//!     fn freeze(_: &AtomicU32, _: u32) -> bool {
//!         true
//!     }
//! }
//! ```
//!
//! Memory that is racy takes a promise, and so does a copy without a check:
//!
//! ```
//! use pagewell::io::RacyBytes;
//! use std::ptr::NonNull;
//! fn read(bytes: RacyBytes<'_>, buf: &mut [u8]) {
//!     bytes.copy_to(0, buf);
//! }
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::io::RacyBytes;
//! use std::ptr::NonNull;
//! fn bytes(start: NonNull<u8>) -> RacyBytes<'static> {
//!     RacyBytes::new(start, 64)
//! }
//! ```
//!
//! ```compile_fail,E0133
//! use pagewell::io::RacyBytes;
//! fn read(bytes: RacyBytes<'_>, buf: &mut [u8]) {
//!     bytes.copy_to_unchecked(0, buf.as_mut_ptr(), 64);
//! }
//! ```
//!
//! An engine is one of the library's: unsafe code relies on a lane's drop, which waits.
//!
//! ```
//! use pagewell_io::engine::{Engine, Job};
//! fn submit(engine: &dyn Engine, job: Job) {
//!     engine.submit(job);
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use pagewell_io::engine::{Job, Lane};
//! struct Mine;
//! impl Lane for Mine {
//!     fn submit(&mut self, _: Job) {}
//!     fn wait(&mut self, _: usize) -> usize {
//!         0
//!     }
//!     fn nr_in_flight(&self) -> usize {
//!         0
//!     }
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use pagewell_io::engine::{Engine, Job, Lane, Limits};
//! #[derive(Debug)]
//! struct Mine;
//! impl Engine for Mine {
//!     fn name(&self) -> &'static str {
//!         "mine"
//!     }
//!     fn limits(&self) -> Limits {
//!         loop {}
//!     }
//!     fn submit(&self, _: Job) {}
//!     fn lane(&self) -> Box<dyn Lane + '_> {
//!         loop {}
//!     }
//! }
//! ```
//!
//! Who is at work on a thread's value stays with the thread:
//!
//! ```
//! use pagewell_sync::asymmetric::Fences;
//! use pagewell_sync::per_thread::PerThread;
//! let values = PerThread::new(4, Fences::new(), || 0);
//! let at_work = values.try_enter();
//! drop(at_work);
//! ```
//!
//! ```compile_fail,E0277
//! use pagewell_sync::asymmetric::Fences;
//! use pagewell_sync::per_thread::PerThread;
//! let values = PerThread::new(4, Fences::new(), || 0);
//! let at_work = values.try_enter();
//! std::thread::scope(|scope| {
//!     scope.spawn(move || drop(at_work));
//! });
//! ```
//!
//! ```compile_fail,E0277
//! use pagewell_sync::asymmetric::Fences;
//! use pagewell_sync::per_thread::PerThread;
//! let values = PerThread::new(4, Fences::new(), || std::rc::Rc::new(0));
//! std::thread::scope(|scope| {
//!     scope.spawn(|| values.with_mine(|value| drop(value.clone())));
//! });
//! ```

#![forbid(unsafe_code)]
#![doc(test(attr(forbid(unsafe_code))))]
#![doc(test(no_crate_inject))]
