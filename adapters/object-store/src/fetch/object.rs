//! Backend of an object, which reads bytes from the disk tier or the store.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, GetResult, ObjectStore};
use pagewell::io::engine::{Deferred, Kind, Request};
use pagewell::io::{Backend, FileId, RacyBytes};
use tokio::runtime::{self, Handle};
use tracing::Instrument as _;

use super::answer::{collect, is_encoded};
use super::context;
use super::filling::Filling;
use super::merge;
use super::readers::Readers;
use super::traffic::Traffic;
use crate::error::Shared;
use crate::identity::{State, condition};
use crate::tier::disk::Tier;
use crate::tier::{Key, StateHash};

/// Device number in the [`FileId`] of each object. No device of the system has it.
const DEVICE: u64 = u64::from_be_bytes(*b"objects\0");

/// State of an object in the store, as a backend of the cache.
#[derive(Clone)]
pub(crate) struct Object(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    traffic: Arc<Traffic>,
    /// Runtime of the last reader that waited for pages (or opened the object), for requests that
    /// the cache begins on a thread outside of all runtimes.
    last: Mutex<Handle>,
    location: Path,
    state: State,
    has_ranges: AtomicBool,
    id: FileId,
    waiting: Mutex<Waiting>,
    readers: Readers,
    tier: Option<OfTier>,
}

pub(crate) struct OfTier {
    pub(crate) tier: Arc<Tier>,
    pub(crate) state: StateHash,
    pub(crate) page_size: u64,
}

#[derive(Default)]
struct Waiting {
    /// Position and bytes that were received before the cache requested pages.
    come: Option<(u64, Bytes)>,
    requests: Vec<Filling>,
    /// Runtime of the task that will send `requests`. A request on another runtime starts another
    /// task, since the first runtime may be idle.
    collector: Option<runtime::Id>,
}

impl Waiting {
    fn take(&mut self) -> Vec<Filling> {
        self.collector = None;
        std::mem::take(&mut self.requests)
    }
}

/// Guard of the task that sends the queued requests. If the task is dropped first, they fail.
struct Collected(Option<Arc<Inner>>);

impl Drop for Collected {
    fn drop(&mut self) {
        if let Some(inner) = &self.0 {
            let requests = inner.waiting().take();
            // Dropped without the lock, since this completes the requests and wakes threads.
            drop(requests);
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({})", self.0.location)
    }
}

impl Object {
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        traffic: Arc<Traffic>,
        runtime: Handle,
        location: Path,
        state: State,
        has_ranges: bool,
        tier: Option<OfTier>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = FileId {
            device: DEVICE,
            // ORDERING: Relaxed; only uniqueness matters.
            inode: NEXT.fetch_add(1, Ordering::Relaxed),
        };
        Self(Arc::new(Inner {
            store,
            traffic,
            last: Mutex::new(runtime),
            location,
            state,
            has_ranges: AtomicBool::new(has_ranges),
            id,
            waiting: Mutex::default(),
            readers: Readers::default(),
            tier,
        }))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns `true` if the store has returned a part of this object for a range.
    pub(crate) fn has_ranges(&self) -> bool {
        // ORDERING: Relaxed; the flag orders no other data.
        self.0.has_ranges.load(Ordering::Relaxed)
    }

    /// Records that a reader on the current runtime waits for pages.
    pub(crate) fn enter(&self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let previous = std::mem::replace(&mut *self.0.last(), runtime);
        // Dropped without the lock, since it may be the last handle of its runtime.
        drop(previous);
        // A thread of the cache may have queued requests for the previous, idle runtime.
        let waiting = self.0.waiting();
        if !waiting.requests.is_empty() {
            self.0.start_collector(waiting);
        }
    }

    #[cfg(test)]
    pub(crate) fn last_runtime(&self) -> runtime::Id {
        self.0.last().id()
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.0.readers
    }

