//! A store in memory that counts its gets, and does with each as a test says.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use tokio::sync::Semaphore;

/// What becomes of a get.
pub(crate) enum Act {
    Pass,
    Fail(Error),
    /// The body ends after so many bytes.
    Cut(usize),
    /// The body has so many bytes more than it should.
    Long(usize),
    /// The answer says that it is of another range.
    Elsewhere,
    /// It waits until the semaphore has a permit.
    Wait(Arc<Semaphore>),
    /// The answer, which is as the store gives it now, waits until the semaphore has a permit.
    Stall(Arc<Semaphore>),
    /// It takes so long.
    Late(Duration),
    /// It takes so long, and fails then.
    TimeOut(Duration),
    /// The body breaks off with an error after so many bytes.
    Break(usize),
    /// The answer says that the object has so many bytes more than it has.
    Larger(u64),
    /// The object is put anew before the answer, which is as the store gives it then.
    ReplaceBefore(Vec<u8>),
    /// The object is put anew after the answer, before its body is read.
    ReplaceAfter(Vec<u8>),
}

/// An error of a store that has no name of its own.
pub(crate) fn failure(what: &'static str) -> Error {
    Error::Generic {
        store: "Probe",
        source: what.into(),
    }
}

/// Semaphores for which a write waits before it begins and before it returns.
type Holds = Option<(Arc<Semaphore>, Arc<Semaphore>)>;

async fn wait<T>(gate: Option<Arc<Semaphore>>, value: T) -> T {
    if let Some(gate) = gate {
        gate.acquire().await.unwrap().forget();
    }
    value
}

async fn held<T>(holds: Holds, write: impl Future<Output = T>) -> T {
    let (before, after) = holds.unzip();
    wait(before, ()).await;
    let written = write.await;
    wait(after, written).await
}

#[derive(Debug)]
struct HeldUpload {
    upload: Box<dyn MultipartUpload>,
    holds: Holds,
}

#[async_trait]
impl MultipartUpload for HeldUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        held(self.holds.clone(), self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

type Script = dyn Fn(usize, &GetOptions) -> Act + Send + Sync;

/// The store, and the gets that it has had.
pub(crate) struct Probe {
    pub(crate) inner: InMemory,
    script: Mutex<Arc<Script>>,
    gets: Mutex<Vec<Option<GetRange>>>,
    replaced: Mutex<Vec<(Path, Vec<u8>)>>,
    fails_heads: AtomicBool,
    holds: Mutex<Holds>,
}

impl Probe {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: InMemory::new(),
            script: Mutex::new(Arc::new(|_, _| Act::Pass)),
            gets: Mutex::default(),
            replaced: Mutex::default(),
            fails_heads: AtomicBool::new(false),
            holds: Mutex::default(),
        })
    }

    /// From now on `script` decides; it gets the number of the get, from 0 on, and its options.
    pub(crate) fn script(
        &self,
        script: impl Fn(usize, &GetOptions) -> Act + Send + Sync + 'static,
    ) {
        self.gets.lock().unwrap().clear();
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// The ranges of the gets for bytes since the script was given.
    pub(crate) fn ranges(&self) -> Vec<Option<Range<u64>>> {
        let gets = self.gets.lock().unwrap();
        let range = |get: &Option<GetRange>| match get {
            Some(GetRange::Bounded(range)) => Some(range.clone()),
            _ => None,
        };
        gets.iter().map(range).collect()
    }

    /// What was put by acts since the last call, in its order.
    pub(crate) fn take_replaced(&self) -> Vec<(Path, Vec<u8>)> {
        std::mem::take(&mut self.replaced.lock().unwrap())
    }

    async fn replace(&self, location: &Path, bytes: Vec<u8>) -> Result<()> {
        // Noted before it can be seen.
        let noted = (location.clone(), bytes.clone());
        self.replaced.lock().unwrap().push(noted);
        self.inner.put(location, bytes.into()).await.map(|_| ())
    }

    /// From now on each write waits for a permit of `before` until it begins, and of `after` until
    /// it returns.
    pub(crate) fn hold_writes(&self, before: Arc<Semaphore>, after: Arc<Semaphore>) {
        *self.holds.lock().unwrap() = Some((before, after));
    }

    async fn held<T>(&self, write: impl Future<Output = T>) -> T {
        let holds = self.holds.lock().unwrap().clone();
        held(holds, write).await
    }

    /// From now on heads fail, or pass.
    pub(crate) fn fail_heads(&self, fails: bool) {
        self.fails_heads.store(fails, Ordering::Relaxed);
    }

    pub(crate) fn nr_gets(&self) -> usize {
        self.gets.lock().unwrap().len()
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}

#[async_trait]
impl ObjectStore for Probe {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.held(self.inner.put_opts(location, payload, options))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(HeldUpload {
            upload: self.inner.put_multipart_opts(location, options).await?,
            holds: self.holds.lock().unwrap().clone(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head && self.fails_heads.load(Ordering::Relaxed) {
            return Err(failure("no connection"));
        }
        if options.head {
            return self.inner.get_opts(location, options).await;
        }
        let nr = {
            let mut gets = self.gets.lock().unwrap();
            gets.push(options.range.clone());
            gets.len() - 1
        };
        let script = Arc::clone(&self.script.lock().unwrap());
        let act = script(nr, &options);
        match act {
            Act::Fail(error) => return Err(error),
            Act::Wait(gate) => gate.acquire().await.unwrap().forget(),
            Act::Late(time) => tokio::time::sleep(time).await,
            Act::Stall(gate) => {
                let result = self.inner.get_opts(location, options).await?;
                gate.acquire().await.unwrap().forget();
                return Ok(result);
            }
            Act::TimeOut(time) => {
                tokio::time::sleep(time).await;
                return Err(failure("operation timed out"));
            }
            Act::ReplaceBefore(bytes) => self.replace(location, bytes).await?,
            Act::ReplaceAfter(bytes) => {
                let result = self.inner.get_opts(location, options).await?;
                self.replace(location, bytes).await?;
                return Ok(result);
            }
            _ => return act_on(self.inner.get_opts(location, options).await?, act).await,
        }
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let holds = self.holds.lock().unwrap().clone();
        let (before, after) = holds.unzip();
        let locations = locations.then(move |location| wait(before.clone(), location));
        let deleted = self.inner.delete_stream(locations.boxed());
        deleted
            .then(move |deleted| wait(after.clone(), deleted))
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.held(self.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.held(self.inner.rename_opts(from, to, options)).await
    }
}

async fn act_on(result: GetResult, act: Act) -> Result<GetResult> {
    let (mut meta, attributes, range) = (
        result.meta.clone(),
        result.attributes.clone(),
        result.range.clone(),
    );
    let mut bytes = result.bytes().await?.to_vec();
    let mut said = range.clone();
    let mut end = None;
    match act {
        Act::Break(len) => {
            bytes.truncate(len);
            end = Some(Err(failure("connection reset")));
        }
        Act::Larger(more) => meta.size += more,
        Act::Cut(len) => bytes.truncate(len),
        Act::Long(more) => bytes.extend(vec![0xEE; more]),
        Act::Elsewhere => said = range.start + 1..range.end + 1,
        _ => {}
    }
    // In two parts, as bodies come.
    let second = bytes.split_off(bytes.len() / 2);
    let parts = stream::iter([Ok(bytes.into()), Ok(second.into())]).chain(stream::iter(end));
    Ok(GetResult {
        payload: GetResultPayload::Stream(parts.boxed()),
        meta,
        range: said,
        attributes,
    })
}
