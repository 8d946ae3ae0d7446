//! Opening of objects. The first request for bytes of an object also opens it, so that opening
//! takes no request of its own.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{FutureExt as _, TryFutureExt as _};
use object_store::path::Path;
use object_store::{Attributes, Error, GetOptions, GetRange, GetResult, ObjectStore};
use pagewell::{Advice, Cache, ErrorKind, File, OpenOptions};
use tokio::runtime::Handle;

use super::closer::Closer;
use super::known::{Known, Opened};
use super::table::{Look, Outcome, Table};
use crate::error::{Shared, generic};
use crate::fetch::object::{Object, OfTier};
use crate::fetch::traffic::Traffic;
use crate::identity::{State, Verdict};
use crate::tier::disk::Tier;
use crate::tier::{Namespace, StateHash};

/// Maximum size of the first request for an object.
const MOST_AT_FIRST: u64 = 4 << 20;

/// If the cache has no memory left for another object, the opener forgets this number of least
/// recently used objects and tries again, at most `MOST_TRIES` times.
const FORGOTTEN_AT_ONCE: usize = 64;
const MOST_TRIES: u32 = 16;

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
}

impl Opener {
    /// Returns the object at `location`. If it is not known, opens it by a request for `range`.
    pub(crate) async fn open(
        self: &Arc<Self>,
        location: &Path,
        range: Option<&GetRange>,
    ) -> Outcome {
        let look = self.table.look(location, |nr, before| {
            let (opener, location, range) = (Arc::clone(self), location.clone(), range.cloned());
            // The opening is a separate task, so that it continues if the first reader is dropped.
            let task = Handle::current().spawn(async move {
                let outcome = match before {
                    Some(before) => opener.check(&location, range, before).await,
                    None => opener.learn(&location, range).await,
                };
                opener.table.opened(&location, nr, &outcome);
                outcome
            });
            task.unwrap_or_else(|error| Err(Shared::new(generic(error))))
                .boxed()
                .shared()
        });
        match look {
            Look::Known(known) => Ok(known),
            Look::Opening(opening) => opening.await,
        }
    }

    /// Returns `before` if the object still has this state, and otherwise opens the object again. A
    /// state that nothing can prove is always opened again.
    async fn check(&self, location: &Path, range: Option<GetRange>, before: Arc<Known>) -> Outcome {
        if !before.state.is_provable() {
            return self.learn(location, range).await;
        }
        self.traffic.counters.nr_checked.add(1);
        let requested = SystemTime::now();
        let head = self.head(location).await?;
        match before.state.compare(&head.meta) {
            Verdict::Same => {
                before.touch();
                Ok(before)
            }
            Verdict::Unproven => self.learn(location, range).await,
            Verdict::Different => {
                self.traffic.counters.nr_forgotten.add(1);
                let state = State::new(head.meta, requested);
                self.know(location, state, head.attributes, None).await
            }
        }
    }

    async fn head(&self, location: &Path) -> Result<GetResult, Shared> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        self.store
            .get_opts(location, options)
            .await
            .map_err(Shared::new)
    }

    /// Requests the first bytes that are needed, and takes the object's metadata from the answer.
    async fn learn(&self, location: &Path, range: Option<GetRange>) -> Outcome {
        let asked = self.first_range(range);
        let options = GetOptions {
            range: Some(asked.clone()),
            ..GetOptions::default()
        };
        self.traffic.counters.nr_requests.add(1);
        let requested = SystemTime::now();
        // (The request takes no permit: permits limit requests for pages.)
        match self.store.get_opts(location, options).await {
            Ok(result) => {
                let (start, size) = (result.range.start, result.meta.size);
                let (meta, attributes, range) = (
                    result.meta.clone(),
                    result.attributes.clone(),
                    result.range.clone(),
                );
                let bytes = result.bytes().await.map_err(Shared::new)?;
                if asked.as_range(size).ok() != Some(range.clone())
                    || range.end - range.start != bytes.len() as u64
                {
                    return Err(Shared::broken(format!(
                        "{location}: a request for {asked} returned {} bytes as {range:?} of \
                         {size}",
                        bytes.len()
                    )));
                }
                self.traffic.counters.bytes_fetched.add(bytes.len() as u64);
                self.know(
                    location,
                    State::new(meta, requested),
                    attributes,
                    Some((start, bytes)),
                )
                .await
            }
            Err(
                error @ (Error::NotFound { .. }
                | Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
                | Error::InvalidPath { .. }),
            ) => Err(Shared::new(error)),
            // The object may be empty, or end before this range. So request only its metadata.
            Err(_) => {
                let requested = SystemTime::now();
                let head = self.head(location).await?;
                let state = State::new(head.meta, requested);
                self.know(location, state, head.attributes, None).await
            }
        }
    }

    /// Returns `range`, extended to whole pages as far as this is possible without the size of the
    /// object, and limited to the maximum size of the first request.
    fn first_range(&self, range: Option<GetRange>) -> GetRange {
        let page = self.page_size;
        let from = |start: u64| {
            let start = start - start % page;
            start..start.saturating_add(MOST_AT_FIRST)
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
            Some(GetRange::Suffix(len)) if len <= MOST_AT_FIRST => GetRange::Suffix(len + page),
            Some(GetRange::Suffix(_)) => GetRange::Suffix(MOST_AT_FIRST),
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
            match self.cache.open_backend_with(object, name, &self.options) {
                Ok(file) => return Ok(file),
                Err(error) if error.kind() == ErrorKind::OutOfFrames && nr_tries < MOST_TRIES => {
                    nr_tries += 1;
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
