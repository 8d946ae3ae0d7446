//! From the root to a leaf, while other threads change the tree: optimistic lock coupling, as `docs/guide/views-and-tokens.md` has it.
//!
//! A node is looked at; then it is asked whether the one above is still what it was when it named this one. If not, what was seen means
//! nothing, be it an error, and the way begins anew.

use std::ops::ControlFlow;

use pagewell::Torn;

use super::access::{Access, Question};
use super::bytes::Bytes;
use super::error::Error;
use super::node::{self, Head, Place};

/// The page of the root, which never moves.
pub(super) const ROOT: u64 = 0;

/// What a way down is for.
pub(super) trait Errand {
    /// What is wanted of an inner node beside the child.
    type Note;
    /// What is wanted of the leaf.
    type Answer;

    /// Looks at an inner node, of which the way goes on by entry `nr`.
    fn on_inner<B: Bytes + ?Sized>(
        &mut self,
        node: &B,
        head: Head,
        nr: usize,
    ) -> Result<Self::Note, Torn>;

    /// Looks at the leaf; the key is at `place`, or would be.
    fn on_leaf<B: Bytes + ?Sized>(
        &mut self,
        leaf: &B,
        head: Head,
        place: Place,
    ) -> Result<Self::Answer, Torn>;

    /// The way begins.
    fn begin(&mut self) {}

    /// Whether the way ends at an inner node, since that is to be changed first.
    #[inline(always)]
    fn stops_at<B: Bytes + ?Sized>(&self, _node: &B, _head: Head) -> Result<bool, Torn> {
        Ok(false)
    }

    /// The note of an inner node that was the right one.
    fn keep(&mut self, _note: Self::Note) {}
}

/// A node on the way: its page, and what it was when it was looked at.
pub(super) struct Step<T> {
    pub(super) page: u64,
    pub(super) token: T,
}

/// Where a way has ended.
pub(super) enum End<A> {
    Leaf(A),
    /// At an inner node that the errand stops at.
    Inner,
}

/// A way down.
pub(super) struct Way<T, A> {
    /// The node above the last one.
    pub(super) above: Option<Step<T>>,
    pub(super) last: Step<T>,
    pub(super) end: End<A>,
}

/// What an errand asks each node on its way.
struct Ask<'a, E> {
    key: &'a [u8],
    errand: &'a mut E,
}

enum Says<N, A> {
    Child { page: u64, note: N },
    Stop,
    Leaf(A),
}

impl<E: Errand> Question for Ask<'_, E> {
    type Answer = (u16, Says<E::Note, E::Answer>);

    #[inline(always)]
    fn ask<B: Bytes + ?Sized>(&mut self, page: &B) -> Result<Self::Answer, Torn> {
        let head = node::head(page)?;
        let place = node::search(page, head, self.key)?;
        let says = if head.height == 0 {
            Says::Leaf(self.errand.on_leaf(page, head, place)?)
        } else if self.errand.stops_at(page, head)? {
            Says::Stop
        } else {
            let nr = node::child_nr(place)?;
            let note = self.errand.on_inner(page, head, nr)?;
            let page = node::child(page, nr)?;
            Says::Child { page, note }
        };
        Ok((head.height, says))
    }
}

/// Goes down to the leaf that `key` belongs to.
#[inline(always)]
pub(super) fn go_down<P: Access, E: Errand>(
    pages: &P,
    key: &[u8],
    errand: &mut E,
) -> Result<Way<P::Token, E::Answer>, Error> {
    'from_the_root: loop {
        errand.begin();
        let mut above: Option<Step<P::Token>> = None;
        let (mut page, mut below) = (ROOT, None);
        loop {
            let seen = pages.ask(page, &mut Ask { key, errand });
            if let Some(above) = &above
                && !pages.is_unchanged(&above.token)?
            {
                continue 'from_the_root;
            }
            let ((height, says), token) = seen?;
            // A whole tree has this; and without it, a circle of pages would never end.
            if below.is_some_and(|below| height + 1 != below) {
                return Err(Error::Malformed {
                    page,
                    what: "it is not one lower than the node above",
                });
            }
            let last = Step { page, token };
            let end = match says {
                Says::Child { page: child, note } => {
                    errand.keep(note);
                    (above, page, below) = (Some(last), child, Some(height));
                    continue;
                }
                Says::Stop => End::Inner,
                Says::Leaf(answer) => End::Leaf(answer),
            };
            return Ok(Way { above, last, end });
        }
    }
}

