//! Groups of files: charging their pages, and evicting those of a group that has all that it may have.
//!
//! Protocol. Who fills a page charges its frames, and that of a leaf, with no claim and no permit ([`Charger::charge`]); then it gets a permit, the
//! leaf, the claim and a frame, as every fill. When the page is there, the charge is the page's ([`Charge::spend`]), until the claim that takes
//! the page out gives it back ([`Claim`](crate::index::claim::Claim)). A page that moves to another frame takes its charge with it.
//!
//! A group at its limit evicts pages of its own, in batches, as its own policy says; the frames are at hand for the thread that has
//! evicted. If there is nothing to evict, but others have charges in hand, it waits for them: they have all that they need but frames, which
//! do not depend on this group. Otherwise that is the answer, with what holds the frames.
//!
//! Not charged: frames that only pins keep, since their pages have been taken out or moved; and what neighbouring leaves share.

#[cfg(not(loom))]
use std::time::Duration;

use pagewell_frame::FrameNr;
use pagewell_frame::refcount::RefScheme;
use pagewell_policy::{Group, Policy};
use pagewell_sync::lock;

use crate::base::accounts::{Account, GroupLimits, Member, NO_MAX};
use crate::base::spot::Spot;
use crate::supply::census::{Census, Stays};
use crate::supply::charge::Charges;
use crate::supply::evict::Evictor;
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::parts::Supply;
use crate::supply::policy::clock::Marks;
use crate::supply::reclaim::batch::Batches;
use crate::supply::reclaim::effort::Patience;

/// The right to have so many frames more in use, for a group. What is not spent is given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Charge<'g> {
    of: Option<(&'g Account, Group)>,
    nr: usize,
}

impl<'g> Charge<'g> {
    /// For a file of no group.
    pub(crate) const fn none() -> Self {
        Self { of: None, nr: 0 }
    }

    pub(crate) const fn group(&self) -> Group {
        match self.of {
            Some((_, group)) => group,
            None => Group::NONE,
        }
    }

    /// A page of `nr` frames is in the index.
    pub(crate) fn spend(&mut self, nr: usize) {
        if let Some((account, _)) = self.of {
            debug_assert!(nr <= self.nr);
            self.nr = self.nr.saturating_sub(nr);
            account.spend(nr);
        }
    }

    /// A leaf is about to be.
    pub(crate) fn spend_on_leaf(&mut self) {
        if let Some((account, _)) = self.of {
            debug_assert!(self.nr != 0);
            self.nr = self.nr.saturating_sub(1);
            account.spend_on_leaf();
        }
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if let Some((account, _)) = self.of
            && self.nr != 0
        {
            account.give_back(self.nr);
        }
    }
}

/// How many looks at the policy's pages a group that finds none to evict makes, before it looks at every frame.
const TRIES: usize = 4;

/// The waits of a group for what others have in hand.
#[derive(Debug, Default)]
struct Waits {
    /// How many in a row were in vain.
    #[cfg(not(loom))]
    nr_vain: usize,
}

impl Waits {
    /// Waits, unless nothing was given back for nine tenths of a second. Whether to look again.
    #[cfg(not(loom))]
    fn wait(&mut self, account: &Account) -> bool {
        const MOMENT: Duration = Duration::from_millis(20);
        const MOST: usize = 45;
        if self.nr_vain >= MOST {
            return false;
        }
        self.nr_vain = if account.wait(MOMENT) {
            0
        } else {
            self.nr_vain + 1
        };
        true
    }

    /// A model has no time.
    #[cfg(loom)]
    fn wait(&mut self, _: &Account) -> bool {
        false
    }
}

/// Charges the frames of groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charger<'s, S: RefScheme>(pub(crate) &'s Supply<S>);

