//! What groups of files have: counts of frames, with what each may have and is guaranteed.
//!
//! A group has a number as long as a handle of it or a file in it exists; then the number is handed on. The files of no group have
//! number 0, and no account.
//!
//! # Charges
//!
//! Who fills a page charges its frame before there is one, and who takes a page out gives the charge back. A group's charges never
//! exceed its limit: the sum of all is one word. So that this word is not written by every miss, each shard of the threads has a *stock*
//! of charges that nobody uses; it counts as used. Who finds the limit reached gathers the stocks of all.
//!
//! Between charge and page the charge is *in hand*. As long as somebody has some in hand a group at its limit may have a page to evict soon.
//!
//! Nothing here waits but [`Account::wait`], for a bounded time.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
#[cfg(not(loom))]
use std::time::Duration;

use pagewell_policy::Group;
use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::shard::{Padded, Shards};
use pagewell_sync::{Mutex, MutexGuard, lock};

use crate::base::home::Home;

/// The largest stock of a shard, in frames.
const MOST_IN_STOCK: usize = 32;

/// A shard's stock is such a part of the limit at the most.
const PART_IN_STOCK: usize = 256;

/// A group may have clearly more if such a part of its limit is left.
const PART_OF_GROWTH: usize = 32;

/// So many frames have to have arrived before the policy is told.
const MOST_UNTOLD: usize = 32;

/// No limit.
pub(crate) const NO_MAX: usize = usize::MAX;

/// The accounts of all groups of a cache.
#[derive(Debug)]
pub(crate) struct Accounts {
    /// By the number of the group. An account stays when its group is gone.
    accounts: Box<[OnceLock<Box<Account>>]>,
    members: Mutex<Members>,
    /// Held while limits change.
    changing: Mutex<()>,
    /// A child made by `fork` leaves the members as they are: a thread of the parent may have them locked for ever.
    home: Home,
}

#[derive(Debug, Default)]
struct Members {
    by_name: HashMap<Arc<str>, Weak<Member>>,
    /// A bit for each number that is used: from before a member has it until it has been dropped.
    used: u128,
}

const _: () = assert!(Group::MOST <= u128::BITS as usize);

/// A group, named: as long as one exists the group does.
#[derive(Debug)]
pub(crate) struct Member {
    accounts: Arc<Accounts>,
    group: Group,
    name: Arc<str>,
}

/// What a group has.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// How many frames are charged, with those in stock.
    nr_charged: Padded<AtomicUsize>,
    limits: Padded<Bounds>,
    /// How many leaves of indices are among them.
    nr_leaves: Padded<AtomicUsize>,
    /// How many frames of it are not clean.
    nr_unclean: Padded<AtomicUsize>,
    /// How many have become clean so far.
    nr_cleaned: AtomicUsize,
    /// How many frames the largest page of its files has, since it exists.
    nr_of_largest: AtomicUsize,
    /// Where the next look at all frames for the group begins.
    hand: AtomicUsize,
    stocks: Shards<Stock>,
    #[cfg(not(loom))]
    changed: Padded<Changed>,
}

#[derive(Debug)]
struct Bounds {
    min: AtomicUsize,
    max: AtomicUsize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            min: AtomicUsize::new(0),
            max: AtomicUsize::new(NO_MAX),
        }
    }
}

/// What the threads of one shard have.
#[derive(Debug, Default)]
struct Stock {
    nr: AtomicUsize,
    /// How many frames more were charged here than became pages here, or were given back. It wraps: all shards together count.
    nr_in_hand: AtomicUsize,
    /// The frames that pages of the group were filled into, to be told to the policy.
    arrived: Mutex<Vec<u32>>,
}

#[cfg(not(loom))]
#[derive(Debug, Default)]
struct Changed {
    nr_waiters: AtomicUsize,
    lock: Mutex<()>,
    told: pagewell_sync::Condvar,
}

