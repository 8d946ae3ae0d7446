//! Policies: on which nodes the pages of areas are to be.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::write;

use crate::areas::area::Policy;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::Space;

impl Policy {
    /// Checks that the node that the policy names is one of `nr_nodes`.
    pub(crate) fn check(self, nr_nodes: usize) -> Result<(), ErrorKind> {
        match self {
            Self::Bind(node) | Self::Prefer(node) if node >= nr_nodes => Err(ErrorKind::NoSuchNode),
            _ => Ok(()),
        }
    }
}

impl<S: RefScheme> Space<S> {
    /// Sets on which nodes the pages of `range`, all of which must be mapped, are to be: those that are made from now on.
    /// Pages that exist stay where they are; [`migrate`](Self::migrate) moves them. Compaction goes by the policy that a
    /// page was made under.
    ///
    /// # Errors
    ///
    /// [`NoSuchNode`](ErrorKind::NoSuchNode), [`InvalidRange`](ErrorKind::InvalidRange),
    /// [`Misaligned`](ErrorKind::Misaligned), [`Unmapped`](ErrorKind::Unmapped),
    /// [`Refused`](ErrorKind::Refused). Nothing has changed then.
    pub fn set_policy(&self, range: Range<u64>, policy: Policy) -> Result<(), Error> {
        let inner = &self.inner;
        policy
            .check(inner.shared.pool().nr_nodes())
            .map_err(|kind| Error::at(kind, Op::SetPolicy, range.start))?;
        let mut areas = write(&inner.structure);
        inner.check(&areas, &range, Op::SetPolicy)?;
        inner.forget_files(&areas, &range, Op::SetPolicy)?;
        areas.split_at_ends(&range, inner, || inner.shared.next_id());
        areas.set_policy(&range, policy);
        Ok(())
    }
}
