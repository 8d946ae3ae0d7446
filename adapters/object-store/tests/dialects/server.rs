//! Fake server: the objects of one bucket, behind the dialect of a store. Clients call it without
//! sockets, as their [`HttpService`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use http_body_util::BodyExt as _;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, GetRange, Result};

use crate::lists;
use crate::table::{Client, Coding, Conditions, Dialect, Ranges, Tags, Versions};

pub(crate) const BUCKET: &str = "bucket";

/// Initial time of the server: 1 January 2024, and some milliseconds, which HTTP dates do not have.
const START_MS: i64 = 1_704_067_200_324;

/// Time between two puts.
const STEP_MS: i64 = 10_000;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) dialect: &'static Dialect,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    /// Versions of each object, the current one last.
    pub(crate) objects: BTreeMap<String, Vec<Version>>,
    now_ms: i64,
    step_ms: i64,
    nr_puts: u64,
    nr_requests: usize,
    /// Number of requests that the server will refuse with 503.
    nr_refusals: usize,
}

/// State of an object, or the marker of its deletion.
#[derive(Debug)]
pub(crate) struct Version {
    bytes: Option<Bytes>,
    nr: u64,
    modified_ms: i64,
}

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Bytes,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let headers = vec![("content-length", body.len().to_string())];
        Self {
            status,
            headers,
            body,
        }
    }

    fn refused(status: u16) -> Self {
        Self::new(status, format!("refused: {status}"))
    }
}

impl Version {
    pub(crate) fn tag(&self, dialect: &Dialect) -> Option<String> {
        match dialect.tags {
            Tags::Strong => Some(format!("\"tag-{}\"", self.nr)),
            Tags::Weak => Some(format!("W/\"tag-{}\"", self.nr)),
            Tags::None => None,
        }
    }

    fn id(&self, dialect: &Dialect) -> Option<String> {
        match dialect.versions {
            Versions::None => None,
            Versions::Readable | Versions::Denied => Some(format!("{}", 1000 + self.nr)),
            Versions::Null => Some("null".to_owned()),
        }
    }

    pub(crate) fn modified(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.modified_ms).unwrap()
    }

    /// Returns the bytes, unless this is the marker of a deletion.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        self.bytes.as_ref()
    }
}