/// What a group may have, and is guaranteed, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            accounts: (0..Group::MOST).map(|_| OnceLock::new()).collect(),
            members: Mutex::default(),
            changing: Mutex::default(),
            home: Home::here(),
        }
    }
}

impl Accounts {
    /// The group called `name`, made if there is none; none if there are too many.
    pub(crate) fn member(self: &Arc<Self>, name: &str) -> Option<Arc<Member>> {
        let mut members = lock(&self.members);
        if let Some(member) = members.by_name.get(name).and_then(Weak::upgrade) {
            return Some(member);
        }
        let is_free = |group: &Group| members.used & bit_of(*group) == 0;
        let group = (1..Group::MOST).filter_map(Group::new).find(is_free)?;
        members.used |= bit_of(group);
        self.accounts[group.index()].get_or_init(Box::default);
        let name: Arc<str> = name.into();
        let member = Arc::new(Member {
            accounts: Arc::clone(self),
            group,
            name: Arc::clone(&name),
        });
        members.by_name.insert(name, Arc::downgrade(&member));
        Some(member)
    }

    /// Keeps others from changing limits.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn lock_to_change(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    /// The account of a group; none for the files of no group.
    #[inline]
    pub(crate) fn of(&self, group: Group) -> Option<&Account> {
        if group == Group::NONE {
            return None;
        }
        self.accounts
            .get(group.index())?
            .get()
            .map(|account| &**account)
    }

    /// How many frames all groups but `other` are guaranteed.
    pub(crate) fn nr_guaranteed_but(&self, other: Group) -> usize {
        let accounts = self.accounts.iter().enumerate();
        let others = accounts.filter(|(nr, _)| *nr != other.index());
        others
            .filter_map(|(_, account)| account.get())
            .map(|account| account.limits().min)
            .sum()
    }
}

impl Member {
    pub(crate) fn group(&self) -> Group {
        self.group
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is one of these accounts'.
    pub(crate) fn is_of(&self, accounts: &Arc<Accounts>) -> bool {
        Arc::ptr_eq(&self.accounts, accounts)
    }

    pub(crate) fn account(&self) -> &Account {
        // Made with the first member of this number, and never dropped before the accounts.
        self.accounts.accounts[self.group.index()].get_or_init(Box::default)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.accounts.home.is_here() {
            return;
        }
        self.account().nr_of_largest.store(0, Ordering::Relaxed);
        // No file is left, so no charge is.
        self.account().set_limits(GroupLimits {
            min: 0,
            max: NO_MAX,
        });
        let mut members = lock(&self.accounts.members);
        // A group of that name may have been made meanwhile.
        if let Some(member) = members.by_name.get(&*self.name)
            && std::ptr::eq(member.as_ptr(), self)
        {
            members.by_name.remove(&*self.name);
        }
        members.used &= !bit_of(self.group);
    }
}

const fn bit_of(group: Group) -> u128 {
    1 << group.index()
}

impl Account {
    // ORDERING: Relaxed, but where it says so; the numbers guard nothing. That the limit is not exceeded follows from the atomicity of the
    // one word `nr_charged`; and when it changes:
    //
    // ORDERING: SeqCst, in `set_limits` and `gather`, and in `try_add` and behind it (store buffering: who charges adds, and looks at the
    // limit; who changes the limit stores it, and looks at the charges. One sees the other, and gives back, or evicts).

    pub(crate) fn limits(&self) -> GroupLimits {
        GroupLimits {
            min: self.limits.min.load(Ordering::Relaxed),
            max: self.limits.max.load(Ordering::Relaxed),
        }
    }

    /// Sets the limits. What the group has already may be more.
    pub(crate) fn set_limits(&self, limits: GroupLimits) {
        self.limits.min.store(limits.min, Ordering::Relaxed);
        self.limits.max.store(limits.max, Ordering::SeqCst);
    }

