//! A thread that closes files.
//!
//! The last handle of a file waits for what is being read of it. What is read comes by tasks of the runtime, so a task that waited for it could wait for its own
//! thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use pagewell::File;

use crate::error::generic;

/// Where files go that are to be closed. The thread ends with the last of its clones.
#[derive(Clone, Debug)]
pub(crate) struct Closer(Sender<File>);

impl Closer {
    /// Starts the thread.
    pub(crate) fn new() -> object_store::Result<Self> {
        let (sender, files): (_, Receiver<File>) = channel();
        thread::Builder::new()
            .name("pagewell-closer".into())
            .spawn(move || files.into_iter().for_each(drop))
            .map_err(generic)?;
        Ok(Self(sender))
    }

    pub(crate) fn close(&self, file: File) {
        // The thread is there as long as this is.
        let _ = self.0.send(file);
    }
}
