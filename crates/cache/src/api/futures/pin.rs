use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pagewell_io::pools::Errand;

use super::call::{call, given_up};
use crate::api::file::File;
use crate::base::error::{Error, ErrorKind, Op};
use crate::read::pinner::OwnedPageGuard;
use crate::read::task::{Step, Waiting};

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
        let outcome = match &self.errand {
            Some(errand) => ready!(errand.poll(context)),
            None => None,
        };
        self.errand = None;
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
