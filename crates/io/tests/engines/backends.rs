//! Backends with which each engine is tested.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use pagewell_io::engine::{Deferred, Engine, Kind, Request};
use pagewell_io::{Backend, Direct, FileBackend, FileId, FileOptions, MemoryBackend};
use pagewell_io_testing::{Fault, FaultBackend};
use pagewell_sync::bytes::{RacyBytes, RacySource};

use crate::support::{engines, write};

/// A file with these bytes, which has no name.
pub(crate) fn file(bytes: &[u8], direct: Direct, dir: &Path) -> FileBackend {
    let path = dir.join("file");
    let options = FileOptions::new().create_new().direct(direct);
    let file = FileBackend::open_writable(&path, &options).unwrap();
    std::fs::remove_file(&path).unwrap();
    write(&file, 0, bytes).unwrap();
    file
}

/// A storage that completes on a thread of its own, the last request first.
#[derive(Debug)]
struct Later {
    inner: Arc<MemoryBackend>,
    requests: Arc<(Mutex<VecDeque<Request>>, Condvar)>,
}

impl Later {
    fn new(bytes: Vec<u8>) -> Self {
        let inner = Arc::new(MemoryBackend::writable(bytes));
        let requests = Arc::new((Mutex::new(VecDeque::<Request>::new()), Condvar::new()));
        let (storage, inbox) = (Arc::clone(&inner), Arc::downgrade(&requests));
        thread::spawn(move || {
            while let Some(requests) = inbox.upgrade() {
                let list = requests.0.lock().unwrap();
                let wait = std::time::Duration::from_millis(10);
                let next = requests
                    .1
                    .wait_timeout_while(list, wait, |list| list.is_empty());
                let next = next.unwrap().0.pop_back();
                let Some(request) = next else {
                    continue;
                };
                let result = match request.kind() {
                    Kind::Read => storage.read_at(&request.buffers(), request.pos()),
                    Kind::Write => {
                        let nr = request.nr_left();
                        let written = storage.write_at(&request.sources(), request.pos());
                        written.map(|()| nr)
                    }
                    Kind::SyncData => storage.sync_data().map(|()| 0),
                    Kind::SetSize(size) => storage.set_size(size).map(|()| 0),
                    _ => storage.sync_all().map(|()| 0),
                };
                request.complete(result);
            }
        });
        Self { inner, requests }
    }
}

impl Backend for Later {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.inner.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        self.inner.write_at(bufs, pos)
    }

    fn deferred(&self) -> Option<&dyn Deferred> {
        Some(self)
    }
}

impl Deferred for Later {
    fn start(&self, request: Request) {
        self.requests.0.lock().unwrap().push_back(request);
        self.requests.1.notify_one();
    }
}

/// Each kind of storage that can be written, with these bytes.
pub(crate) fn storages(bytes: &[u8], dir: &Path) -> Vec<(&'static str, Arc<dyn Backend>)> {
    let sane = FaultBackend::with_script(MemoryBackend::writable(bytes.to_vec()), |_| Fault::None);
    vec![
        ("file", Arc::new(file(bytes, Direct::Never, dir))),
        ("direct file", Arc::new(file(bytes, Direct::Auto, dir))),
        ("memory", Arc::new(MemoryBackend::writable(bytes.to_vec()))),
        ("wrapped memory", Arc::new(sane)),
        ("deferred memory", Arc::new(Later::new(bytes.to_vec()))),
    ]
}

/// Each engine with each storage.
pub(crate) fn each(bytes: &[u8], mut check: impl FnMut(&str, &Arc<dyn Engine>, &Arc<dyn Backend>)) {
    let dir = pagewell_testkit::scratch::dir();
    for (engine_name, engine) in engines() {
        for (name, storage) in storages(bytes, dir.path()) {
            check(&format!("{engine_name}, {name}"), &engine, &storage);
        }
    }
}
