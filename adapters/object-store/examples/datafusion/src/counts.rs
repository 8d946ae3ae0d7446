//! An HTTP client that counts requests, bytes and time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::{ClientOptions, Result, client::*};

#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Counts {
    /// Returns and resets requests, bytes of bodies, and seconds up to their last bytes, summed.
    pub(crate) fn take(&self) -> (u64, u64, f64) {
        let take = |count: &AtomicU64| count.swap(0, Relaxed);
        let (requests, bytes) = (take(&self.requests), take(&self.bytes));
        (requests, bytes, take(&self.nanoseconds) as f64 / 1e9)
    }
}

#[derive(Debug)]
pub(crate) struct Connector(pub(crate) Arc<Counts>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Client(client, Arc::clone(&self.0))))
    }
}

#[derive(Debug)]
struct Client(HttpClient, Arc<Counts>);

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let counts = Arc::clone(&self.1);
        counts.requests.fetch_add(1, Relaxed);
        let mut start = Instant::now();
        let mut count = move |bytes: usize| {
            counts.bytes.fetch_add(bytes as u64, Relaxed);
            counts
                .nanoseconds
                .fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
            start = Instant::now();
        };
        let (head, body) = self.0.execute(request).await?.into_parts();
        count(0);
        let body = body.map_frame(move |frame| {
            count(frame.data_ref().map_or(0, |data| data.len()));
            frame
        });
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}
