//! Gets of the current state of an object, repeated if the object is replaced during the get.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use futures_util::stream;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, Result};

use super::answer::Answers;
use super::pieces::{end_of_piece, pieces, whole};
use crate::error::{Shared, generic};
use crate::fetch::answer::is_encoded;
use crate::fetch::context;
use crate::identity::Verdict;
use crate::objects::known::{Known, OpenedBy};
use crate::objects::open::{Opener, Source};

/// Maximum number of reads of an object that changes during the read.
const MAX_TRIES: u32 = 4;

#[derive(Clone)]
pub(crate) struct Gets {
    pub(crate) opener: Arc<Opener>,
    pub(crate) answers: Answers,
}

enum Begun {
    /// Known object, requested range, and first bytes of the range.
    Known(Arc<Known>, Range<u64>, Bytes),
    OfStore(GetResult),
}

/// Next step after a failed read of a known object.
enum Next {
    Repeat,
    PassOn,
    Fail,
}

fn source(nr_tries: u32) -> Source {
    match nr_tries {
        1 => Source::Any,
        _ => Source::Store,
    }
}

/// Returns `result` with a body that fails if its length is not the declared one. The length of an
/// encoded body is not checked.
fn checked(result: GetResult) -> GetResult {
    let GetResult {
        payload,
        meta,
        range,
        attributes,
    } = result;
    let payload = match payload {
        GetResultPayload::Stream(stream) if !is_encoded(&attributes) => {
            let what = format!("{}: bytes {range:?}", meta.location);
            let left = range.end - range.start;
            let checked = stream::unfold(Some((stream, what, left)), |state| async move {
                // `None` after an error.
                let (mut stream, what, left) = state?;
                let failed = |what| generic(format!("{what} were returned with another length"));
                match stream.next().await {
                    Some(Ok(bytes)) => match left.checked_sub(bytes.len() as u64) {
                        Some(left) => Some((Ok(bytes), Some((stream, what, left)))),
                        None => Some((Err(failed(what)), None)),
                    },
                    Some(Err(error)) => Some((Err(error), None)),
                    None if left == 0 => None,
                    None => Some((Err(failed(what)), None)),
                }
            });
            GetResultPayload::Stream(checked.boxed())
        }
        payload => payload,
    };
    GetResult {
        payload,
        meta,
        range,
        attributes,
    }
}

