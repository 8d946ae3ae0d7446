//! Futures in a simulation: a thread that polls them and waits for their wakers, and drops those that are not to be awaited.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use pagewell_sync::{Condvar, Mutex, lock};

#[derive(Debug, Default)]
struct Signal {
    is_given: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_given) = true;
        self.changed.notify_all();
    }
}

/// Polls a future until it is ready, or was polled so often; it is dropped then.
pub(super) fn block_on<T>(
    mut future: Pin<Box<dyn Future<Output = T> + '_>>,
    most_polls: u64,
) -> Option<T> {
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    let mut context = Context::from_waker(&waker);
    for _ in 0..most_polls {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let waited = signal
            .changed
            .wait_while(lock(&signal.is_given), |is_given| !*is_given);
        *waited.unwrap_or_else(std::sync::PoisonError::into_inner) = false;
    }
    None
}
