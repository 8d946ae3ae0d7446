//! Locked descriptors in children of `fork`.
//!
//! A lock of an open file description ends by an unlock, or when all its descriptors are closed. A
//! child of `fork` inherits the descriptors, so if its parent exits without an unlock, the database
//! stays locked as long as the child lives. Therefore the child closes the inherited descriptors in
//! a handler of `pthread_atfork`. It never unlocks, since that would release the parent's lock.
//! `vfork`, `posix_spawn` and raw system calls run no handlers. An `exec` closes the descriptors.
//!
//! # Protocol
//!
//! ```text
//! thread of the parent that opens       forking thread         child
//! 1 no fork is in progress; read BEGUN  a BEGUN += 1           d for each slot: close the
//! 2 open the descriptor                 b fork                   descriptor if it is of the
//! 3 slot := descriptor                  c ENDED += 1             slot's file
//! 4 read BEGUN again                                           e ENDED := BEGUN
//! ```
//!
//! - If BEGUN is the same in steps 1 and 4, each child has the slot of step 3 or was forked before
//!   step 2. Otherwise a child may have inherited the descriptor without its slot, so the open is
//!   repeated with a new descriptor ([`Tracked::may_be_inherited`]).
//! - A slot is freed after the unlock and before the close. So a child that has the descriptor but
//!   not the slot shares no lock.
//! - The system copies the descriptors of a child before its memory. If a slot is filled in
//!   between, its number may belong to another file in the child, or to none. So step d compares
//!   the identity of the file. If a handler of another library opens the same file before step d,
//!   even by this VFS, step d may close its descriptor, and later calls fail with `EBADF`.
//! - A fork that is in progress when the handlers are installed may run step c or d without step a.
//!   An open during that fork is not repeated, so the child may keep its lock. Step c never raises
//!   ENDED above BEGUN, so later forks are counted correctly. If such a step c counts another fork
//!   in progress as ended, opens during that fork may not be repeated, either.
//! - A child does not own the databases and connections of its parent: the system zeroes its
//!   process number, so that it assigns itself another one ([`crate::process`]). So it never drops
//!   an object that refers to an inherited descriptor, whose number it may reuse.
//! - Handlers may only call async-signal-safe functions: other threads of the parent may have
//!   locked any mutex at the fork, and a signal handler may fork. These handlers load and store
//!   atomics, call `fstat`, make the system call `close`, and keep `errno`.

#![allow(unsafe_code)] // System calls, and the registration of handlers.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pagewell::io::FileId;
use pagewell_sync::raced::Raced;

/// Value of [`Slot::fd`] without a descriptor.
const FREE: RawFd = -1;
/// Value of [`Slot::fd`] while a thread fills the slot.
const TAKEN: RawFd = -2;
/// Value of [`Slot::fd`] in a child that has closed the descriptor. The slot is not reused, since
/// an object of the parent refers to it.
const INHERITED: RawFd = -3;

const NR_SLOTS: usize = 32;

#[derive(Debug)]
struct Slots {
    slots: [Slot; NR_SLOTS],
    next: Raced<Slots>,
}

#[derive(Debug)]
struct Slot {
    fd: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

static SLOTS: Slots = Slots::new();

/// Numbers of forks that have begun (step a), and that have ended (step c).
static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

impl Slots {
    const fn new() -> Self {
        Self {
            slots: [const { Slot::new() }; NR_SLOTS],
            next: Raced::new(),
        }
    }

    fn take(&'static self) -> &'static Slot {
        let mut slots = self;
        loop {
            for slot in &slots.slots {
                // ORDERING: Acquire; pairs with the release in the drop of `Tracked`. So this owner
                // stores its file's identity after the previous owner stored its own.
                let taken =
                    slot.fd
                        .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    return slot;
                }
            }
            slots = slots.next.get_or_make(Self::new);
        }
    }
}

/// Fork count at the beginning of an open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forks {
    /// `None` if a fork was still in progress after all waits. The open then proceeds, and the
    /// fork's child may keep the lock.
    begun: Option<usize>,
}

impl Forks {
    /// Maximum number of waits. A fork handler that opens a database would wait for its own fork.
    const MAX_WAITS: u32 = 1000;

    const WAIT: Duration = Duration::from_micros(100);

