//! Executors beside a parking one (`wait::block_on`) and tokio's: wakers that run or drop code.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use pagewell::File;

/// Result of a check in a task. An engine's thread may run the task, and catches panics.
pub(crate) type Checked = Result<(), Box<dyn std::error::Error + Send + Sync>>;
pub(crate) type Task = Pin<Box<dyn Future<Output = Checked> + Send>>;

pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A task that the thread which wakes it polls.
pub(crate) struct Inline(Mutex<Slot>);

struct Slot {
    /// None while a thread polls the task, and once it is done or cancelled.
    task: Option<(Task, mpsc::Sender<Checked>)>,
    is_woken: bool,
}

impl Inline {
    /// Polls `task` on this thread. The receiver gets its result, or an error if it is dropped.
    pub(crate) fn start(task: Task) -> (Arc<Self>, mpsc::Receiver<Checked>) {
        let (done, is_done) = mpsc::channel();
        let this = Arc::new(Self(Mutex::new(Slot {
            task: Some((task, done)),
            is_woken: false,
        })));
        Arc::clone(&this).wake();
        (this, is_done)
    }

    /// Drops the task, unless a thread polls it right now.
    pub(crate) fn cancel(&self) {
        let task = self.0.lock().unwrap().task.take();
        drop(task);
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut slot = self.0.lock().unwrap();
        slot.is_woken = true;
        while slot.is_woken
            && let Some((mut task, done)) = slot.task.take()
        {
            slot.is_woken = false;
            drop(slot);
            if let Poll::Ready(checked) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                drop(task);
                // The receiver may be gone.
                let _ = done.send(checked);
                return;
            }
            slot = self.0.lock().unwrap();
            slot.task = Some((task, done));
        }
    }
}

/// A waker that drops a file, and then unparks the thread of its task.
struct DropFile(Mutex<Option<File>>, Thread);

impl Wake for DropFile {
    fn wake(self: Arc<Self>) {
        let file = self.0.lock().unwrap().take();
        drop(file);
        self.1.unpark();
    }
}

/// Runs `task` on this thread. Its first wake drops `file`.
pub(crate) fn block_on_dropping(file: File, mut task: Task) -> Checked {
    let drops = DropFile(Mutex::new(Some(file)), thread::current());
    let waker = Waker::from(Arc::new(drops));
    loop {
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(checked) => return checked,
            Poll::Pending => thread::park(),
        }
    }
}
