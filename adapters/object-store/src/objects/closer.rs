//! A thread that closes files.
//!
//! The last handle of a file waits for what is being read of it. What is read comes by tasks of the runtime, so a task that waited for it could wait for its own
//! thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pagewell::File;
use tokio::sync::oneshot;

use crate::error::generic;

/// Where files go that are to be closed. The thread ends with the last of its clones.
#[derive(Clone, Debug)]
pub(crate) struct Closer {
    tasks: Sender<Task>,
    /// How many files were given and are not closed.
    nr_waiting: Arc<AtomicUsize>,
}

/// How many files may wait to be closed before who opens others waits for them.
const MOST_WAITING: usize = 256;

/// How long is waited for them. A store that never answers keeps the thread for as long, and must not keep those who open other objects.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
enum Task {
    Close(Box<File>),
    /// Whoever has the other end waits until what came before is done.
    Tell(oneshot::Sender<()>),
}

impl Closer {
    /// Starts the thread.
    pub(crate) fn new() -> object_store::Result<Self> {
        let (sender, tasks): (_, Receiver<Task>) = channel();
        let nr_waiting = Arc::<AtomicUsize>::default();
        let of_thread = Arc::clone(&nr_waiting);
        thread::Builder::new()
            .name("pagewell-closer".into())
            .spawn(move || {
                for task in tasks {
                    match task {
                        Task::Close(file) => {
                            drop(file);
                            // ORDERING: Relaxed; a number by itself.
                            of_thread.fetch_sub(1, Ordering::Relaxed);
                        }
                        // It may have gone away.
                        Task::Tell(sender) => drop(sender.send(())),
                    }
                }
            })
            .map_err(generic)?;
        Ok(Self {
            tasks: sender,
            nr_waiting,
        })
    }

    pub(crate) fn close(&self, file: File) {
        // The thread is there as long as this is.
        // ORDERING: Relaxed; a number by itself.
        self.nr_waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.tasks.send(Task::Close(Box::new(file)));
    }

    /// Waits if many files are still to be closed: they take memory until then.
    pub(crate) async fn keep_up(&self) {
        // ORDERING: Relaxed; a number by itself.
        if self.nr_waiting.load(Ordering::Relaxed) > MOST_WAITING {
            self.settle().await;
        }
    }

    /// Waits until all files are closed that were given before, but not for long.
    pub(crate) async fn settle(&self) {
        let (sender, done) = oneshot::channel();
        let _ = self.tasks.send(Task::Tell(sender));
        let _ = tokio::time::timeout(PATIENCE, done).await;
    }
}
