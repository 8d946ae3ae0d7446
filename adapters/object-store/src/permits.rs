//! Limits of concurrent operations, one for each runtime.
//!
//! Runtimes share no permits, so that no reader waits for a permit of an idle runtime. A
//! current-thread runtime outside of `block_on` is idle, but its tasks keep permits and get more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::{self, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Permits {
    max: usize,
    /// A semaphore that no task uses is dropped, since it has all permits.
    semaphores: Mutex<HashMap<runtime::Id, Weak<Semaphore>>>,
}

impl Permits {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.min(Semaphore::MAX_PERMITS),
            semaphores: Mutex::default(),
        }
    }

    /// Waits for a permit of the current runtime. A task with a permit must not wait for another.
    pub(crate) async fn acquire(&self) -> OwnedSemaphorePermit {
        let permit = self.semaphore().acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.semaphore().try_acquire_owned().ok()
    }

    fn semaphore(&self) -> Arc<Semaphore> {
        let id = Handle::current().id();
        let mut semaphores = self
            .semaphores
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = semaphores.get(&id).and_then(Weak::upgrade) {
            return semaphore;
        }
        semaphores.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.max));
        semaphores.insert(id, Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::runtime::Runtime;

    use super::*;

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

    #[test]
    fn each_runtime_has_all_permits() {
        let permits = Permits::new(2);
        let (one, two) = (runtime(), runtime());
        let acquire =
            |runtime: &Runtime| runtime.block_on(async { permits.acquire().now_or_never() });
        let of_one = [acquire(&one), acquire(&one)];
        assert!(of_one.iter().all(Option::is_some));
        assert!(acquire(&one).is_none());
        assert!(one.block_on(async { permits.try_acquire() }).is_none());
        let of_two = [acquire(&two), acquire(&two)];
        assert!(of_two.iter().all(Option::is_some));
        assert!(acquire(&two).is_none());
        drop(of_one);
        assert!(acquire(&one).is_some());
        assert!(acquire(&two).is_none());
    }

    #[test]
    fn semaphores_of_ended_runtimes_are_dropped() {
        let permits = Permits::new(1);
        for _ in 0..9 {
            assert!(runtime().block_on(permits.acquire()).num_permits() == 1);
            assert_eq!(permits.semaphores.lock().unwrap().len(), 1);
        }
    }
}
