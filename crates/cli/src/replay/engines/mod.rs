//! Ways to read and write.

mod cached;
mod direct;
mod engine;
mod mapped;
mod system;

pub(super) use self::engine::Engine;
use super::plan::Plan;
use super::settings::{EngineName, ReplaySettings};
use crate::failure::Failure;

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
