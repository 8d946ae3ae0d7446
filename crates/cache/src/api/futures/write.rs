use std::future::Future;
use std::mem;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pagewell_sync::thread::Backoff;

use super::{Outcome, Task, after};
use crate::api::file::File;
use crate::base::edit::Edit;
use crate::base::error::{Error, Op};
use crate::dirty::commits::Sync;
use crate::index::file_index::WATCHES;
use crate::read::task::Step;
use crate::write::growth::{Grower, Writer};
use crate::write::lock_wait::leave_waker;
use crate::write::page::{Attempt, Bound, PageWriter, Throttle};
use crate::writeback::flush::Flusher;

/// Future of a write: [`File::write_at_async`].
#[derive(Debug)]
#[must_use = "nothing is written before it is polled"]
pub struct WriteAt<'f> {
    task: Task<'f, usize>,
    offset: u64,
    done: usize,
}

/// Future of an append: [`File::append_async`].
#[derive(Debug)]
#[must_use = "nothing is written before it is polled"]
pub struct Append<'f>(Task<'f, Range<u64>>);

impl File {
    /// Writes as [`write_at`](Self::write_at) does, without blocking. Returns the buffer, with the
    /// number of its bytes that were written. If the future is dropped before it is ready, any part
    /// of the bytes may be written, even after the drop.
    ///
    /// # Errors
    ///
    /// Those of [`write_at`](Self::write_at). [`Deadlock`](crate::ErrorKind::Deadlock) in a
    /// callback of the file.
    pub fn write_at_async(&self, buf: Vec<u8>, offset: u64) -> WriteAt<'_> {
        WriteAt {
            task: Task::new(self, buf),
            offset,
            done: 0,
        }
    }

    /// Appends as [`append`](Self::append) does, without blocking. Returns the buffer, and its byte
    /// range in the file. If the future is dropped before it is ready, the buffer may or may not be
    /// appended. Concurrent appends may be made in any order. A task that has pinned the file's
    /// last page for writing ([`pin_mut`](Self::pin_mut)) should publish it first: until then the
    /// append occupies a thread of the cache.
    ///
    /// # Errors
    ///
    /// Those of [`append`](Self::append); [`Deadlock`](crate::ErrorKind::Deadlock) in a callback.
    pub fn append_async(&self, buf: Vec<u8>) -> Append<'_> {
        Append(Task::new(self, buf))
    }
}

impl WriteAt<'_> {
    fn go_on(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        let mapping = self.task.mapping();
        let writes = self.task.file.writes(Op::Write)?;
        Grower(mapping).checked_end(writes, self.offset, self.task.buf.len())?;
        let page_size = mapping.page_size();
        let mut backoff = Backoff::new();
        while self.done < self.task.buf.len() {
            let pos = self.offset + self.done as u64;
            let rest = self.task.buf.len() - self.done;
            if pos + rest as u64 > mapping.size() {
                return self.offload(context);
            }
            let (page, off) = (pos >> mapping.page_shift(), pos as usize & (page_size - 1));
            let bytes = &self.task.buf[self.done..][..rest.min(page_size - off)];
            let edit = Edit::bytes(off, bytes, 0);
            let how = (Bound::Within, Throttle::AtShare);
            let writer = PageWriter(mapping);
            match writer.try_write_page(writes, page, edit, how, &mut None) {
                Ok(Attempt::Done) => {
                    self.done += bytes.len();
                    self.task.waiting.take_out(mapping);
                }
                Ok(Attempt::Raced) if backoff.rounds() < WATCHES => backoff.wait(),
                Ok(Attempt::Locked(lock)) => {
                    self.task.waiting.take_out(mapping);
                    match leave_waker(mapping, writes, (page, lock), context.waker()) {
                        Ok(Some(left)) => {
                            self.task.waiting.leave(left);
                            return Poll::Pending;
                        }
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(self.after(error)),
                    }
                }
                // Fill the page, or wait for it, as a reader does. Then try the write again.
                Ok(Attempt::Raced | Attempt::Missing) if bytes.len() < page_size => {
                    let guide = |_, wanted| wanted;
                    let waiting = &mut self.task.waiting;
                    match waiting.find(mapping, (page, 1), &guide, context.waker()) {
                        Ok(Step::Done(found)) => drop(found),
                        Ok(Step::Pending) => return Poll::Pending,
                        Ok(Step::Call) => return self.offload(context),
                        Err(error) => return Poll::Ready(self.after(error)),
                    }
                }
                Ok(_) => return self.offload(context),
                Err(error) => return Poll::Ready(self.after(error)),
            }
        }
        Poll::Ready(Ok(self.done))
    }

    fn after(&self, error: Error) -> Result<usize, Error> {
        after(self.done, Err(error.with_op(Op::Write)))
    }

    #[cold]
    fn offload(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        self.task.file.check_may_wait(Op::Write)?;
        let (offset, done) = (self.offset, self.done);
        self.task.offload(Op::Write, context, move |mapping, buf| {
            let pos = offset + done as u64;
            after(done, Writer(mapping).write_bytes(&buf[done..], pos, 0))
        })
    }
}

impl Future for WriteAt<'_> {
    type Output = Outcome<usize>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let result = match this.task.errand {
            Some(_) => ready!(this.task.poll_call(Op::Write, context)),
            None => ready!(this.go_on(context)),
        };
        let result = this.task.file.tells(result);
        Poll::Ready((mem::take(&mut this.task.buf), result))
    }
}

impl Future for Append<'_> {
    type Output = Outcome<Range<u64>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let task = &mut self.get_mut().0;
        let result = match task.errand {
            Some(_) => ready!(task.poll_call(Op::Write, context)),
            None => match task.file.check_may_wait(Op::Write) {
                Ok(()) => ready!(task.offload(Op::Write, context, |mapping, buf| {
                    Grower(mapping).append_bytes(buf, 0)
                })),
                Err(error) => return Poll::Ready((mem::take(&mut task.buf), Err(error))),
            },
        };
        let result = task.file.tells(result);
        Poll::Ready((mem::take(&mut task.buf), result))
    }
}

/// Future of a sync: [`File::sync_data_async`].
#[derive(Debug)]
#[must_use = "nothing is made durable before it is polled"]
pub struct SyncData<'f>(Task<'f, ()>);

impl File {
    /// Syncs what was written before the first poll, as [`sync_data`](Self::sync_data) does.
    ///
    /// # Errors
    ///
    /// See [`sync_data`](Self::sync_data).
    pub fn sync_data_async(&self) -> SyncData<'_> {
        SyncData(Task::new(self, Vec::new()))
    }
}

impl Future for SyncData<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let task = &mut self.get_mut().0;
        let result = match task.errand {
            Some(_) => ready!(task.poll_call(Op::Sync, context)),
            None => {
                task.file.check_may_wait(Op::Sync)?;
                ready!(task.offload(Op::Sync, context, |mapping, _| {
                    Flusher(mapping).sync(Sync::Data)
                }))
            }
        };
        Poll::Ready(task.file.told(result, Op::Sync))
    }
}
