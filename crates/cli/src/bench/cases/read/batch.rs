//! Reads in batches: `read_many`.

use std::hint::black_box;

use pagewell::{Error, File, ReadRequest};

use super::reader::{Reader, failed, wrong_length};
use crate::bench::crew::Op;
use crate::bench::data::{Buffer, Positions};

/// How many reads a batch has.
const BATCH: usize = 16;

/// Reads with `read_many`, one at a time: for what is checked before anything is measured.
pub(super) struct Batch(pub(super) File);

impl Reader for Batch {
    type Error = Error;

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let mut requests = [ReadRequest::new(offset, buf)];
        self.0.read_many(&mut requests);
        let [request] = requests;
        request.result
    }
}

/// One worker's reads, [`BATCH`] at a time. A batch has a buffer for each of its reads.
pub(super) struct BatchOp<P> {
    file: File,
    positions: P,
    buffers: Vec<Buffer>,
}

impl<P: Positions> BatchOp<P> {
    pub(super) fn new(file: File, positions: P, block: usize) -> BatchOp<P> {
        BatchOp {
            file,
            positions,
            buffers: (0..BATCH).map(|_| Buffer::new(block)).collect(),
        }
    }
}

impl<P: Positions> Op for BatchOp<P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let BatchOp {
            file,
            positions,
            buffers,
        } = self;
        let mut requests: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| ReadRequest::new(0, black_box(buffer.block())))
            .collect();
        let mut left = times as usize;
        while left != 0 {
            let now = left.min(BATCH);
            let requests = &mut requests[..now];
            for request in &mut *requests {
                request.offset = positions.next();
            }
            file.read_many(requests);
            for request in &mut *requests {
                let (wanted, offset) = (request.buf.len(), request.offset);
                match &request.result {
                    Ok(n) if *n == wanted => {}
                    Ok(n) => return Err(wrong_length(wanted, offset, *n)),
                    Err(error) => return Err(failed(wanted, offset, error)),
                }
                black_box(request.buf.as_mut_ptr());
            }
            left -= now;
        }
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
    fn a_batch_reads_as_often_as_told_and_a_short_read_fails_it() {
        let cache = Cache::builder().build().unwrap();
        let backend = MemoryBackend::new(vec![7; 6000]);
        let file = cache.open_backend(backend, "file").unwrap();
        for times in [1, 16, 17, 40] {
            let mut op = BatchOp::new(file.clone(), Fixed(100), 64);
            assert_eq!(op.batch(times), Ok(()));
            let bytes = op.buffers.iter_mut().map(|buffer| buffer.block()[0]);
            let read = bytes.filter(|byte| *byte == 7);
            assert_eq!(read.count(), BATCH.min(times as usize));
        }
        let mut op = BatchOp::new(file, Fixed(5990), 64);
        assert!(op.batch(3).unwrap_err().contains("gave 10 bytes"));
    }
}
