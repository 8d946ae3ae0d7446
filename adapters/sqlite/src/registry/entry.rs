//! State of one key of the registry, and its transitions.
//!
//! ```text
//!            enter              publish
//! closed ─────────────▶ claimed ─────────▶ in use by 1 ──▶ join, leave: by more, by fewer
//!    ▲                   │   ▲                  │          enter, withdraw: candidates
//!    └───────────────────┘   └──────────────────┘
//!           release             leave of the last user
//! ```
//!
//! *Claimed*: one thread opens or closes the value, and all others wait.
//!
//! A *candidate* has a reference to the value while it checks whether this is the value to open. It
//! then joins or withdraws. The last user waits for that, so a candidate never has the last
//! reference, and a failed open closes nothing.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Entry<V> {
    /// No value exists. The registry has no entry for such a key.
    #[default]
    Closed,
    Claimed,
    /// `nr_users` is never 0.
    InUse {
        value: V,
        nr_users: usize,
        nr_candidates: usize,
        /// Whether the last user waits for candidates. New ones then wait, so as not to delay it.
        is_ending: bool,
    },
}

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Entering<V> {
    /// The key was closed. The caller now has the claim.
    Claimed,
    Candidate(V),
    /// Another thread has the claim or will get it. The caller waits, then calls `enter` again.
    MustWait,
}

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Leaving<V> {
    Others,
    /// The caller was the last user. It has the value and the claim.
    Last(V),
    /// The caller is the last user, and candidates exist. It waits, then calls `leave` again.
    MustWait,
}

/// Whether waiting threads must be woken after the transition of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Wake {
    No,
    Yes,
}

impl<V> Entry<V> {
    pub(super) fn enter(&mut self) -> Entering<V>
    where
        V: Clone,
    {
        match self {
            Self::Closed => {
                *self = Self::Claimed;
                Entering::Claimed
            }
            Self::Claimed => Entering::MustWait,
            Self::InUse {
                is_ending: true, ..
            } => Entering::MustWait,
            Self::InUse {
                value,
                nr_candidates,
                ..
            } => {
                *nr_candidates += 1;
                Entering::Candidate(value.clone())
            }
        }
    }

    /// Makes the caller, a candidate, a user.
    pub(super) fn join(&mut self) -> Wake {
        let Self::InUse {
            nr_users,
            nr_candidates: nr_candidates @ 1..,
            is_ending,
            ..
        } = self
        else {
            unreachable!("joined without being a candidate");
        };
        *nr_candidates -= 1;
        *nr_users += 1;
        // A user that waits is no longer the last one.
        match std::mem::take(is_ending) {
            true => Wake::Yes,
            false => Wake::No,
        }
    }

    pub(super) fn withdraw(&mut self) -> Wake {
        let Self::InUse {
            nr_candidates: nr_candidates @ 1..,
            is_ending,
            ..
        } = self
        else {
            unreachable!("withdrawn without being a candidate");
        };
        *nr_candidates -= 1;
        match (*nr_candidates, is_ending) {
            (0, true) => Wake::Yes,
            _ => Wake::No,
        }
    }

    /// Ends the caller's claim with an open value, whose first user is the caller.
    pub(super) fn publish(&mut self, value: V) {
        assert!(matches!(self, Self::Claimed), "published without a claim");
        *self = Self::InUse {
            value,
            nr_users: 1,
            nr_candidates: 0,
            is_ending: false,
        };
    }

    pub(super) fn leave(&mut self) -> Leaving<V> {
        match self {
            Self::InUse {
                nr_users: nr_users @ 2..,
                ..
            } => {
                *nr_users -= 1;
                return Leaving::Others;
            }
            Self::InUse {
                nr_candidates: 1..,
                is_ending,
                ..
            } => {
                *is_ending = true;
                return Leaving::MustWait;
            }
            _ => {}
        }
        match std::mem::replace(self, Self::Claimed) {
            Self::InUse { value, .. } => Leaving::Last(value),
            Self::Closed | Self::Claimed => unreachable!("left without being a user"),
        }
    }

