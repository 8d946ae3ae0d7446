//! Bytes of answers of the store.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use object_store::{Attribute, Attributes, GetResult, Result};

/// Returns `true` if a content encoding is declared. The body may then not have the declared size.
pub(crate) fn is_encoded(attributes: &Attributes) -> bool {
    attributes.get(&Attribute::ContentEncoding).is_some()
}

/// Returns the body of an answer. Stops early if it becomes longer than `len` bytes.
pub(crate) async fn collect(result: GetResult, len: u64) -> Result<Bytes> {
    let mut stream = result.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(more) = stream.next().await {
        let more = more?;
        if bytes.is_empty() && more.len() as u64 == len {
            return Ok(more);
        }
        bytes.extend_from_slice(&more);
        if bytes.len() as u64 > len {
            break;
        }
    }
    Ok(bytes.freeze())
}
