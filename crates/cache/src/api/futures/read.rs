use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, mem};

use pagewell_sync::Arc;

use super::{Outcome, Task, after};
use crate::api::file::File;
use crate::base::error::{Error, ErrorKind, Op};
use crate::read::ahead::Prefetcher;
use crate::read::lookup::{Found, Lookup};
use crate::read::pinner::OwnedPageGuard;
use crate::read::reader::{FastRead, Guide, ReadPath, Reader};
use crate::read::task::Step;

/// Future of a read: [`File::read_at_async`].
#[derive(Debug)]
#[must_use = "nothing is read before it is polled"]
pub struct ReadAt<'f> {
    task: Task<'f, usize>,
    offset: u64,
    done: usize,
}

/// Future of many reads: [`File::read_many_async`].
#[must_use = "nothing is read before it is polled"]
pub struct ReadMany<'f> {
    file: &'f File,
    reads: std::vec::IntoIter<(u64, Vec<u8>)>,
    now: Option<ReadAt<'f>>,
    done: Vec<Outcome<usize>>,
    is_begun: bool,
}

impl fmt::Debug for ReadMany<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadMany")
            .field("done", &self.done.len())
            .field("left", &self.reads.len())
            .finish_non_exhaustive()
    }
}

impl File {
    /// Reads as [`read_at`](Self::read_at) does, without blocking, and returns the buffer too.
    ///
    /// # Errors
    ///
    /// See [`read_at`](Self::read_at).
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*;
    /// #     pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// # fn block_on<F: std::future::Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop {
    /// #         if let std::task::Poll::Ready(answer) = future.as_mut().poll(&mut context) {
    /// #             return answer;
    /// #         }
    /// #     }
    /// # }
    /// # let cache = pagewell::Cache::builder().build()?;
    /// # let bytes = pagewell::io::MemoryBackend::new((0..=255).collect());
    /// # let file = cache.open_backend(bytes, "bytes")?;
    /// # block_on(async {
    /// let (buf, result) = file.read_at_async(vec![0; 4], 250).await;
    /// assert_eq!((result?, &buf[..]), (4, &[250, 251, 252, 253][..]));
    /// # Ok::<(), pagewell::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_at_async(&self, buf: Vec<u8>, offset: u64) -> ReadAt<'_> {
        ReadAt {
            task: Task::new(self, buf),
            offset,
            done: 0,
        }
    }

    /// Reads as [`read_many`](Self::read_many) does, without blocking: returns the buffers with the
    /// numbers of bytes read. Reads the missing pages concurrently, unless a submission would wait.
    pub fn read_many_async(&self, reads: Vec<(u64, Vec<u8>)>) -> ReadMany<'_> {
        ReadMany {
            file: self,
            done: Vec::with_capacity(reads.len()),
            reads: reads.into_iter(),
            now: None,
            is_begun: false,
        }
    }
}

impl ReadAt<'_> {
    fn go_on(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        let mapping = self.task.mapping();
        if let Err(error) = mapping.check_home(Op::Read) {
            return Poll::Ready(Err(error));
        }
        let guide = self.task.file.guide();
        let page_size = mapping.page_size();
        while self.done < self.task.buf.len() {
            let Some(now) = self.offset.checked_add(self.done as u64) else {
                break;
            };
            let rest_of_file = mapping.size().saturating_sub(now);
            let rest = self.task.buf.len() - self.done;
            let wanted = rest.min(usize::try_from(rest_of_file).unwrap_or(usize::MAX));
            if wanted == 0 {
                break;
            }
            let (page, off) = (now >> mapping.page_shift(), now as usize & (page_size - 1));
            let chunk = &mut self.task.buf[self.done..][..wanted.min(page_size - off)];
            let reader = Reader(mapping);
            if reader.read_page_optimistic(now, chunk) == FastRead::Done {
                self.done += chunk.len();
                continue;
            }
            if guide.marks() && Lookup(mapping).mark(page) {
                guide.on_touch(page);
            }
            if Lookup(mapping).is_under_way(page) {
                guide.on_touch(page);
            }
            let nr_pages = (off + wanted).div_ceil(page_size);
            let find = (page, nr_pages);
            let waiting = &mut self.task.waiting;
            match waiting.find(mapping, find, &guide, context.waker()) {
                Ok(Step::Done(Found { reference, end })) => {
                    let n = end.saturating_sub(now).min(chunk.len() as u64) as usize;
                    let (here, past_end) = chunk.split_at_mut(n);
                    reference.bytes().copy_to(off, here);
                    past_end.fill(0);
                    self.done += n;
                    if !past_end.is_empty() {
                        break;
                    }
                }
                Ok(Step::Pending) => return Poll::Pending,
                Ok(Step::Call) => return self.offload(context),
                Err(error) => {
                    if self.done == 0 && error.kind() != ErrorKind::OutOfRange {
                        return Poll::Ready(Err(error));
                    }
                    break;
                }
            }
        }
        self.zero_rest();
        Poll::Ready(Ok(self.done))
    }

    /// Zeros the rest of `buf`, which may have bytes of another page after a failed copy.
    fn zero_rest(&mut self) {
        if let Some(rest) = self.task.buf.get_mut(self.done..) {
            Reader(self.task.file.mapping()).wipe(rest);
        }
    }

    fn offload(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        let (offset, done) = (self.offset, self.done);
        self.task.offload(Op::Read, context, move |mapping, buf| {
            let pos = offset.saturating_add(done as u64);
            let guide = |_, wanted| wanted;
            let path = ReadPath::Optimistic;
            after(
                done,
                Reader(mapping).read_pages(&mut buf[done..], pos, path, guide),
            )
        })
    }
}

