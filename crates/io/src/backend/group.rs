//! Groups of requests for which a thread waits.

use std::any::Any;
use std::sync::PoisonError;

use pagewell_sync::{Condvar, Mutex, MutexGuard};

pub(crate) type Panic = Box<dyn Any + Send>;

/// Count of completed requests, and the first panic of a completion.
#[derive(Debug, Default)]
pub struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    nr_done: usize,
    panic: Option<Panic>,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn one_is_done(&self, panic: Option<Panic>) {
        let mut state = self.lock();
        state.nr_done += 1;
        if state.panic.is_none() {
            state.panic = panic;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the number of completed requests.
    pub fn nr_done(&self) -> usize {
        self.lock().nr_done
    }

    pub(crate) fn wait_for(&self, nr: usize) -> usize {
        self.changed
            .wait_while(self.lock(), |state| state.nr_done < nr)
            .unwrap_or_else(PoisonError::into_inner)
            .nr_done
    }

    /// Removes the first panic of a completion.
    pub fn take_panic(&self) -> Option<Panic> {
        self.lock().panic.take()
    }
}