/// The tree, as readers use it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<P>(pub(crate) P);

struct Get<'v> {
    value: &'v mut Vec<u8>,
}

impl Errand for Get<'_> {
    type Note = ();
    type Answer = bool;

    #[inline(always)]
    fn on_inner<B: Bytes + ?Sized>(&mut self, _: &B, _: Head, _: usize) -> Result<(), Torn> {
        Ok(())
    }

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

/// How many leaves from the one that is scanned on are asked for.
pub(super) const AHEAD: usize = 16;

/// Gets a leaf's entries from a key on, and the key at which the next leaf begins.
#[derive(Default)]
struct Scan {
    /// Keys and values, one behind the other.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    nr_entries: usize,
    next: Option<Vec<u8>>,
    /// The leaves that come next, as far as their parent names them; only if `is_long`.
    ahead: Vec<u64>,
    is_long: bool,
}

impl Errand for Scan {
    type Note = Option<Vec<u8>>;
    type Answer = ();

    fn begin(&mut self) {
        self.next = None;
    }

    fn on_inner<B: Bytes + ?Sized>(
        &mut self,
        node: &B,
        head: Head,
        nr: usize,
    ) -> Result<Option<Vec<u8>>, Torn> {
        if self.is_long && head.height == 1 {
            self.ahead.clear();
            for nr in nr + 1..head.count.min(nr + 1 + AHEAD) {
                self.ahead.push(node::child(node, nr)?);
            }
        }
        if nr + 1 >= head.count {
            return Ok(None);
        }
        let mut next = Vec::new();
        node::copy_key(node, nr + 1, &mut next)?;
        Ok(Some(next))
    }

    fn keep(&mut self, note: Option<Vec<u8>>) {
        // The lowest node that has a next entry has the next leaf's.
        if note.is_some() {
            self.next = note;
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
    /// Copies the value of `key` to `value`, and returns whether there is one. If not, what is in `value` means nothing.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, Error> {
        match go_down(&self.0, key, &mut Get { value })?.end {
            End::Leaf(is_there) => Ok(is_there),
            End::Inner => unreachable!("a reader goes on"),
        }
    }

    /// Gives all entries from key `from` on to `take`, in order, until it breaks.
    ///
    /// Those of one leaf are of one moment. An entry that is there all the time is seen once; one that comes or goes meanwhile may be
    /// seen or not. Nothing is held while `take` runs: it may change the tree.
    pub(crate) fn scan(
        &self,
        from: &[u8],
        take: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.scan_with(from, take, |_| ())
    }

    /// As [`scan`](Self::scan), and tells `ahead` which leaves come next; some more than once.
    pub(super) fn scan_with(
        &self,
        from: &[u8],
        mut take: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        mut ahead: impl FnMut(&[u64]),
    ) -> Result<(), Error> {
        let (mut scan, mut from) = (Scan::default(), from.to_vec());
        loop {
            go_down(&self.0, &from, &mut scan)?;
            ahead(&scan.ahead);
            // Short scans, which are most, pay for nothing but the leaf that they want.
            scan.is_long = true;
            let next = scan.next.take();
            for (key, value) in &scan.entries[..scan.nr_entries] {
                // The parent says which keys are the leaf's. While the leaf is being split it still has those of the new one.
                if next.as_ref().is_some_and(|next| key >= next) {
                    break;
                }
                if take(key, value).is_break() {
                    return Ok(());
                }
            }
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }
}