impl Future for ReadAt<'_> {
    type Output = Outcome<usize>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<usize>> {
        let this = self.get_mut();
        let task = &mut this.task;
        if this.done == 0
            && task.errand.is_none()
            && Reader(task.mapping()).read_short(&mut task.buf, this.offset) == FastRead::Done
        {
            let buf = mem::take(&mut task.buf);
            let len = buf.len();
            return Poll::Ready((buf, Ok(len)));
        }
        this.poll_any(context)
    }
}

impl ReadAt<'_> {
    #[inline(never)]
    fn poll_any(&mut self, context: &Context<'_>) -> Poll<Outcome<usize>> {
        let result = match self.task.errand {
            Some(_) => ready!(self.task.poll_call(Op::Read, context)),
            None => ready!(self.go_on(context)),
        };
        if result.is_err() {
            self.zero_rest();
        }
        Poll::Ready((mem::take(&mut self.task.buf), result))
    }
}

impl<'f> Future for ReadMany<'f> {
    type Output = Vec<Outcome<usize>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Outcome<usize>>> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.is_begun, true) {
            this.begin();
        }
        loop {
            let file = this.file;
            let now = match &mut this.now {
                Some(now) => now,
                now => match this.reads.next() {
                    Some((offset, buf)) => now.insert(file.read_at_async(buf, offset)),
                    None => return Poll::Ready(mem::take(&mut this.done)),
                },
            };
            let outcome = ready!(Pin::new(now).poll(context));
            this.done.push(outcome);
            this.now = None;
        }
    }
}

impl ReadMany<'_> {
    fn begin(&mut self) {
        let mapping = self.file.mapping();
        if mapping.check_home(Op::Read).is_err() {
            return;
        }
        let mut prefetcher = Prefetcher::new(mapping);
        for (offset, buf) in self.reads.as_slice() {
            let end = offset.saturating_add(buf.len() as u64);
            if !prefetcher.add(self.file.pages_of(*offset..end)) {
                break;
            }
        }
        prefetcher.submit();
    }
}

/// Future of a pin: [`File::pin_async`].
#[derive(Debug)]
#[must_use = "nothing is pinned before it is polled"]
pub struct PinPage<'f> {
    task: Task<'f, OwnedPageGuard>,
    page: u64,
}

impl File {
    /// Pins as [`pin_owned`](Self::pin_owned) does, without blocking.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    pub fn pin_async(&self, page: u64) -> PinPage<'_> {
        let task = Task::new(self, Vec::new());
        PinPage { task, page }
    }
}

impl PinPage<'_> {
    fn go_on(&mut self, context: &Context<'_>) -> Poll<Result<OwnedPageGuard, Error>> {
        let mapping = self.task.mapping();
        mapping.check_home(Op::Pin)?;
        let past_end = || mapping.error(ErrorKind::OutOfRange, Op::Pin);
        let page_size = mapping.page_size() as u64;
        let page = self.page;
        let start = page
            .checked_mul(page_size)
            .filter(|start| *start < mapping.size())
            .ok_or_else(past_end)?;
        let (waiting, guide) = (&mut self.task.waiting, self.task.file.guide());
        match waiting.find(mapping, (page, 1), &guide, context.waker())? {
            Step::Done(found) => {
                let len = found.end.saturating_sub(start).min(page_size);
                if len == 0 {
                    return Poll::Ready(Err(past_end()));
                }
                let guard = OwnedPageGuard::of(mapping, page, found.reference, len as usize);
                Poll::Ready(Ok(guard))
            }
            Step::Pending => Poll::Pending,
            Step::Call => {
                let pin = move |mapping: &Arc<_>, _: &mut [u8]| OwnedPageGuard::new(mapping, page);
                self.task.offload(Op::Pin, context, pin)
            }
        }
    }
}

impl Future for PinPage<'_> {
    type Output = Result<OwnedPageGuard, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.task.errand.is_none()
            && let Some(guard) = OwnedPageGuard::announced(this.task.mapping(), this.page)
        {
            return Poll::Ready(Ok(guard));
        }
        let pinned = match this.task.errand {
            Some(_) => ready!(this.task.poll_call(Op::Pin, context)),
            None => ready!(this.go_on(context)),
        };
        Poll::Ready(pinned.map_err(|error| error.with_op(Op::Pin)))
    }
}
