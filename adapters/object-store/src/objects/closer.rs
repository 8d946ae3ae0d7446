//! A thread that closes files.
//!
//! The last handle of a file waits for what is being read of it. What is read comes by tasks of the runtime, so a task that waited for it could wait for its own
//! thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use pagewell::File;
use tokio::sync::oneshot;

use crate::error::generic;

/// Where files go that are to be closed. The thread ends with the last of its clones.
#[derive(Clone, Debug)]
pub(crate) struct Closer(Sender<Task>);

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
        thread::Builder::new()
            .name("pagewell-closer".into())
            .spawn(move || {
                for task in tasks {
                    match task {
                        Task::Close(file) => drop(file),
                        // It may have gone away.
                        Task::Tell(sender) => drop(sender.send(())),
                    }
                }
            })
            .map_err(generic)?;
        Ok(Self(sender))
    }

    pub(crate) fn close(&self, file: File) {
        // The thread is there as long as this is.
        let _ = self.0.send(Task::Close(Box::new(file)));
    }

    /// Waits until all files are closed that were given before.
    pub(crate) async fn settle(&self) {
        let (sender, done) = oneshot::channel();
        let _ = self.0.send(Task::Tell(sender));
        let _ = done.await;
    }
}
