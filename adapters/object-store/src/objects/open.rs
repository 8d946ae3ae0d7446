//! Openings of objects: tasks that readers share, and files of the cache.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attributes, GetRange, ObjectStore};
use pagewell::{Advice, Cache, ErrorKind, File, OpenOptions};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::closer::Closer;
use super::known::{Known, Opened, OpenedBy};
use super::table::{Duty, Look, Outcome, Table};
use crate::error::{Shared, generic};
use crate::fetch::context;
use crate::fetch::object::{Object, OfTier};
use crate::fetch::traffic::Traffic;
use crate::identity::State;
use crate::permits::Permits;
use crate::tier::disk::Tier;
use crate::tier::{Namespace, StateHash};

/// Number of least recently used objects that an opener forgets if the cache has no memory for
/// another. It then tries again, at most `MOST_TRIES` times.
const FORGOTTEN_AT_ONCE: usize = 64;
const MOST_TRIES: u32 = 16;

/// Maximum number of concurrent calls of a runtime that open files of the cache.
pub(crate) const MAX_OPENS: usize = 8;

/// Maximum number of attempts to open an object or to read a range. An attempt is repeated if its
/// task was dropped or the outcome of an opening was outdated.
pub(crate) const MAX_ABANDONED: u32 = 4;

/// Source of the first pages of an unknown object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The tier if it has them, and else the store.
    Any,
    /// The store alone. Used after a failure: a store that does not support ranges cannot send
    /// single missing pages.
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
    pub(crate) namespace: Namespace,
    /// Permits for calls that open a file of the cache, which may wait for free memory.
    pub(crate) opens: Permits,
}

/// Opening in progress. If it is dropped before the end, since its task panicked or its runtime was
/// shut down, readers get an error that makes them open the object again.
struct Turn {
    opener: Arc<Opener>,
    location: Path,
    nr: u64,
    outcome: Option<oneshot::Sender<Outcome>>,
}

impl Turn {
    fn end(&mut self, outcome: Outcome) {
        if let Some(sender) = self.outcome.take() {
            // Update the table first, so that readers that repeat the opening do not find this one.
            self.opener.table.opened(&self.location, self.nr, &outcome);
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

impl Opener {
    /// Returns the object at `location`. An unknown object is opened by a request for `range`, or,
    /// if `source` is [`Source::Any`], with pages of the tier. If the outcome of the last of
    /// [`MAX_ABANDONED`] tries is outdated, fails with the error of a disputed object.
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
                // The table has dropped this outcome.
                Ok(known) if seen.is_outdated(&known) => {
                    if nr_tries == MAX_ABANDONED {
                        return Err(Shared::changed(location).into_disputed());
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Begins an opening as a task, which continues if the first reader is dropped.
    fn begin(
        self: &Arc<Self>,
        location: &Path,
        range: Option<&GetRange>,
        source: Source,
        duty: Duty,
    ) {
        let (location, range, before) = (location.clone(), range.cloned(), duty.before);
        let may_use_tier = source == Source::Any && !duty.needs_bytes;
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
                    None if may_use_tier => opener.learn_from_tier(&location, range).await,
                    None => opener.learn(&location, range, None).await,
                }
            };
            turn.end(opener.traffic.opening(outcome).await);
        }));
    }

    /// Opens the object that the store has described. `come`: position and received bytes.
    pub(super) async fn know(
        &self,
        location: &Path,
        state: State,
        attributes: Attributes,
        opened_by: OpenedBy,
        come: Option<(u64, Bytes)>,
    ) -> Outcome {
        let known = self.described(location, state, attributes, opened_by);
        let known = Arc::new(known.await?);
        if let Some((pos, bytes)) = come {
            let pages = self.whole_pages(pos..pos + bytes.len() as u64, known.state.meta.size);
            known.object.keep(Some((pos, bytes)));
            // Move the bytes into the cache. The pages stay pinned until the end, so that they do
            // not evict each other. If no frame is free, readers request the remaining pages.
            let mut pinned = Vec::new();
            for page in pages {
                match known.file.pin_async(page).await {
                    Ok(page) => pinned.push(page),
                    Err(_) => break,
                }
            }
            known.object.keep(None);
        }
        Ok(known)
    }

    async fn described(
        &self,
        location: &Path,
        state: State,
        attributes: Attributes,
        opened_by: OpenedBy,
    ) -> Result<Known, Shared> {
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
            opened_by == OpenedBy::Part,
            tier,
        );
        let file = self.open_file(&object, location).await?;
        self.traffic.counters.nr_opened.add(1);
        // Disables the readahead of the cache, since an unneeded page costs a request. Pieces of
        // long answers are requested ahead instead ([`crate::read::pieces`]).
        file.advise(0..0, Advice::Random)
            .map_err(Shared::of_cache)?;
        let file = Opened::new(file, self.closer.clone());
        let location = location.clone();
        Ok(Known::new(
            location, state, attributes, object, file, opened_by,
        ))
    }

    /// Opens a file of the cache. Without memory, forgets known objects and tries again.
    async fn open_file(&self, object: &Object, location: &Path) -> Result<File, Shared> {
        self.closer.keep_up().await;
        let mut nr_tries = 0;
        loop {
            let (object, name) = (object.clone(), location.to_string());
            let (cache, options) = (self.cache.clone(), self.options.clone());
            // Without free memory, the call waits for reads in flight. So it must not block a
            // thread of the runtime that executes these reads.
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
                    // This also waits for files that concurrent openers have queued.
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
