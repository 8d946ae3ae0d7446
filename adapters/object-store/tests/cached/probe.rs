//! Store in memory that records its gets, and answers each as a test sets.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, UploadPart,
};
use tokio::sync::Semaphore;

/// Reaction to a get.
pub(crate) enum Act {
    Pass,
    Fail(Error),
    /// The body ends after this number of bytes.
    Cut(usize),
    /// The body has this number of additional bytes.
    Long(usize),
    /// The answer declares another range.
    Elsewhere,
    /// The get waits until the semaphore has a permit.
    Wait(Arc<Semaphore>),
    /// The answer is computed at once, and returned when the semaphore has a permit.
    Stall(Arc<Semaphore>),
    /// The get begins after this time.
    Late(Duration),
    /// The get fails after this time.
    TimeOut(Duration),
    /// The body ends with an error after this number of bytes.
    Break(usize),
    /// The body stops after this number of bytes, and ends with an error after this time.
    Hang(usize, Duration),
    /// The store panics.
    Panic,
    /// The answer declares this number of additional bytes of the object.
    Larger(u64),
    /// The object is replaced before the answer is computed.
    ReplaceBefore(Vec<u8>),
    /// The object is replaced after the answer, and before its body is read.
    ReplaceAfter(Vec<u8>),
}

/// An error of a store, without a kind.
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

/// The operation that describes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Get,
    Head,
    List,
}

type Describe = dyn Fn(Op, &mut ObjectMeta) + Send + Sync;
type Refuse = dyn Fn(&GetOptions) -> Option<Error> + Send + Sync;
type Script = dyn Fn(usize, &GetOptions) -> Act + Send + Sync;

pub(crate) struct Probe {
    pub(crate) inner: InMemory,
    describe: Arc<Describe>,
    refuse: Mutex<Arc<Refuse>>,
    ignores_ranges: AtomicBool,
    fails_deletes: AtomicBool,
    /// Semaphore for which a head waits before it begins.
    head_gate: Mutex<Option<Arc<Semaphore>>>,
    script: Mutex<Arc<Script>>,
    /// Gets and heads.
    gets: Mutex<Vec<GetOptions>>,
    replaced: Mutex<Vec<(Path, Vec<u8>)>>,
    holds: Mutex<Holds>,
}

impl Probe {
    pub(crate) fn new() -> Arc<Self> {
        Self::describing(|_, _| {})
    }