    /// Fetches `range` without the cache, for a caller that could not get frames for the pages.
    pub(crate) async fn fetch_around(&self, range: Range<u64>) -> Result<Bytes, Shared> {
        let object = self.clone();
        let fetch = async move { object.fetch(range).await };
        let fetch = context::scope(context::extensions(), fetch);
        let fetched = self.0.runtime().spawn(fetch).await;
        fetched.unwrap_or_else(|_| {
            let what = format!("cannot fetch bytes of {}", self.0.location);
            Err(Shared::abandoned(what))
        })
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Bytes, Shared> {
        let inner = &self.0;
        let permit = inner.traffic.permits.acquire().await;
        let len = range.end - range.start;
        let bytes = async {
            let result = inner.answer(&range).await?;
            let is_encoded = is_encoded(&result.attributes);
            let bytes = collect(result, len).await;
            let bytes = bytes.map_err(|error| inner.broken_off(&range, error))?;
            Ok((bytes, is_encoded))
        };
        let (bytes, is_encoded) = inner.traffic.limited(&inner.location, bytes).await?;
        drop(permit);
        if bytes.len() as u64 != len {
            return Err(inner.cut(&range, range.start + bytes.len() as u64, is_encoded));
        }
        inner.traffic.counters.bytes_fetched.add(len);
        inner.note_range(&range);
        Ok(bytes)
    }

    pub(crate) fn keep(&self, come: Option<(u64, Bytes)>) {
        self.0.waiting().come = come;
    }
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, Handle> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the runtime of the settings, the caller, or (on a thread of the cache) the last
    /// reader.
    fn runtime(&self) -> Handle {
        self.traffic
            .runtime()
            .unwrap_or_else(|_| self.last().clone())
    }

    fn collect(self: &Arc<Self>, filling: Filling) {
        let mut waiting = self.waiting();
        waiting.requests.push(filling);
        self.start_collector(waiting);
    }

    /// Starts a task that serves the queued requests, unless the runtime has one.
    fn start_collector(self: &Arc<Self>, mut waiting: MutexGuard<'_, Waiting>) {
        let runtime = self.runtime();
        if waiting.collector.replace(runtime.id()) != Some(runtime.id()) {
            drop(waiting);
            let collected = Collected(Some(Arc::clone(self)));
            runtime.spawn(Self::fetch_all(collected));
        }
    }

    /// Returns the key in the tier and the range of each page of a request.
    fn pages<'t>(
        tier: &'t OfTier,
        filling: &Filling,
    ) -> impl Iterator<Item = (Key, Range<u64>)> + use<'t> {
        let range = filling.range();
        let first = range.start / tier.page_size;
        (first..range.end.div_ceil(tier.page_size)).map(move |page| {
            let start = page * tier.page_size;
            let end = range.end.min(start + tier.page_size);
            (tier.state.key(page), start.max(range.start)..end)
        })
    }

    /// Returns `true` if all pages of a request are on the disk. The result is a hint.
    fn is_on_disk(&self, filling: &Filling) -> bool {
        let Some(tier) = &self.tier else {
            return false;
        };
        Self::pages(tier, filling).all(|(key, _)| tier.tier.has(key))
    }

    /// Fills a request from the disk, or from the store if a page is missing or damaged there.
    async fn fill_from_disk(self: Arc<Self>, filling: Filling) {
        let Some(tier) = &self.tier else {
            return self.collect(filling);
        };
        let permit = tier.tier.reads.acquire().await;
        let inner = Arc::clone(&self);
        let read = tokio::task::spawn_blocking(move || {
            // The closure owns the permit, since this task may be dropped before the read ends.
            let _permit = permit;
            inner.read_from_disk(filling)
        });
        // An error means that the runtime was shut down or the read panicked: the request failed.
        if let Ok(Some(filling)) = read.await {
            self.collect(filling);
        }
    }

    /// Fills a request from the disk and completes it. Returns it if a page is missing or damaged.
    fn read_from_disk(&self, filling: Filling) -> Option<Filling> {
        if let Some(tier) = &self.tier {
            for (key, range) in Self::pages(tier, &filling) {
                match tier.tier.read(key) {
                    Some(bytes) if bytes.len() as u64 == range.end - range.start => {
                        filling.copy(&bytes.into(), range.start);
                    }
                    _ => return Some(filling),
                }
            }
        }
        filling.done();
        None
    }

    /// Stores the pages of a request in the second tier. The caller has copied the bytes of the
    /// whole range to `filling`.
    fn keep_on_disk(&self, filling: &Filling) {
        let Some(tier) = &self.tier else {
            return;
        };
        for (key, range) in Self::pages(tier, filling) {
            if range.start % tier.page_size == 0 && tier.tier.keeps(key) {
                tier.tier.keep(key, filling.bytes(range));
            }
        }
    }

