//! Division of long answers into pieces.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};

use super::answer::Answers;
use crate::error::Shared;
use crate::fetch::context;
use crate::objects::known::{Known, OpenedBy};
use crate::objects::open::Opener;

pub(crate) const PIECE: u64 = 4 << 20;

/// Number of pieces that are prefetched.
const AHEAD: u64 = 2;

pub(crate) fn end_of_piece(start: u64, end: u64) -> u64 {
    let next = (start / PIECE + 1) * PIECE;
    next.min(end)
}

/// Returns a stream of `first` and then of `range` in pieces, with the extensions of the current
/// get. If the object was replaced, the stream fails, and a later get reads the new state. If the
/// store may not support ranges, the stream fails too, and later gets are passed on or first
/// request bytes.
pub(crate) fn pieces(
    answers: Answers,
    opener: Arc<Opener>,
    known: Arc<Known>,
    first: Bytes,
    range: Range<u64>,
) -> BoxStream<'static, object_store::Result<Bytes>> {
    let extensions = context::extensions();
    let rest = stream::try_unfold(range, move |range| {
        let (answers, opener, known) = (answers.clone(), Arc::clone(&opener), Arc::clone(&known));
        context::scope(extensions.clone(), async move {
            if range.is_empty() {
                return Ok(None);
            }
            match next_piece(&answers, &known, range.clone()).await {
                Ok(bytes) => {
                    let next = range.start + bytes.len() as u64;
                    Ok(Some((bytes, next..range.end)))
                }
                Err(error) => {
                    if error.is_of_change() {
                        opener.table.forget_state(&known);
                    } else if error.is_uncacheable() || known.may_lack_ranges(&error) {
                        // Otherwise later gets could read pieces from the tier, and fail here.
                        if is_conclusive(&known, &error) {
                            let error = error.clone().into_uncacheable();
                            opener.table.pass_on(&known, error);
                        } else {
                            opener.table.require_bytes(&known);
                        }
                    }
                    Err(error.into_store_error())
                }
            }
        })
    });
    stream::once(async { Ok(first) }).chain(rest).boxed()
}

/// Returns `true` if the failure of a piece proves that the cache cannot serve the object. If the
/// store has not yet sent any of its bytes, the error may be temporary.
fn is_conclusive(known: &Known, error: &Shared) -> bool {
    known.opened_by != OpenedBy::Metadata || error.is_uncacheable() || error.is_not_supported()
}

pub(crate) async fn whole(
    answers: &Answers,
    known: &Arc<Known>,
    range: Range<u64>,
) -> Result<Bytes, Shared> {
    let first = next_piece(answers, known, range.clone()).await?;
    if first.len() as u64 == range.end - range.start {
        return Ok(first);
    }
    let mut all = first.to_vec();
    while range.start + (all.len() as u64) < range.end {
        let rest = range.start + all.len() as u64..range.end;
        all.extend_from_slice(&next_piece(answers, known, rest).await?);
    }
    Ok(all.into())
}

/// Returns the first piece of `range`, which must not be empty.
async fn next_piece(
    answers: &Answers,
    known: &Arc<Known>,
    range: Range<u64>,
) -> Result<Bytes, Shared> {
    let end = end_of_piece(range.start, range.end);
    let soon = end..range.end.min(end.saturating_add(AHEAD * PIECE));
    if !soon.is_empty() {
        // This is a hint. The read of the piece returns the error.
        let _ = known.file.prefetch(std::slice::from_ref(&soon));
    }
    answers.read(known, range.start..end).await
}