    fn own(&self) -> &Stock {
        self.stocks.get(self.stocks.own())
    }

    /// The stock of a shard, if the limit is `max`.
    fn most_in_stock(max: usize) -> usize {
        (max / PART_IN_STOCK).clamp(1, MOST_IN_STOCK)
    }

    /// Charges `nr` frames, if the limit allows it. They are in hand then.
    pub(crate) fn try_charge(&self, nr: usize) -> bool {
        let stock = self.own();
        let left = |have: usize| have.checked_sub(nr);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let max = self.limits().max;
        let more = Self::most_in_stock(max);
        let is_charged = if stock.nr.fetch_update(set, fetch, left).is_ok() {
            true
        } else if self.try_add(nr + more, max) {
            stock.nr.fetch_add(more, Ordering::Relaxed);
            true
        } else {
            self.try_add(nr, max) || {
                self.gather();
                self.try_add(nr, max)
            }
        };
        if is_charged {
            stock.nr_in_hand.fetch_add(nr, Ordering::Relaxed);
        }
        is_charged
    }

    fn try_add(&self, nr: usize, max: usize) -> bool {
        let within = |charged: usize| charged.checked_add(nr).filter(|sum| *sum <= max);
        let (set, fetch) = (Ordering::SeqCst, Ordering::Relaxed);
        if self.nr_charged.fetch_update(set, fetch, within).is_err() {
            return false;
        }
        if self.limits.max.load(Ordering::SeqCst) < max {
            // It was made lower meanwhile.
            self.nr_charged.fetch_sub(nr, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Gives all stocks back.
    pub(crate) fn gather(&self) {
        let found = self
            .stocks
            .iter()
            .map(|stock| stock.nr.swap(0, Ordering::Relaxed));
        let found: usize = found.sum();
        self.nr_charged.fetch_sub(found, Ordering::SeqCst);
    }

    /// Of what is in hand, `nr` frames have become a page.
    pub(crate) fn spend(&self, nr: usize) {
        self.own().nr_in_hand.fetch_sub(nr, Ordering::Relaxed);
        self.tell();
    }

    /// A frame in hand has become a leaf.
    pub(crate) fn spend_on_leaf(&self) {
        self.nr_leaves.fetch_add(1, Ordering::Relaxed);
        self.spend(1);
    }

    /// `nr` frames in hand are not needed.
    pub(crate) fn give_back(&self, nr: usize) {
        self.own().nr_in_hand.fetch_sub(nr, Ordering::Relaxed);
        self.uncharge(nr);
    }

    /// A page of `nr` frames was taken out.
    pub(crate) fn uncharge(&self, nr: usize) {
        let stock = self.own();
        let have = stock.nr.fetch_add(nr, Ordering::Relaxed) + nr;
        if have > 2 * Self::most_in_stock(self.limits().max) {
            let all = stock.nr.swap(0, Ordering::Relaxed);
            self.nr_charged.fetch_sub(all, Ordering::Relaxed);
        }
        self.tell();
    }

    /// A leaf was taken out.
    pub(crate) fn uncharge_leaf(&self) {
        self.nr_leaves.fetch_sub(1, Ordering::Relaxed);
        self.uncharge(1);
    }

    /// How many frames are charged, with those in stock: never more than the limit.
    pub(crate) fn nr_charged(&self) -> usize {
        self.nr_charged.load(Ordering::SeqCst)
    }

    /// How many frames are used, or in hand.
    pub(crate) fn nr_used(&self) -> usize {
        let in_stock = self
            .stocks
            .iter()
            .map(|stock| stock.nr.load(Ordering::Relaxed));
        // The stocks first: what is gathered meanwhile is then taken off twice, so the group seems to have less, and keeps more.
        let in_stock: usize = in_stock.sum();
        self.nr_charged().saturating_sub(in_stock)
    }

    /// How many frames are in hand: about, while they change.
    pub(crate) fn nr_in_hand(&self) -> usize {
        let in_hand = self
            .stocks
            .iter()
            .map(|stock| stock.nr_in_hand.load(Ordering::Relaxed));
        let sum = in_hand.fold(0_usize, usize::wrapping_add);
        // Read in turn, they may add up to less than nothing.
        if sum > isize::MAX as usize { 0 } else { sum }
    }

    pub(crate) fn nr_leaves(&self) -> usize {
        self.nr_leaves.load(Ordering::Relaxed)
    }

    /// How many frames its pages have, at the most.
    pub(crate) fn nr_of_pages(&self) -> usize {
        self.nr_charged().saturating_sub(self.nr_leaves())
    }

    /// How many frames others may take.
    pub(crate) fn nr_spare(&self) -> usize {
        match self.limits().min {
            0 => usize::MAX,
            min => self.nr_used().saturating_sub(min),
        }
    }

    /// Whether the limit allows clearly more.
    pub(crate) fn is_below_max(&self) -> bool {
        let max = self.limits().max;
        let room = max / PART_OF_GROWTH + Self::most_in_stock(max);
        max != NO_MAX && self.nr_charged().saturating_add(room) < max
    }

    /// How many frames of it are not clean.
    pub(crate) fn nr_unclean(&self) -> usize {
        self.nr_unclean.load(Ordering::Relaxed)
    }

    /// How many frames of it have become clean so far.
    pub(crate) fn nr_cleaned(&self) -> usize {
        self.nr_cleaned.load(Ordering::Relaxed)
    }

    /// Counts `nr` frames more that are not clean.
    pub(crate) fn add_unclean(&self, nr: usize) {
        self.nr_unclean.fetch_add(nr, Ordering::Relaxed);
    }

    /// `nr` frames have become clean.
    pub(crate) fn sub_unclean(&self, nr: usize) {
        self.nr_unclean.fetch_sub(nr, Ordering::Relaxed);
        self.nr_cleaned.fetch_add(nr, Ordering::Relaxed);
    }

    pub(crate) fn hand(&self) -> usize {
        self.hand.load(Ordering::Relaxed)
    }

    pub(crate) fn set_hand(&self, frame: usize) {
        self.hand.store(frame, Ordering::Relaxed);
    }

    /// A file with pages of `nr` frames is opened in it.
    pub(crate) fn note_page(&self, nr: usize) {
        self.nr_of_largest.fetch_max(nr, Ordering::Relaxed);
    }

    /// How many frames the largest pages have that files were opened with in it.
    pub(crate) fn nr_of_largest(&self) -> usize {
        self.nr_of_largest.load(Ordering::Relaxed)
    }

    /// Notes the frame of a page that was filled. If there are enough to tell the policy, gives them.
    pub(crate) fn note_arrival(&self, frame: u32) -> Option<Vec<u32>> {
        let mut arrived = lock(&self.own().arrived);
        arrived.push(frame);
        (arrived.len() >= MOST_UNTOLD).then(|| std::mem::take(&mut *arrived))
    }

    /// Takes all arrivals that were noted.
    pub(crate) fn take_arrivals(&self) -> Vec<u32> {
        let mut all = Vec::new();
        for stock in self.stocks.iter() {
            all.append(&mut lock(&stock.arrived));
        }
        all
    }

    #[cfg(loom)]
    fn tell(&self) {}

    #[cfg(not(loom))]
    fn tell(&self) {
        // A waiter that counts itself after this look waits for a bounded time.
        if self.changed.nr_waiters.load(Ordering::Relaxed) != 0 {
            drop(lock(&self.changed.lock));
            self.changed.told.notify_all();
        }
    }

    /// Waits until something was given back or has become a page, or a moment; which.
    #[cfg(not(loom))]
    pub(crate) fn wait(&self, moment: Duration) -> bool {
        self.changed.nr_waiters.fetch_add(1, Ordering::Relaxed);
        let waited = self
            .changed
            .told
            .wait_timeout(lock(&self.changed.lock), moment);
        self.changed.nr_waiters.fetch_sub(1, Ordering::Relaxed);
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn account(max: usize) -> Account {
        let account = Account::default();
        account.set_limits(GroupLimits { min: 0, max });
        account
    }

    #[test]
    fn charges_come_to_the_limit_and_no_further_whoever_has_them_in_stock() {
        let account = account(10_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    assert!(account.try_charge(1));
                    account.spend(1);
                });
            }
        });
        assert!(account.nr_charged() > 4, "some are in stock");
        assert_eq!(account.nr_used(), 4);
        for _ in 0..9996 {
            assert!(account.try_charge(1));
        }
        assert!(!account.try_charge(1));
        assert_eq!((account.nr_charged(), account.nr_in_hand()), (10_000, 9996));
        account.give_back(9996);
        assert!(account.nr_charged() < 100);
        assert!(!account.try_charge(9997));
        assert!(account.try_charge(9996));
    }

