//! Ways to read and write.

mod cached;
mod direct;
mod mapped;
mod system;

use super::plan::Plan;
use super::settings::{EngineName, ReplaySettings};
use crate::failure::Failure;

/// A file that is open in some way.
pub(super) trait Engine {
    /// Fills `buf` from the file; it lies inside of it.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), String>;

    /// Writes `bytes` to the file, inside of it.
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), String>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), String>;

    /// Pages that were read from the file so far; None if the engine does not know.
    fn nr_fills(&self) -> Option<u64> {
        None
    }

    /// Bytes of memory that the engine may take for itself.
    fn own_bytes(&self) -> u64 {
        0
    }
}

/// An engine that is ready.
pub(super) struct Opened(pub(super) Box<dyn Engine>);

/// Why an engine is not.
pub(super) enum Unusable {
    /// The file system, or the machine, does not have it.
    Here(String),
    Failed(Failure),
}

/// Opens the file in the engine that is called so.
pub(super) fn open(
    name: EngineName,
    settings: &ReplaySettings,
    plan: &Plan,
) -> Result<Opened, Unusable> {
    let target = &settings.target;
    let cannot = |why: String| {
        let path = target.path().display();
        Unusable::Failed(Failure::Run(format!("{name} cannot open {path}: {why}")))
    };
    Ok(Opened(match name {
        EngineName::Pagewell => Box::new(cached::Cached::open(settings, plan).map_err(cannot)?),
        EngineName::Pread => {
            Box::new(system::System::open(target).map_err(|why| cannot(why.to_string()))?)
        }
        EngineName::Direct => {
            Box::new(direct::Direct::open(target, plan).map_err(|why| match why {
                direct::Why::Missing(why) => Unusable::Here(why),
                direct::Why::Failed(why) => cannot(why),
            })?)
        }
        EngineName::Mmap => Box::new(mapped::open(target).map_err(|why| cannot(why.to_string()))?),
    }))
}
