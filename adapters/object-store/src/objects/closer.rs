//! Thread that closes files.
//!
//! Dropping the last handle of a file waits for its reads in flight. A task that did so might block
//! the runtime thread that executes these reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pagewell::File;
use pagewell_sync::thread::spawn;
use tokio::sync::oneshot;

use crate::error::generic;

/// Queue of files to be closed. The thread ends with the last clone of this value.
#[derive(Clone, Debug)]
pub(crate) struct Closer {
    tasks: Sender<Task>,
    nr_waiting: Arc<AtomicUsize>,
}

/// Number of queued files above which openers of other files wait.
const MOST_WAITING: usize = 256;

/// Maximum wait for queued files. A store that never answers must not block openers.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
enum Task {
    Close(Box<File>),
    /// Reports that all previous tasks are done.
    Tell(oneshot::Sender<()>),
}

impl Closer {
    pub(crate) fn new() -> object_store::Result<Self> {
        let (sender, tasks): (_, Receiver<Task>) = channel();
        let nr_waiting = Arc::<AtomicUsize>::default();
        let of_thread = Arc::clone(&nr_waiting);
        let work = move || {
            for task in tasks {
                match task {
                    Task::Close(file) => {
                        drop(file);
                        // ORDERING: Relaxed; the counter orders no other data.
                        of_thread.fetch_sub(1, Ordering::Relaxed);
                    }
                    Task::Tell(sender) => drop(sender.send(())),
                }
            }
        };
        spawn("pagewell-closer", work).map_err(generic)?;
        Ok(Self {
            tasks: sender,
            nr_waiting,
        })
    }

    pub(crate) fn close(&self, file: File) {
        // ORDERING: Relaxed; the counter orders no other data.
        self.nr_waiting.fetch_add(1, Ordering::Relaxed);
        // The thread receives as long as this value exists.
        let _ = self.tasks.send(Task::Close(Box::new(file)));
    }

    /// Waits up to [`PATIENCE`] if many files are queued, which use memory until they are closed.
    pub(crate) async fn keep_up(&self) {
        // ORDERING: Relaxed; the counter orders no other data.
        if self.nr_waiting.load(Ordering::Relaxed) > MOST_WAITING {
            self.settle().await;
        }
    }

    /// Waits up to [`PATIENCE`] until all files that were queued before are closed.
    pub(crate) async fn settle(&self) {
        let (sender, done) = oneshot::channel();
        let _ = self.tasks.send(Task::Tell(sender));
        let _ = tokio::time::timeout(PATIENCE, done).await;
    }
}