impl<S: RefScheme> Charger<'_, S> {
    /// Charges `nr` frames to a group, if the file has one; pages of the group are evicted for it if necessary. No claim or permit is held;
    /// the lock of the file's size may be.
    ///
    /// # Errors
    ///
    /// What holds the frames of the group.
    #[inline]
    pub(crate) fn charge<'g>(
        self,
        member: Option<&'g Member>,
        nr: usize,
    ) -> Result<Charge<'g>, OutOfFrames> {
        let Some(member) = member else {
            return Ok(Charge::none());
        };
        let of = Some((member.account(), member.group()));
        if member.account().try_charge(nr) || self.make_room(member, nr) {
            return Ok(Charge { of, nr });
        }
        Err(self.at_max(member))
    }

    /// A charge of no frames, to be extended.
    #[cfg(not(loom))]
    pub(crate) fn nothing<'g>(self, member: Option<&'g Member>) -> Charge<'g> {
        Charge {
            of: member.map(|member| (member.account(), member.group())),
            nr: 0,
        }
    }

    /// Charges `nr` frames more, if that takes no waiting; a batch of pages may be evicted.
    #[inline]
    pub(crate) fn try_extend(self, charge: &mut Charge<'_>, nr: usize) -> bool {
        let Some((account, group)) = charge.of else {
            return true;
        };
        let is_charged = account.try_charge(nr) || {
            Batches(self.0).evict_of(group, account.limits().max) != 0 && account.try_charge(nr)
        };
        if is_charged {
            charge.nr += nr;
        }
        is_charged
    }

    /// Tells the policy that a page of the group of `charge` is in `frame`, soon or now.
    #[inline]
    pub(crate) fn note_arrival(self, charge: &Charge<'_>, frame: FrameNr) {
        if let Some((account, group)) = charge.of
            && account.limits().max != NO_MAX
            && self.0.queues.is_some()
            && let Some(arrived) = account.note_arrival(frame.get())
        {
            Batches(self.0).sort_in(group, &arrived);
        }
    }

    /// Evicts pages of a group until `nr` frames could be charged. False if that cannot be.
    #[cold]
    fn make_room(self, member: &Member, nr: usize) -> bool {
        let account = member.account();
        if nr > account.limits().max {
            return false;
        }
        let mut patience = Patience::default();
        let mut nr_vain = 0;
        let mut waits = Waits::default();
        loop {
            // Before the looks: what becomes a page after them was in hand now.
            let is_in_hand = account.nr_in_hand() != 0;
            let nr_freed = Batches(self.0).evict_of(member.group(), account.limits().max);
            if account.try_charge(nr) {
                return true;
            }
            if nr_freed != 0 {
                // Others have been faster.
                nr_vain = 0;
                continue;
            }
            nr_vain += 1;
            if nr_vain < TRIES {
                continue;
            }
            if is_in_hand && waits.wait(account) {
                continue;
            }
            // The queues do not know all its pages, or there are none (CLOCK).
            let is_freed = self.evict_anywhere(member.group(), nr);
            if account.try_charge(nr) {
                return true;
            }
            if is_freed {
                continue;
            }
            // Readers and writers hold pages for a moment.
            let may_change = is_in_hand || self.census_of(member).may_change();
            if !(may_change && patience.has_more(self.0.pool().nr_frames())) {
                return false;
            }
        }
    }

    /// Evicts pages and leaves of a group, at least of `nr` frames, wherever they are; whether any could be.
    fn evict_anywhere(self, group: Group, nr: usize) -> bool {
        let Some(account) = self.0.claims.accounts.of(group) else {
            return false;
        };
        let nr_frames = self.0.pool().nr_frames();
        let mut nr_freed = 0;
        for marks in [Marks::Respected, Marks::Ignored] {
            // By a hand of the group's own: the one that all share would pass pages of others without a look.
            let start = account.hand() % nr_frames;
            let frames = (start..nr_frames).chain(0..start);
            for frame in frames.map(|nr| FrameNr::new(nr as u32)) {
                if !self.is_of(frame, group) {
                    continue;
                }
                if let Ok(freed) = Evictor(self.0).evict_for(frame, marks, group) {
                    nr_freed += freed.order().frames() as usize;
                }
                if nr_freed >= nr {
                    account.set_hand(frame.get() as usize + 1);
                    return true;
                }
            }
        }
        nr_freed != 0
    }

    /// Whether a frame has a page, or a leaf, of the group, as far as its record says.
    fn is_of(self, frame: FrameNr, group: Group) -> bool {
        use pagewell_frame::FrameKind::{Leaf, Page};
        let record = self.0.pool().meta(frame);
        let (_, spot) = record.owner();
        matches!(record.kind().0, Page | Leaf) && Spot::from_bits(spot).group() == group
    }

    /// Why a group has no frame to evict.
    #[cold]
    fn at_max(self, member: &Member) -> OutOfFrames {
        OutOfFrames::AtMax {
            group: member.name().to_owned(),
            max: member.account().limits().max,
            census: Box::new(self.census_of(member)),
        }
    }

    /// What holds the frames of a group.
    fn census_of(self, member: &Member) -> Census {
        let pool = self.0.pool();
        let mut census = Census::of(member.account().nr_used(), 0);
        for frame in (0..pool.nr_frames() as u32).map(FrameNr::new) {
            if self.is_of(frame, member.group()) {
                let (stays, _, order) = Stays::of(pool.meta(frame));
                census.note(stays.unwrap_or(Stays::Raced), order.frames());
            }
        }
        census
    }

    /// Gives a group other limits. If it has more than its new limit, pages of it are evicted.
    ///
    /// # Errors
    ///
    /// When they cannot be; then the limits are as before. Or when there is no memory for what the policy has to know.
    pub(crate) fn set_limits(
        self,
        member: &Member,
        limits: GroupLimits,
    ) -> Result<(), OutOfFrames> {
        let account = member.account();
        let before = account.limits();
        if let Some(queues) = &self.0.queues {
            self.set_apart(member.group(), limits.max != NO_MAX)?;
            lock(queues).policy.add_group(member.group());
        }
        account.set_limits(limits);
        account.gather();
        while account.nr_charged() > limits.max {
            let over = account.nr_charged() - limits.max;
            let freed = Batches(self.0).evict_of(member.group(), limits.max);
            if freed == 0 && !self.evict_anywhere(member.group(), over) {
                account.gather();
                if account.nr_charged() <= limits.max {
                    break;
                }
                let error = self.at_max(member);
                account.set_limits(before);
                if self.0.queues.is_some() {
                    self.set_apart(member.group(), before.max != NO_MAX)?;
                }
                return Err(error);
            }
            account.gather();
        }
        Ok(())
    }

    /// Whether the policy keeps the pages of a group apart. The first time takes memory.
    fn set_apart(self, group: Group, is_apart: bool) -> Result<(), OutOfFrames> {
        let Some(queues) = &self.0.queues else {
            return Ok(());
        };
        if is_apart && !lock(queues).has_apart {
            // Two that come together pay twice, and one gives it back.
            let bytes = Policy::bytes_of_apart(self.0.pool().nr_frames());
            Charges(self.0).charge(bytes)?;
            if std::mem::replace(&mut lock(queues).has_apart, true) {
                Charges(self.0).uncharge(bytes);
            }
        }
        lock(queues).policy.set_apart(group, is_apart);
        Ok(())
    }
}
