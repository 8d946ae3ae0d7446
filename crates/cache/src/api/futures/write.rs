use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, mem};

use pagewell_io::pools::Errand;
use pagewell_sync::thread::Backoff;

use super::{call, given_up, poll_call};
use crate::api::file::File;
use crate::base::edit::Edit;
use crate::base::error::{Error, Op};
use crate::dirty::commits::Sync;
use crate::index::file_index::WATCHES;
use crate::read::task::{Step, Waiting};
use crate::write::growth::{Grower, Writer};
use crate::write::lock_wait::leave_waker;
use crate::write::page::{Attempt, Bound, PageWriter, Throttle};
use crate::writeback::flush::Flusher;

type Outcome<T> = (Vec<u8>, Result<T, Error>);

/// Future of a write: [`File::write_at_async`].
#[must_use = "nothing is written before it is polled"]
pub struct WriteAt<'f> {
    file: &'f File,
    buf: Vec<u8>,
    offset: u64,
    done: usize,
    waiting: Waiting,
    errand: Option<Errand<Outcome<usize>>>,
}

/// Future of an append: [`File::append_async`].
#[must_use = "nothing is written before it is polled"]
pub struct Append<'f> {
    file: &'f File,
    buf: Vec<u8>,
    errand: Option<Errand<Outcome<Range<u64>>>>,
}

impl fmt::Debug for WriteAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteAt")
            .field("offset", &self.offset)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Append<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Append").finish_non_exhaustive()
    }
}

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
            file: self,
            buf,
            offset,
            done: 0,
            waiting: Waiting::default(),
            errand: None,
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
        Append {
            file: self,
            buf,
            errand: None,
        }
    }
}

impl WriteAt<'_> {
    fn go_on(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        let mapping = self.file.mapping();
        let writes = self.file.writes(Op::Write)?;
        Grower(mapping).checked_end(writes, self.offset, self.buf.len())?;
        let page_size = mapping.page_size();
        let mut backoff = Backoff::new();
        while self.done < self.buf.len() {
            let pos = self.offset + self.done as u64;
            let rest = self.buf.len() - self.done;
            if pos + rest as u64 > mapping.size() {
                return self.begin_call(context);
            }
            let (page, off) = (pos >> mapping.page_shift(), pos as usize & (page_size - 1));
            let bytes = &self.buf[self.done..][..rest.min(page_size - off)];
            let edit = Edit::bytes(off, bytes, 0);
            let how = (Bound::Within, Throttle::AtShare);
            let writer = PageWriter(mapping);
            match writer.try_write_page(writes, page, edit, how, &mut None) {
                Ok(Attempt::Done) => {
                    self.done += bytes.len();
                    self.waiting.take_out(mapping);
                }
                Ok(Attempt::Raced) if backoff.rounds() < WATCHES => backoff.wait(),
                Ok(Attempt::Locked(lock)) => {
                    self.waiting.take_out(mapping);
                    match leave_waker(mapping, writes, (page, lock), context.waker()) {
                        Ok(Some(left)) => {
                            self.waiting.leave(left);
                            return Poll::Pending;
                        }
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(self.after(error)),
                    }
                }
                // Fill the page, or wait for it, as a reader does. Then try the write again.
                Ok(Attempt::Raced | Attempt::Missing) if bytes.len() < page_size => {
                    let guide = |_, wanted| wanted;
                    let found = self
                        .waiting
                        .find(mapping, (page, 1), &guide, context.waker());
                    match found {
                        Ok(Step::Done(found)) => drop(found),
                        Ok(Step::Pending) => return Poll::Pending,
                        Ok(Step::Call) => return self.begin_call(context),
                        Err(error) => return Poll::Ready(self.after(error)),
                    }
                }
                Ok(_) => return self.begin_call(context),
                Err(error) => return Poll::Ready(self.after(error)),
            }
        }
        Poll::Ready(Ok(self.done))
    }

    fn after(&self, error: Error) -> Result<usize, Error> {
        match self.done {
            0 => Err(error.with_op(Op::Write)),
            done => Ok(done),
        }
    }

    #[cold]
    fn begin_call(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        self.file.check_may_wait(Op::Write)?;
        let mapping = self.file.mapping();
        self.waiting.take_out(mapping);
        let buf = mem::take(&mut self.buf);
        let (offset, done) = (self.offset, self.done);
        self.errand = call(mapping, move |mapping| {
            let pos = offset + done as u64;
            let result = Writer(mapping).write_bytes(&buf[done..], pos, 0);
            let result = match result {
                Ok(n) => Ok(done + n),
                Err(_) if done != 0 => Ok(done),
                Err(error) => Err(error),
            };
            (buf, result)
        });
        self.poll_call(context)
    }

    fn poll_call(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        let outcome = ready!(poll_call(&mut self.errand, context));
        let failed = || (Vec::new(), Err(given_up(self.file.mapping(), Op::Write)));
        let (buf, result) = outcome.unwrap_or_else(failed);
        self.buf = buf;
        Poll::Ready(result)
    }
}

impl Future for WriteAt<'_> {
    type Output = Outcome<usize>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let result = match this.errand {
            Some(_) => ready!(this.poll_call(context)),
            None => ready!(this.go_on(context)),
        };
        let result = this.file.tells(result);
        Poll::Ready((mem::take(&mut this.buf), result))
    }
}

impl Drop for WriteAt<'_> {
    fn drop(&mut self) {
        self.waiting.take_out(self.file.mapping());
    }
}

impl Future for Append<'_> {
    type Output = Outcome<Range<u64>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.errand.is_none() {
            if let Err(error) = this.file.check_may_wait(Op::Write) {
                return Poll::Ready((mem::take(&mut this.buf), Err(error)));
            }
            let buf = mem::take(&mut this.buf);
            this.errand = call(this.file.mapping(), move |mapping| {
                let result = Grower(mapping).append_bytes(&buf, 0);
                (buf, result)
            });
        }
        let outcome = ready!(poll_call(&mut this.errand, context));
        let failed = || (Vec::new(), Err(given_up(this.file.mapping(), Op::Write)));
        let (buf, result) = outcome.unwrap_or_else(failed);
        Poll::Ready((buf, this.file.tells(result)))
    }
}

/// Future of a sync: [`File::sync_data_async`].
#[must_use = "nothing is made durable before it is polled"]
pub struct SyncData<'f> {
    file: &'f File,
    errand: Option<Errand<Result<(), Error>>>,
}

impl fmt::Debug for SyncData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncData").finish_non_exhaustive()
    }
}

impl File {
    /// Syncs what was written before the first poll, as [`sync_data`](Self::sync_data) does.
    ///
    /// # Errors
    ///
    /// See [`sync_data`](Self::sync_data).
    pub fn sync_data_async(&self) -> SyncData<'_> {
        SyncData {
            file: self,
            errand: None,
        }
    }
}

impl Future for SyncData<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.errand.is_none() {
            this.file.check_may_wait(Op::Sync)?;
            this.errand = call(this.file.mapping(), |mapping| {
                Flusher(mapping).sync(Sync::Data)
            });
        }
        let outcome = ready!(poll_call(&mut this.errand, context));
        let failed = || Err(given_up(this.file.mapping(), Op::Sync));
        let result = outcome.unwrap_or_else(failed);
        Poll::Ready(this.file.told(result, Op::Sync))
    }
}
