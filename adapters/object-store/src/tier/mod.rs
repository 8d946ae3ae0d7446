//! Second tier: pages in a file on a local disk.
//!
//! - Owns: the file of pages and the log of its contents ([`files`]), the table of pages and their
//!   eviction ([`slots`]), the writer thread ([`disk`]).
//! - Calls: `metrics`, and the eviction policy of the page cache.
//! - Promises: a read returns the bytes that were stored for exactly this state of the object, or
//!   `None`: it verifies a checksum of the object's identity, the page's number and its bytes.
//!   Stored pages survive a restart. After a crash, pages that were not written completely are
//!   missing. If the disk fails, is full or read-only, the tier reports this once, stores no more
//!   pages, and reads continue.
//!
//! No file is synced, since the store has all data.

pub(crate) mod disk;
mod files;
mod slots;

use object_store::ObjectMeta;
use object_store::path::Path;

/// Key of a page: a hash of the state of the object and of the page number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 16]);

/// Checksum of a page and its key, which also verifies that the page is the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum([u8; 16]);

/// State of an object in a store, as the hash from which the keys of its pages are derived.
#[derive(Clone)]
pub(crate) struct Identity(blake3::Hasher);

impl Identity {
    pub(crate) fn new(store: &str, meta: &ObjectMeta) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            // The lengths are hashed, too, so that different lists of fields have different hashes.
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(store.as_bytes());
        add(<Path as AsRef<str>>::as_ref(&meta.location).as_bytes());
        add(&meta.size.to_le_bytes());
        let has_name = meta.e_tag.is_some() || meta.version.is_some();
        for field in [&meta.e_tag, &meta.version] {
            add(&[u8::from(field.is_some())]);
            add(field.as_deref().unwrap_or_default().as_bytes());
        }
        if !has_name {
            add(&meta.last_modified.timestamp_micros().to_le_bytes());
        }
        Self(hasher)
    }

    pub(crate) fn key(&self, page: u64) -> Key {
        Key(first_half(
            self.0.clone().update(&page.to_le_bytes()).finalize(),
        ))
    }
}

impl Sum {
    fn new(key: Key, bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&key.0);
        hasher.update(bytes);
        Self(first_half(hasher.finalize()))
    }
}

fn first_half(hash: blake3::Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    half
}
