//! Dialects: how stores deviate from each other, with the vendors' documentation of each deviation.

/// Client of `object_store`, which also determines the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    S3,
    Azure,
    Gcs,
    Http,
}

/// Answer to a request for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// 206, or 416 if the range is past the end.
    Partial,
    /// As `Partial`, but 200 if the range covers the object.
    PartialUnlessWhole,
    /// 200 with the object.
    Ignored,
}

/// Entity tags of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    Strong,
    Weak,
    None,
}

/// Preconditions of reads that the server evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditions {
    /// Those of RFC 9110, section 13.1, without `If-Range`.
    All,
    /// `If-Modified-Since`.
    ModifiedSince,
    None,
}

/// Versions of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    None,
    /// Each state has an identifier, by which it can be read.
    Readable,
    /// Each state has an identifier, but the reader may read only the current version.
    Denied,
    /// The only version has the identifier `null`.
    Null,
}

/// Relation between an object and the bytes that a reader receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Plain,
    /// The object is compressed, and sent as it is stored, with `Content-Encoding: gzip`.
    Stored,
    /// The server decompresses the object: it sends no `Content-Length` and ignores ranges.
    Decompressed,
    /// The server sends a compressed variant of the object, whose size and tag are not those of
    /// listings.
    Variant,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) ranges: Ranges,
    pub(crate) tags: Tags,
    /// Whether tags in listings have quotes, as those in headers have.
    pub(crate) has_quotes_in_lists: bool,
    /// Whether answers have `Last-Modified`, which has whole seconds.
    pub(crate) has_dates: bool,
    /// Whether times in listings have milliseconds.
    pub(crate) has_milliseconds_in_lists: bool,
    pub(crate) conditions: Conditions,
    pub(crate) versions: Versions,
    pub(crate) coding: Coding,
    /// Status of the answer to `HEAD`, unless the method is allowed.
    pub(crate) head_refused: Option<u16>,
    /// Status of the answer to writes, unless they are allowed.
    pub(crate) writes_refused: Option<u16>,
    /// Status of the answer to listings, unless they are allowed.
    pub(crate) lists_refused: Option<u16>,
    /// Status of the answer to a request for an object that does not exist.
    pub(crate) missing: u16,
    /// `Retry-After` of answers with status 503.
    pub(crate) retry_after: Option<&'static str>,
}

/// Amazon S3, bucket without versioning.
///
/// - `docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html`: ranges, conditions, headers.
/// - `docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-reads.html`: `If-Match`, 412.
/// - `docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html`: the tag with its quotes.
/// - `docs.aws.amazon.com/AmazonS3/latest/userguide/ErrorBestPractices.html`: 503 `SlowDown`. The
///   page names no `Retry-After`.
const S3: Dialect = Dialect {
    name: "S3",
    client: Client::S3,
    ranges: Ranges::Partial,
    tags: Tags::Strong,
    has_quotes_in_lists: true,
    has_dates: true,
    has_milliseconds_in_lists: false,
    conditions: Conditions::All,
    versions: Versions::None,
    coding: Coding::Plain,
    head_refused: None,
    writes_refused: None,
    lists_refused: None,
    missing: 404,
    retry_after: None,
};

/// Azure Blob Storage.
///
/// - `learn.microsoft.com/rest/api/storageservices/get-blob`: headers, conditions, 206.
/// - "Specifying the range header for Blob service operations", `learn.microsoft.com`:
///   ranges without suffixes.
/// - `github.com/Azure/azure-storage-node/issues/586`: tags in listings have no quotes.
/// - `learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes`: 503 `ServerBusy`.
///   The page names no `Retry-After`.
const AZURE: Dialect = Dialect {
    name: "Azure",
    client: Client::Azure,
    has_quotes_in_lists: false,
    ..S3
};

/// Google Cloud Storage, XML interface.
///
/// - `cloud.google.com/storage/docs/xml-api/get-object-download`: ranges, conditions, `generation`.
/// - `cloud.google.com/storage/docs/xml-api/reference-headers`: `x-goog-generation` in each answer.
/// - `cloud.google.com/storage/docs/xml-api/get-bucket-list`: times with milliseconds.
/// - `cloud.google.com/storage/docs/retry-strategy`: 503 is to be retried with a backoff.
const GCS: Dialect = Dialect {
    name: "GCS",
    client: Client::Gcs,
    has_milliseconds_in_lists: true,
    versions: Versions::Readable,
    ..S3
};

/// Apache httpd with `mod_dav`.
///
/// - `httpd.apache.org/docs/2.4/mod/core.html`, `FileETag`: strong tags of files.
/// - `httpd.apache.org/docs/2.4/mod/mod_dav.html`: `PUT`, `DELETE`, `PROPFIND`.
/// - RFC 9110, sections 10.2.3 (`Retry-After` in seconds), 13.1 (conditions) and 14.2 (ranges).
const HTTPD: Dialect = Dialect {
    name: "HTTP: httpd",
    client: Client::Http,
    retry_after: Some("120"),
    ..S3
};