pub(crate) fn http_date(time: DateTime<Utc>) -> String {
    time.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

impl State {
    pub(crate) fn current(&self, path: &str) -> Option<&Version> {
        let last = self.objects.get(path).and_then(|versions| versions.last());
        last.filter(|version| version.bytes.is_some())
    }

    fn push(&mut self, path: &str, bytes: Option<Bytes>, dialect: &Dialect) {
        self.nr_puts += 1;
        let version = Version {
            bytes,
            nr: self.nr_puts,
            modified_ms: self.now_ms,
        };
        self.now_ms += self.step_ms;
        let versions = self.objects.entry(path.to_owned()).or_default();
        if !matches!(dialect.versions, Versions::Readable | Versions::Denied) {
            versions.clear();
        }
        versions.push(version);
    }

    /// Deletes the object. Returns whether it existed.
    pub(crate) fn delete(&mut self, path: &str, dialect: &Dialect) -> bool {
        let exists = self.current(path).is_some();
        if exists {
            self.push(path, None, dialect);
        }
        exists
    }
}

impl Server {
    pub(crate) fn new(dialect: &'static Dialect) -> Arc<Self> {
        let state = State {
            objects: BTreeMap::new(),
            now_ms: START_MS,
            step_ms: STEP_MS,
            nr_puts: 0,
            nr_requests: 0,
            nr_refusals: 0,
        };
        Arc::new(Self {
            dialect,
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Replaces the object, without a request.
    pub(crate) fn put(&self, path: &str, bytes: Vec<u8>) {
        self.state().push(path, Some(bytes.into()), self.dialect);
    }

    /// Returns the current bytes of the object.
    pub(crate) fn bytes(&self, path: &str) -> Option<Bytes> {
        let state = self.state();
        state
            .current(path)
            .and_then(|version| version.bytes.clone())
    }

    /// Stops the server's clock an hour ahead of the client's. A date of this clock is not older
    /// than the answer, whatever the time of the client.
    pub(crate) fn stop_clock_ahead(&self) {
        let mut state = self.state();
        state.now_ms = (Utc::now().timestamp() + 3600) * 1000;
        state.step_ms = 0;
    }

    /// Refuses the next `nr` requests with 503.
    pub(crate) fn refuse(&self, nr: usize) {
        self.state().nr_refusals = nr;
    }

    pub(crate) fn nr_requests(&self) -> usize {
        self.state().nr_requests
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut state = self.state();
        state.nr_requests += 1;
        if state.nr_refusals > 0 {
            state.nr_refusals -= 1;
            let body = "<Error><Code>ServerBusy</Code><Message>reduce your rate</Message></Error>";
            let mut answer = Answer::new(503, body);
            let retry_after = self.dialect.retry_after;
            answer
                .headers
                .extend(retry_after.map(|time| ("retry-after", time.to_owned())));
            return answer;
        }
        let dialect = self.dialect;
        let object = match dialect.client {
            Client::Http => request.path.strip_prefix('/'),
            _ => request.path.strip_prefix(&format!("/{BUCKET}/")),
        };
        let object = object.filter(|path| !path.is_empty());
        match (request.method.as_str(), object) {
            ("GET", Some(path)) => self.get(&state, path, request, true),
            ("HEAD", Some(path)) => match dialect.head_refused {
                Some(status) => Answer::refused(status),
                None => self.get(&state, path, request, false),
            },
            ("GET", None) | ("PROPFIND", _) => match dialect.lists_refused {
                Some(status) => Answer::refused(status),
                None => lists::list(dialect, &state, request),
            },
            _ if dialect.writes_refused.is_some() => {
                Answer::refused(dialect.writes_refused.unwrap_or_default())
            }
            ("PUT", Some(path)) => self.put_if(&mut state, path, request),
            ("DELETE", Some(path)) => match state.delete(path, dialect) {
                true => Answer::new(204, ""),
                false => Answer::refused(dialect.missing),
            },
            ("POST", None) => lists::delete(dialect, &mut state, request),
            _ => Answer::refused(405),
        }
    }

    fn get(&self, state: &State, path: &str, request: &Request, has_body: bool) -> Answer {
        let dialect = self.dialect;
        let version = request.query.get(version_names(dialect.client).1);
        let version = match version {
            Some(_) if dialect.versions == Versions::Denied => return Answer::refused(403),
            Some(id) => {
                let mut versions = state.objects.get(path).into_iter().flatten();
                versions.find(|version| version.id(dialect).as_ref() == Some(id))
            }
            None => state.current(path),
        };
        let Some((version, bytes)) = version.and_then(|version| Some((version, version.bytes()?)))
        else {
            return Answer::refused(dialect.missing);
        };
        if let Some(status) = self.condition(version, request) {
            return Answer::refused(status);
        }
        let len = bytes.len() as u64;
        let range = request
            .header("range")
            .map(|range| parse_range(range).as_range(len));
        let range = match (dialect.ranges, range) {
            (Ranges::Ignored, _) | (_, None) => None,
            (Ranges::PartialUnlessWhole, Some(Ok(range))) if range == (0..len) => None,
            (_, Some(Ok(range))) if !range.is_empty() => Some(range),
            _ => return Answer::refused(416),
        };
        let mut answer = match &range {
            Some(range) => {
                let part = bytes.slice(range.start as usize..range.end as usize);
                let mut answer = Answer::new(206, part);
                let value = format!("bytes {}-{}/{len}", range.start, range.end - 1);
                answer.headers.push(("content-range", value));
                answer
            }
            None => Answer::new(200, bytes.clone()),
        };
        if !has_body {
            answer.body = Bytes::new();
        }
        if dialect.coding == Coding::Decompressed {
            answer.headers.clear();
        }
        if matches!(dialect.coding, Coding::Stored | Coding::Variant) {
            answer.headers.push(("content-encoding", "gzip".to_owned()));
        }
        self.describe(version, &mut answer);
        answer
    }

    /// Adds the validators and the version to the headers of `answer`.
    fn describe(&self, version: &Version, answer: &mut Answer) {
        let dialect = self.dialect;
        answer
            .headers
            .extend(version.tag(dialect).map(|tag| ("etag", tag)));
        if dialect.has_dates {
            answer
                .headers
                .push(("last-modified", http_date(version.modified())));
        }
        let name = version_names(dialect.client).0;
        answer
            .headers
            .extend(version.id(dialect).map(|id| (name, id)));
    }

    /// Evaluates the preconditions of a read. Returns the status of the answer if one is false.
    fn condition(&self, version: &Version, request: &Request) -> Option<u16> {
        let dialect = self.dialect;
        let tag = version.tag(dialect);
        let date = |name: &str| {
            let date = DateTime::parse_from_rfc2822(request.header(name)?).ok()?;
            dialect.has_dates.then_some(date.timestamp())
        };
        let modified = version.modified().timestamp();
        if dialect.conditions == Conditions::All {
            if let Some(wanted) = request.header("if-match") {
                // The strong comparison of RFC 9110, section 8.8.3.2.
                let is_strong = dialect.tags == Tags::Strong;
                let matches = is_strong && tag.as_deref() == Some(wanted);
                if !matches && wanted != "*" {
                    return Some(412);
                }
            } else if date("if-unmodified-since").is_some_and(|date| modified > date) {
                return Some(412);
            }
            if let Some(known) = request.header("if-none-match") {
                return (tag.as_deref() == Some(known) || known == "*").then_some(304);
            }
        }
        if dialect.conditions != Conditions::None
            && date("if-modified-since").is_some_and(|date| modified <= date)
        {
            return Some(304);
        }
        None
    }

    fn put_if(&self, state: &mut State, path: &str, request: &Request) -> Answer {
        let dialect = self.dialect;
        let current = state.current(path);
        let tag = current.and_then(|version| version.tag(dialect));
        let id = current.and_then(|version| version.id(dialect));
        let is_azure = dialect.client == Client::Azure;
        let refusal = match (
            request.header("if-match"),
            request.header("if-none-match"),
            request.header("x-goog-if-generation-match"),
        ) {
            (Some(wanted), _, _) if tag.as_deref() != Some(wanted) => Some(412),
            (_, Some("*"), _) if current.is_some() => Some(if is_azure { 409 } else { 412 }),
            (_, _, Some("0")) => current.is_some().then_some(412),
            (_, _, Some(wanted)) if id.as_deref() != Some(wanted) => Some(412),
            _ => None,
        };
        if let Some(status) = refusal {
            return Answer::refused(status);
        }
        state.push(path, Some(request.body.clone()), dialect);
        let is_created = matches!(dialect.client, Client::Azure | Client::Http);
        let mut answer = Answer::new(if is_created { 201 } else { 200 }, "");
        if let Some(version) = state.current(path) {
            self.describe(version, &mut answer);
        }
        answer
    }
}

/// Returns the header and the query parameter of versions.
fn version_names(client: Client) -> (&'static str, &'static str) {
    match client {
        Client::S3 | Client::Http => ("x-amz-version-id", "versionId"),
        Client::Azure => ("x-ms-version-id", "versionid"),
        Client::Gcs => ("x-goog-generation", "generation"),
    }
}

fn parse_range(header: &str) -> GetRange {
    let (start, last) = header
        .strip_prefix("bytes=")
        .unwrap()
        .split_once('-')
        .unwrap();
    match (start, last) {
        ("", len) => GetRange::Suffix(len.parse().unwrap()),
        (start, "") => GetRange::Offset(start.parse().unwrap()),
        _ => GetRange::Bounded(start.parse().unwrap()..last.parse::<u64>().unwrap() + 1),
    }
}

/// Decodes `%XX`.
fn decode(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        decoded.push(char::from(u8::from_str_radix(code, 16).unwrap()));
        decoded.push_str(rest);
    }
    decoded
}

/// Connection of a client to the server.
#[derive(Clone, Debug)]
pub(crate) struct Connection(pub(crate) Arc<Server>);

impl HttpConnector for Connection {
    fn connect(&self, _: &ClientOptions) -> Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connection {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let query = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode(name), decode(value))
            });
        let headers = parts.headers.iter().map(|(name, value)| {
            let value = value.to_str().unwrap_or_default();
            (name.as_str().to_owned(), value.to_owned())
        });
        let request = Request {
            method: parts.method.as_str().to_owned(),
            path: decode(parts.uri.path()),
            query: query.collect(),
            headers: headers.collect(),
            body: body.collect().await?.to_bytes(),
        };
        let answer = self.0.answer(&request);
        let mut response = HttpResponse::new(answer.body.into());
        *response.status_mut() = answer.status.try_into().unwrap();
        for (name, value) in answer.headers {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        Ok(response)
    }
}
