//! The same server behind the bare client and behind the wrapper, and the comparison of answers.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    Attributes, BackoffConfig, Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore,
    Result, RetryConfig, StaticCredentialProvider,
};
use pagewell_object_store::PagewellStore;

use crate::PAGE;
use crate::server::{BUCKET, Connection, Server};
use crate::table::{Client, Dialect};

/// Maximum number of times that a client repeats a request.
pub(crate) const MAX_RETRIES: usize = 3;

pub(crate) type Outcome = std::result::Result<(), String>;

pub(crate) type Wrapper = PagewellStore<dyn ObjectStore>;

pub(crate) struct Bench {
    pub(crate) server: Arc<Server>,
    pub(crate) bare: Arc<dyn ObjectStore>,
    /// Wrapper that trusts each state for ever.
    pub(crate) trusting: Wrapper,
    /// Wrapper that revalidates the state at each read.
    pub(crate) doubting: Wrapper,
}

impl Bench {
    pub(crate) fn new(dialect: &'static Dialect) -> Self {
        Self::within(dialect, |store| store)
    }

    /// Creates a bench whose stores are `adapt` of the client.
    pub(crate) fn within(
        dialect: &'static Dialect,
        adapt: impl Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>,
    ) -> Self {
        let server = Server::new(dialect);
        let store = || adapt(connect(&server));
        let wrap = |trust| {
            let builder = PagewellStore::builder(store()).trust(trust);
            builder.capacity(4 << 20).page_size(PAGE).build().unwrap()
        };
        Self {
            bare: store(),
            trusting: wrap(Duration::MAX),
            doubting: wrap(Duration::ZERO),
            server,
        }
    }
}

/// Creates the client of the server's dialect.
fn connect(server: &Arc<Server>) -> Arc<dyn ObjectStore> {
    let connection = Connection(Arc::clone(server));
    let address = "http://store.test";
    // Retries are immediate, so that no test sleeps.
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_nanos(1),
            max_backoff: Duration::from_micros(1),
            base: 2.0,
        },
        max_retries: MAX_RETRIES,
        retry_timeout: Duration::from_secs(600),
    };
    match server.dialect.client {
        Client::S3 => {
            let builder = AmazonS3Builder::new()
                .with_bucket_name(BUCKET)
                .with_retry(retry);
            let builder = builder.with_endpoint(address).with_skip_signature(true);
            Arc::new(builder.with_http_connector(connection).build().unwrap())
        }
        Client::Azure => {
            let builder = MicrosoftAzureBuilder::new()
                .with_account("account")
                .with_retry(retry);
            let builder = builder
                .with_container_name(BUCKET)
                .with_skip_signature(true);
            let builder = builder.with_endpoint(address.to_owned());
            Arc::new(builder.with_http_connector(connection).build().unwrap())
        }
        Client::Gcs => {
            let bearer = "bearer".to_owned();
            let credential = StaticCredentialProvider::new(GcpCredential { bearer });
            let builder = GoogleCloudStorageBuilder::new().with_bucket_name(BUCKET);
            let builder = builder
                .with_base_url(address)
                .with_credentials(Arc::new(credential));
            let builder = builder.with_retry(retry).with_http_connector(connection);
            Arc::new(builder.build().unwrap())
        }
        Client::Http => {
            let builder = HttpBuilder::new().with_url(address).with_retry(retry);
            Arc::new(builder.with_http_connector(connection).build().unwrap())
        }
    }
}

/// Returns the name of the variant.
pub(crate) fn kind(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split([' ', '{', '('])
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Answer to a get.
#[derive(PartialEq)]
pub(crate) enum Answer {
    Got {
        meta: ObjectMeta,
        attributes: Attributes,
        range: Range<u64>,
        bytes: Bytes,
    },
    Failed(String),
}

impl Answer {
    /// Describes the answer without its bytes.
    pub(crate) fn summary(&self) -> String {
        match self {
            Self::Got {
                meta, range, bytes, ..
            } => format!(
                "{} bytes as {range:?} of {}, tag {:?}, version {:?}, {}",
                bytes.len(),
                meta.size,
                meta.e_tag,
                meta.version,
                meta.last_modified,
            ),
            Self::Failed(kind) => kind.clone(),
        }
    }

    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Got { bytes, .. } => Some(bytes),
            Self::Failed(_) => None,
        }
    }
}

pub(crate) async fn get(store: &dyn ObjectStore, path: &str, range: Option<GetRange>) -> Answer {
    let options = GetOptions {
        range,
        ..GetOptions::default()
    };
    let read = async {
        let result: GetResult = store.get_opts(&Path::from(path), options).await?;
        let (meta, attributes) = (result.meta.clone(), result.attributes.clone());
        let range = result.range.clone();
        let bytes = result.bytes().await?;
        Ok(Answer::Got {
            meta,
            attributes,
            range,
            bytes,
        })
    };
    let read: Result<Answer> = read.await;
    read.unwrap_or_else(|error| Answer::Failed(kind(&error)))
}

/// Compares the answers of both stores to the same get.
///
/// The client may refuse a request that the server could answer, or the server's valid answer:
/// `NotSupported`, or `Generic` for an answer without a range to a request for one. In this case
/// the wrapper may nevertheless return the right answer: the bytes, or `NotFound`.
pub(crate) async fn compare_get(
    bench: &Bench,
    wrapper: &Wrapper,
    path: &str,
    range: Option<GetRange>,
) -> Outcome {
    let bare = get(&bench.bare, path, range.clone()).await;
    let wrapped = get(wrapper, path, range.clone()).await;
    if wrapped == bare {
        return Ok(());
    }
    let is_right = match (bench.server.bytes(path), &wrapped) {
        (Some(object), Answer::Got { bytes, .. }) => {
            let len = object.len() as u64;
            let range = range
                .as_ref()
                .map_or(Ok(0..len), |range| range.as_range(len));
            range.is_ok_and(|range| bytes[..] == object[range.start as usize..range.end as usize])
        }
        (None, Answer::Failed(kind)) => kind == "NotFound",
        _ => false,
    };
    if is_right && matches!(&bare, Answer::Failed(kind) if is_refusal(kind)) {
        return Ok(());
    }
    Err(format!(
        "get of {path}, {range:?}: the client returns {}; the wrapper returns {}{}",
        bare.summary(),
        wrapped.summary(),
        match (wrapped.bytes(), bare.bytes()) {
            (Some(a), Some(b)) if a != b => ", with other bytes",
            _ => "",
        }
    ))
}

pub(crate) fn is_refusal(kind: &str) -> bool {
    matches!(kind, "NotSupported" | "Generic")
}

/// Compares two results of an operation other than a get.
pub(crate) fn compare<T: PartialEq + std::fmt::Debug>(
    what: &str,
    bare: Result<T>,
    wrapped: Result<T>,
) -> Outcome {
    let (bare, wrapped) = (bare.map_err(|e| kind(&e)), wrapped.map_err(|e| kind(&e)));
    if bare == wrapped {
        return Ok(());
    }
    Err(format!(
        "{what}: the client returns {bare:?}; the wrapper returns {wrapped:?}"
    ))
}