    /// Creates a store whose descriptions of objects `describe` changes. It has conditions on tags
    /// as RFC 9110 has them, for tags spelled as in its answers: a weak tag matches nothing.
    pub(crate) fn describing(
        describe: impl Fn(Op, &mut ObjectMeta) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner: InMemory::new(),
            describe: Arc::new(describe),
            refuse: Mutex::new(Arc::new(|_| None)),
            ignores_ranges: AtomicBool::new(false),
            fails_deletes: AtomicBool::new(false),
            head_gate: Mutex::default(),
            script: Mutex::new(Arc::new(|_, _| Act::Pass)),
            gets: Mutex::default(),
            replaced: Mutex::default(),
            holds: Mutex::default(),
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

    /// From now on each delete returns an error after it was performed.
    pub(crate) fn fail_deletes(&self) {
        self.fails_deletes.store(true, Ordering::Relaxed);
    }

    /// From now on each head waits for a permit of the semaphore that is returned.
    pub(crate) fn hang_heads(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.head_gate.lock().unwrap() = Some(Arc::clone(&gate));
        gate
    }

    /// From now on `script` decides about gets; it receives the number of the get, from 0 on, and
    /// its options.
    pub(crate) fn script(
        &self,
        script: impl Fn(usize, &GetOptions) -> Act + Send + Sync + 'static,
    ) {
        self.gets.lock().unwrap().clear();
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// From now on all gets pass but the first, on which `act` decides. Returns the semaphore that
    /// `act` receives.
    pub(crate) fn hold_first(&self, act: fn(Arc<Semaphore>) -> Act) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        let of_act = Arc::clone(&gate);
        self.script(move |nr, _| match nr {
            0 => act(Arc::clone(&of_act)),
            _ => Act::Pass,
        });
        gate
    }

    /// Waits for the first get since the script was set.
    pub(crate) async fn wait_for_get(&self) {
        while self.nr_gets() == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the gets and heads since the last call, or since the script was set.
    pub(crate) fn take_gets(&self) -> Vec<GetOptions> {
        std::mem::take(&mut self.gets.lock().unwrap())
    }

    /// Returns the ranges of the gets since the script was set.
    pub(crate) fn ranges(&self) -> Vec<Option<Range<u64>>> {
        let gets = self.gets.lock().unwrap();
        let range = |get: &GetOptions| match &get.range {
            Some(GetRange::Bounded(range)) => Some(range.clone()),
            _ => None,
        };
        gets.iter().filter(|get| !get.head).map(range).collect()
    }

    pub(crate) fn nr_gets(&self) -> usize {
        self.ranges().len()
    }

    /// Returns the objects that acts have replaced since the last call, in their order.
    pub(crate) fn take_replaced(&self) -> Vec<(Path, Vec<u8>)> {
        std::mem::take(&mut self.replaced.lock().unwrap())
    }

    async fn replace(&self, location: &Path, bytes: Vec<u8>) -> Result<()> {
        // It is recorded before a reader can read it.
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
        self.refuse(move |get| (fails && get.head).then(|| failure("no connection")));
    }

    /// Returns the answer of the store, with its description changed.
    async fn answer(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        let op = if options.head { Op::Head } else { Op::Get };
        let (if_match, _) = (options.if_match.take(), options.version.take());
        if self.ignores_ranges.load(Ordering::Relaxed) {
            options.range = None;
        }
        let has_range = options.range.is_some();
        let matches = |meta: &ObjectMeta| {
            let tag = meta.e_tag.as_deref().unwrap_or_default();
            let is_weak = tag.starts_with("W/");
            let wanted = if_match.as_deref();
            wanted.is_none_or(|wanted| wanted == tag && !is_weak)
        };
        let other_tag = || Error::Precondition {
            path: location.to_string(),
            source: "another tag".into(),
        };
        let mut result = match self.inner.get_opts(location, options).await {
            Ok(result) => result,
            // A condition is evaluated before a range.
            Err(error) => {
                let mut meta = self.inner.head(location).await?;
                (self.describe)(op, &mut meta);
                return Err(if matches(&meta) { error } else { other_tag() });
            }
        };
        (self.describe)(op, &mut result.meta);
        if !has_range {
            result.range = 0..result.meta.size;
        }
        if !matches(&result.meta) {
            return Err(other_tag());
        }
        Ok(result)
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
        let nr = {
            let mut gets = self.gets.lock().unwrap();
            gets.push(options.clone());
            gets.iter().filter(|get| !get.head).count()
        };
        let refuse = Arc::clone(&self.refuse.lock().unwrap());
        if let Some(error) = refuse(&options) {
            return Err(error);
        }
        if options.head {
            let gate = self.head_gate.lock().unwrap().clone();
            wait(gate, ()).await;
            return self.answer(location, options).await;
        }
        let script = Arc::clone(&self.script.lock().unwrap());
        let act = script(nr - 1, &options);
        match act {
            Act::Fail(error) => return Err(error),
            Act::Panic => panic!("a test makes the store panic"),
            Act::Wait(gate) => gate.acquire().await.unwrap().forget(),
            Act::Late(time) => tokio::time::sleep(time).await,
            Act::Stall(gate) => {
                let result = self.answer(location, options).await?;
                gate.acquire().await.unwrap().forget();
                return Ok(result);
            }
            Act::TimeOut(time) => {
                tokio::time::sleep(time).await;
                return Err(failure("operation timed out"));
            }
            Act::ReplaceBefore(bytes) => self.replace(location, bytes).await?,
            Act::ReplaceAfter(bytes) => {
                let result = self.answer(location, options).await?;
                self.replace(location, bytes).await?;
                return Ok(result);
            }
            _ => return act_on(self.answer(location, options).await?, act).await,
        }
        self.answer(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let holds = self.holds.lock().unwrap().clone();
        let (before, after) = holds.unzip();
        let locations = locations.then(move |location| wait(before.clone(), location));
        let deleted = self.inner.delete_stream(locations.boxed());
        let deleted = deleted.then(move |deleted| wait(after.clone(), deleted));
        match self.fails_deletes.load(Ordering::Relaxed) {
            true => deleted.map(|_| Err(failure("a delete failed"))).boxed(),
            false => deleted.boxed(),
        }
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
    let mut declared = range.clone();
    let mut end = stream::iter(None).boxed();
    match act {
        Act::Break(len) => {
            bytes.truncate(len);
            end = stream::iter([Err(failure("connection reset"))]).boxed();
        }
        Act::Hang(len, time) => {
            bytes.truncate(len);
            let late = async move {
                tokio::time::sleep(time).await;
                Err(failure("connection reset"))
            };
            end = stream::once(late).boxed();
        }
        Act::Larger(more) => meta.size += more,
        Act::Cut(len) => bytes.truncate(len),
        Act::Long(more) => bytes.extend(vec![0xEE; more]),
        Act::Elsewhere => declared = range.start + 1..range.end + 1,
        _ => {}
    }
    // Two parts, as in the body of an answer from a network.
    let second = bytes.split_off(bytes.len() / 2);
    let parts = stream::iter([Ok(bytes.into()), Ok(second.into())]).chain(end);
    Ok(GetResult {
        payload: GetResultPayload::Stream(parts.boxed()),
        meta,
        range: declared,
        attributes,
    })
}
