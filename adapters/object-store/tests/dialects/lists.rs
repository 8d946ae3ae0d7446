//! Listings and bulk deletes, in the XML and multipart formats of the protocols.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::server::{Answer, BUCKET, Request, State, Version, http_date};
use crate::table::{Client, Coding, Dialect};

struct Entry {
    path: String,
    size: u64,
    tag: Option<String>,
    time: String,
}

fn entry(dialect: &Dialect, path: &str, version: &Version) -> Option<Entry> {
    let size = version.bytes()?.len() as u64;
    let tag = version.tag(dialect);
    let (size, tag) = match dialect.coding {
        // The file that is not compressed.
        Coding::Variant => (size * 3, tag.map(|tag| tag.replace("tag-", "file-"))),
        _ => (size, tag),
    };
    let modified = version.modified();
    let time = match (dialect.client, dialect.has_milliseconds_in_lists) {
        (Client::Azure | Client::Http, _) => http_date(modified),
        (_, true) => modified.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        (_, false) => modified.format("%Y-%m-%dT%H:%M:%S.000Z").to_string(),
    };
    Some(Entry {
        path: path.to_owned(),
        size,
        tag: tag.map(|tag| match dialect.has_quotes_in_lists {
            true => tag.replace('"', "&quot;"),
            false => tag.replace('"', ""),
        }),
        time,
    })
}

/// Answers a request for the objects below a prefix.
pub(crate) fn list(dialect: &Dialect, state: &State, request: &Request) -> Answer {
    let get = |name: &str| request.query.get(name).map(String::as_str);
    let (prefix, is_flat) = match dialect.client {
        Client::Http => {
            let folder = request.path.trim_matches('/');
            let prefix = match folder {
                "" => String::new(),
                folder => format!("{folder}/"),
            };
            let is_flat = request.headers.get("depth").map(String::as_str) == Some("infinity");
            (prefix, is_flat)
        }
        _ => {
            let prefix = get("prefix").unwrap_or_default().to_owned();
            (prefix, get("delimiter").is_none())
        }
    };
    let (mut entries, mut folders) = (Vec::new(), BTreeSet::new());
    for (path, versions) in &state.objects {
        let Some(rest) = path.strip_prefix(&prefix) else {
            continue;
        };
        let is_before = get("start-after").is_some_and(|start| path.as_str() <= start)
            || get("startFrom").is_some_and(|start| path.as_str() < start);
        let entry = versions
            .last()
            .and_then(|version| entry(dialect, path, version));
        let Some(entry) = entry.filter(|_| !is_before) else {
            continue;
        };
        match rest.split_once('/') {
            Some((folder, _)) if !is_flat => {
                folders.insert(format!("{prefix}{folder}/"));
            }
            _ => entries.push(entry),
        }
    }
    match dialect.client {
        Client::S3 | Client::Gcs => Answer::new(200, s3(&entries, &folders)),
        Client::Azure => Answer::new(200, azure(&entries, &folders)),
        Client::Http => Answer::new(207, web_dav(&entries, &folders)),
    }
}

fn s3(entries: &[Entry], folders: &BTreeSet<String>) -> String {
    let mut xml = "<ListBucketResult>".to_owned();
    for entry in entries {
        let tag = entry.tag.as_deref().unwrap_or_default();
        let (path, size, time) = (&entry.path, entry.size, &entry.time);
        let _ = write!(
            xml,
            "<Contents><Key>{path}</Key><LastModified>{time}</LastModified><ETag>{tag}</ETag>\
             <Size>{size}</Size></Contents>"
        );
    }
    for folder in folders {
        let _ = write!(
            xml,
            "<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"
        );
    }
    xml + "</ListBucketResult>"
}

fn azure(entries: &[Entry], folders: &BTreeSet<String>) -> String {
    let mut xml = "<EnumerationResults><Blobs>".to_owned();
    for entry in entries {
        let tag = entry.tag.as_deref().unwrap_or_default();
        let (path, size, time) = (&entry.path, entry.size, &entry.time);
        let _ = write!(
            xml,
            "<Blob><Name>{path}</Name><Properties><Last-Modified>{time}</Last-Modified>\
             <Etag>{tag}</Etag><Content-Length>{size}</Content-Length>\
             <Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
        );
    }
    for folder in folders {
        let _ = write!(xml, "<BlobPrefix><Name>{folder}</Name></BlobPrefix>");
    }
    xml + "</Blobs><NextMarker/></EnumerationResults>"
}

fn web_dav(entries: &[Entry], folders: &BTreeSet<String>) -> String {
    let mut xml = "<D:multistatus xmlns:D=\"DAV:\">".to_owned();
    let mut add = |path: &str, properties: String| {
        let _ = write!(
            xml,
            "<D:response><D:href>/{path}</D:href><D:propstat><D:prop>{properties}</D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        );
    };
    for folder in folders {
        let properties = "<D:getlastmodified>Mon, 01 Jan 2024 00:00:00 GMT</D:getlastmodified>\
                          <D:resourcetype><D:collection/></D:resourcetype>";
        add(folder, properties.to_owned());
    }
    for entry in entries {
        let tag = entry.tag.as_deref().unwrap_or_default();
        let (size, time) = (entry.size, &entry.time);
        let properties = format!(
            "<D:getlastmodified>{time}</D:getlastmodified><D:getetag>{tag}</D:getetag>\
             <D:getcontentlength>{size}</D:getcontentlength><D:resourcetype/>"
        );
        add(&entry.path, properties);
    }
    xml + "</D:multistatus>"
}

/// Returns the parts of `text` that are between `start` and `end`.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Vec<&'t str> {
    let parts = text.split(start).skip(1);
    parts
        .filter_map(|part| Some(part.split_once(end)?.0))
        .collect()
}

/// Answers a bulk delete: `DeleteObjects` of S3, or `Blob Batch` of Azure.
pub(crate) fn delete(dialect: &Dialect, state: &mut State, request: &Request) -> Answer {
    let body = String::from_utf8_lossy(&request.body);
    if dialect.client == Client::S3 {
        let mut xml = "<DeleteResult>".to_owned();
        for path in between(&body, "<Key>", "</Key>") {
            // The deletion of an object that does not exist succeeds.
            state.delete(path, dialect);
            let _ = write!(xml, "<Deleted><Key>{path}</Key></Deleted>");
        }
        return Answer::new(200, xml + "</DeleteResult>");
    }
    let mut parts = String::new();
    for (nr, line) in between(&body, "DELETE /", " HTTP/1.1")
        .into_iter()
        .enumerate()
    {
        let path = line.strip_prefix(&format!("{BUCKET}/")).unwrap_or(line);
        let status = match state.delete(path, dialect) {
            true => "202 Accepted",
            false => "404 The specified blob does not exist.",
        };
        let _ = write!(
            parts,
            "--batch\r\nContent-Type: application/http\r\nContent-ID: {nr}\r\n\r\n\
             HTTP/1.1 {status}\r\nx-ms-version: 2023-11-03\r\n\r\n"
        );
    }
    let mut answer = Answer::new(202, parts + "--batch--\r\n");
    let kind = "multipart/mixed; boundary=batch".to_owned();
    answer.headers.push(("content-type", kind));
    answer
}