impl Gets {
    /// Reads the start of `range`. If the object was replaced, repeats the read.
    async fn begin(&self, location: &Path, range: Option<&GetRange>) -> Result<Begun> {
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let known = match self.opener.open(location, range, source(nr_tries)).await {
                Ok(known) => known,
                Err(error) if error.is_for_store() => {
                    return self.pass_on(location, range).await;
                }
                Err(error) => return Err(error.into_store_error()),
            };
            let size = known.state.meta.size;
            let wanted = match range {
                None => 0..size,
                Some(range) => match range.as_range(size) {
                    Ok(range) => range,
                    // The object may have been replaced, so let the store check the range.
                    Err(_) => {
                        let result = self.request(location, range).await?;
                        let verdict = known.state.compare(&result.meta);
                        if nr_tries < MAX_TRIES && verdict == Verdict::Different {
                            self.opener.table.forget_state(&known);
                            continue;
                        }
                        return Ok(Begun::OfStore(result));
                    }
                },
            };
            let first = wanted.start..end_of_piece(wanted.start, wanted.end);
            let read = if first.is_empty() {
                Ok(Bytes::new())
            } else {
                self.answers.read(&known, first).await
            };
            match read {
                Ok(bytes) => return Ok(Begun::Known(known, wanted, bytes)),
                Err(error) => match self.after(&known, &error, nr_tries) {
                    Next::Repeat => {}
                    Next::PassOn => return self.pass_on(location, range).await,
                    Next::Fail => return Err(error.into_store_error()),
                },
            }
        }
    }

    /// Returns the next step after a failed read. Forgets or passes on an object that was replaced,
    /// or that the cache may be unable to serve.
    fn after(&self, known: &Arc<Known>, error: &Shared, nr_tries: u32) -> Next {
        let table = &self.opener.table;
        if error.is_of_change() {
            if nr_tries < MAX_TRIES {
                table.forget_state(known);
                return Next::Repeat;
            }
            // Servers may disagree about the tag.
            table.pass_on(known, error.clone().into_disputed());
            return Next::PassOn;
        }
        if known.opened_by == OpenedBy::Metadata && known.may_lack_ranges(error) {
            // The next opening requests bytes, and so shows whether the store supports ranges.
            table.forget_state(known);
            if nr_tries < MAX_TRIES {
                return Next::Repeat;
            }
        }
        if !error.is_uncacheable() {
            if !known.may_lack_ranges(error) {
                return Next::Fail;
            }
            if known.is_small() && nr_tries < MAX_TRIES {
                // If ranges fail again, the next opening requests the whole object.
                table.forget_state(known);
                return Next::Repeat;
            }
            if known.is_small() {
                return Next::PassOn;
            }
        }
        table.pass_on(known, error.clone().into_uncacheable());
        Next::PassOn
    }

    /// Passes a get on to the store. The body of the answer is [`checked`].
    async fn pass_on(&self, location: &Path, range: Option<&GetRange>) -> Result<Begun> {
        let options = GetOptions {
            range: range.cloned(),
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let result = self.opener.store.get_opts(location, options).await?;
        let size = result.meta.size;
        let expected = range.map_or(Ok(0..size), |range| range.as_range(size));
        if expected.map_err(generic)? != result.range {
            return Err(generic(format!(
                "{location}: a request for {range:?} returned bytes {:?} of {size}",
                result.range
            )));
        }
        Ok(Begun::OfStore(checked(result)))
    }

    pub(crate) async fn answer(
        &self,
        location: &Path,
        range: Option<&GetRange>,
    ) -> Result<GetResult> {
        match self.begin(location, range).await? {
            Begun::Known(known, range, first) => {
                let rest = range.start + first.len() as u64..range.end;
                let (meta, attributes) = (known.state.meta.clone(), known.attributes.clone());
                let stream = if rest.is_empty() {
                    stream::once(async { Ok(first) }).boxed()
                } else {
                    pieces(
                        self.answers.clone(),
                        Arc::clone(&self.opener),
                        known,
                        first,
                        rest,
                    )
                };
                Ok(GetResult {
                    payload: GetResultPayload::Stream(stream),
                    meta,
                    range,
                    attributes,
                })
            }
            Begun::OfStore(result) => Ok(result),
        }
    }

    async fn request(&self, location: &Path, range: &GetRange) -> Result<GetResult> {
        let options = GetOptions {
            range: Some(range.clone()),
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        self.opener.store.get_opts(location, options).await
    }

    /// Returns the bytes of all `ranges`, from one state of the object. A call with an empty range
    /// is passed on, since not all stores accept one. Its requests may see two states.
    pub(crate) async fn read_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        if let Some(Range { start, end }) = ranges.iter().find(|range| range.start > range.end) {
            return Err(generic(format!(
                "cannot read bytes {start}..{end} of {location}: the range ends before it starts"
            )));
        }
        let has_empty = ranges.iter().any(Range::is_empty);
        let first = ranges.iter().find(|range| !range.is_empty());
        let first = first.or(ranges.first()).cloned().map(GetRange::Bounded);
        let mut nr_tries = 0;
        loop {
            nr_tries += 1;
            let opened = self.opener.open(location, first.as_ref(), source(nr_tries));
            let known = match opened.await {
                Ok(known) => known,
                // Not passed on: separate requests to the store might see several states.
                Err(error) if error.is_disputed() && nr_tries < MAX_TRIES => {
                    self.opener.table.forget_disputed(location);
                    continue;
                }
                Err(error) if error.is_for_store() && !error.is_disputed() => {
                    return self.opener.store.get_ranges(location, ranges).await;
                }
                Err(error) => return Err(error.into_store_error()),
            };
            let size = known.state.meta.size;
            let error = if self.is_longer_now(location, ranges, size).await? {
                Shared::changed(location)
            } else if has_empty {
                return self.opener.store.get_ranges(location, ranges).await;
            } else {
                // Concurrent reads, so that missing pages are merged into few requests.
                let reads = ranges
                    .iter()
                    .map(|range| whole(&self.answers, &known, range.start..range.end.min(size)));
                match try_join_all(reads).await {
                    Ok(all) => return Ok(all),
                    Err(error) => error,
                }
            };
            match self.after(&known, &error, nr_tries) {
                Next::Repeat => {}
                // Not passed on: separate requests to the store might see several states.
                Next::PassOn if error.is_of_change() => return Err(error.into_store_error()),
                Next::PassOn => return self.opener.store.get_ranges(location, ranges).await,
                Next::Fail => return Err(error.into_store_error()),
            }
        }
    }

    /// Requests up to one byte of each range past `size`, the known size, until one is returned.
    /// Returns the error of the store, or whether the object was replaced by a longer one.
    async fn is_longer_now(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
        size: u64,
    ) -> Result<bool> {
        let is_past =
            |range: &&Range<u64>| range.start >= size.saturating_add(range.is_empty().into());
        for range in ranges.iter().filter(is_past) {
            // Separately: the default `get_ranges` panics if it merges such a range with another.
            let end = range.end.min(range.start.saturating_add(1));
            let byte = range.start..end;
            let ranges = std::slice::from_ref(&byte);
            self.opener.store.get_ranges(location, ranges).await?;
            if !range.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