pub(crate) const DIALECTS: &[Dialect] = &[
    S3,
    // `docs.aws.amazon.com/AmazonS3/latest/userguide/versioning-workflows.html`: each state has an
    // identifier, which `x-amz-version-id` returns.
    Dialect {
        name: "S3, versioned",
        versions: Versions::Readable,
        ..S3
    },
    // `docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html`, permissions: a request with
    // `versionId` requires `s3:GetObjectVersion`, and without `s3:ListBucket` the answer for a
    // missing object is 403.
    Dialect {
        name: "S3, versioned, only s3:GetObject",
        versions: Versions::Denied,
        writes_refused: Some(403),
        lists_refused: Some(403),
        missing: 403,
        ..S3
    },
    // `docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html`, `Content-Encoding`: the server
    // stores the header with the object, and sends both unchanged.
    Dialect {
        name: "S3, object with Content-Encoding",
        coding: Coding::Stored,
        ..S3
    },
    AZURE,
    // `learn.microsoft.com/azure/storage/blobs/versioning-overview`: each state has an identifier,
    // which `x-ms-version-id` returns.
    Dialect {
        name: "Azure, versioned",
        versions: Versions::Readable,
        ..AZURE
    },
    // `learn.microsoft.com/rest/api/storageservices/create-service-sas`: `sp=r` permits reads only.
    Dialect {
        name: "Azure, SAS with sp=r",
        writes_refused: Some(403),
        lists_refused: Some(403),
        ..AZURE
    },
    GCS,
    // `cloud.google.com/storage/docs/transcoding`: for a client without `Accept-Encoding: gzip`,
    // the server decompresses the object, without `Content-Length`, and ignores ranges.
    Dialect {
        name: "GCS, decompressive transcoding",
        ranges: Ranges::Ignored,
        coding: Coding::Decompressed,
        ..GCS
    },
    // `min.io/docs/minio/linux/reference/minio-mc/mc-version.html`: an object of a bucket without
    // versioning. `github.com/minio/minio`, `cmd/api-response.go`: times in lists have
    // milliseconds, and the answer 503 `SlowDown` has `Retry-After: 120`.
    Dialect {
        name: "MinIO",
        has_milliseconds_in_lists: true,
        retry_after: Some("120"),
        ..S3
    },
    // The same page, and `docs.aws.amazon.com/AmazonS3/latest/API/postVersions.html`: if versioning
    // is suspended, each new state has the version `null`.
    Dialect {
        name: "MinIO, versioning suspended",
        has_milliseconds_in_lists: true,
        versions: Versions::Null,
        retry_after: Some("120"),
        ..S3
    },
    HTTPD,
    // RFC 9110, section 14.2: a server may ignore a range, for example one that covers the object.
    Dialect {
        name: "HTTP: 200 if the range is the object",
        ranges: Ranges::PartialUnlessWhole,
        ..HTTPD
    },
    // `expressjs.com/en/resources/middleware/serve-static`: weak tags, ranges. RFC 9110, section
    // 13.1.1: `If-Match` never matches a weak tag.
    Dialect {
        name: "HTTP: weak tags",
        tags: Tags::Weak,
        writes_refused: Some(405),
        lists_refused: Some(405),
        ..HTTPD
    },
    // `docs.python.org/3/library/http.server.html`: `Last-Modified`, `If-Modified-Since`, no tags.
    // `github.com/python/cpython/issues/86809`: no ranges.
    Dialect {
        name: "HTTP: http.server of Python",
        ranges: Ranges::Ignored,
        tags: Tags::None,
        conditions: Conditions::ModifiedSince,
        writes_refused: Some(501),
        lists_refused: Some(501),
        ..HTTPD
    },
    // RFC 9110, sections 8.8.2 and 8.8.3: both validators are optional. RFC 9110, section 13.2.1: a
    // server without validators has no preconditions to evaluate.
    Dialect {
        name: "HTTP: dates only",
        tags: Tags::None,
        writes_refused: Some(405),
        lists_refused: Some(405),
        ..HTTPD
    },
    Dialect {
        name: "HTTP: no validators",
        tags: Tags::None,
        has_dates: false,
        conditions: Conditions::None,
        writes_refused: Some(405),
        lists_refused: Some(405),
        ..HTTPD
    },
    // RFC 9110, section 13.1.1: caches and intermediaries may ignore `If-Match`.
    Dialect {
        name: "HTTP: cache without If-Match",
        conditions: Conditions::ModifiedSince,
        ..HTTPD
    },
    // `docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html`: an address is
    // signed for one method.
    Dialect {
        name: "HTTP: signed for GET",
        head_refused: Some(403),
        writes_refused: Some(403),
        lists_refused: Some(403),
        ..HTTPD
    },
    // RFC 9110, section 15.5.6: 405 for a method that the resource does not support.
    Dialect {
        name: "HTTP: HEAD not allowed",
        head_refused: Some(405),
        writes_refused: Some(405),
        lists_refused: Some(405),
        ..HTTPD
    },
    // `nginx.org/en/docs/http/ngx_http_gzip_static_module.html`, `gzip_static always`: the server
    // sends the compressed file to each client.
    Dialect {
        name: "HTTP: gzip_static of nginx",
        coding: Coding::Variant,
        ..HTTPD
    },
];
