//! Mutual exclusion between writes of whole blocks and of partial blocks of one file.
//!
//! A direct write of a partial block reads the block, changes it and writes all of it. At the end
//! of the file, it writes past the end and then sets the size. Either could undo other writes. So
//! either threads write whole blocks, or one thread writes partial blocks or sets the size.

use std::sync::PoisonError;

use pagewell_sync::{Condvar, Mutex, lock};

/// A reader-writer lock. One thread may acquire a shared hold, and another thread may release it.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    nr_shared: usize,
    is_alone: bool,
    /// While threads wait for exclusive access, no new shared hold is granted.
    nr_waiting: usize,
}

impl State {
    fn may_share(&self) -> bool {
        !self.is_alone && self.nr_waiting == 0
    }
}

/// The exclusive hold.
#[derive(Debug)]
#[must_use]
pub struct Alone<'g>(&'g Gate);

/// A shared hold.
#[derive(Debug)]
#[must_use]
pub struct Shared<'g>(&'g Gate);

impl Gate {
    /// Acquires a hold that [`unshare`](Self::unshare) releases. Returns `false` if it would block.
    #[must_use]
    pub(super) fn try_share(&self) -> bool {
        let mut state = lock(&self.state);
        let may = state.may_share();
        state.nr_shared += usize::from(may);
        may
    }

    pub(super) fn unshare(&self) {
        let mut state = lock(&self.state);
        state.nr_shared -= 1;
        if state.nr_shared == 0 && state.nr_waiting != 0 {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Acquires a shared hold. Blocks while a thread has or waits for the exclusive hold.
    pub fn share(&self) -> Shared<'_> {
        self.changed
            .wait_while(lock(&self.state), |state| !state.may_share())
            .unwrap_or_else(PoisonError::into_inner)
            .nr_shared += 1;
        Shared(self)
    }

    /// Acquires the exclusive hold. Blocks while a thread has any hold.
    pub fn alone(&self) -> Alone<'_> {
        let mut state = lock(&self.state);
        state.nr_waiting += 1;
        let mut state = self
            .changed
            .wait_while(state, |state| state.is_alone || state.nr_shared != 0)
            .unwrap_or_else(PoisonError::into_inner);
        state.nr_waiting -= 1;
        state.is_alone = true;
        Alone(self)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).is_alone = false;
        self.0.changed.notify_all();
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.0.unshare();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use pagewell_testkit::wait::{bounded, not_yet, until};

    use super::*;

    #[test]
    fn one_is_alone_and_waits_for_shares_and_new_shares_wait_for_it() {
        let gate = Arc::new(Gate::default());
        assert!(gate.try_share());
        assert!(gate.try_share());
        let other = Arc::clone(&gate);
        let alone = thread::spawn(move || {
            let _alone = other.alone();
            assert!(!other.try_share());
        });
        until("it waits", || lock(&gate.state).nr_waiting == 1);
        assert!(!gate.try_share());
        gate.unshare();
        not_yet("alone beside a share", || alone.is_finished());
        gate.unshare();
        bounded("alone", move || alone.join().unwrap());
        drop(gate.share());
        drop(gate.alone());
        assert!(gate.try_share());
    }
}
