//! A store in memory that describes its objects in another way, and refuses some requests.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// The operation that describes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Get,
    Head,
    List,
}

type Describe = dyn Fn(Op, &mut ObjectMeta) + Send + Sync;
type Refuse = dyn Fn(&GetOptions) -> Option<Error> + Send + Sync;

pub(crate) struct Odd {
    pub(crate) inner: InMemory,
    describe: Arc<Describe>,
    refuse: Mutex<Arc<Refuse>>,
    ignores_ranges: AtomicBool,
    gets: Mutex<Vec<GetOptions>>,
}

impl Odd {
    /// A store whose descriptions `describe` changes. It has conditions on tags as RFC 9110 has
    /// them, for tags spelled as in its answers: a weak tag matches nothing.
    pub(crate) fn new(describe: impl Fn(Op, &mut ObjectMeta) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            inner: InMemory::new(),
            describe: Arc::new(describe),
            refuse: Mutex::new(Arc::new(|_| None)),
            ignores_ranges: AtomicBool::new(false),
            gets: Mutex::default(),
        })
    }

    /// From now on `refuse` decides which gets and heads fail.
    pub(crate) fn refuse(
        &self,
        refuse: impl Fn(&GetOptions) -> Option<Error> + Send + Sync + 'static,
    ) {
        *self.refuse.lock().unwrap() = Arc::new(refuse);
    }

    /// From now on each answer is of the whole object.
    pub(crate) fn ignore_ranges(&self) {
        self.ignores_ranges.store(true, Ordering::Relaxed);
    }

    /// The gets and heads since the last call.
    pub(crate) fn take_gets(&self) -> Vec<GetOptions> {
        std::mem::take(&mut self.gets.lock().unwrap())
    }
}

impl fmt::Debug for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Odd").finish_non_exhaustive()
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Odd")
    }
}

#[async_trait]
impl ObjectStore for Odd {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        self.gets.lock().unwrap().push(options.clone());
        let refuse = Arc::clone(&self.refuse.lock().unwrap());
        if let Some(error) = refuse(&options) {
            return Err(error);
        }
        let op = if options.head { Op::Head } else { Op::Get };
        let (if_match, _) = (options.if_match.take(), options.version.take());
        if self.ignores_ranges.load(Ordering::Relaxed) {
            options.range = None;
        }
        let has_range = options.range.is_some();
        let mut result = self.inner.get_opts(location, options).await?;
        (self.describe)(op, &mut result.meta);
        if !has_range {
            result.range = 0..result.meta.size;
        }
        let tag = result.meta.e_tag.clone().unwrap_or_default();
        if if_match.is_some_and(|wanted| wanted != tag || tag.starts_with("W/")) {
            return Err(Error::Precondition {
                path: location.to_string(),
                source: "another tag".into(),
            });
        }
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let describe = Arc::clone(&self.describe);
        let list = self.inner.list(prefix);
        list.map_ok(move |mut meta| {
            describe(Op::List, &mut meta);
            meta
        })
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut list = self.inner.list_with_delimiter(prefix).await?;
        for meta in &mut list.objects {
            (self.describe)(Op::List, meta);
        }
        Ok(list)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
