//! A file that one actor uses, and a model of its bytes.

use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use pagewell::io::Direct;
use pagewell::{Cache, Error, File, OpenOptions};
use pagewell_testkit::wait::block_on;
use pagewell_testkit::{Rng, content};

use crate::PAGE;
use crate::executors::{Inline, Task};
use crate::faults::{SlowMemory, slow_memory};
use crate::journal::step;
use crate::shared::{Shared, page_ranges, same, sub_range};

/// Maximum length in bytes of the file.
const MAX_BYTES: usize = 24 * PAGE;

pub(crate) struct Own {
    backend: Backend,
    model: Vec<u8>,
    pub(crate) handles: Vec<File>,
}

enum Backend {
    Disk(PathBuf, Direct),
    Memory(SlowMemory),
}

impl Own {
    pub(crate) fn new(path: PathBuf, rng: &mut Rng) -> Self {
        let model = content(rng.next_u64(), rng.index(MAX_BYTES));
        let backend = match rng.below(3) {
            0 => Backend::Memory(slow_memory(model.clone(), rng.next_u64())),
            kind => {
                fs::write(&path, &model).unwrap();
                Backend::Disk(path, [Direct::Never, Direct::Auto][kind as usize - 1])
            }
        };
        Self {
            backend,
            model,
            handles: Vec::new(),
        }
    }

    fn check_stored(&self) {
        let stored = match &self.backend {
            Backend::Disk(path, _) => fs::read(path).unwrap(),
            Backend::Memory(backend) => {
                let mut bytes = Vec::new();
                backend.inner().modify(|stored| bytes.clone_from(stored));
                bytes
            }
        };
        same(&stored, &self.model, 0).expect("bytes of a closed file");
    }

    fn try_open(&self, shared: &Shared, cache: &Cache, opts: OpenOptions) -> Result<File, Error> {
        shared.open(|| match &self.backend {
            Backend::Disk(path, direct) => cache.open_with(path, &opts.direct(*direct)),
            Backend::Memory(backend) => cache.open_backend_with(Arc::clone(backend), "own", &opts),
        })
    }

    pub(crate) fn open(&mut self, shared: &Shared, cache: &Cache, rng: &mut Rng) {
        let mut options = OpenOptions::new().write();
        match rng.below(8) {
            // An open of a backend ignores this option.
            0 if matches!(self.backend, Backend::Disk(..)) => {
                options = options.truncate();
                self.model.clear();
            }
            1 => options = options.create(),
            _ => {}
        }
        let file = self.try_open(shared, cache, options).unwrap();
        assert_eq!(file.size(), self.model.len() as u64, "size at the open");
        self.handles.push(file);
    }

    /// Opens with options that the open file contradicts: nothing changes, even with `truncate`.
    pub(crate) fn refused_open(&self, shared: &Shared, cache: &Cache, rng: &mut Rng) {
        let mut options = OpenOptions::new();
        if rng.one_in(2) {
            options = options.truncate();
        }
        let options = match rng.below(3) {
            0 => options.page_size(16 * PAGE),
            1 => options.before_write(|_, _| Ok(())),
            _ => options.page_size(100),
        };
        let result = self.try_open(shared, cache, options);
        assert!(result.is_err(), "an open that contradicts the open file");
        let mut bytes = vec![0; self.model.len() + 10];
        let n = self.handles[0].read_at(&mut bytes, 0).unwrap();
        same(&bytes[..n], &self.model, 0).unwrap();
    }

    pub(crate) fn close(&mut self, rng: &mut Rng) {
        for file in self.handles.drain(..).rev() {
            match rng.one_in(2) {
                true => file.close().unwrap(),
                false => drop(file),
            }
        }
        self.check_stored();
    }

    /// Performs a random operation on an open file.
    pub(crate) fn operate(&mut self, rng: &mut Rng) {
        let (len, nr) = (self.model.len(), rng.index(self.handles.len()));
        let range = sub_range(rng, len, 3 * PAGE);
        let op = rng.below(10);
        step(format!("operation {op} on {len} bytes"), || {
            let (model, file) = (&mut self.model, &self.handles[nr]);
            match op {
                0 | 1 => {
                    let bytes = content(rng.next_u64(), rng.index(3 * PAGE));
                    let start = rng.index((len + PAGE).min(MAX_BYTES));
                    let n = file.write_at(&bytes, start as u64).unwrap();
                    assert_eq!(n, bytes.len(), "a short write");
                    if n != 0 {
                        model.resize(len.max(start + n), 0);
                        model[start..start + n].copy_from_slice(&bytes);
                    }
                }
                2 if len < MAX_BYTES => {
                    let bytes = content(rng.next_u64(), 1 + rng.index(2 * PAGE));
                    let appended = file.append(&bytes).unwrap();
                    assert_eq!(appended.start, len as u64, "start of an append");
                    model.extend_from_slice(&bytes);
                }
                3 => {
                    let size = rng.index(MAX_BYTES);
                    file.set_size(size as u64).unwrap();
                    model.resize(size, 0);
                }
                4 => match rng.below(3) {
                    0 => file.sync_data().unwrap(),
                    1 => file.sync_all().unwrap(),
                    _ => drop(file.flush(0..u64::MAX).unwrap()),
                },
                5 => file.invalidate(range.start as u64..range.end as u64),
                6 => drop(file.prefetch(&page_ranges(rng, len)).unwrap()),
                7 if rng.one_in(2) => {
                    let copy = file.clone();
                    self.handles.push(copy);
                }
                7 if self.handles.len() > 1 => drop(self.handles.remove(nr)),
                8 if len != 0 => {
                    let page = rng.index(len.div_ceil(PAGE));
                    let guard = file.pin(page as u64).unwrap();
                    let start = page * PAGE;
                    same(&guard, &model[start..len.min(start + PAGE)], start).unwrap();
                }
                _ => {
                    let mut buf = vec![0; range.len()];
                    let n = file.read_at(&mut buf, range.start as u64).unwrap();
                    same(&buf[..n], &model[range.clone()], range.start).unwrap();
                }
            }
        });
    }

    /// Leaves the last handle to a task, which its waker may run, and which drops the handle.
    pub(crate) fn end_in_task(&mut self, rng: &mut Rng) {
        let is_inline = !rng.one_in(3);
        step(format!("a task drops the file, inline {is_inline}"), || {
            let file = self.handles.pop().unwrap();
            self.handles.clear();
            let task = last_task(file, self.model.clone(), Rng::new(rng.next_u64()));
            if is_inline {
                let (task, is_done) = Inline::start(task);
                drop(task);
                is_done.recv().expect("a task that is woken").unwrap();
            } else {
                block_on(task).unwrap();
            }
            self.check_stored();
        });
    }
}

/// Returns a task that reads the file, and drops its last handle with other reads in flight.
fn last_task(file: File, model: Vec<u8>, mut rng: Rng) -> Task {
    Box::pin(async move {
        let range = sub_range(&mut rng, model.len(), 2 * PAGE);
        if rng.one_in(2) {
            file.sync_data_async().await?;
        }
        file.invalidate(0..u64::MAX);
        {
            let mut read = pin!(file.read_at_async(vec![0; range.len()], range.start as u64));
            let begun = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await;
            file.prefetch(&page_ranges(&mut rng, model.len()))?;
            let (buf, result) = match begun {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => read.await,
            };
            same(&buf[..result?], &model[range.clone()], range.start)?;
        }
        drop(file);
        Ok(())
    })
}
