//! Group commit: threads that want a file durable at the same time share one sync of its storage.
//!
//! Place. [`Flusher::sync`](crate::writeback::flush::Flusher::sync) asks here first. The first caller *leads*: it makes the sync. Those
//! that come before that sync begins to look for dirty pages *follow*: they wait for it, and get its outcome.
//!
//! Protocol.
//!
//! ```text
//! leader                                        follower
//! 1 lock `forming`: there is no commit;         a lock `forming`: there is a commit;
//!   leave one there                               note what it is to make durable
//! 2 take the writeback lock                     b sleep until the outcome is there
//! 3 lock `forming`; take the commit out
//! 4 look for dirty pages, give them, sync
//! 5 release the writeback lock
//! 6 store the outcome, wake the followers
//! ```
//!
//! Invariants.
//! - C1: who follows a commit did so before its step 4 began: it is found in `forming` only before step 3. So all that the
//!   follower has seen written is noted as dirty where step 4 looks: the lock of `forming` orders the two (a before 3).
//! - C2: a commit that was left in `forming` is taken out, and has an outcome in the end, also if its leader unwinds ([`Lead`]).
//! - C3: commits of one file are led one after the other, each with the writeback lock; while one is in step 4, one more forms at the
//!   most.
//!
//! The hook and the storage are called by leaders, on behalf of followers. A follower waits for what it would wait for as a leader: the
//! writeback lock, the hook, the storage.
//!
//! Proved by: `loom_commit_vs_commit`, `loom_commit_fails_vs_follower`; `crates/pagewell/tests/durability/commits.rs`.

use std::sync::Arc;

use pagewell_sync::shard::Padded;
use pagewell_sync::{Condvar, Mutex, lock};

use crate::base::error::Error;

/// What a sync has to make durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sync {
    /// The bytes, and the metadata needed to read them.
    Data,
    /// These, and all other metadata that the system keeps of the file.
    All,
}

/// The commits of one file.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// The one that may still be followed.
    forming: Padded<Mutex<Option<Forming>>>,
}

/// A commit that may still be followed.
#[derive(Debug)]
struct Forming {
    commit: Arc<Commit>,
    /// What it is to make durable for all.
    wanted: Sync,
}

/// One sync of the storage, for all that follow it.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

/// How a commit has ended.
#[derive(Debug)]
enum Outcome {
    Returned(Result<(), Error>),
    /// Its leader has unwound: the hook or the storage has panicked.
    Unwound,
}

/// The leader of a commit has unwound.
#[derive(Debug)]
pub(crate) struct Unwound;

/// What a caller is to do.
#[derive(Debug)]
#[must_use]
pub(crate) enum Role<'w> {
    /// Make the sync.
    Lead(Lead<'w>),
    /// Wait for it.
    Follow(Arc<Commit>),
}

/// A commit that this thread makes.
#[derive(Debug)]
#[must_use]
pub(crate) struct Lead<'w> {
    commits: &'w Commits,
    commit: Arc<Commit>,
    what: Sync,
    /// Whether others can still follow.
    is_forming: bool,
}

impl Commits {
    /// Step 1, or step a.
    pub(crate) fn join(&self, what: Sync) -> Role<'_> {
        let mut forming = lock(&self.forming);
        if let Some(forming) = &mut *forming {
            forming.wanted = what.max(forming.wanted);
            return Role::Follow(Arc::clone(&forming.commit));
        }
        let commit = Arc::new(Commit::default());
        *forming = Some(Forming {
            commit: Arc::clone(&commit),
            wanted: what,
        });
        Role::Lead(Lead {
            commits: self,
            commit,
            what,
            is_forming: true,
        })
    }
}

