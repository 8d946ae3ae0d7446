//! Pagewell's cache.

use pagewell::{Cache, File, OpenOptions};

use super::engine::Engine;
use crate::failure::chain;
use crate::replay::plan::Plan;
use crate::replay::settings::{ReplaySettings, Target};

pub(super) struct Cached {
    cache: Cache,
    file: File,
    capacity: u64,
}

/// The smallest cache that is made unless one is named.
const LEAST: u64 = 1 << 20;
/// What frames and index take beside the pages: a part of them.
const BESIDE: u64 = 32;

impl Cached {
    pub(super) fn open(settings: &ReplaySettings, plan: &Plan) -> Result<Cached, String> {
        let capacity = settings.capacity.unwrap_or_else(|| {
            let fifth = plan.touched / 5;
            (fifth + fifth / BESIDE).max(LEAST)
        });
        let cache = Cache::builder()
            .capacity(capacity)
            .page_size(settings.page_size)
            .build()
            .map_err(|error| chain(&error))?;
        let mut options = OpenOptions::new();
        if let Target::Write(_) = settings.target {
            options = options.write();
        }
        let file = cache
            .open_with(settings.target.path(), &options)
            .map_err(|error| chain(&error))?;
        Ok(Cached {
            cache,
            file,
            capacity,
        })
    }
}

impl Engine for Cached {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), String> {
        match self.file.read_at(buf, offset) {
            Ok(n) if n == buf.len() => Ok(()),
            Ok(n) => Err(format!(
                "{n} of {} bytes: is the file shorter now?",
                buf.len()
            )),
            Err(error) => Err(chain(&error)),
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), String> {
        self.file
            .write_at(bytes, offset)
            .map(drop)
            .map_err(|error| chain(&error))
    }

    fn sync(&mut self) -> Result<(), String> {
        self.file
            .sync_data()
            .map(drop)
            .map_err(|error| chain(&error))
    }

    fn nr_fills(&self) -> Option<u64> {
        Some(self.cache.stats().nr_fills)
    }

    fn own_bytes(&self) -> u64 {
        self.capacity
    }
}
