//! Notifications of threads that wait for clean pages.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pagewell_frame::{FRAME_BYTES, FramePool, PoolConfig};
use pagewell_io::MemoryBackend;
use pagewell_io_testing::{Fault, FaultBackend, Operation};
use pagewell_testkit::wait::bounded;

use crate::base::error::ErrorKind;
use crate::base::page::PageSize;
use crate::dirty::writes::{Access, WriteOptions};
use crate::files::opened::Opened;
use crate::files::serve::files_of;
use crate::mapping::record::How;
use crate::write::growth::Grower;

/// The pages of the append count toward the file's quota until they are removed.
#[test]
fn failed_append_notifies_throttled_writers() {
    bounded("a notification", || {
        let files = files_of(FramePool::new(&PoolConfig::new(256)).unwrap());
        let backend = MemoryBackend::writable(vec![0; FRAME_BYTES / 2]);
        let backend = FaultBackend::with_script(backend, |operation| match operation {
            Operation::Read { .. } => Fault::Fail(std::io::ErrorKind::Other.into()),
            _ => Fault::None,
        });
        let (file, _) = Opened::of_backend(
            &files,
            Arc::new(backend),
            "file".into(),
            PageSize::SMALLEST,
            How::of(Access::Write(WriteOptions::default())),
        )
        .unwrap();
        let waiter = file.shared().pressure.changed.waiter();
        let (send, began) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut nr_looks = 0;
                waiter.wait(|| {
                    nr_looks += 1;
                    send.send(()).unwrap();
                    // Longer than the bound of the test.
                    (nr_looks == 1).then_some(Duration::from_secs(100_000))
                });
            });
            began.recv().unwrap();
            // The page with the end of the file is written last. It must be read before.
            let appended = Grower(&file).append_bytes(&[1; 2 * FRAME_BYTES], 0);
            assert_eq!(appended.unwrap_err().kind(), ErrorKind::Io);
        });
        assert_eq!(file.writes_if_any().unwrap().share.nr(), 0);
    });
}
