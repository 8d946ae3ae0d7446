//! Faults of a storage, decided anew during a test.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use pagewell::io::{Backend, Fault, FaultBackend, Operation};

/// The error of a device that cannot do the call.
pub const EIO: i32 = 5;
/// The error of a device that is full.
pub const ENOSPC: i32 = 28;

/// An error of the system.
#[must_use]
pub fn errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing is done.
    Fail,
    /// All is done, and the answer is an error. A read just fails.
    DoneThenFail,
    /// So many 256ths of a write are done; other calls as for [`DoneThenFail`](Self::DoneThenFail).
    Short(u8),
    /// There is no room.
    Full,
}

impl Way {
    /// The outcome of a call that fails this way.
    #[must_use]
    pub fn fault(self, operation: &Operation) -> Fault {
        match (self, operation) {
            (Self::Full, _) => Fault::Fail(errno(ENOSPC)),
            (Self::Fail, _) | (_, Operation::Read { .. }) => Fault::Fail(errno(EIO)),
            (Self::Short(part), Operation::Write { len, .. }) => Fault::ShortThenFail {
                written: len * usize::from(part) / 256,
                error: errno(EIO),
            },
            _ => Fault::DoneThenFail(errno(EIO)),
        }
    }
}

/// The faults to come, which the holder of a share can change at any time.
#[derive(Clone, Default)]
pub struct Script {
    now: Arc<Mutex<Option<Box<Decide>>>>,
}

type Decide = dyn FnMut(&Operation) -> Fault + Send;

impl Script {
    /// From now on `decide` decides the outcome of each call; it is asked about one call at a time.
    pub fn set(&self, decide: impl FnMut(&Operation) -> Fault + Send + 'static) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(decide));
    }

    /// From now on everything works.
    pub fn heal(&self) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn decide(&self, operation: &Operation) -> Fault {
        match &mut *self.now.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(decide) => decide(operation),
            None => Fault::None,
        }
    }

    /// `backend` with this script.
    pub fn on<B: Backend>(&self, backend: B) -> Arc<FaultBackend<B>> {
        let script = self.clone();
        Arc::new(FaultBackend::with_script(backend, move |operation| {
            script.decide(operation)
        }))
    }
}
