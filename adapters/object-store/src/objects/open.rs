//! Opening of objects. The first request for bytes of an object also opens it, so that opening
//! takes no request of its own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::path::Path;
use object_store::{Attributes, Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};
use pagewell::{Advice, Cache, ErrorKind, File, OpenOptions};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::spawn_blocking;

use super::closer::Closer;
use super::known::{Known, MAX_FIRST_BYTES, Opened};
use super::table::{Duty, Look, Outcome, Table};
use crate::error::{Shared, generic};
use crate::fetch::answer::{collect, is_encoded};
use crate::fetch::context;
use crate::fetch::object::{Object, OfTier};
use crate::fetch::traffic::Traffic;
use crate::identity::{State, Verdict};
use crate::permits::Permits;
use crate::tier::disk::Tier;
use crate::tier::{LocationHash, Namespace, StateHash};

/// If the cache has no memory left for another object, the opener forgets this number of least
/// recently used objects and tries again, at most `MOST_TRIES` times.
const FORGOTTEN_AT_ONCE: usize = 64;
const MOST_TRIES: u32 = 16;

/// Maximum number of concurrent calls of a runtime that open a file of the cache.
pub(crate) const MAX_OPENS: usize = 8;

/// Maximum number of attempts of a reader to open an object or to fetch a page, if the tasks of all
/// are dropped.
pub(crate) const MAX_ABANDONED: u32 = 4;

/// Source of the first pages of an object that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The tier if it has them, or else the store.
    Any,
    /// The store, for a try after the first: pages that are missing in the tier may be unavailable
    /// by themselves, since the store has no ranges.
    Store,
}

pub(crate) struct Opener {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) cache: Cache,
    pub(crate) options: OpenOptions,
    pub(crate) page_size: u64,
    pub(crate) table: Table,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) closer: Closer,
    pub(crate) tier: Option<Arc<Tier>>,
    /// Name of the store in the tier.
    pub(crate) namespace: Namespace,
    /// Permits for calls that open a file of the cache, and may wait for free memory.
    pub(crate) opens: Permits,
    /// Whether checks send no head, since one has failed or proved nothing and a get did not.
    pub(crate) distrusts_heads: AtomicBool,
}

/// Answer to a request of an opening.
struct Received {
    /// Time when the request was sent.
    requested: SystemTime,
    result: GetResult,
    /// Permit of the request. It is dropped with the end of the body, before the opener waits for
    /// memory or sends another request: the reads for which it then waits need permits, too.
    permit: OwnedSemaphorePermit,
}

/// Description of an object without its bytes.
struct Described {
    /// Time when the request was sent.
    requested: SystemTime,
    meta: ObjectMeta,
    attributes: Attributes,
}

impl From<Received> for Described {
    /// Drops the body and the permit.
    fn from(received: Received) -> Self {
        Self {
            requested: received.requested,
            meta: received.result.meta,
            attributes: received.result.attributes,
        }
    }
}

/// Opening that this process performs. If it is dropped before the end, because the task of the
/// opening panicked or its runtime was shut down, the table gets an error that makes readers open
/// the object again.
struct Turn {
    opener: Arc<Opener>,
    location: Path,
    nr: u64,
    /// `None` after the end.
    outcome: Option<oneshot::Sender<Outcome>>,
}

impl Turn {
    fn end(&mut self, outcome: Outcome) {
        if let Some(sender) = self.outcome.take() {
            // The table is changed first, so that a reader that gets an error and opens the object
            // again does not find this opening.
            self.opener.table.opened(&self.location, self.nr, &outcome);
            // The send fails if no reader waits any more.
            let _ = sender.send(outcome);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            let error = Shared::abandoned(format!("cannot open {}", self.location));
            self.end(Err(error));
        }
    }
}

/// Returns the state as the metadata that have confirmed it describe it.
fn confirmed(known: Arc<Known>, meta: &ObjectMeta, attributes: &Attributes) -> Arc<Known> {
    let rewritten = known.confirmed(meta, attributes);
    rewritten.map_or(known, Arc::new)
}

