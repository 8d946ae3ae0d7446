//! All that is one for a cache.

use std::sync::{Arc, Weak};

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::Mutex;

use crate::files::background::{Background, Rounds};
use crate::files::registry::Registry;
use crate::files::share::Share;
use crate::mapping::shared::Shared;
use crate::supply::parts::Supply;

/// All that is one for a cache: what its files share, and the files.
#[derive(Debug)]
pub(crate) struct Files<S: RefScheme> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) registry: Registry<S>,
    /// The thread that writes back.
    pub(crate) background: Background<Self>,
    /// Held by it in each of its rounds.
    pub(crate) rounds: Rounds,
    /// Shares of files whose last handle, or last share, went in a hook: the thread drops them.
    pub(super) left: Mutex<Vec<Share<S>>>,
    /// What else uses the cache's frames, and is one for all who ask.
    pub(crate) companion: Mutex<Weak<Companion>>,
}

impl<S: RefScheme> Files<S> {
    /// The cache's frames, and what bounds them.
    pub(crate) fn supply(&self) -> &Supply<S> {
        &self.shared.supply
    }
}

/// Anything: of a crate above, which knows what it is.
pub(crate) type Companion = dyn std::any::Any + Send + Sync;
