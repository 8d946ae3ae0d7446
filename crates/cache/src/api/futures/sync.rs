use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pagewell_io::pools::Errand;

use super::call::{call, given_up};
use crate::api::file::File;
use crate::base::error::{Error, Op};
use crate::dirty::commits::Sync;
use crate::writeback::flush::Flusher;

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
        let outcome = match &this.errand {
            Some(errand) => ready!(errand.poll(context)),
            None => None,
        };
        let failed = || Err(given_up(this.file.mapping(), Op::Sync));
        let result = outcome.unwrap_or_else(failed);
        Poll::Ready(this.file.told(result, Op::Sync))
    }
}
