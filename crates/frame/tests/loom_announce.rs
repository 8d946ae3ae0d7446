//! Models of announced references, explored exhaustively by loom: against who wants the frame alone, or for something else, and against the
//! end of the thread that has announced.
//!
//! `cd models && cargo test --profile loom -p pagewell-frame --test loom_announce`
//!
//! What breaks them is in `verify/mutants` (`announce-*`).

#![cfg(loom)]

// Not loom's: what shares the pool is no part of the run.
use std::sync::{Arc, Weak};

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use pagewell_frame::{
    FRAME_BYTES, FrameKind, FrameNr, FramePool, FrameRef, HasPool, Hold, Nodes, Order, OwnedHold,
    PoolConfig, PoolOwner, UniqueFrame,
};
use pagewell_sync::cell::Life;
use pagewell_sync::shard::Identity;

type Pool = FramePool;

const NR_FRAMES: usize = 4;

/// The bytes of the page, and bytes that are not its.
const OURS: u8 = 0xA1;
const FOREIGN: u8 = 0xF0;

/// What the slot of the index says while it names the page.
const NAMED: u64 = 1;

/// Explores all schedules with up to `preemptions` preemptions, unless the environment says otherwise.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// A pool, and a page in it that is marked: the frame, and its owner's reference.
fn marked() -> (Arc<Pool>, FrameNr) {
    let mut config = PoolConfig::new(NR_FRAMES);
    config.nodes = Nodes::Unbound(1);
    let pool = Arc::new(Pool::new(&config).unwrap());
    let frame = mark_one(&pool);
    (pool, frame)
}

/// A page in `pool` that is marked: its owner's reference is left.
fn mark_one(pool: &Pool) -> FrameNr {
    let unique = pool.alloc(Order::ZERO).unwrap();
    fill(&unique, OURS);
    // SAFETY: (K) nobody else uses the pool.
    let frame = unsafe { unique.publish(FrameKind::Page, (0, 0), 1) };
    let reference = owners(pool, frame);
    // This thread has a block, and is its owner.
    let _ = pool.note_counted(&reference);
    assert!(pool.mark(&reference));
    reference.into_raw();
    frame
}

/// The reference of the owner, which the models take once.
fn owners(pool: &Pool, frame: FrameNr) -> FrameRef<'_> {
    // SAFETY: (A) as said.
    unsafe { FrameRef::from_raw(pool, frame) }
}

fn fill(unique: &UniqueFrame<'_>, byte: u8) {
    unique.bytes().copy_from(0, &[byte; FRAME_BYTES]);
}

/// Checks that the bytes of a page that is held are the page's.
#[track_caller]
fn assert_ours(hold: &Hold<'_>) {
    let mut bytes = [0; FRAME_BYTES];
    hold.bytes().copy_to(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == OURS), "{bytes:x?}");
}

/// Takes a reference by the mark, if that is on and the slot names the page; looks at the page, and gives the reference back.
fn hold_and_look(pool: &Pool, frame: FrameNr, slot: &AtomicU64) {
    // ORDERING: Acquire, both, as the loads of a slot.
    if slot.load(Ordering::Acquire) != NAMED {
        return;
    }
    let hold = pool.try_announce(frame, || slot.load(Ordering::Acquire) == NAMED);
    if let Some(hold) = hold {
        assert_ours(&hold);
        assert_ours(&hold);
    }
}

/// A thread that has used the pool before, so that it has a block: what it takes by the mark is announced.
fn announcer(pool: &Arc<Pool>, frame: FrameNr, slot: &Arc<AtomicU64>) -> thread::JoinHandle<()> {
    let (pool, slot) = (Arc::clone(pool), Arc::clone(slot));
    thread::spawn(move || {
        if let pagewell_frame::TryGetFrame::Taken(reference) = pool.try_get(frame) {
            let _ = pool.note_counted(&reference);
        }
        hold_and_look(&pool, frame, &slot);
    })
}

