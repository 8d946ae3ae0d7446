//! Migration of pages of files: the cache moves the pages that areas map to another node.
//!
//! No entry names a page of a file, so walks are not needed. Pages are moved under claims of their
//! slots ([`pagewell_cache::MappedFile::move_page`]). The structure lock is held only while areas
//! are listed.

use std::ops::Range;
use std::sync::Arc;

use pagewell_cache::PageMove;
use pagewell_sync::{RwLock, read};

use crate::areas::file::{FileArea, Sharing};
use crate::areas::set::Areas;
use crate::motion::report::{Migrated, NotMoved};
use crate::tables::of_space::PageTables;

/// Maximum number of pages between two lookups of the areas.
const BATCH: u64 = 512;

pub(crate) struct FileMover<'m> {
    areas: &'m RwLock<Areas>,
    tables: &'m PageTables,
}

impl<'m> FileMover<'m> {
    pub(crate) fn new(areas: &'m RwLock<Areas>, tables: &'m PageTables) -> Self {
        Self { areas, tables }
    }

    pub(crate) fn migrate(&self, range: &Range<u64>, node: usize, report: &mut Migrated) {
        let mut next = range.start;
        while let Some((file, part)) = self.next_file(next..range.end) {
            let page_bytes = file.file().page_size() as u64;
            let part = part.start..part.end.min(part.start + BATCH * page_bytes);
            next = part.end;
            // Begin at the page that contains the start of `part`.
            let first = part.start - file.pos_of(part.start) % page_bytes;
            for addr in (first..part.end).step_by(page_bytes as usize) {
                if file.sharing == Sharing::Private && !file.shows_own_page(self.tables, addr) {
                    continue;
                }
                match file.file().move_page(file.page_of(addr), node) {
                    PageMove::Done => report.nr_moved += 1,
                    PageMove::There => report.nr_there += 1,
                    PageMove::NodeFull => report.not_moved.push((addr, NotMoved::NodeFull)),
                    PageMove::Pinned => report.not_moved.push((addr, NotMoved::Pinned)),
                    PageMove::Busy => report.not_moved.push((addr, NotMoved::InMigration)),
                    // The page is not cached: a later fill selects its node.
                    _ => {}
                }
            }
        }
    }

    fn next_file(&self, range: Range<u64>) -> Option<(Arc<FileArea>, Range<u64>)> {
        if range.is_empty() {
            return None;
        }
        let areas = read(self.areas);
        let area = areas.overlapping(&range).find(|area| area.file.is_some())?;
        let part = area.range.start.max(range.start)..area.range.end.min(range.end);
        Some((Arc::clone(area.file.as_ref()?), part))
    }
}
