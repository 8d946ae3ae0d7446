//! Ledger of what a thread holds. Debug builds check it before the thread runs code of the program.
//!
//! Wakers, callbacks, page codecs and drops of the program's values may block, or call the library.
//! `docs/LOCKING.md` ("Code of the program") states what a thread may hold while it runs such code.
//! Each thread counts what it acquires and releases ([`acquired`], [`released`]). Before code of
//! the program it calls [`enter`], which starts an empty ledger for the program's own calls. In
//! release builds, and in models, nothing is counted or checked.

/// Kind of resource of a thread for which other threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Claim of a slot.
    SlotClaim,
    /// Reservation of in-flight frames.
    Reservation,
    /// Size lock or writeback lock of a file.
    FileLock,
    /// The thread itself, on which the completions of all files' requests depend.
    CompletionThread,
}

impl Resource {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::SlotClaim,
        Self::Reservation,
        Self::FileLock,
        Self::CompletionThread,
    ];
}

/// Resources that a thread holds.
#[cfg(all(debug_assertions, not(loom)))]
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Number of resources of each kind.
    nr: [usize; Resource::ALL.len()],
    /// Address of the file whose locks are held. Without such locks, it has no meaning.
    file: usize,
}

#[cfg(all(debug_assertions, not(loom)))]
impl Held {
    const NOTHING: Self = Self {
        nr: [0; Resource::ALL.len()],
        file: 0,
    };
}

/// Record that this thread runs code of the program. Dropping it restores the thread's ledger.
#[derive(Debug)]
#[must_use = "the thread leaves the program's code when this is dropped"]
pub struct InProgram(#[cfg(all(debug_assertions, not(loom)))] Held);

#[cfg(all(debug_assertions, not(loom)))]
thread_local! {
    // No destructor, so the ledger exists as long as the thread.
    static HELD: std::cell::Cell<Held> = const { std::cell::Cell::new(Held::NOTHING) };
}

/// Counts `nr` resources as held by this thread: acquired, or taken over from another thread.
#[inline]
pub fn acquired(resource: Resource, nr: usize) {
    #[cfg(all(debug_assertions, not(loom)))]
    change(resource, |held| held + nr);
    let _ = (resource, nr);
}

/// Lock of a file that this thread holds or waits for. The drop counts it as released.
#[derive(Debug)]
#[must_use = "the lock counts as released when this is dropped"]
pub struct LockRecord(());

impl Drop for LockRecord {
    #[inline]
    fn drop(&mut self) {
        released(Resource::FileLock, 1);
    }
}

/// Counts a size lock or writeback lock of `file`, which this thread is about to wait for.
///
/// A thread that holds such a lock of one file waits for one of another file only in code of the
/// program ([`enter`], `docs/LOCKING.md`): otherwise one blocked backend or callback could stop
/// other files, and two threads could deadlock.
///
/// # Panics
///
/// In debug builds, if the thread holds a lock of another file, which is a defect of the library.
#[inline]
#[track_caller]
pub fn before_lock_of<T>(file: &T) -> LockRecord {
    #[cfg(all(debug_assertions, not(loom)))]
    {
        let file = std::ptr::from_ref(file).addr();
        let mut held = HELD.get();
        assert!(
            held.nr[Resource::FileLock as usize] == 0 || held.file == file,
            "a thread that holds a lock of one file waits for a lock of another file"
        );
        held.file = file;
        HELD.set(held);
    }
    let _ = file;
    acquired(Resource::FileLock, 1);
    LockRecord(())
}

/// Counts `nr` resources as released by this thread, or handed over to another thread.
#[inline]
pub fn released(resource: Resource, nr: usize) {
    #[cfg(all(debug_assertions, not(loom)))]
    change(resource, |held| {
        held.checked_sub(nr).unwrap_or_else(|| {
            assert!(
                std::thread::panicking(),
                "a thread releases {nr} of {resource:?}, and holds {held}"
            );
            0
        })
    });
    let _ = (resource, nr);
}

#[cfg(all(debug_assertions, not(loom)))]
fn change(resource: Resource, to: impl FnOnce(usize) -> usize) {
    let mut held = HELD.get();
    let nr = &mut held.nr[resource as usize];
    *nr = to(*nr);
    HELD.set(held);
}

/// Records that this thread runs code of the program from now on until the result is dropped. In
/// debug builds, panics if the thread holds anything but `allowed`, a defect of the library.
#[inline]
#[track_caller]
pub fn enter(what: &str, allowed: &[Resource]) -> InProgram {
    #[cfg(all(debug_assertions, not(loom)))]
    {
        let held = HELD.get();
        for resource in Resource::ALL {
            assert!(
                held.nr[resource as usize] == 0 || allowed.contains(&resource),
                "{what} would run in a thread that holds {resource:?}"
            );
        }
        HELD.set(Held::NOTHING);
        InProgram(held)
    }
    #[cfg(not(all(debug_assertions, not(loom))))]
    {
        let _ = (what, allowed);
        InProgram()
    }
}

impl Drop for InProgram {
    #[inline]
    fn drop(&mut self) {
        #[cfg(all(debug_assertions, not(loom)))]
        HELD.set(self.0);
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn code_of_the_program_runs_only_with_what_is_allowed() {
        let both = [Resource::SlotClaim, Resource::FileLock];
        for resource in both {
            acquired(resource, 2);
            released(resource, 1);
        }
        catch_unwind(|| enter("a waker", &[])).expect_err("it holds a claim");
        catch_unwind(|| enter("a callback", &[Resource::FileLock])).expect_err("it holds a claim");
        let in_codec = enter("a codec", &both);
        // Within the codec, the ledger is empty.
        drop(enter("a waker in a codec", &[]));
        acquired(Resource::Reservation, 1);
        catch_unwind(|| enter("a waker in a codec", &[])).expect_err("it holds a reservation");
        released(Resource::Reservation, 1);
        drop(in_codec);
        catch_unwind(|| enter("a waker", &[])).expect_err("it holds a claim again");
        for resource in both {
            released(resource, 1);
        }
        drop(enter("a waker", &[]));
    }

    #[test]
    fn locks_of_one_file_at_a_time_and_of_another_in_code_of_the_program() {
        let (one, two) = (1, 2);
        let locks = [before_lock_of(&one), before_lock_of(&one)];
        let in_backend = enter("a backend", &Resource::ALL);
        drop(before_lock_of(&two));
        drop(in_backend);
        catch_unwind(|| before_lock_of(&two)).expect_err("two files at a time");
        drop(locks);
        drop(before_lock_of(&two));
    }
}