    #[test]
    fn what_is_above_the_guarantee_is_to_spare() {
        let account = account(NO_MAX);
        assert_eq!(account.nr_spare(), usize::MAX);
        account.set_limits(GroupLimits {
            min: 5,
            max: NO_MAX,
        });
        for spare in [0, 0, 0, 0, 0, 1, 2] {
            assert!(account.try_charge(1));
            account.spend(1);
            assert_eq!(account.nr_spare(), spare);
        }
        account.uncharge(3);
        assert_eq!(account.nr_spare(), 0);
        assert!(!account.is_below_max());
    }

    #[test]
    fn leaves_are_counted_and_come_back() {
        let account = account(64);
        assert!(account.is_below_max());
        assert!(account.try_charge(4));
        account.spend_on_leaf();
        account.spend(1);
        account.give_back(2);
        assert_eq!((account.nr_used(), account.nr_in_hand()), (2, 0));
        assert_eq!(account.nr_leaves(), 1);
        account.uncharge_leaf();
        account.uncharge(1);
        account.gather();
        assert_eq!((account.nr_charged(), account.nr_leaves()), (0, 0));
    }

    #[test]
    fn a_group_is_found_by_its_name_while_it_exists_and_its_number_is_handed_on() {
        let accounts = Arc::new(Accounts::default());
        let member = accounts.member("a").unwrap();
        assert!(Arc::ptr_eq(&member, &accounts.member("a").unwrap()));
        let other = accounts.member("b").unwrap();
        assert_ne!(member.group(), other.group());
        let limits = GroupLimits { min: 3, max: 9 };
        member.account().set_limits(limits);
        assert_eq!(accounts.nr_guaranteed_but(other.group()), 3);
        assert_eq!(accounts.nr_guaranteed_but(member.group()), 0);
        let group = member.group();
        drop(member);
        let next = accounts.member("c").unwrap();
        assert_eq!(next.group(), group);
        assert_eq!(
            next.account().limits(),
            GroupLimits {
                min: 0,
                max: NO_MAX
            }
        );
        let most: Vec<_> = (2..Group::MOST - 1)
            .map(|nr| accounts.member(&nr.to_string()).unwrap())
            .collect();
        assert!(accounts.member("one more").is_none());
        drop(most);
        assert!(accounts.member("one more").is_some());
    }

    #[test]
    fn arrivals_are_told_some_at_a_time() {
        let account = account(64);
        for frame in 1..MOST_UNTOLD as u32 {
            assert_eq!(account.note_arrival(frame), None);
        }
        assert_eq!(
            account.note_arrival(0).map(|told| told.len()),
            Some(MOST_UNTOLD)
        );
        assert_eq!(account.note_arrival(7), None);
        assert_eq!(account.take_arrivals(), [7]);
        assert!(account.take_arrivals().is_empty());
    }
}
