//! Leaves that are read in before a scan wants them, by threads of the scan.
//!
//! The cache reads neighbours in the file ahead by itself. Neighbours by their keys are elsewhere in a tree that has grown by inserts, and only their parent
//! knows where. So the scan hands their numbers to some threads, each of which waits for one page at a time; a device that serves several requests at once does.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};

use pagewell::File;

use super::access::Views;
use super::descent::{AHEAD, Reader};
use super::error::Error;

/// As [`Reader::scan`], with `nr_threads` threads that read leaves in meanwhile.
pub(super) fn scan(
    data: &File,
    nr_threads: usize,
    from: &[u8],
    take: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<(), Error> {
    let (queue, wanted) = sync_channel(2 * AHEAD);
    let wanted = Mutex::new(wanted);
    std::thread::scope(|scope| {
        for _ in 0..nr_threads {
            scope.spawn(|| read_in(data, &wanted));
        }
        let mut last = None;
        let ahead = |leaves: &[u64]| {
            let known = leaves.iter().rposition(|leaf| Some(*leaf) == last);
            for &leaf in &leaves[known.map_or(0, |at| at + 1)..] {
                // If there is no room the next leaf's list has it again.
                if queue.try_send(leaf).is_err() {
                    break;
                }
                last = Some(leaf);
            }
        };
        let scanned = Reader(Views(data)).scan_with(from, take, ahead);
        // The threads end when they find the queue closed.
        drop(queue);
        scanned
    })
}

fn read_in(data: &File, wanted: &Mutex<Receiver<u64>>) {
    let next = || {
        // Nothing panics under it.
        let wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.recv()
    };
    while let Ok(leaf) = next() {
        // What fails here fails again for who wants the leaf, and is told then.
        let _ = data.view(leaf, |_| Ok(()));
    }
}