#[track_caller]
fn assert_all_free(pool: &Pool) {
    pool.verify().unwrap();
    assert_eq!(pool.nr_marked(), 0);
    let stats = pool.stats();
    assert_eq!(stats.nr_available(), NR_FRAMES, "{stats:?}");
}

/// The mark is taken off, and the page written where it is: nobody sees that who has an announced reference.
#[test]
fn loom_announce_vs_write_in_place() {
    check(3, || {
        let (pool, frame) = marked();
        let slot = Arc::new(AtomicU64::new(NAMED));
        let other = announcer(&pool, frame, &slot);
        // By the hand, which has not claimed the page.
        pool.doubt(frame);
        pool.look_at_announced();
        // ORDERING: AcqRel, as a claim.
        slot.swap(NAMED + 1, Ordering::AcqRel);
        match owners(&pool, frame).try_unique() {
            Ok(unique) => {
                fill(&unique, FOREIGN);
                other.join().unwrap();
            }
            Err(reference) => {
                other.join().unwrap();
                pool.retire(frame);
                drop(reference);
            }
        }
        assert_all_free(&pool);
    });
}

/// The mark of a page that is found by all is taken off, and set again: whoever has found it on before is seen.
#[test]
fn loom_announce_vs_mark_anew() {
    check(2, || {
        let (pool, frame) = marked();
        let slot = Arc::new(AtomicU64::new(NAMED));
        let other = announcer(&pool, frame, &slot);
        pool.doubt(frame);
        pool.look_at_announced();
        let reference = owners(&pool, frame);
        assert!(pool.mark(&reference));
        // ORDERING: AcqRel, as a claim.
        slot.swap(NAMED + 1, Ordering::AcqRel);
        pool.doubt(frame);
        pool.look_at_announced();
        match reference.try_unique() {
            Ok(unique) => {
                fill(&unique, FOREIGN);
                other.join().unwrap();
            }
            Err(reference) => {
                other.join().unwrap();
                pool.retire(frame);
                drop(reference);
            }
        }
        assert_all_free(&pool);
    });
}

/// The page is replaced, or taken out: its frame is kept for who has announced, and free when he is done, whoever comes last.
#[test]
fn loom_announce_vs_retire() {
    check(3, || {
        let (pool, frame) = marked();
        let slot = Arc::new(AtomicU64::new(NAMED));
        let other = announcer(&pool, frame, &slot);
        // ORDERING: AcqRel, as a claim.
        slot.swap(0, Ordering::AcqRel);
        pool.retire(frame);
        drop(owners(&pool, frame));
        // What is free is used for something else.
        let mut blocks = Vec::new();
        while let Some(block) = pool.alloc(Order::ZERO) {
            fill(&block, FOREIGN);
            blocks.push(block);
        }
        drop(blocks);
        other.join().unwrap();
        assert_all_free(&pool);
    });
}

/// The same by somebody who does not ask what the frame is: it is kept all the same.
#[test]
fn loom_announce_of_any_page_vs_retire() {
    check(3, || {
        let (pool, frame) = marked();
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                if let pagewell_frame::TryGetFrame::Taken(reference) = pool.try_get(frame) {
                    let _ = pool.note_counted(&reference);
                }
                thread::yield_now();
                if let Some(hold) = pool.try_announce(frame, || true) {
                    assert_ours(&hold);
                    thread::yield_now();
                    assert_ours(&hold);
                }
            }
        });
        pool.retire(frame);
        drop(owners(&pool, frame));
        let mut blocks = Vec::new();
        while let Some(block) = pool.alloc(Order::ZERO) {
            fill(&block, FOREIGN);
            blocks.push(block);
        }
        drop(blocks);
        other.join().unwrap();
        assert_all_free(&pool);
    });
}

