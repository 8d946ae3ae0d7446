//! Reads by futures: `read_at_async`. A hit is ready at its first poll.

use std::future::Future;
use std::hint::black_box;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use pagewell::{Error, File};

use super::reader::{Reader, failed, wrong_length};
use crate::bench::crew::Op;
use crate::bench::data::Positions;

/// Wakes a task that is all that its thread does.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

#[inline]
fn wait_for<F: Future>(future: F, waker: &Waker) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Reads with a future each, into a buffer of its own: for what is checked before anything is measured.
pub(super) struct Async(pub(super) File);

impl Reader for Async {
    type Error = Error;

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let future = self.0.read_at_async(vec![0; buf.len()], offset);
        let (bytes, result) = wait_for(future, &waker());
        buf.copy_from_slice(&bytes);
        result
    }
}

/// One worker's reads, one after the other. The buffer goes into each future, and comes back.
pub(super) struct AsyncOp<P> {
    file: File,
    positions: P,
    buf: Vec<u8>,
}

impl<P: Positions> AsyncOp<P> {
    pub(super) fn new(file: File, positions: P, block: usize) -> AsyncOp<P> {
        AsyncOp {
            file,
            positions,
            buf: vec![0; block],
        }
    }
}

impl<P: Positions> Op for AsyncOp<P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let waker = waker();
        let len = self.buf.len();
        // A local, and looked at where it is: each move of it through memory is one that the next read's buffer waits for, since it is the same one.
        let mut buf = mem::take(&mut self.buf);
        for _ in 0..times {
            let offset = self.positions.next();
            let (back, result) = wait_for(self.file.read_at_async(buf, offset), &waker);
            black_box(&back);
            buf = back;
            match result {
                Ok(n) if n == len => {}
                Ok(n) => return Err(wrong_length(len, offset, n)),
                Err(error) => return Err(failed(len, offset, &error)),
            }
        }
        self.buf = buf;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::Fixed;
    use pagewell::Cache;
    use pagewell::io::MemoryBackend;

    #[test]
    fn futures_read_what_is_there_and_a_short_read_fails_them() {
        let cache = Cache::builder().build().unwrap();
        let backend = MemoryBackend::new(vec![7; 6000]);
        let file = cache.open_backend(backend, "file").unwrap();
        let mut op = AsyncOp::new(file.clone(), Fixed(100), 64);
        assert_eq!(op.batch(5), Ok(()));
        assert_eq!(op.buf, [7; 64]);
        let mut op = AsyncOp::new(file, Fixed(5990), 64);
        assert!(op.batch(3).unwrap_err().contains("gave 10 bytes"));
    }
}