impl Commit {
    /// Step b: the outcome of the leader.
    pub(crate) fn wait(&self) -> Result<Result<(), Error>, Unwound> {
        let mut outcome = lock(&self.outcome);
        loop {
            match &*outcome {
                Some(Outcome::Returned(Ok(()))) => return Ok(Ok(())),
                Some(Outcome::Returned(Err(error))) => return Ok(Err(error.copied())),
                Some(Outcome::Unwound) => return Err(Unwound),
                None => {}
            }
            outcome = self
                .ended
                .wait(outcome)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Step 6.
    fn end(&self, outcome: Outcome) {
        let mut ended = lock(&self.outcome);
        if ended.is_none() {
            *ended = Some(outcome);
        }
        drop(ended);
        self.ended.notify_all();
    }
}

impl Lead<'_> {
    /// Step 3, with the writeback lock in hand: nobody follows any more. Returns what is to be made durable for all.
    pub(crate) fn close(&mut self) -> Sync {
        if self.is_forming {
            self.is_forming = false;
            // Only its leader takes a commit out, so it is this one.
            if let Some(forming) = lock(&self.commits.forming).take() {
                self.what = forming.wanted;
            }
        }
        self.what
    }

    /// Step 6.
    pub(crate) fn end(self, result: &Result<(), Error>) {
        let copy = match result {
            Ok(()) => Ok(()),
            Err(error) => Err(error.copied()),
        };
        self.commit.end(Outcome::Returned(copy));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let _ = self.close();
        // Nothing, if it has ended.
        self.commit.end(Outcome::Unwound);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;
    use crate::base::error::{ErrorKind, Op};

    /// Has `nr` threads follow one commit, which `lead` makes when they do; what each of them is told.
    fn followers(
        nr: usize,
        lead: impl FnOnce(Lead<'_>),
    ) -> Vec<Result<Result<(), Error>, Unwound>> {
        let commits = Commits::default();
        let Role::Lead(leader) = commits.join(Sync::Data) else {
            panic!("nobody else is there");
        };
        thread::scope(|scope| {
            let followers: Vec<_> = (0..nr)
                .map(|_| {
                    scope.spawn(|| match commits.join(Sync::Data) {
                        Role::Lead(_) => panic!("there is a leader"),
                        Role::Follow(commit) => commit.wait(),
                    })
                })
                .collect();
            // Besides the leader's, and that of `forming`.
            while Arc::strong_count(&leader.commit) < nr + 2 {
                thread::yield_now();
            }
            let led = catch_unwind(AssertUnwindSafe(|| lead(leader)));
            let told = followers
                .into_iter()
                .map(|follower| follower.join().expect("no panic"))
                .collect();
            drop(led);
            assert!(lock(&commits.forming).is_none());
            told
        })
    }

    #[test]
    fn all_that_come_before_it_begins_share_one_sync_and_its_outcome() {
        let told = followers(8, |mut lead| {
            lead.close();
            lead.end(&Ok(()));
        });
        assert!(told.into_iter().all(|told| matches!(told, Ok(Ok(())))));
        let told = followers(8, |mut lead| {
            lead.close();
            lead.end(&Err(Error::new(ErrorKind::Refused, Op::Sync).with_page(7)));
        });
        for told in told {
            let error = told.expect("an outcome").expect_err("a failure");
            assert_eq!((error.kind(), error.page()), (ErrorKind::Refused, Some(7)));
        }
    }

    /// Followers were given the text of a hook's error, and not the error.
    #[test]
    fn followers_get_the_source_of_the_leaders_error() {
        let refusal = io::Error::other(Error::new(ErrorKind::ReadOnly, Op::Write));
        let told = followers(3, |mut lead| {
            lead.close();
            lead.end(&Err(
                Error::new(ErrorKind::Refused, Op::Sync).with_source(refusal)
            ));
        });
        for told in told {
            let error = told.expect("an outcome").expect_err("a failure");
            let source = std::error::Error::source(&error).expect("a source");
            let source = source.downcast_ref::<io::Error>().expect("the hook's");
            let inner = source.get_ref().expect("an inner error");
            let inner = inner.downcast_ref::<Error>().expect("its type");
            assert_eq!(inner.kind(), ErrorKind::ReadOnly);
        }
    }

    #[test]
    fn followers_of_a_leader_that_unwinds_are_told_so() {
        for is_closed in [false, true] {
            let told = followers(3, |mut lead| {
                if is_closed {
                    lead.close();
                }
                panic!("made to panic");
            });
            assert!(told.into_iter().all(|told| told.is_err()));
        }
    }

    #[test]
    fn who_comes_when_a_sync_has_begun_leads_the_next_one() {
        let commits = Commits::default();
        let Role::Lead(mut first) = commits.join(Sync::Data) else {
            panic!("nobody else is there");
        };
        assert_eq!(first.close(), Sync::Data);
        let Role::Lead(mut second) = commits.join(Sync::Data) else {
            panic!("it has begun");
        };
        // Whoever wants more gets it for all.
        assert!(matches!(commits.join(Sync::All), Role::Follow(_)));
        assert!(matches!(commits.join(Sync::Data), Role::Follow(_)));
        first.end(&Ok(()));
        assert_eq!(second.close(), Sync::All);
        second.end(&Ok(()));
        assert!(matches!(commits.join(Sync::Data), Role::Lead(_)));
    }
}
