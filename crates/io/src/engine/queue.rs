//! Jobs that wait to be started. Backends take turns, and each has a limit of jobs in progress.
//!
//! The limit is a fixed number or, with [`Queue::sharing`], a quota that depends on the number of
//! free threads (dynamic thresholds: Choudhury and Hahne, 1998). Of `T` threads, a backend that is
//! alone may occupy `P`. In general, a backend may have `P / (T - P)` jobs in progress for each
//! free thread. If all jobs hang, the first backend thus occupies `P / T` of the threads, the
//! second one `P / T` of the rest, and so on. If `P` is at most `T / 2`, the last free thread
//! starts a job only of a backend that has none in progress.

use std::collections::{HashMap, VecDeque};

/// Queue of jobs by the keys of their backends. A backend that was just dropped may have had the
/// same key.
#[derive(Debug)]
pub(super) struct Queue<J> {
    storages: HashMap<usize, Storage<J>>,
    /// Keys of the backends with a job that may be started within the fixed limit, each once.
    turns: VecDeque<usize>,
    /// Number of jobs that may be started within the fixed limits.
    nr_ready: usize,
    per_storage: usize,
    /// Maximum number of jobs in progress, if backends have a quota.
    nr_threads: Option<usize>,
    nr_begun: usize,
}

#[derive(Debug)]
struct Storage<J> {
    waiting: VecDeque<J>,
    nr_begun: usize,
    has_turn: bool,
}

impl<J> Storage<J> {
    fn nr_ready(&self, per_storage: usize) -> usize {
        self.waiting
            .len()
            .min(per_storage.saturating_sub(self.nr_begun))
    }
}

impl<J> Queue<J> {
    pub(super) fn new(per_storage: usize) -> Self {
        Self {
            storages: HashMap::new(),
            turns: VecDeque::new(),
            nr_ready: 0,
            per_storage,
            nr_threads: None,
            nr_begun: 0,
        }
    }

    /// Creates a queue for `nr_threads` threads. One backend may occupy `per_storage` of them if it
    /// is alone, and otherwise a quota (see the module).
    pub(super) fn sharing(nr_threads: usize, per_storage: usize) -> Self {
        let nr_threads = nr_threads.min(1 << 16);
        Self {
            nr_threads: Some(nr_threads),
            ..Self::new(per_storage.min(nr_threads))
        }
    }

    /// Returns the number of jobs that may be started: exact if it is 0 or the limit is fixed, and
    /// otherwise an upper bound, since each start of a job reduces the quotas of other backends.
    pub(super) fn nr_ready(&self) -> usize {
        let Some(nr_threads) = self.nr_threads else {
            return self.nr_ready;
        };
        let free = nr_threads.saturating_sub(self.nr_begun);
        let mut nr_ready = 0;
        let mut keys = self.turns.iter();
        while nr_ready < free
            && let Some(key) = keys.next()
        {
            nr_ready += self.nr_startable(*key, nr_threads);
        }
        nr_ready.min(free)
    }

    /// Returns the number of jobs of a backend that may start if no other backend's job does.
    fn nr_startable(&self, key: usize, nr_threads: usize) -> usize {
        let free = nr_threads.saturating_sub(self.nr_begun);
        self.storages.get(&key).map_or(0, |storage| {
            // A job may start if `storage.nr_begun * (T - P) < P * free`. A start adds 1 to this
            // `nr_begun`, and takes 1 from `free`.
            let used = storage.nr_begun * (nr_threads - self.per_storage);
            let left = (self.per_storage * free).saturating_sub(used);
            left.div_ceil(nr_threads).min(storage.waiting.len())
        })
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.storages.is_empty()
    }

    pub(super) fn push(&mut self, key: usize, job: J) {
        let storage = self.storages.entry(key).or_insert_with(|| Storage {
            waiting: VecDeque::new(),
            nr_begun: 0,
            has_turn: false,
        });
        let before = storage.nr_ready(self.per_storage);
        storage.waiting.push_back(job);
        self.recount(key, before);
    }

    /// Removes the next job that may be started, with its key, and counts it as in progress.
    pub(super) fn pop(&mut self) -> Option<(usize, J)> {
        let turn = match self.nr_threads {
            None => 0,
            Some(_) if self.nr_ready() == 0 => return None,
            Some(nr_threads) => {
                let mut keys = self.turns.iter();
                keys.position(|key| self.nr_startable(*key, nr_threads) != 0)?
            }
        };
        let key = self.turns.remove(turn)?;
        let storage = self.storages.get_mut(&key)?;
        let before = storage.nr_ready(self.per_storage);
        storage.has_turn = false;
        let job = storage.waiting.pop_front();
        let begun = usize::from(job.is_some());
        storage.nr_begun += begun;
        self.nr_begun += begun;
        self.recount(key, before);
        Some((key, job?))
    }

    pub(super) fn done(&mut self, key: usize) {
        let Some(storage) = self.storages.get_mut(&key) else {
            return;
        };
        let before = storage.nr_ready(self.per_storage);
        storage.nr_begun -= 1;
        self.nr_begun -= 1;
        if storage.nr_begun == 0 && storage.waiting.is_empty() {
            self.storages.remove(&key);
            return;
        }
        self.recount(key, before);
    }

    /// Updates `nr_ready` and `turns` after a change of a backend that had `before` ready jobs.
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
    use super::*;

    #[test]
    fn storages_take_turns_and_none_has_more_than_its_share_under_way() {
        let (busy, other) = (1, 2);
        let mut queue = Queue::new(2);
        for _ in 0..5 {
            queue.push(busy, ());
        }
        queue.push(other, ());
        assert_eq!(queue.nr_ready(), 3);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(busy, ()), (other, ()), (busy, ())]);
        assert_eq!(queue.nr_ready(), 0);

        queue.done(busy);
        assert_eq!(queue.nr_ready(), 1);
        assert_eq!(queue.pop(), Some((busy, ())));
        assert_eq!(queue.pop(), None);
        queue.done(other);
        for _ in 0..4 {
            queue.done(busy);
            queue.pop();
        }
        assert!(queue.is_at_rest() && queue.nr_ready() == 0);
    }

    /// Adds a new backend, with 100 jobs. Starts what may start; returns the number.
    fn hang(queue: &mut Queue<()>, key: usize) -> usize {
        for _ in 0..100 {
            queue.push(key, ());
        }
        let nr_ready = queue.nr_ready();
        let nr_begun = std::iter::from_fn(|| queue.pop()).count();
        assert_eq!((nr_ready, queue.nr_ready()), (nr_begun, 0));
        nr_begun
    }

    #[test]
    fn backends_share_what_earlier_ones_have_left() {
        let mut queue = Queue::sharing(256, 64);
        let begun: Vec<_> = (0..17).map(|key| hang(&mut queue, key)).collect();
        let expected = [64, 48, 36, 27, 21, 15, 12, 9, 6, 5, 4, 3, 2, 1, 1, 1, 1];
        assert_eq!(begun, expected);
        // Once a job has ended, a backend without jobs in progress can start one.
        let last = 17;
        queue.push(last, ());
        queue.push(last, ());
        assert_eq!(queue.pop(), None);
        queue.done(0);
        assert_eq!(queue.nr_ready(), 1);
        assert_eq!(queue.pop(), Some((last, ())));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn a_backend_that_is_alone_may_have_its_share_or_everything() {
        for (most, per_storage) in [(1, 1), (4, 4), (4, 3), (64, 16), (128, 64), (2, 9)] {
            let mut queue = Queue::sharing(most, per_storage);
            assert_eq!(hang(&mut queue, 0), per_storage.min(most));
        }
    }
}