/// A frame that has been freed is a page of another slot, and marked: who wants the first page does not get the second.
#[test]
fn loom_announce_vs_reuse() {
    check(2, || {
        let (pool, frame) = marked();
        let slot = Arc::new(AtomicU64::new(NAMED));
        let other = announcer(&pool, frame, &slot);
        pool.doubt(frame);
        pool.look_at_announced();
        // ORDERING: AcqRel, as a claim.
        slot.swap(0, Ordering::AcqRel);
        match owners(&pool, frame).try_unique() {
            Ok(unique) => {
                fill(&unique, FOREIGN);
                // SAFETY: (K) nobody else uses the pool.
                let frame = unsafe { unique.publish(FrameKind::Page, (0, 1), 1) };
                let reference = owners(&pool, frame);
                assert!(pool.mark(&reference));
                other.join().unwrap();
                pool.retire(frame);
                drop(reference);
            }
            Err(reference) => {
                other.join().unwrap();
                pool.retire(frame);
                drop(reference);
            }
        }
        assert_all_free(&pool);
    });
}

/// A reference was sent to another thread, which drops it while the successor of the one that has announced it hands it over to the count, and
/// while the page goes.
#[test]
fn loom_announce_vs_end_of_thread() {
    check(3, || {
        let (pool, frame) = marked();
        let (me, successor) = (Identity::new(0, 1), Identity::new(0, 77));
        // SAFETY: the pool lives as long as one of the two threads.
        let forever: &'static Pool = unsafe { &*Arc::as_ptr(&pool) };
        let hold = forever.try_announce_as(me, frame, || true);
        let hold = hold.expect("it is marked");
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                assert_ours(&hold);
                drop(hold);
                drop(pool);
            }
        });
        let reference = owners(&pool, frame);
        let _ = pool.note_counted_as(successor, reference.frame());
        // The block is the successor's now, and has room.
        drop(pool.try_announce_as(successor, frame, || true));
        pool.doubt(frame);
        pool.look_at_announced();
        match reference.try_unique() {
            Ok(unique) => {
                fill(&unique, FOREIGN);
                other.join().unwrap();
            }
            Err(reference) => {
                pool.retire(frame);
                drop(reference);
                other.join().unwrap();
            }
        }
        assert_all_free(&pool);
    });
}

/// A reference that was sent to another thread is dropped there while the page goes, and its owner announces more.
#[test]
fn loom_announce_vs_drop_elsewhere() {
    check(2, || {
        let (pool, frame) = marked();
        // SAFETY: the pool lives as long as one of the two threads.
        let forever: &'static Pool = unsafe { &*Arc::as_ptr(&pool) };
        let hold = forever.try_announce(frame, || true).expect("it is marked");
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                assert_ours(&hold);
                drop(hold);
                drop(pool);
            }
        });
        // Two slots: the second, and then the first if it is empty.
        let second = pool.try_announce(frame, || true);
        let third = pool.try_announce(frame, || true);
        assert!(second.is_some());
        pool.retire(frame);
        drop(owners(&pool, frame));
        drop((second, third));
        other.join().unwrap();
        assert_all_free(&pool);
    });
}

/// What a pool is a part of, as it is of a cache: its users share it. A user that wants to go on after the last of them has a reference that
/// borrows nothing.
struct Inside {
    pool: Pool,
    /// Of the other parts, which go before the pool does.
    life: Life,
    /// Whether all frames are to be free at the end.
    is_all_free: bool,
}

impl HasPool for Inside {
    fn pool(&self) -> &Pool {
        self.life.used();
        &self.pool
    }

    fn is_in_child(&self) -> bool {
        false
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.life.end();
        if self.is_all_free {
            assert_all_free(&self.pool);
        }
    }
}

/// The users of a pool: the last one to leave drops its owner, as the last handle of a cache does.
#[derive(Clone)]
struct User {
    owner: Arc<Mutex<Option<PoolOwner<Inside>>>>,
    nr_users: Arc<AtomicU64>,
}

impl User {
    fn shared(&self) -> Arc<Inside> {
        Arc::clone(self.owner.lock().unwrap().as_ref().unwrap())
    }

