//! Long answers, piece by piece.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};

use super::answer::Answers;
use crate::objects::known::Known;

/// How much comes at once.
pub(crate) const PIECE: u64 = 4 << 20;

/// How many pieces are asked for before they are wanted.
const AHEAD: u64 = 2;

/// Where a piece that begins at `start` ends.
pub(crate) fn end_of_piece(start: u64, end: u64) -> u64 {
    let next = (start / PIECE + 1) * PIECE;
    next.min(end)
}

/// `first`, and then the rest in `range`, piece by piece; the next ones are asked for while one is being used.
pub(crate) fn pieces(
    answers: Answers,
    known: Arc<Known>,
    first: Bytes,
    range: Range<u64>,
) -> BoxStream<'static, object_store::Result<Bytes>> {
    let rest = stream::try_unfold(
        (answers, known, range),
        |(answers, known, range)| async move {
            if range.is_empty() {
                return Ok(None);
            }
            let end = end_of_piece(range.start, range.end);
            let soon = end..range.end.min(end.saturating_add(AHEAD * PIECE));
            if !soon.is_empty() {
                // A hint: what comes of it is seen when it is read.
                let _ = known.file.prefetch(std::slice::from_ref(&soon));
            }
            let read = answers.read(&known, range.start..end).await;
            let bytes = read.map_err(crate::error::Shared::into_store_error)?;
            Ok(Some((bytes, (answers, known, end..range.end))))
        },
    );
    stream::once(async { Ok(first) }).chain(rest).boxed()
}
