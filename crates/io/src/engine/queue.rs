//! Jobs that wait to be started, with turns and a limit of jobs in progress for each backend.

use std::collections::{HashMap, VecDeque};

pub(super) trait OfStorage {
    /// Returns the key of the backend, which no other backend has while an entry exists.
    fn key(&self) -> usize;
}

#[derive(Debug)]
pub(super) struct Queue<J> {
    storages: HashMap<usize, Storage<J>>,
    /// Keys of the backends with a job that may be started, each once.
    turns: VecDeque<usize>,
    /// Number of jobs that may be started within the bounds of their backends.
    nr_ready: usize,
    per_storage: usize,
}

#[derive(Debug)]
struct Storage<J> {
    waiting: VecDeque<J>,
    nr_begun: usize,
    has_turn: bool,
}

impl<J> Default for Storage<J> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            nr_begun: 0,
            has_turn: false,
        }
    }
}

impl<J> Storage<J> {
    fn nr_ready(&self, per_storage: usize) -> usize {
        self.waiting
            .len()
            .min(per_storage.saturating_sub(self.nr_begun))
    }
}

impl<J: OfStorage> Queue<J> {
    pub(super) fn new(per_storage: usize) -> Self {
        Self {
            storages: HashMap::new(),
            turns: VecDeque::new(),
            nr_ready: 0,
            per_storage,
        }
    }

    pub(super) fn nr_ready(&self) -> usize {
        self.nr_ready
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.storages.is_empty()
    }

    pub(super) fn push(&mut self, job: J) {
        let key = job.key();
        let storage = self.storages.entry(key).or_default();
        let before = storage.nr_ready(self.per_storage);
        storage.waiting.push_back(job);
        self.recount(key, before);
    }

    /// Removes the next job that may be started, and counts it as in progress.
    pub(super) fn pop(&mut self) -> Option<J> {
        let key = self.turns.pop_front()?;
        let storage = self.storages.get_mut(&key)?;
        let before = storage.nr_ready(self.per_storage);
        storage.has_turn = false;
        let job = storage.waiting.pop_front();
        storage.nr_begun += usize::from(job.is_some());
        self.recount(key, before);
        job
    }

    pub(super) fn done(&mut self, key: usize) {
        let Some(storage) = self.storages.get_mut(&key) else {
            return;
        };
        let before = storage.nr_ready(self.per_storage);
        storage.nr_begun -= 1;
        if storage.nr_begun == 0 && storage.waiting.is_empty() {
            self.storages.remove(&key);
            return;
        }
        self.recount(key, before);
    }

    /// Updates `nr_ready` and `turns` for a backend that could start `before` jobs so far.
    fn recount(&mut self, key: usize, before: usize) {
        let Some(storage) = self.storages.get_mut(&key) else {
            return;
        };
        let now = storage.nr_ready(self.per_storage);
        self.nr_ready = self.nr_ready - before + now;
        if now != 0 && !storage.has_turn {
            storage.has_turn = true;
            self.turns.push_back(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::MemoryBackend;
    use crate::backend::{Backend, Request};
    use crate::engine::job::Job;

    fn file() -> Arc<dyn Backend> {
        Arc::new(MemoryBackend::new(Vec::new()))
    }

    fn job(file: &Arc<dyn Backend>) -> Job {
        Job::new(Arc::clone(file), Request::sync_data(Box::new(|_| ())))
    }

    #[test]
    fn storages_take_turns_and_none_has_more_than_its_share_under_way() {
        let (busy, other) = (file(), file());
        let mut queue = Queue::new(2);
        for _ in 0..5 {
            queue.push(job(&busy));
        }
        queue.push(job(&other));
        assert_eq!(queue.nr_ready(), 3);
        let of_busy = job(&busy).key();
        let begun: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let order: Vec<bool> = begun.iter().map(|job| job.key() == of_busy).collect();
        assert_eq!(order, [true, false, true]);
        assert_eq!(queue.nr_ready(), 0);

        queue.done(of_busy);
        assert_eq!(queue.nr_ready(), 1);
        assert_eq!(queue.pop().map(|job| job.key()), Some(of_busy));
        assert!(queue.pop().is_none());
        queue.done(job(&other).key());
        for _ in 0..4 {
            queue.done(of_busy);
            drop(queue.pop());
        }
        assert!(queue.is_at_rest() && queue.nr_ready() == 0);
    }
}