impl Opener {
    /// Returns the object at `location`. If it is not known, opens it by a request for `range`, or
    /// with pages of `source`.
    pub(crate) async fn open(
        self: &Arc<Self>,
        location: &Path,
        range: Option<&GetRange>,
        source: Source,
    ) -> Outcome {
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let (opening, duty, seen) = match self.table.look(location) {
                Look::Known(known) => return Ok(known),
                Look::Opening(opening, duty, seen) => (opening, duty, seen),
                Look::Uncacheable(error) => return Err(error),
            };
            if let Some(duty) = duty {
                self.begin(location, range, source, duty);
            }
            match opening.await {
                Err(error) if error.is_abandoned() && nr_tries < MAX_ABANDONED => {}
                // The table has dropped this outcome, so the next lookup finds another one.
                Ok(known) if seen.is_outdated(&known) && nr_tries < MAX_ABANDONED => {}
                outcome => return outcome,
            }
        }
    }

    /// Begins an opening as a separate task, so that it continues if the first reader is dropped.
    fn begin(
        self: &Arc<Self>,
        location: &Path,
        range: Option<&GetRange>,
        source: Source,
        duty: Duty,
    ) {
        let (location, range, before) = (location.clone(), range.cloned(), duty.before);
        let mut turn = Turn {
            opener: Arc::clone(self),
            location: location.clone(),
            nr: duty.nr,
            outcome: Some(duty.outcome),
        };
        let runtime = match self.traffic.runtime() {
            Ok(runtime) => runtime,
            Err(error) => return turn.end(Err(Shared::new(generic(error)))),
        };
        let opener = Arc::clone(self);
        runtime.spawn(context::scope(context::extensions(), async move {
            let outcome = async {
                match before {
                    Some(before) => opener.check(&location, range, before).await,
                    None if source == Source::Any => opener.learn_from_tier(&location, range).await,
                    None => opener.learn(&location, range, None).await,
                }
            };
            turn.end(opener.traffic.opening(outcome).await);
        }));
    }

    /// Returns `before` if the object still has this state, and otherwise opens the object again. A
    /// state that nothing can prove is always opened again.
    async fn check(&self, location: &Path, range: Option<GetRange>, before: Arc<Known>) -> Outcome {
        if !before.state.is_provable() {
            return self.learn(location, range, None).await;
        }
        self.traffic.counters.nr_checked.add(1);
        let mut verdict = Verdict::Unproven;
        let mut now = None;
        if self.trusts_heads() {
            match self.head(location).await {
                Ok(described) => {
                    verdict = before.state.compare(&described.meta);
                    now = Some(described);
                }
                // A failed head is no evidence: a server may refuse the method, also with the
                // status of a missing object, or be down.
                Err(error) => {
                    tracing::debug!(%error, "a head failed");
                    if self.traffic.is_late() {
                        // The server may ignore heads. The next check sends none.
                        self.distrust_heads();
                    }
                }
            }
        }
        if verdict == Verdict::Unproven {
            match self.probe(location, before.state.meta.size).await {
                Ok(described) => {
                    verdict = before.state.compare(&described.meta);
                    now = Some(described);
                }
                Err(error @ Error::NotFound { .. }) => return Err(Shared::new(error)),
                // The object may be empty now, or the server has no ranges.
                Err(error) => tracing::debug!(%error, "a probe failed"),
            }
        }
        if verdict == Verdict::Same
            && let Some(now) = now
        {
            return Ok(confirmed(before, &now.meta, &now.attributes));
        }
        let outcome = self.learn(location, range, Some(Arc::clone(&before))).await;
        if matches!(&outcome, Ok(now) if now.is(&before)) {
            // The head, if there was one, has described another state, or none.
            self.distrust_heads();
        }
        outcome
    }

    async fn head(&self, location: &Path) -> object_store::Result<Described> {
        let options = GetOptions {
            head: true,
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(location, options);
        self.send(location, answer).await.map(Described::from)
    }

    /// Requests one byte of an object of `size` bytes, for its metadata.
    async fn probe(&self, location: &Path, size: u64) -> object_store::Result<Described> {
        let options = GetOptions {
            range: (size > 0).then_some(GetRange::Bounded(0..1)),
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(location, options);
        let received = self.send(location, answer).await?;
        self.distrust_heads();
        Ok(received.into())
    }

    fn trusts_heads(&self) -> bool {
        // ORDERING: Relaxed; the flag orders no other data.
        !self.distrusts_heads.load(Ordering::Relaxed)
    }

    fn distrust_heads(&self) {
        // ORDERING: Relaxed; as in `trusts_heads`.
        self.distrusts_heads.store(true, Ordering::Relaxed);
    }

    /// Opens an object of which the tier may have pages: if it has those for `range` in the state
    /// that a head describes, no bytes are requested. If the tier has no pages of the object, sends
    /// no head.
    async fn learn_from_tier(&self, location: &Path, range: Option<GetRange>) -> Outcome {
        let has_pages = |tier: &Arc<Tier>| {
            self.trusts_heads() && tier.has_location(LocationHash::new(&self.namespace, location))
        };
        let Some(tier) = self.tier.as_ref().filter(|tier| has_pages(tier)) else {
            return self.learn(location, range, None).await;
        };
        let has_failed = match self.head(location).await {
            Ok(now) => {
                if self.is_in_tier(tier, location, &now.meta, range.as_ref()) {
                    // Pages of a large object were received by ranges.
                    let has_ranges = now.meta.size > MAX_FIRST_BYTES;
                    let state = State::new(now.meta, now.requested);
                    return self
                        .know(location, state, now.attributes, has_ranges, None)
                        .await;
                }
                false
            }
            Err(error) => {
                tracing::debug!(%error, "a head failed");
                true
            }
        };
        let is_late = self.traffic.is_late();
        let outcome = self.learn(location, range, None).await;
        if has_failed && (is_late || outcome.is_ok()) {
            // As in `check`.
            self.distrust_heads();
        }
        outcome
    }

    /// Whether the tier has the first pages of `range`, in the state that `meta` describes. A state
    /// without a strong tag never has pages.
    fn is_in_tier(
        &self,
        tier: &Tier,
        location: &Path,
        meta: &ObjectMeta,
        range: Option<&GetRange>,
    ) -> bool {
        let all = 0..meta.size;
        let Ok(range) = range.map_or(Ok(all), |range| range.as_range(meta.size)) else {
            return false;
        };
        let end = range.end.min(range.start.saturating_add(MAX_FIRST_BYTES));
        let mut pages = range.start / self.page_size..end.div_ceil(self.page_size);
        let state = StateHash::new(&self.namespace, location, meta);
        !pages.is_empty() && pages.all(|page| tier.has(state.key(page)))
    }

    /// Requests the first bytes that are needed, and takes the object's metadata from the answer.
    /// If the request fails, or the store ignores the range, the whole object is requested.
    async fn learn(
        &self,
        location: &Path,
        range: Option<GetRange>,
        before: Option<Arc<Known>>,
    ) -> Outcome {
        let mut wanted = self.first_range(range);
        loop {
            let error = match self.request(location, Some(wanted.clone())).await {
                Ok(received) => {
                    let result = &received.result;
                    let size = result.meta.size;
                    let expected = wanted.as_range(size).ok();
                    if result.range == (0..size) && expected.as_ref() != Some(&result.range) {
                        let why = format!("{location}: the store returned all for {wanted}");
                        let why = Some(Shared::uncacheable(generic(why)));
                        return self.take_all(location, received, before, why).await;
                    }
                    if expected.as_ref() != Some(&result.range) {
                        return Err(Shared::broken(format!(
                            "{location}: a request for {wanted} returned bytes {:?} of {size}",
                            result.range
                        )));
                    }
                    // A whole object does not prove that the store has ranges.
                    let is_part = result.range != (0..size);
                    return self.take(location, received, before, is_part).await;
                }
                Err(error) => error,
            };
            match (&error, &wanted) {
                (
                    Error::NotFound { .. }
                    | Error::PermissionDenied { .. }
                    | Error::Unauthenticated { .. }
                    | Error::InvalidPath { .. },
                    _,
                ) => return Err(Shared::new(error)),
                // Azure has no suffixes. The first page has the size, too.
                (Error::NotSupported { .. }, GetRange::Suffix(_)) => {
                    wanted = GetRange::Bounded(0..self.page_size);
                }
                // The object may be empty or end before the range, or the server has no ranges. If
                // ranges are not supported, a large object cannot be cached. Another error may be
                // a temporary one.
                _ => {
                    let has_none = matches!(error, Error::NotSupported { .. });
                    let why = has_none.then(|| Shared::uncacheable(error));
                    let received = self.request(location, None).await.map_err(Shared::new)?;
                    return self.take_all(location, received, before, why).await;
                }
            }
        }
    }

    /// Requests bytes of an object that is not known.
    async fn request(
        &self,
        location: &Path,
        range: Option<GetRange>,
    ) -> object_store::Result<Received> {
        let options = GetOptions {
            range,
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let answer = async {
            self.traffic.counters.nr_requests.add(1);
            self.store.get_opts(location, options).await
        };
        self.send(location, answer).await
    }

    /// Sends a request of an opening when there is a permit for it, by polling `answer`.
    async fn send(
        &self,
        location: &Path,
        answer: impl Future<Output = object_store::Result<GetResult>>,
    ) -> object_store::Result<Received> {
        let permit = self.traffic.permits.acquire().await;
        let requested = SystemTime::now();
        Ok(Received {
            requested,
            result: self.traffic.timed(location, answer).await?,
            permit,
        })
    }

    /// Opens the object with the answer to a request without a range. The bytes of a large object
    /// are not received: its pages are requested later, unless `uncacheable` has an error.
    async fn take_all(
        &self,
        location: &Path,
        received: Received,
        before: Option<Arc<Known>>,
        uncacheable: Option<Shared>,
    ) -> Outcome {
        let result = &received.result;
        let size = result.meta.size;
        if result.range != (0..size) {
            return Err(Shared::broken(format!(
                "{location}: a request for all bytes returned bytes {:?} of {size}",
                result.range
            )));
        }
        if size <= MAX_FIRST_BYTES {
            return self.take(location, received, before, false).await;
        }
        if let Some(error) = uncacheable {
            return Err(error);
        }
        if let Some(before) = self.still(before, result) {
            return Ok(before);
        }
        let (meta, attributes) = (result.meta.clone(), result.attributes.clone());
        let requested = received.requested;
        drop(received);
        let state = State::new(meta, requested);
        self.know(location, state, attributes, false, None).await
    }

    /// Opens the object with the bytes of an answer.
    async fn take(
        &self,
        location: &Path,
        received: Received,
        before: Option<Arc<Known>>,
        has_ranges: bool,
    ) -> Outcome {
        let Received {
            requested,
            result,
            permit,
        } = received;
        if let Some(before) = self.still(before, &result) {
            return Ok(before);
        }
        let (meta, attributes, range) = (
            result.meta.clone(),
            result.attributes.clone(),
            result.range.clone(),
        );
        let len = range.end - range.start;
        let bytes = self.traffic.timed(location, collect(result, len)).await;
        drop(permit);
        let bytes = bytes.map_err(Shared::new)?;
        if len != bytes.len() as u64 {
            let error = generic(format!(
                "{location}: a request for bytes {range:?} returned {} bytes",
                bytes.len()
            ));
            // The size may be that before or after the compression.
            return Err(if is_encoded(&attributes) {
                Shared::uncacheable(error)
            } else {
                Shared::new(error)
            });
        }
        self.traffic.counters.bytes_fetched.add(bytes.len() as u64);
        let state = State::new(meta, requested);
        let come = Some((range.start, bytes));
        self.know(location, state, attributes, has_ranges, come)
            .await
    }

    /// Returns the previous state if the object still has it. Forgets it if the object has another
    /// one.
    fn still(&self, before: Option<Arc<Known>>, now: &GetResult) -> Option<Arc<Known>> {
        let before = before?;
        match before.state.compare(&now.meta) {
            Verdict::Same => return Some(confirmed(before, &now.meta, &now.attributes)),
            Verdict::Different => self.table.forget_state(&before),
            Verdict::Unproven => {}
        }
        None
    }

    /// Returns `range`, extended to whole pages as far as this is possible without the size of the
    /// object, and limited to the maximum size of the first request.
    fn first_range(&self, range: Option<GetRange>) -> GetRange {
        let page = self.page_size;
        let from = |start: u64| {
            let start = start - start % page;
            start..start.saturating_add(MAX_FIRST_BYTES)
        };
        match range {
            Some(GetRange::Bounded(range)) => {
                let all = from(range.start);
                let end = range
                    .end
                    .checked_next_multiple_of(page)
                    .unwrap_or(range.end);
                GetRange::Bounded(all.start..end.min(all.end).max(all.start + 1))
            }
            Some(GetRange::Offset(start)) => GetRange::Bounded(from(start)),
            // One page more than the suffix is requested: the suffix may begin anywhere in a page,
            // and the whole page must be included.
            Some(GetRange::Suffix(len)) if len <= MAX_FIRST_BYTES => GetRange::Suffix(len + page),
            Some(GetRange::Suffix(_)) => GetRange::Suffix(MAX_FIRST_BYTES),
            None => GetRange::Bounded(from(0)),
        }
    }

    /// Opens the object that the store has described. `come` has bytes that were received already,
    /// and their position.
    async fn know(
        &self,
        location: &Path,
        state: State,
        attributes: Attributes,
        has_ranges: bool,
        come: Option<(u64, Bytes)>,
    ) -> Outcome {
        let tier = self.tier.as_ref().map(|tier| OfTier {
            tier: Arc::clone(tier),
            state: StateHash::new(&self.namespace, location, &state.meta),
            page_size: self.page_size,
        });
        let object = Object::new(
            Arc::clone(&self.store),
            Arc::clone(&self.traffic),
            Handle::current(),
            location.clone(),
            state.clone(),
            has_ranges,
            tier,
        );
        let file = self.open_file(&object, location).await?;
        self.traffic.counters.nr_opened.add(1);
        // Disables the readahead of the cache, since an unneeded page costs a request. The pieces
        // of a long answer are requested ahead instead ([`crate::read::pieces`]).
        file.advise(0..0, Advice::Random)
            .map_err(Shared::of_cache)?;
        let file = Opened::new(file, self.closer.clone());
        let known = Arc::new(Known::new(
            location.clone(),
            state,
            attributes,
            object.clone(),
            file,
        ));
        if let Some((pos, bytes)) = come {
            let pages = self.whole_pages(pos..pos + bytes.len() as u64, known.state.meta.size);
            object.keep(Some((pos, bytes)));
            // This moves the bytes into the cache. If no frame is available for a page, its readers
            // request it again.
            join_all(pages.map(|page| known.file.pin_async(page))).await;
            object.keep(None);
        }
        Ok(known)
    }

    /// Opens the object as a file of the cache. If the metadata of objects uses all memory, forgets
    /// the least recently used objects.
    async fn open_file(&self, object: &Object, location: &Path) -> Result<File, Shared> {
        self.closer.keep_up().await;
        let mut nr_tries = 0;
        loop {
            let (object, name) = (object.clone(), location.to_string());
            let (cache, options) = (self.cache.clone(), self.options.clone());
            // Without free memory, the call waits for reads in flight, which need the threads of
            // the runtime. So it may not block one of them.
            let permit = self.opens.acquire().await;
            let opened = spawn_blocking(move || {
                let opened = cache.open_backend_with(object, name, &options);
                drop(permit);
                opened
            });
            let opened = opened.await.map_err(generic).map_err(Shared::new)?;
            match opened {
                Ok(file) => return Ok(file),
                Err(error) if error.kind() == ErrorKind::OutOfFrames => {
                    nr_tries += 1;
                    if nr_tries > MOST_TRIES {
                        return Err(Shared::full(error));
                    }
                    let nr = self.table.forget_oldest(FORGOTTEN_AT_ONCE);
                    self.traffic.counters.nr_crowded_out.add(nr as u64);
                    // This also waits for files of objects that concurrent openers have forgotten
                    // for the same reason.
                    self.closer.settle().await;
                }
                Err(error) => return Err(Shared::of_cache(error)),
            }
        }
    }

    /// Returns the pages of an object of `size` bytes that are entirely in `range`.
    fn whole_pages(&self, range: Range<u64>, size: u64) -> Range<u64> {
        let end = if range.end == size {
            size.div_ceil(self.page_size)
        } else {
            range.end / self.page_size
        };
        range.start.div_ceil(self.page_size)..end
    }
}
