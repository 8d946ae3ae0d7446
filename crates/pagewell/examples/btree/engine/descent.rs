//! Optimistic descent from the root to a leaf, concurrent with writers: optimistic lock coupling,
//! as in `docs/guide/views-and-tokens.md`.
//!
//! The descent reads a node, and then validates the token of its parent. If the parent has changed,
//! whatever was read is discarded, errors included, and the descent restarts at the root.

use std::ops::ControlFlow;

use pagewell::Torn;

use super::access::{Access, Bytes, Question};
use super::error::Error;
use super::node::{self, Head, Place};

/// Page number of the root, which never moves.
pub(super) const ROOT: u64 = 0;

/// Purpose of a descent. The methods that read a node may run on torn bytes, and several times for
/// one node.
pub(super) trait Visitor {
    /// Result of the leaf.
    type Answer;

    /// Called when the descent starts or restarts.
    fn restart(&mut self) {}

    /// Reads an inner node whose child `nr` is next. `Break` ends the descent there, because the
    /// caller has to split it.
    #[inline(always)]
    fn on_inner<B: Bytes + ?Sized>(&mut self, _: &B, _: Head, _nr: usize) -> OnInner {
        Ok(ControlFlow::Continue(()))
    }

    /// Called when the inner node that was read last is validated.
    #[inline(always)]
    fn keep(&mut self) {}

    /// Reads the leaf; `place` is the key's position.
    fn on_leaf<B: Bytes + ?Sized>(
        &mut self,
        leaf: &B,
        head: Head,
        place: Place,
    ) -> Result<Self::Answer, Torn>;
}

/// Result of [`Visitor::on_inner`].
pub(super) type OnInner = Result<ControlFlow<()>, Torn>;

/// A node of a descent, and its version when it was read.
pub(super) struct Step<T> {
    pub(super) page: u64,
    pub(super) token: T,
}

/// Result of a descent.
pub(super) struct Descent<T, A> {
    pub(super) parent: Option<Step<T>>,
    pub(super) last: Step<T>,
    /// Answer of the leaf; `None` if the visitor stopped at an inner node.
    pub(super) answer: Option<A>,
}

struct Ask<'a, V> {
    key: &'a [u8],
    visitor: &'a mut V,
}

enum Next<A> {
    Child(u64),
    Stop,
    Leaf(A),
}

impl<V: Visitor> Question for Ask<'_, V> {
    type Answer = (u16, Next<V::Answer>);

    #[inline(always)]
    fn ask<B: Bytes + ?Sized>(&mut self, page: &B) -> Result<Self::Answer, Torn> {
        let head = node::head(page)?;
        let place = node::search(page, head, self.key)?;
        if head.height == 0 {
            let answer = self.visitor.on_leaf(page, head, place)?;
            return Ok((0, Next::Leaf(answer)));
        }
        let nr = node::child_nr(place)?;
        let next = match self.visitor.on_inner(page, head, nr)? {
            ControlFlow::Continue(()) => Next::Child(node::child(page, nr)?),
            ControlFlow::Break(()) => Next::Stop,
        };
        Ok((head.height, next))
    }
}

/// Descends to the leaf that covers `key`.
#[inline(always)]
pub(super) fn descend<P: Access, V: Visitor>(
    pages: &P,
    key: &[u8],
    visitor: &mut V,
) -> Result<Descent<P::Token, V::Answer>, Error> {
    'from_the_root: loop {
        visitor.restart();
        let mut parent: Option<Step<P::Token>> = None;
        let (mut page, mut expected) = (ROOT, None);
        loop {
            let seen = pages.ask(page, &mut Ask { key, visitor });
            if let Some(parent) = &parent
                && !pages.is_unchanged(&parent.token)?
            {
                continue 'from_the_root;
            }
            let ((height, next), token) = seen?;
            // Holds in every valid tree. The check bounds the descent if damaged pages form a
            // cycle.
            if expected.is_some_and(|expected| expected != height) {
                let what = "its height does not match its parent's";
                return Err(Error::Damaged { page, what });
            }
            let last = Step { page, token };
            let answer = match next {
                Next::Child(child) => {
                    visitor.keep();
                    // Not 0 here: a child was read.
                    (parent, page, expected) = (Some(last), child, Some(height - 1));
                    continue;
                }
                Next::Stop => None,
                Next::Leaf(answer) => Some(answer),
            };
            return Ok(Descent {
                parent,
                last,
                answer,
            });
        }
    }
}

