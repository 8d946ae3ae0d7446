use std::ops::Range;
use std::sync::Arc;

use pagewell_cache::{MAX_FILE_BYTES, MappedFile};
use pagewell_sync::write;

use crate::areas::area::Area;
use crate::areas::file::{Backing, FileArea, FileMaps, Sharing};
use crate::areas::options::MapOptions;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::Mm;

pub(crate) struct FileMapper<'m> {
    mm: &'m Arc<Mm>,
}

impl<'m> FileMapper<'m> {
    pub(crate) fn of(mm: &'m Arc<Mm>) -> Self {
        Self { mm }
    }

    pub(crate) fn map(
        self,
        file: MappedFile,
        range: Range<u64>,
        sharing: Sharing,
        options: &MapOptions,
    ) -> Result<Range<u64>, Error> {
        let failed = |kind| Error::new(kind, Op::Map);
        let shared = &self.mm.shared;
        let page_bytes = file.page_size() as u64;
        options
            .check_node(shared.pool().nr_nodes())
            .map_err(failed)?;
        if !file.is_in(shared.pool()) {
            return Err(failed(ErrorKind::OtherFrames));
        }
        if range.start >= range.end || range.end > MAX_FILE_BYTES {
            return Err(failed(ErrorKind::InvalidRange));
        }
        if !range.start.is_multiple_of(page_bytes) {
            return Err(failed(ErrorKind::Misaligned));
        }
        let maps = file
            .user_or_else(|| Arc::new(FileMaps::new()))
            .ok_or_else(|| failed(ErrorKind::OtherFrames))?;
        // Declared before the lock, so that an error drops it after the unlock: closing a file may
        // take long.
        let backing = Arc::new(Backing { file, maps });
        let len = (range.end - range.start).next_multiple_of(page_bytes);
        let mut areas = write(&self.mm.structure);
        let start = areas
            .find_room(len)
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        let addresses = start..start + len;
        let (protection, policy) = (options.protection, options.policy);
        let shown = FileArea::new(
            Arc::clone(&backing),
            sharing,
            addresses.clone(),
            range.start,
            protection,
        );
        if !shown.may_be(protection) {
            return Err(failed(ErrorKind::ReadOnly));
        }
        let order = shown.order();
        let id = shared.next_id();
        let area = Area::of_file(addresses.clone(), order, policy, id, Arc::new(shown));
        // F3 of `areas::file`: the area is linked before it can have an entry.
        area.link(self.mm);
        areas.insert(area);
        Ok(addresses)
    }
}