    async fn fetch_all(mut collected: Collected) {
        // Let the reader queue all pages of a call before they are merged.
        tokio::task::yield_now().await;
        // A request that is queued after `Waiting::take` below starts another task.
        let Some(inner) = collected.0.take() else {
            return;
        };
        let fillings = inner.waiting().take().into_iter();
        let (on_disk, fillings): (Vec<_>, Vec<_>) =
            fillings.partition(|filling| inner.is_on_disk(filling));
        for filling in on_disk {
            tokio::spawn(Arc::clone(&inner).fill_from_disk(filling));
        }
        let pieces: Vec<_> = fillings.iter().map(Filling::range).collect();
        let runs = merge::runs(&pieces, inner.traffic.gap(), inner.traffic.most_bytes());
        let counters = &inner.traffic.counters;
        counters.nr_merged.add((pieces.len() - runs.len()) as u64);
        counters
            .bytes_missing
            .add(pieces.iter().map(|piece| piece.end - piece.start).sum());
        let mut fillings: Vec<_> = fillings.into_iter().map(Some).collect();
        for run in runs {
            let of_run: Vec<_> = run
                .pieces
                .iter()
                .filter_map(|nr| fillings[*nr].take())
                .collect();
            debug_assert!(!of_run.is_empty(), "a request without pieces");
            let extensions = of_run.first().map(Filling::extensions).cloned();
            let span = tracing::debug_span!("fetch", object = %inner.location, range = ?run.range);
            let fetch = Arc::clone(&inner).fetch(run.range, of_run);
            let fetch = context::scope(extensions.unwrap_or_default(), fetch);
            tokio::spawn(fetch.instrument(span));
        }
    }

    /// Sends one request for `range`, which contains the ranges of `fillings`, ordered by position.
    /// If the request fails, the incomplete fillings fail. The caller sets the extensions of the
    /// request ([`context::scope`]).
    async fn fetch(self: Arc<Self>, range: Range<u64>, fillings: Vec<Filling>) {
        let mut fillings = fillings.into_iter();
        if let Err(error) = self.fill(range, &mut fillings).await {
            if error.is_timeout() {
                // Reported before the fillings fail, since readers repeat a failed request.
                let ranges = fillings.as_slice().iter().map(Filling::range).collect();
                self.readers.report_timeout(ranges, &error);
            }
            self.traffic.counters.nr_failed.add(1);
            tracing::debug!(%error, "a request failed");
            for filling in fillings {
                filling.fail(error.clone());
            }
        }
    }

    async fn fill(
        &self,
        range: Range<u64>,
        fillings: &mut std::vec::IntoIter<Filling>,
    ) -> Result<(), Shared> {
        let _permit = self.traffic.permits.acquire().await;
        let transfer = self.transfer(range, fillings);
        self.traffic.limited(&self.location, transfer).await
    }

    async fn transfer(
        &self,
        range: Range<u64>,
        fillings: &mut std::vec::IntoIter<Filling>,
    ) -> Result<(), Shared> {
        let begun = Instant::now();
        let result = self.answer(&range).await?;
        let is_encoded = is_encoded(&result.attributes);
        let mut stream = result.into_stream();
        let (mut pos, mut first) = (range.start, None);
        while let Some(bytes) = stream.next().await {
            let bytes = bytes.map_err(|error| self.broken_off(&range, error))?;
            first.get_or_insert_with(|| begun.elapsed());
            for filling in fillings.as_slice() {
                if filling.range().start >= pos + bytes.len() as u64 {
                    break;
                }
                filling.copy(&bytes, pos);
            }
            pos += bytes.len() as u64;
            if pos > range.end {
                break;
            }
            while fillings
                .as_slice()
                .first()
                .is_some_and(|filling| filling.range().end <= pos)
            {
                if let Some(filling) = fillings.next() {
                    self.keep_on_disk(&filling);
                    filling.done();
                }
            }
        }
        if pos != range.end {
            return Err(self.cut(&range, pos, is_encoded));
        }
        self.note_range(&range);
        let first = first.unwrap_or_default();
        self.traffic
            .counters
            .bytes_fetched
            .add(range.end - range.start);
        self.traffic
            .note(first, begun.elapsed() - first, range.end - range.start);
        Ok(())
    }

    /// Requests `range`. Fails if the answer is for another range, or provably of another state.
    async fn answer(&self, range: &Range<u64>) -> Result<GetResult, Shared> {
        let result = self.request(range).await?;
        if !self.state.may_have_bytes_of(&result.meta) {
            return Err(Shared::changed(&self.location));
        }
        if result.range != *range {
            return Err(Shared::broken(format!(
                "{}: a request for bytes {range:?} returned bytes {:?}",
                self.location, result.range
            )));
        }
        Ok(result)
    }

