//! What writers look for on their way down.

use pagewell::Torn;

use super::bytes::Bytes;
use super::descent::Errand;
use super::node::{self, Head, Place};

/// What a leaf says to who wants to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// The key is there, and there is room.
    There,
    /// The key is not there, and there is room.
    Missing,
    NoRoom,
    /// The leaf has few entries. (Only to who asks.)
    Sparse,
}

/// Looks for the leaf to put an entry of these lengths in. The way ends at an inner node that may be too full for another entry.
pub(super) struct FindRoom {
    pub(super) key_len: usize,
    pub(super) value_len: usize,
}

impl Errand for FindRoom {
    type Note = ();
    type Answer = Says;

    fn stops_at<B: Bytes + ?Sized>(&self, node: &B, head: Head) -> Result<bool, Torn> {
        node::is_full(node, head)
    }

    fn on_inner<B: Bytes + ?Sized>(&mut self, _: &B, _: Head, _: usize) -> Result<(), Torn> {
        Ok(())
    }

    fn on_leaf<B: Bytes + ?Sized>(
        &mut self,
        leaf: &B,
        head: Head,
        place: Place,
    ) -> Result<Says, Torn> {
        Ok(match place {
            _ if !node::has_room(leaf, head, place, (self.key_len, self.value_len))? => {
                Says::NoRoom
            }
            Ok(_) => Says::There,
            Err(_) => Says::Missing,
        })
    }
}

/// Looks for the leaf to take a key out of, and whether it is sparse already.
#[derive(Default)]
pub(super) struct FindKey {
    pub(super) is_sparse: bool,
}

impl Errand for FindKey {
    type Note = ();
    type Answer = Says;

    fn on_inner<B: Bytes + ?Sized>(&mut self, _: &B, _: Head, _: usize) -> Result<(), Torn> {
        Ok(())
    }

    fn on_leaf<B: Bytes + ?Sized>(
        &mut self,
        leaf: &B,
        head: Head,
        place: Place,
    ) -> Result<Says, Torn> {
        self.is_sparse = node::is_sparse(leaf, head)?;
        Ok(match place {
            Ok(_) => Says::There,
            Err(_) => Says::Missing,
        })
    }
}

/// Looks for the highest sparse node on the way, of those that are lower than `below`. The root is sparse if it has one child.
pub(super) struct FindSparse {
    pub(super) below: u16,
    is_at_root: bool,
}

impl FindSparse {
    pub(super) fn lower_than(below: u16) -> Self {
        Self {
            below,
            is_at_root: true,
        }
    }
}

impl Errand for FindSparse {
    type Note = ();
    type Answer = Says;

    fn begin(&mut self) {
        self.is_at_root = true;
    }

    fn stops_at<B: Bytes + ?Sized>(&self, node: &B, head: Head) -> Result<bool, Torn> {
        Ok(head.height < self.below
            && match self.is_at_root {
                true => head.count == 1,
                false => node::is_sparse(node, head)?,
            })
    }

    fn on_inner<B: Bytes + ?Sized>(&mut self, _: &B, _: Head, _: usize) -> Result<(), Torn> {
        Ok(())
    }

    fn keep(&mut self, (): ()) {
        self.is_at_root = false;
    }

    fn on_leaf<B: Bytes + ?Sized>(&mut self, leaf: &B, head: Head, _: Place) -> Result<Says, Torn> {
        Ok(match !self.is_at_root && node::is_sparse(leaf, head)? {
            true => Says::Sparse,
            false => Says::There,
        })
    }
}