    /// A reference that is announced, by a thread that has used the pool before.
    fn announce(&self, frame: FrameNr) -> Option<OwnedHold<Inside>> {
        let shared = self.shared();
        if let pagewell_frame::TryGetFrame::Taken(reference) = shared.pool.try_get(frame) {
            let _ = shared.pool.note_counted(&reference);
        }
        // SAFETY: (P) it is a field of what is shared; (L) the users have the only owner, and this is one of them.
        unsafe { OwnedHold::try_announce(&shared, frame, || true) }
    }

    fn leave(self) {
        // ORDERING: AcqRel, as the count of an `Arc`: what all others have done comes before the end.
        if self.nr_users.fetch_sub(1, Ordering::AcqRel) == 1 {
            let owner = self.owner.lock().unwrap().take();
            drop(owner);
        }
    }
}

/// What tells whether a pool is gone. It keeps the memory of the value, so that a use of what has ended is seen, and not undefined.
struct Left(Weak<Inside>);

impl Left {
    #[track_caller]
    fn assert_gone(&self) {
        let nr = self.0.strong_count();
        assert_eq!(nr, 0, "a pool that nobody uses is there");
    }
}

/// A pool of so many users, with a page that is marked.
fn used_by(nr_users: u64, is_all_free: bool) -> (User, FrameNr, Left) {
    let mut config = PoolConfig::new(NR_FRAMES);
    config.nodes = Nodes::Unbound(1);
    let inside = Inside {
        pool: Pool::new(&config).unwrap(),
        life: Life::new(),
        is_all_free,
    };
    let frame = mark_one(&inside.pool);
    let inside = Arc::new(inside);
    let left = Left(Arc::downgrade(&inside));
    let user = User {
        owner: Arc::new(Mutex::new(Some(PoolOwner::new(inside)))),
        nr_users: Arc::new(AtomicU64::new(nr_users)),
    };
    (user, frame, left)
}

#[track_caller]
fn assert_owned_ours(hold: &OwnedHold<Inside>) {
    let mut bytes = [0; FRAME_BYTES];
    hold.bytes().copy_to(0, &mut bytes);
    assert!(bytes.iter().all(|byte| *byte == OURS), "{bytes:x?}");
}

/// A thread that leaves the pool with a reference in hand.
fn goes_on(user: User, frame: FrameNr) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let hold = user.announce(frame);
        user.leave();
        if let Some(hold) = hold {
            assert!(hold.is_announced());
            assert_owned_ours(&hold);
            drop(hold);
        }
    })
}

/// The last user of a pool leaves while another thread ends its announcement: the pool is there until then, and is freed by one of them.
#[test]
fn loom_announce_owned_vs_end_of_pool() {
    check(3, || {
        let (user, frame, left) = used_by(2, true);
        let other = goes_on(user.clone(), frame);
        {
            let shared = user.shared();
            shared.pool.retire(frame);
            drop(owners(&shared.pool, frame));
        }
        user.leave();
        other.join().unwrap();
        left.assert_gone();
    });
}

/// The same of a page that nobody has taken out: it is the pool that is left, and not the frame that is retired.
#[test]
fn loom_announce_owned_of_what_stays_vs_end_of_pool() {
    check(3, || {
        let (user, frame, left) = used_by(2, false);
        let other = goes_on(user.clone(), frame);
        user.leave();
        other.join().unwrap();
        left.assert_gone();
    });
}

/// Two threads end announcements of a pool that was left: each may be the last, and a look of one finds that the other has ended and frees the pool.
#[test]
fn loom_announce_owned_vs_owned_of_a_left_pool() {
    check(2, || {
        let (user, frame, left) = used_by(1, false);
        let (first, second) = (user.announce(frame), user.announce(frame));
        assert!(first.is_some() && second.is_some());
        user.leave();
        let other = thread::spawn(move || {
            let first = first.unwrap();
            assert_owned_ours(&first);
            drop(first);
        });
        let second = second.unwrap();
        assert_owned_ours(&second);
        drop(second);
        other.join().unwrap();
        left.assert_gone();
    });
}

