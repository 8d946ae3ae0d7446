//! From pages of a file to the areas that show them.

use std::ops::{ControlFlow, Range};

use pagewell_cache::File;
use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::RefScheme;

use crate::api::handles::Spaces;
use crate::areas::maps::{FileMaps, Sharing};

/// Where a part of a file is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MappedAt {
    /// The space's number ([`Space::id`](crate::Space::id)).
    pub space: u64,
    /// The addresses, in that space.
    pub addresses: Range<u64>,
    /// Which byte of the file is at the first of them.
    pub first_byte: u64,
    /// What writes do. A private area may have copies of some of the pages.
    pub sharing: Sharing,
}

impl<S: RefScheme> Spaces<S> {
    /// Where the pages of a file that have any of the bytes in `range` are mapped, in which spaces: the parts of areas
    /// that show them, shared ones first.
    ///
    /// Areas that are mapped, moved or unmapped meanwhile may be there or not, and one that is moved or changed in part
    /// may be there twice.
    pub fn mappings_of(&self, file: &File<S>, range: Range<u64>) -> Vec<MappedAt> {
        let file = file.mapped();
        let mut found = Vec::new();
        let Some(maps) = file.user::<FileMaps>().filter(|_| !range.is_empty()) else {
            return found;
        };
        let page_bytes = file.page_size() as u64;
        let frame = FRAME_BYTES as u64;
        let first = range.start / page_bytes * (page_bytes / frame);
        let end = range
            .end
            .div_ceil(page_bytes)
            .saturating_mul(page_bytes / frame);
        for sharing in [Sharing::Shared, Sharing::Private] {
            let _ = maps.of(sharing).walk(first, end, |link| {
                let (first, end) = (link.first.max(first), link.end.min(end));
                let start = link.addr_of(first);
                found.push(MappedAt {
                    space: link.to.id(),
                    addresses: start..start + (end - first) * frame,
                    first_byte: first * frame,
                    sharing,
                });
                ControlFlow::<()>::Continue(())
            });
        }
        found
    }
}
