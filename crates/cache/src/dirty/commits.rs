//! Group commit: threads that sync a file at the same time share one sync of its backend.
//!
//! Protocol. [`Flusher::sync`](crate::writeback::flush::Flusher::sync) calls [`Commits::join`]
//! first. The first caller *leads*: it makes the sync. Callers that join before that sync begins to
//! look for dirty pages *follow*: they wait for the sync and return its outcome.
//! ```text
//! leader                                        follower
//! 1 lock `forming`: there is no commit;         a lock `forming`: there is a commit;
//!   store one there                               record what it has to make durable
//! 2 acquire the writeback lock                  b sleep until the outcome is stored
//! 3 lock `forming`; remove the commit
//! 4 look for dirty pages, write them, sync
//! 5 release the writeback lock
//! 6 store the outcome, wake the followers
//! ```
//!
//! Invariants.
//! - C1: a follower has joined before step 4 of its commit, since it found the commit in `forming`,
//!   from which step 3 removes it. So step 4 finds each dirty page whose write the follower has
//!   seen: the lock of `forming` orders step a before step 3.
//! - C2: a commit stored in `forming` is removed and gets an outcome, even if its leader unwinds.
//! - C3: commits of one file are led one after the other, with the writeback lock held. While one
//!   is in step 4, at most one more forms.
//!
//! A follower waits, like a leader, for the writeback lock, the callback and the backend.
//!
//! Verified by `loom_commit_vs_commit`, `loom_commit_fails_vs_follower`;
//! `crates/pagewell/tests/durability/commits.rs`.

use std::sync::Arc;

use pagewell_sync::shard::Padded;
use pagewell_sync::{Condvar, Mutex, lock};

use crate::base::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sync {
    /// The bytes, and the metadata needed to read them.
    Data,
    /// The bytes, and all metadata that the operating system keeps of the file.
    All,
}

#[derive(Debug, Default)]
pub(crate) struct Commits {
    forming: Padded<Mutex<Option<Forming>>>,
}

#[derive(Debug)]
struct Forming {
    commit: Arc<Commit>,
    wanted: Sync,
}

#[derive(Debug, Default)]
pub(crate) struct Commit {
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

/// Result of the leader's sync, unless the leader has unwound.
type Outcome = Result<Result<(), Error>, Unwound>;

#[derive(Debug)]
pub(crate) struct Unwound;

fn copy_of(result: &Result<(), Error>) -> Result<(), Error> {
    result.as_ref().copied().map_err(Error::copied)
}

#[derive(Debug)]
#[must_use]
pub(crate) enum Role<'w> {
    Lead(Lead<'w>),
    Follow(Arc<Commit>),
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Lead<'w> {
    commits: &'w Commits,
    commit: Arc<Commit>,
    what: Sync,
    is_forming: bool,
}

impl Commits {
    /// Joins the forming commit (step a), or starts one (step 1).
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
    pub(crate) fn wait(&self) -> Outcome {
        let outcome = lock(&self.outcome);
        let ended = self.ended.wait_while(outcome, |outcome| outcome.is_none());
        match &*ended.unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(Ok(result)) => Ok(copy_of(result)),
            Some(Err(Unwound)) | None => Err(Unwound),
        }
    }

    /// Step 6. Has no effect if the commit already has an outcome.
    fn end(&self, outcome: Outcome) {
        lock(&self.outcome).get_or_insert(outcome);
        self.ended.notify_all();
    }
}

impl Lead<'_> {
    /// Step 3. The caller holds the writeback lock. Returns the widest requested scope.
    pub(crate) fn close(&mut self) -> Sync {
        if self.is_forming {
            self.is_forming = false;
            // Only the leader of a commit removes it, so this is the commit of this thread.
            if let Some(forming) = lock(&self.commits.forming).take() {
                self.what = forming.wanted;
            }
        }
        self.what
    }

    /// Step 6.
    pub(crate) fn end(self, result: &Result<(), Error>) {
        self.commit.end(Ok(copy_of(result)));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let _ = self.close();
        self.commit.end(Err(Unwound));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;
    use crate::base::error::{ErrorKind, Op};

    /// Lets `nr` threads follow a commit that `lead` ends. Returns the outcomes that they got.
    fn followers(nr: usize, lead: impl FnOnce(Lead<'_>)) -> Vec<Outcome> {
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
            // Two references are the leader's and that of `forming`. Each follower has one more.
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

    /// Followers get the error of a callback itself, not its text.
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
        assert!(matches!(commits.join(Sync::All), Role::Follow(_)));
        assert!(matches!(commits.join(Sync::Data), Role::Follow(_)));
        first.end(&Ok(()));
        assert_eq!(second.close(), Sync::All);
        second.end(&Ok(()));
        assert!(matches!(commits.join(Sync::Data), Role::Lead(_)));
    }
}