    /// Installs the handlers, waits for forks in progress, and returns the count.
    pub(crate) fn now() -> Self {
        static HANDLERS: Raced<c_int> = Raced::new();
        // Handlers that several threads install run several times, which is harmless. If the
        // installation fails, children keep the locks.
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        HANDLERS.get_or_make(|| unsafe {
            pthread_atfork(Some(begin_fork), Some(end_fork), Some(end_fork_in_child))
        });
        for _ in 0..Self::MAX_WAITS {
            // ORDERING: SeqCst, here and below: ENDED is loaded first. ENDED never exceeds BEGUN,
            // so if they are equal, no counted fork is in progress at the load of BEGUN.
            let ended = ENDED.load(Ordering::SeqCst);
            let begun = BEGUN.load(Ordering::SeqCst);
            if ended == begun {
                return Self { begun: Some(begun) };
            }
            thread::sleep(Self::WAIT);
        }
        Self { begun: None }
    }
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

unsafe extern "C" fn begin_fork() {
    // ORDERING: SeqCst, step a: before the fork, and so before the copy of the memory. A store to a
    // slot that the copy does not contain comes later, and so does the load of step 4.
    BEGUN.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn end_fork() {
    // If ENDED equals BEGUN, this fork began before the installation, and is not in BEGUN.
    // ORDERING: SeqCst, step c, with `Forks::now`.
    let _ = ENDED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |ended| {
        // ORDERING: SeqCst, as above. BEGUN only grows, so an older value is a lower bound.
        (ended < BEGUN.load(Ordering::SeqCst)).then_some(ended + 1)
    });
}

unsafe extern "C" fn end_fork_in_child() {
    // SAFETY: no arguments.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid for this thread's lifetime, here and below.
    let at_fork = unsafe { errno.read() };
    let mut slots = Some(&SLOTS);
    while let Some(Slots { slots: all, next }) = slots {
        all.iter().for_each(Slot::close_inherited);
        slots = next.get();
    }
    // ORDERING: SeqCst, as in the parent; the child has no other thread.
    ENDED.store(BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { errno.write(at_fork) };
}

impl Slot {
    const fn new() -> Self {
        Self {
            fd: AtomicI32::new(FREE),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    /// Closes the descriptor in a child, unless the number is that of another file.
    fn close_inherited(&self) {
        // ORDERING: Acquire; the child's memory contains the identity if it contains the
        // descriptor, by the release in `Tracked::new`.
        let fd = self.fd.load(Ordering::Acquire);
        if fd < 0 {
            return;
        }
        // ORDERING: Relaxed; the child has no other thread.
        self.fd.store(INHERITED, Ordering::Relaxed);
        let mut found = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the result has room. The number need not be that of a descriptor.
        if unsafe { libc::fstat(fd, found.as_mut_ptr()) } != 0 {
            return;
        }
        // SAFETY: the call has succeeded, so the result is initialized.
        let found = unsafe { found.assume_init() };
        // ORDERING: Relaxed, both; ordered by the load of the descriptor.
        let (device, inode) = (
            self.device.load(Ordering::Relaxed),
            self.inode.load(Ordering::Relaxed),
        );
        if (found.st_dev, found.st_ino) == (device, inode) {
            // The C library's `close` would end a thread with a pending cancellation.
            // SAFETY: the descriptor is the inherited one of a database. The objects that refer to
            // it belong to the parent, and are neither used nor dropped in this process.
            let _ = unsafe { libc::syscall(libc::SYS_close, fd) };
        }
    }
}

/// Registration of a descriptor, which children close. Dropped after the unlock, before the close.
#[derive(Debug)]
pub(crate) struct Tracked {
    slot: &'static Slot,
    fd: RawFd,
    may_be_inherited: bool,
}

impl Tracked {
    /// Registers `file`, which was opened after `forks` was obtained.
    pub(crate) fn new(file: BorrowedFd<'_>, id: FileId, forks: Forks) -> Self {
        let (slot, fd) = (SLOTS.take(), file.as_raw_fd());
        // ORDERING: Relaxed, both; published by the store of the descriptor.
        slot.device.store(id.device, Ordering::Relaxed);
        slot.inode.store(id.inode, Ordering::Relaxed);
        // ORDERING: SeqCst, steps 3 and 4: the store comes before the load. Release, too.
        slot.fd.store(fd, Ordering::SeqCst);
        let begun = BEGUN.load(Ordering::SeqCst);
        Self {
            slot,
            fd,
            may_be_inherited: forks.begun.is_some_and(|before| before != begun),
        }
    }

    /// Returns `true` if a child may have the descriptor without its slot, due to a fork during the
    /// open. Such a descriptor must not keep a lock. Returns `false` if [`Forks`] has no count.
    pub(crate) fn may_be_inherited(&self) -> bool {
        self.may_be_inherited
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        // In a child, the slot stays INHERITED.
        // ORDERING: Release; after the unlock, and pairs with `Slots::take`. A child that sees this
        // descriptor with the identity of the next owner may not close it, but the descriptor has
        // no lock any more.
        let _ = self
            .slot
            .fd
            .compare_exchange(self.fd, FREE, Ordering::Release, Ordering::Relaxed);
    }
}

/// Locked by tests that fork, or that no other fork may interrupt.
#[cfg(test)]
pub(crate) static FORKS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Whether children close `fd`, a descriptor of the file `id`.
#[cfg(test)]
pub(crate) fn is_tracked(fd: RawFd, id: FileId) -> bool {
    let is_it = |slot: &Slot| {
        // ORDERING: Relaxed, all; the caller's thread fills and frees the slots of the file.
        slot.fd.load(Ordering::Relaxed) == fd
            && slot.device.load(Ordering::Relaxed) == id.device
            && slot.inode.load(Ordering::Relaxed) == id.inode
    };
    let mut slots = Some(&SLOTS);
    while let Some(Slots { slots: all, next }) = slots {
        if all.iter().any(is_it) {
            return true;
        }
        slots = next.get();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use pagewell::io::identity;
    use pagewell_testkit::in_child;

    use super::*;

    fn is_open(fd: RawFd) -> bool {
        // SAFETY: the command accesses no memory.
        unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
    }

    #[test]
    fn child_closes_descriptors_of_tracked_files() {
        // A fork by another thread would change the count.
        let _alone = FORKS.lock();
        let [tracked, untracked, reused] = [(); 3].map(|()| File::open("/dev/null").unwrap());
        let other = File::open("/").unwrap();
        let [of_null, of_other] = [&tracked, &other].map(|file| {
            let id = identity::id_of(file.as_fd());
            id.unwrap()
        });
        let forks = Forks::now();
        let slots = [
            Tracked::new(tracked.as_fd(), of_null, forks),
            // The number of this slot is that of another file.
            Tracked::new(reused.as_fd(), of_other, forks),
        ];
        assert!(slots.iter().all(|slot| !slot.may_be_inherited()));
        let files = [&tracked, &untracked, &reused];
        let numbers = files.map(|file| file.as_raw_fd());
        let are_open = || {
            let bits = numbers.iter().enumerate();
            bits.fold(0, |all, (nr, fd)| all | c_int::from(is_open(*fd)) << nr)
        };
        assert_eq!(in_child(are_open), 0b110);
        assert_eq!(are_open(), 0b111);
        // A descriptor that is tracked after a fork may have been opened before it.
        let late = Tracked::new(other.as_fd(), of_other, forks);
        assert!(late.may_be_inherited());
        let [slot, _] = slots;
        drop(slot);
        assert_eq!(in_child(are_open), 0b111);

        // Run the handler again in this child, with a slot whose descriptor is closed, and in a
        // thread with a pending cancellation.
        let again = || {
            let closed = Tracked::new(untracked.as_fd(), of_null, forks);
            let open = Tracked::new(tracked.as_fd(), of_null, forks);
            // SAFETY: no object of this process uses the descriptor again.
            unsafe { libc::close(closed.fd) };
            // SAFETY: no arguments.
            let this = unsafe { libc::pthread_self() };
            // SAFETY: the thread runs.
            assert_eq!(unsafe { libc::pthread_cancel(this) }, 0);
            // SAFETY: no arguments.
            let errno = unsafe { libc::__errno_location() };
            // SAFETY: the pointer is valid for this thread's lifetime.
            unsafe { errno.write(77) };
            // SAFETY: a child may call the handler at any time.
            unsafe { end_fork_in_child() };
            let errno = std::io::Error::last_os_error().raw_os_error();
            assert!(!is_open(open.fd));
            errno.unwrap()
        };
        assert_eq!(in_child(again), 77);
    }

    #[test]
    fn end_of_a_fork_that_began_before_the_installation_is_not_counted() {
        let _alone = FORKS.lock();
        assert!(Forks::now().begun.is_some());
        // SAFETY: the handler accesses atomics only.
        unsafe { end_fork() };
        assert!(Forks::now().begun.is_some());
    }
}
