use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, mem};

use pagewell_io::pools::Errand;

use super::{call, given_up, poll_call};
use crate::api::file::File;
use crate::base::error::{Error, ErrorKind, Op};
use crate::read::ahead::Prefetcher;
use crate::read::lookup::{Found, Lookup};
use crate::read::pinner::OwnedPageGuard;
use crate::read::reader::{FastRead, Guide, ReadPath, Reader};
use crate::read::task::{Step, Waiting};

type Outcome = (Vec<u8>, Result<usize, Error>);

/// Future of a read: [`File::read_at_async`].
#[must_use = "nothing is read before it is polled"]
pub struct ReadAt<'f> {
    file: &'f File,
    buf: Vec<u8>,
    offset: u64,
    done: usize,
    waiting: Waiting,
    errand: Option<Errand<Outcome>>,
}

/// Future of many reads: [`File::read_many_async`].
#[must_use = "nothing is read before it is polled"]
pub struct ReadMany<'f> {
    file: &'f File,
    reads: std::vec::IntoIter<(u64, Vec<u8>)>,
    now: Option<ReadAt<'f>>,
    done: Vec<Outcome>,
    is_begun: bool,
}

impl fmt::Debug for ReadAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAt")
            .field("offset", &self.offset)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
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
            file: self,
            buf,
            offset,
            done: 0,
            waiting: Waiting::default(),
            errand: None,
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
        let mapping = self.file.mapping();
        if let Err(error) = mapping.check_home(Op::Read) {
            return Poll::Ready(Err(error));
        }
        let guide = self.file.guide();
        let page_size = mapping.page_size();
        while self.done < self.buf.len() {
            let Some(now) = self.offset.checked_add(self.done as u64) else {
                break;
            };
            let rest_of_file = mapping.size().saturating_sub(now);
            let rest = self.buf.len() - self.done;
            let wanted = rest.min(usize::try_from(rest_of_file).unwrap_or(usize::MAX));
            if wanted == 0 {
                break;
            }
            let (page, off) = (now >> mapping.page_shift(), now as usize & (page_size - 1));
            let chunk = &mut self.buf[self.done..][..wanted.min(page_size - off)];
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
            let found = self
                .waiting
                .find(mapping, (page, nr_pages), &guide, context.waker());
            match found {
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
                Ok(Step::Call) => return self.begin_call(context),
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
        if let Some(rest) = self.buf.get_mut(self.done..) {
            Reader(self.file.mapping()).wipe(rest);
        }
    }

    #[cold]
    fn begin_call(&mut self, context: &Context<'_>) -> Poll<Result<usize, Error>> {
        let mapping = self.file.mapping();
        let mut buf = mem::take(&mut self.buf);
        let (offset, done) = (self.offset, self.done);
        self.errand = call(mapping, move |mapping| {
            let pos = offset.saturating_add(done as u64);
            let path = ReadPath::Optimistic;
            let guide = |_, wanted| wanted;
            let result = Reader(mapping).read_pages(&mut buf[done..], pos, path, guide);
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
        let failed = || (Vec::new(), Err(given_up(self.file.mapping(), Op::Read)));
        let (buf, result) = outcome.unwrap_or_else(failed);
        self.buf = buf;
        Poll::Ready(result)
    }
}

impl Future for ReadAt<'_> {
    type Output = Outcome;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        if this.done == 0
            && this.errand.is_none()
            && Reader(this.file.mapping()).read_short(&mut this.buf, this.offset) == FastRead::Done
        {
            let buf = mem::take(&mut this.buf);
            let len = buf.len();
            return Poll::Ready((buf, Ok(len)));
        }
        this.poll_any(context)
    }
}

impl ReadAt<'_> {
    #[inline(never)]
    fn poll_any(&mut self, context: &Context<'_>) -> Poll<Outcome> {
        let result = match self.errand {
            Some(_) => ready!(self.poll_call(context)),
            None => ready!(self.go_on(context)),
        };
        if result.is_err() {
            self.zero_rest();
        }
        Poll::Ready((mem::take(&mut self.buf), result))
    }
}

impl Drop for ReadAt<'_> {
    #[inline]
    fn drop(&mut self) {
        self.waiting.take_out(self.file.mapping());
    }
}

impl<'f> Future for ReadMany<'f> {
    type Output = Vec<Outcome>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<Outcome>> {
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
#[must_use = "nothing is pinned before it is polled"]
pub struct PinPage<'f> {
    file: &'f File,
    page: u64,
    waiting: Waiting,
    errand: Option<Errand<Result<OwnedPageGuard, Error>>>,
}

impl fmt::Debug for PinPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinPage({})", self.page)
    }
}

impl File {
    /// Pins as [`pin_owned`](Self::pin_owned) does, without blocking.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    pub fn pin_async(&self, page: u64) -> PinPage<'_> {
        PinPage {
            file: self,
            page,
            waiting: Waiting::default(),
            errand: None,
        }
    }
}

impl PinPage<'_> {
    fn go_on(&mut self, context: &Context<'_>) -> Poll<Result<OwnedPageGuard, Error>> {
        let mapping = self.file.mapping();
        mapping.check_home(Op::Pin)?;
        let past_end = || mapping.error(ErrorKind::OutOfRange, Op::Pin);
        let page_size = mapping.page_size() as u64;
        let start = self
            .page
            .checked_mul(page_size)
            .filter(|start| *start < mapping.size())
            .ok_or_else(past_end)?;
        let found = self
            .waiting
            .find(mapping, (self.page, 1), &self.file.guide(), context.waker());
        match found? {
            Step::Done(found) => {
                let len = found.end.saturating_sub(start).min(page_size);
                if len == 0 {
                    return Poll::Ready(Err(past_end()));
                }
                let guard = OwnedPageGuard::of(mapping, self.page, found.reference, len as usize);
                Poll::Ready(Ok(guard))
            }
            Step::Pending => Poll::Pending,
            Step::Call => {
                let page = self.page;
                let pin = move |mapping: &pagewell_sync::Arc<_>| OwnedPageGuard::new(mapping, page);
                self.errand = call(mapping, pin);
                self.poll_call(context)
            }
        }
    }

    fn poll_call(&mut self, context: &Context<'_>) -> Poll<Result<OwnedPageGuard, Error>> {
        let outcome = ready!(poll_call(&mut self.errand, context));
        Poll::Ready(outcome.unwrap_or_else(|| Err(given_up(self.file.mapping(), Op::Pin))))
    }
}

impl Future for PinPage<'_> {
    type Output = Result<OwnedPageGuard, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.errand.is_none()
            && let Some(guard) = OwnedPageGuard::announced(this.file.mapping(), this.page)
        {
            return Poll::Ready(Ok(guard));
        }
        let pinned = match this.errand {
            Some(_) => ready!(this.poll_call(context)),
            None => ready!(this.go_on(context)),
        };
        Poll::Ready(pinned.map_err(|error| error.with_op(Op::Pin)))
    }
}

impl Drop for PinPage<'_> {
    fn drop(&mut self) {
        self.waiting.take_out(self.file.mapping());
    }
}
