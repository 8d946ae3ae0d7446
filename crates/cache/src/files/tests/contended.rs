//! Behaviour of a thread that finds a slot claimed.

use std::sync::Arc;

use pagewell_frame::refcount::LockBit;
use pagewell_frame::{FRAME_BYTES, FramePool, PoolConfig};
use pagewell_io::MemoryBackend;
use pagewell_sync::thread::Backoff;
use pagewell_testkit::wait::bounded;

use crate::base::page::PageSize;
use crate::dirty::options::Access;
use crate::files::opened::Opened;
use crate::files::setup::files_of;
use crate::index::file_index::WATCHES;
use crate::mapping::record::How;
use crate::read::lookup::Lookup;

/// Regression test: two writers of one page slept, and woke each other, for nearly every write.
#[test]
fn who_meets_a_claim_looks_a_few_times_before_it_sleeps() {
    bounded("looking a few times", || {
        let files = files_of::<LockBit>(FramePool::new(&PoolConfig::new(256)).unwrap());
        let storage = Arc::new(MemoryBackend::new(vec![0; FRAME_BYTES]));
        let page_size = PageSize::SMALLEST;
        let opened = Opened::of_backend(
            &files,
            storage,
            "file".into(),
            page_size,
            How::of(Access::Read),
        );
        let (file, _) = opened.unwrap();
        drop(Lookup(&*file).get(0, || 1).unwrap());

        let claim = file.claim_present(0).unwrap();
        let mut backoff = Backoff::new();
        for _ in 0..WATCHES {
            // A thread that sleeps here is never woken.
            file.wait_for_change(0, &mut backoff);
        }
        drop(claim);
    });
}
