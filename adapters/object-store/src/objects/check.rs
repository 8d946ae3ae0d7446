//! Checks of the state of an object by requests for its metadata.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use object_store::path::Path;
use object_store::{Attributes, Error, GetOptions, GetRange, GetResult, ObjectMeta};

use super::known::{Known, MAX_FIRST_BYTES, OpenedBy};
use super::learn::Received;
use super::open::Opener;
use super::table::Outcome;
use crate::error::Shared;
use crate::fetch::context;
use crate::identity::{State, Verdict, strong_tag};
use crate::tier::disk::Tier;
use crate::tier::{LocationHash, StateHash};

/// Answer of the store without its body.
struct Described {
    requested: SystemTime,
    meta: ObjectMeta,
    range: Range<u64>,
    attributes: Attributes,
}

impl From<Received> for Described {
    /// Drops the body and the permit.
    fn from(received: Received) -> Self {
        Self {
            requested: received.requested,
            meta: received.result.meta,
            range: received.result.range,
            attributes: received.result.attributes,
        }
    }
}

/// Returns `known`, with the time and attributes of the metadata that have confirmed it.
fn confirmed(known: Arc<Known>, meta: &ObjectMeta, attributes: &Attributes) -> Arc<Known> {
    let rewritten = known.confirmed(meta, attributes);
    rewritten.map_or(known, Arc::new)
}

impl Opener {
    /// Returns `before` if the object provably still has this state. Otherwise opens it again.
    pub(super) async fn check(
        &self,
        location: &Path,
        range: Option<GetRange>,
        before: Arc<Known>,
    ) -> Outcome {
        if !before.state.is_provable() {
            return self.learn(location, range, None).await;
        }
        self.traffic.counters.nr_checked.add(1);
        let mut by_head = None;
        let mut now = None;
        if self.traffic.heads.is_used() {
            match self.traffic.optional(self.head(location)).await {
                Ok(described) => {
                    by_head = Some(before.state.compare(&described.meta));
                    now = Some(described);
                }
                // A failed head proves nothing: a server that refuses the method may return 404.
                Err(error) => {
                    tracing::debug!(%error, "a head failed");
                    by_head = Some(Verdict::Unproven);
                }
            }
        }
        let mut verdict = by_head.unwrap_or(Verdict::Unproven);
        if verdict == Verdict::Unproven {
            match self.probe(location, before.state.meta.size).await {
                Ok(described) => {
                    verdict = before.state.compare(&described.meta);
                    now = Some(described);
                }
                Err(error @ Error::NotFound { .. }) => return Err(Shared::new(error)),
                // The object may be empty now, or the server may not support ranges.
                Err(error) => tracing::debug!(%error, "a probe failed"),
            }
        }
        if verdict == Verdict::Same
            && let Some(now) = now
        {
            self.note_head(by_head, verdict);
            return Ok(confirmed(before, &now.meta, &now.attributes));
        }
        let outcome = self.learn(location, range, Some(Arc::clone(&before))).await;
        if let Ok(now) = &outcome {
            let verdict = match now.is(&before) {
                true => Verdict::Same,
                false => Verdict::Different,
            };
            self.note_head(by_head, verdict);
        }
        outcome
    }

    /// Records whether a head, if one was sent, led to the verdict that was proved.
    fn note_head(&self, by_head: Option<Verdict>, proved: Verdict) {
        match by_head {
            Some(verdict) if verdict == proved => self.traffic.heads.note_success(),
            Some(_) => self.traffic.heads.note_failure(),
            None => {}
        }
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

    /// Requests the metadata by a get of the first byte, or without a range if `size` is zero.
    async fn probe(&self, location: &Path, size: u64) -> object_store::Result<Described> {
        let options = GetOptions {
            range: (size > 0).then_some(GetRange::Bounded(0..1)),
            extensions: context::extensions(),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(location, options);
        self.send(location, answer).await.map(Described::from)
    }

    /// Opens an object. If the tier has pages of it, requests its metadata first, and nothing else
    /// if the tier has the first pages of `range` in the described state.
    pub(super) async fn learn_from_tier(
        &self,
        location: &Path,
        range: Option<GetRange>,
    ) -> Outcome {
        let hash = LocationHash::new(&self.namespace, location);
        let has_pages = |tier: &Arc<Tier>| tier.has_location(hash);
        let Some(tier) = self.tier.as_ref().filter(|tier| has_pages(tier)) else {
            return self.learn(location, range, None).await;
        };
        self.traffic.counters.nr_checked.add(1);
        let sends_head = self.traffic.heads.is_used();
        let described = if sends_head {
            self.traffic.optional(self.head(location)).await
        } else {
            self.traffic.optional(self.probe(location, 1)).await
        };
        let before = match described {
            Ok(now) if self.is_in_tier(tier, location, &now.meta, range.as_ref()) => {
                // The tier has pages under the tags of gets, so the head has returned such a tag.
                self.note_head(sends_head.then_some(Verdict::Same), Verdict::Same);
                // The range in the answer to a head does not prove that the store supports ranges.
                let is_part = !sends_head && now.range == (0..1) && now.meta.size > 1;
                let opened_by = match is_part {
                    true => OpenedBy::Part,
                    false => OpenedBy::Metadata,
                };
                let state = State::new(now.meta, now.requested);
                return self
                    .know(location, state, now.attributes, opened_by, None)
                    .await;
            }
            Ok(now) => Some(now.meta),
            Err(error) => {
                tracing::debug!(%error, "a request for metadata failed");
                None
            }
        };
        let outcome = self.learn(location, range, None).await;
        if let Ok(now) = &outcome {
            // Only a head with the strong tag of the get can match pages of the tier.
            let has_tag = |meta: &ObjectMeta| {
                let tag = strong_tag(meta);
                tag.is_some() && tag == strong_tag(&now.state.meta)
            };
            let before = before.filter(has_tag);
            let verdict = before.map_or(Verdict::Unproven, |meta| now.state.compare(&meta));
            self.note_head(sends_head.then_some(verdict), Verdict::Same);
        }
        outcome
    }

    /// Returns `true` if the tier has the first pages of `range` in the state that `meta`
    /// describes. The tier has no pages of states without a strong tag.
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

    /// Returns `before` if `now` proves this state. Forgets `before` if `now` describes another.
    pub(super) fn still(&self, before: Option<Arc<Known>>, now: &GetResult) -> Option<Arc<Known>> {
        let before = before?;
        match before.state.compare(&now.meta) {
            Verdict::Same => return Some(confirmed(before, &now.meta, &now.attributes)),
            Verdict::Different => self.table.forget_state(&before),
            Verdict::Unproven => {}
        }
        None
    }
}