/// The tree, for readers.
#[derive(Clone, Copy)]
pub(crate) struct Reader<P>(pub(crate) P);

struct Get<'v> {
    value: &'v mut Vec<u8>,
}

impl Visitor for Get<'_> {
    type Answer = bool;

    #[inline(always)]
    fn on_leaf<B: Bytes + ?Sized>(
        &mut self,
        leaf: &B,
        _: Head,
        place: Place,
    ) -> Result<bool, Torn> {
        let Ok(nr) = place else {
            return Ok(false);
        };
        node::copy_value(leaf, nr, self.value)?;
        Ok(true)
    }
}

/// Copies the entries of a leaf from a key on.
#[derive(Default)]
struct Scan {
    /// Keys and values; the first `nr_entries` are valid, the others keep their memory.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    nr_entries: usize,
    /// Lower bound of the next leaf's keys.
    next: Option<Vec<u8>>,
    /// The same, of an inner node that is not validated yet.
    unvalidated: Option<Vec<u8>>,
}

impl Visitor for Scan {
    type Answer = ();

    fn restart(&mut self) {
        self.next = None;
    }

    fn on_inner<B: Bytes + ?Sized>(&mut self, node: &B, head: Head, nr: usize) -> OnInner {
        self.unvalidated = None;
        if nr + 1 < head.count {
            let mut next = Vec::new();
            node::copy_key(node, nr + 1, &mut next)?;
            self.unvalidated = Some(next);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn keep(&mut self) {
        // The bound of the lowest node that has one is the tightest.
        if let Some(next) = self.unvalidated.take() {
            self.next = Some(next);
        }
    }

    fn on_leaf<B: Bytes + ?Sized>(
        &mut self,
        leaf: &B,
        head: Head,
        place: Place,
    ) -> Result<(), Torn> {
        self.nr_entries = 0;
        for nr in place.unwrap_or_else(|nr| nr)..head.count {
            if self.nr_entries == self.entries.len() {
                self.entries.push(Default::default());
            }
            let (key, value) = &mut self.entries[self.nr_entries];
            node::copy_key(leaf, nr, key)?;
            node::copy_value(leaf, nr, value)?;
            self.nr_entries += 1;
        }
        Ok(())
    }
}

impl<P: Access> Reader<P> {
    /// Copies the value of `key` to `value`, and returns whether the key is in the tree. Otherwise
    /// `value` is unspecified.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Error> {
        let answer = descend(&self.0, key, &mut Get { value })?.answer;
        Ok(answer.unwrap_or(false))
    }

    /// Passes all entries from key `from` on to `take`, in order, until `take` breaks.
    ///
    /// The entries of one leaf are as of one moment; those of different leaves are not. An entry
    /// that is in the tree during the whole scan is passed exactly once. No lock is held while
    /// `take` runs: it may change the tree.
    pub(crate) fn scan(
        &self,
        from: &[u8],
        mut take: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (mut scan, mut from) = (Scan::default(), from.to_vec());
        loop {
            let page = descend(&self.0, &from, &mut scan)?.last.page;
            let next = scan.next.take();
            for (key, value) in &scan.entries[..scan.nr_entries] {
                // The parent defines the leaf's range. A leaf that is being split still contains
                // entries of the new one.
                if next.as_ref().is_some_and(|next| key >= next) {
                    break;
                }
                if take(key, value).is_break() {
                    return Ok(());
                }
            }
            match next {
                // Holds in every valid tree. The check bounds the scan if separators are damaged.
                Some(next) if next <= from => {
                    let what = "the next leaf's lower bound is not larger";
                    return Err(Error::Damaged { page, what });
                }
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }
}