/// Somebody who keeps the pool anyhow looks after its owner has left, while the last announcement ends: one of the two lets go of the pool.
#[test]
fn loom_announce_owned_vs_look_at_a_left_pool() {
    check(3, || {
        let (user, frame, left) = used_by(1, true);
        let shared = user.shared();
        let hold = user.announce(frame).expect("it is marked");
        user.leave();
        let other = thread::spawn(move || {
            shared.pool.retire(frame);
            drop(owners(&shared.pool, frame));
            Life::share_goes();
            drop(shared);
        });
        assert_owned_ours(&hold);
        drop(hold);
        other.join().unwrap();
        left.assert_gone();
    });
}

/// An announcement is handed over to the count by the successor of its thread, while it ends elsewhere; then the last user leaves.
#[test]
fn loom_announce_owned_vs_end_of_thread_and_pool() {
    check(3, || {
        let (user, frame, left) = used_by(1, true);
        let (me, successor) = (Identity::new(0, 1), Identity::new(0, 77));
        let shared = user.shared();
        // SAFETY: (P), (L) as of users.
        let hold = unsafe { OwnedHold::try_announce_as(me, &shared, frame, || true) };
        let hold = hold.expect("it is marked");
        let other = thread::spawn(move || {
            assert_owned_ours(&hold);
            drop(hold);
        });
        let reference = owners(&shared.pool, frame);
        let _ = shared.pool.note_counted_as(successor, reference.frame());
        shared.pool.retire(frame);
        drop(reference);
        drop(shared);
        user.leave();
        other.join().unwrap();
        left.assert_gone();
    });
}

/// A reference is dropped elsewhere; the thread that has announced it uses the slot again, and is the last to leave: what was done with the first
/// one comes before the end of the pool.
#[test]
fn loom_announce_owned_in_a_slot_that_was_emptied_elsewhere() {
    check(2, || {
        let (user, frame, left) = used_by(1, false);
        let first = user.announce(frame).expect("it is marked");
        let other = thread::spawn(move || {
            assert_owned_ours(&first);
            drop(first);
        });
        drop(user.announce(frame));
        user.leave();
        other.join().unwrap();
        left.assert_gone();
    });
}

/// What is in a page.
struct Content(loom::cell::UnsafeCell<()>);

// SAFETY: nothing is in the cell; that nobody looks at it who does not come before its change is what loom checks.
unsafe impl Sync for Content {}

/// A slot that had a page's frame has another's: who changes the first page comes after who has looked at it.
#[test]
fn loom_announce_vs_change_of_what_the_slot_had_before() {
    check(3, || {
        let (pool, frame) = marked();
        let next = mark_one(&pool);
        // What a holder does with the first page, and who has it alone.
        let page = Arc::new(Content(loom::cell::UnsafeCell::new(())));
        let other = thread::spawn({
            let (pool, page) = (Arc::clone(&pool), Arc::clone(&page));
            move || {
                if let pagewell_frame::TryGetFrame::Taken(reference) = pool.try_get(next) {
                    let _ = pool.note_counted(&reference);
                }
                if let Some(hold) = pool.try_announce(frame, || true) {
                    page.0.with(|_| ());
                    drop(hold);
                }
                drop(pool.try_announce(next, || true));
            }
        });
        pool.doubt(frame);
        pool.look_at_announced();
        match owners(&pool, frame).try_unique() {
            Ok(unique) => {
                page.0.with_mut(|_| ());
                other.join().unwrap();
                drop(unique);
            }
            Err(reference) => {
                other.join().unwrap();
                pool.retire(frame);
                drop(reference);
            }
        }
        pool.retire(next);
        drop(owners(&pool, next));
        assert_all_free(&pool);
    });
}