    /// Records that the store supports ranges, unless `range` is the whole object.
    fn note_range(&self, range: &Range<u64>) {
        if !self.is_all(range) {
            // ORDERING: Relaxed; the flag orders no other data.
            self.has_ranges.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the error of a body that failed. The answer was for `range`, so the store supports
    /// ranges.
    fn broken_off(&self, range: &Range<u64>, error: Error) -> Shared {
        self.note_range(range);
        Shared::of_known(error)
    }

    fn is_all(&self, range: &Range<u64>) -> bool {
        *range == (0..self.state.meta.size)
    }

    fn cut(&self, range: &Range<u64>, end: u64, is_encoded: bool) -> Shared {
        let error = Shared::broken(format!(
            "{}: a request for bytes {range:?} returned those up to {end}",
            self.location
        ));
        match is_encoded {
            true => error.into_uncacheable(),
            false => error,
        }
    }

    /// Requests `range` of the known state. The whole object is requested without a range, since
    /// some servers answer a range of all bytes differently. If the store does not support the
    /// condition, repeats the request without it. The caller compares the answer with the state.
    async fn request(&self, range: &Range<u64>) -> Result<GetResult, Shared> {
        let plain = GetOptions {
            range: (!self.is_all(range)).then(|| GetRange::Bounded(range.clone())),
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let condition = condition(&self.state.meta);
        let feature = match &condition {
            GetOptions {
                if_match: Some(_), ..
            } => Some(&self.traffic.tags),
            GetOptions {
                version: Some(_), ..
            } => Some(&self.traffic.versions),
            _ => None,
        };
        let Some(feature) = feature.filter(|feature| feature.is_used()) else {
            return self.send(plain).await.map_err(Shared::of_known);
        };
        let conditional = GetOptions {
            if_match: condition.if_match,
            version: condition.version,
            ..plain.clone()
        };
        let result = self.send(conditional).await;
        match &result {
            Ok(_) | Err(Error::Precondition { .. }) => feature.note_success(),
            // `HttpStore` returns this error also if the answer ignores the range.
            Err(Error::NotSupported { .. } | Error::NotImplemented { .. }) => {
                let result = self.send(plain).await.map_err(Shared::of_known)?;
                feature.note_failure();
                return Ok(result);
            }
            Err(_) => {}
        }
        result.map_err(Shared::of_known)
    }

    /// Sends a request. If hedging is enabled, the answer is late and a permit is free, sends a
    /// second request and returns the first success.
    async fn send(&self, options: GetOptions) -> object_store::Result<GetResult> {
        let request = || {
            self.traffic.counters.nr_requests.add(1);
            self.store.get_opts(&self.location, options.clone())
        };
        let mut first = request();
        if !self.traffic.hedge {
            return first.await;
        }
        let late = tokio::time::sleep(self.traffic.late());
        first = match select(first, std::pin::pin!(late)).await {
            Either::Left((answer, _)) => return answer,
            Either::Right(((), first)) => first,
        };
        let Some(_permit) = self.traffic.permits.try_acquire() else {
            return first.await;
        };
        self.traffic.counters.nr_hedged.add(1);
        match select(first, request()).await {
            Either::Left((Ok(answer), _)) | Either::Right((Ok(answer), _)) => Ok(answer),
            Either::Left((Err(_), other)) | Either::Right((Err(_), other)) => other.await,
        }
    }
}

impl Deferred for Object {
    fn start(&self, request: Request) {
        if request.kind() != Kind::Read {
            let error = io::Error::new(
                io::ErrorKind::Unsupported,
                "cannot write to an object: the cache only reads objects",
            );
            request.complete(Err(error));
            return;
        }
        let filling = Filling::new(request, self.0.state.meta.size, context::extensions());
        let range = filling.range();
        let waiting = self.0.waiting();
        let has_come = waiting.come.as_ref().is_some_and(|(pos, bytes)| {
            *pos <= range.start && range.end <= pos + bytes.len() as u64
        });
        if range.is_empty() || has_come {
            if let Some((pos, bytes)) = &waiting.come {
                filling.copy(bytes, *pos);
            }
            drop(waiting);
            self.0.keep_on_disk(&filling);
            filling.done();
            return;
        }
        drop(waiting);
        self.0.collect(filling);
    }
}

impl Backend for Object {
    /// Reads for a blocking caller. This adapter reads only by futures, which call `start` instead.
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let end = pos.saturating_add(len as u64).min(self.0.state.meta.size);
        if pos >= end {
            return Ok(0);
        }
        let (sender, answer) = std::sync::mpsc::sync_channel(1);
        let object = self.clone();
        self.0.runtime().spawn(async move {
            let _ = sender.send(object.fetch(pos..end).await);
        });
        let ended = || io::Error::other("cannot read the object: its runtime was shut down");
        let bytes = answer
            .recv()
            .map_err(|_| ended())?
            .map_err(Shared::into_io)?;
        let mut rest = &bytes[..];
        for buf in bufs {
            let (now, later) = rest.split_at(rest.len().min(buf.len()));
            buf.copy_from(0, now);
            rest = later;
        }
        Ok(bytes.len())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.state.meta.size)
    }

    fn id(&self) -> FileId {
        self.0.id
    }

    fn deferred(&self) -> Option<&dyn Deferred> {
        Some(self)
    }
}