    /// Ends the caller's claim without a value: the open has failed, or the close has ended.
    pub(super) fn release(&mut self) {
        assert!(matches!(self, Self::Claimed), "released without a claim");
        *self = Self::Closed;
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Position of a thread in its session, an open and a close, which both may fail. The steps
    /// between positions run under the mutex.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Position {
        /// Calls `enter` next, or again after a wait.
        Outside,
        Opening,
        /// With the number of the value, as in the next variants.
        Candidate(u8),
        User(u8),
        /// Is a user, and waits for candidates.
        Leaving(u8),
        Closing(u8),
    }

    /// Users, candidates, whether the last user waits, and the value.
    type Stored = Option<Option<(usize, usize, bool, u8)>>;

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        /// The registry's entry, in a form that can be hashed.
        entry: Stored,
        /// Position, and number of sessions that the thread has not begun.
        threads: Vec<(Position, u8)>,
        nr_opened: u8,
    }

    fn entry_of(world: &World) -> Entry<u8> {
        match world.entry {
            None => Entry::Closed,
            Some(None) => Entry::Claimed,
            Some(Some((nr_users, nr_candidates, is_ending, value))) => Entry::InUse {
                value,
                nr_users,
                nr_candidates,
                is_ending,
            },
        }
    }

    fn stored(entry: &Entry<u8>) -> Stored {
        match entry {
            Entry::Closed => None,
            Entry::Claimed => Some(None),
            Entry::InUse {
                value,
                nr_users,
                nr_candidates,
                is_ending,
            } => Some(Some((*nr_users, *nr_candidates, *is_ending, *value))),
        }
    }

    impl World {
        /// Checks I1 of the registry, and that the entry counts all users of its value.
        fn check(&self) {
            let count = |is: fn(Position) -> bool| {
                let positions = self.threads.iter().map(|(position, _)| *position);
                positions.filter(|position| is(*position)).count()
            };
            let nr_claims = count(|p| matches!(p, Position::Opening | Position::Closing(_)));
            let nr_candidates = count(|p| matches!(p, Position::Candidate(_)));
            let nr_users = count(|p| matches!(p, Position::User(_) | Position::Leaving(_)));
            let all = (nr_claims, nr_users, nr_candidates);
            match self.entry {
                None => assert_eq!(all, (0, 0, 0), "{self:?}"),
                Some(None) => assert_eq!(all, (1, 0, 0), "{self:?}"),
                Some(Some((nr, nr_candidates, _, value))) => {
                    assert_eq!(all, (0, nr, nr_candidates), "{self:?}");
                    assert!(nr > 0, "{self:?}");
                    for (position, _) in &self.threads {
                        if let Position::User(mine)
                        | Position::Leaving(mine)
                        | Position::Candidate(mine) = position
                        {
                            assert_eq!(*mine, value, "{self:?}");
                        }
                    }
                }
            }
        }

        /// Returns the states after each possible next step of thread `nr`: none if it must wait.
        fn steps(&self, nr: usize) -> Vec<Self> {
            let (position, left) = self.threads[nr];
            let mut entry = entry_of(self);
            let step = |entry: &Entry<u8>, position, left, nr_opened| {
                let mut next = self.clone();
                next.entry = stored(entry);
                next.threads[nr] = (position, left);
                next.nr_opened = nr_opened;
                next
            };
            match position {
                Position::Outside if left == 0 => Vec::new(),
                Position::Outside => match entry.enter() {
                    Entering::MustWait => {
                        assert_eq!(entry, entry_of(self), "a wait changes nothing");
                        Vec::new()
                    }
                    Entering::Claimed => {
                        vec![step(&entry, Position::Opening, left - 1, self.nr_opened)]
                    }
                    Entering::Candidate(value) => {
                        let position = Position::Candidate(value);
                        vec![step(&entry, position, left - 1, self.nr_opened)]
                    }
                },
                Position::Candidate(value) => {
                    let mut withdrawn = entry.clone();
                    // The search does not model wakeups: each thread that can make a step makes it.
                    let _ = (withdrawn.withdraw(), entry.join());
                    vec![
                        step(&withdrawn, Position::Outside, left, self.nr_opened),
                        step(&entry, Position::User(value), left, self.nr_opened),
                    ]
                }
                Position::Opening => {
                    let mut failed = entry.clone();
                    failed.release();
                    let value = self.nr_opened + 1;
                    entry.publish(value);
                    vec![
                        step(&failed, Position::Outside, left, self.nr_opened),
                        step(&entry, Position::User(value), left, value),
                    ]
                }
                Position::User(mine) | Position::Leaving(mine) => match entry.leave() {
                    Leaving::Others => vec![step(&entry, Position::Outside, left, self.nr_opened)],
                    Leaving::Last(value) => {
                        assert_eq!(value, mine, "{self:?}");
                        vec![step(&entry, Position::Closing(value), left, self.nr_opened)]
                    }
                    Leaving::MustWait => {
                        let next = step(&entry, Position::Leaving(mine), left, self.nr_opened);
                        // A thread that waits already has no step.
                        (next != *self).then_some(next).into_iter().collect()
                    }
                },
                // A close that fails or panics releases the claim, too.
                Position::Closing(_) => {
                    entry.release();
                    vec![step(&entry, Position::Outside, left, self.nr_opened)]
                }
            }
        }
    }

    /// Visits all interleavings of 1 to 3 threads with three sessions each, and of 4 with two.
    #[test]
    fn every_history_keeps_the_invariants_and_ends_closed() {
        for (nr_threads, nr_sessions) in [(1, 3), (2, 3), (3, 3), (4, 2)] {
            let first = World {
                entry: None,
                threads: vec![(Position::Outside, nr_sessions); nr_threads],
                nr_opened: 0,
            };
            let (mut seen, mut next) = (HashSet::new(), vec![first]);
            let mut nr_ends = 0;
            while let Some(world) = next.pop() {
                if !seen.insert(world.clone()) {
                    continue;
                }
                world.check();
                let steps: Vec<_> = (0..nr_threads).flat_map(|nr| world.steps(nr)).collect();
                if steps.is_empty() {
                    let is_done = |thread: &(Position, u8)| *thread == (Position::Outside, 0);
                    assert!(world.threads.iter().all(is_done), "deadlock: {world:?}");
                    assert_eq!(world.entry, None, "an entry is left: {world:?}");
                    nr_ends += 1;
                }
                next.extend(steps);
            }
            // One end for each possible number of successful opens.
            assert_eq!(nr_ends, nr_threads * usize::from(nr_sessions) + 1);
        }
    }

    #[test]
    fn last_user_waits_for_candidates_and_new_ones_wait_for_it() {
        let mut entry = Entry::Claimed;
        entry.publish(7);
        assert_eq!(entry.enter(), Entering::Candidate(7));
        assert_eq!(entry.enter(), Entering::Candidate(7));
        assert_eq!(entry.withdraw(), Wake::No);
        assert_eq!(entry.leave(), Leaving::MustWait);
        assert_eq!(entry.enter(), Entering::MustWait);
        // A candidate joins, so the user is not the last one, and there are candidates again.
        assert_eq!(entry.join(), Wake::Yes);
        assert_eq!(entry.enter(), Entering::Candidate(7));
        assert_eq!(entry.leave(), Leaving::Others);
        assert_eq!(entry.leave(), Leaving::MustWait);
        assert_eq!(entry.withdraw(), Wake::Yes);
        assert_eq!(entry.leave(), Leaving::Last(7));
        assert_eq!(entry, Entry::Claimed);
    }
}
