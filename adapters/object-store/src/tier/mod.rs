//! Second tier: pages in a file on a local disk.
//!
//! - Owns: the file of pages and the log of its contents ([`files`]), the table of pages and their
//!   eviction ([`slots`], [`lookup`]), the writer thread ([`disk`]).
//! - Promises: a read returns the bytes that were stored for this state of the object, or `None`: a
//!   checksum covers the state, the page number and the bytes. If the store has a name and the
//!   object a strong tag, stored pages survive a restart, except for those that a crash left
//!   incomplete. If the disk fails, is full or read-only, the tier reports this once and stores no
//!   more pages, and reads continue. The maximum memory of the tables is known before the tier is
//!   opened. The duration of the opening does not depend on the size of the tier: the writer thread
//!   reads the log, and lookups before that find nothing.
//!
//! No file is synced, since the store has all data.

pub(crate) mod disk;
mod files;
mod lookup;
mod slots;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::ObjectMeta;
use object_store::path::Path;

use crate::identity::strong_tag;

/// Key of a page: hash of the state and page number (12 bytes), and hash of the location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 16]);

/// Hash of the namespace and location of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocationHash([u8; 4]);

/// Checksum of a page and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum([u8; 16]);

/// Treatment of pages that an earlier process left in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Used,
    Removed,
}

/// Name of the store in the tier.
#[derive(Debug)]
pub(crate) enum Namespace {
    /// Name that the user has set, the same in all processes.
    Named(String),
    /// Random bytes, different from all names and from those of other wrappers.
    OfWrapper([u8; NONCE_BYTES]),
}

impl Namespace {
    pub(crate) fn new(name: Option<String>) -> Self {
        name.map_or_else(|| Self::OfWrapper(nonce()), Self::Named)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Named(name) => name.as_bytes(),
            Self::OfWrapper(nonce) => nonce,
        }
    }

    pub(crate) fn stored(&self) -> Stored {
        match self {
            Self::Named(_) => Stored::Used,
            Self::OfWrapper(_) => Stored::Removed,
        }
    }
}

/// Hashes fields with their lengths, so that different lists of fields have different hashes.
fn add(hasher: &mut blake3::Hasher, fields: &[&[u8]]) {
    for field in fields {
        hasher.update(&(field.len() as u64).to_le_bytes());
        hasher.update(field);
    }
}

impl LocationHash {
    pub(crate) fn new(namespace: &Namespace, location: &Path) -> Self {
        let mut hasher = blake3::Hasher::new();
        add(
            &mut hasher,
            &[namespace.bytes(), location.as_ref().as_bytes()],
        );
        Self(start(hasher.finalize()))
    }
}

/// Hash of an object's state, from which the keys of its pages are derived.
#[derive(Clone)]
pub(crate) struct StateHash {
    hasher: blake3::Hasher,
    location: LocationHash,
}

impl StateHash {
    /// Returns the hash of the state that `meta` describes. Without a strong entity tag, nothing
    /// proves that two openings found the same state, so each call returns another hash.
    pub(crate) fn new(namespace: &Namespace, location: &Path, meta: &ObjectMeta) -> Self {
        let mut hasher = blake3::Hasher::new();
        let Some(tag) = strong_tag(meta) else {
            add(&mut hasher, &[&nonce()]);
            let location = LocationHash(start(hasher.finalize()));
            return Self { hasher, location };
        };
        let (size, path) = (meta.size.to_le_bytes(), location.as_ref().as_bytes());
        add(
            &mut hasher,
            &[namespace.bytes(), path, &size, tag.as_bytes()],
        );
        Self {
            hasher,
            location: LocationHash::new(namespace, location),
        }
    }

    pub(crate) fn key(&self, page: u64) -> Key {
        let hash = self.hasher.clone().update(&page.to_le_bytes()).finalize();
        let mut key = start::<16>(hash);
        key[12..].copy_from_slice(&self.location.0);
        Key(key)
    }
}

impl Sum {
    fn new(key: Key, bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&key.0);
        hasher.update(bytes);
        Self(start(hasher.finalize()))
    }
}

const NONCE_BYTES: usize = 24;

/// Returns bytes that no other call returns, in this or another process.
fn nonce() -> [u8; NONCE_BYTES] {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // ORDERING: Relaxed; only uniqueness matters.
    let nr = NEXT.fetch_add(1, Ordering::Relaxed);
    // Each `RandomState` has different keys, derived from random numbers of the system.
    let random = || RandomState::new().hash_one(nr).to_le_bytes();
    let mut nonce = [0; NONCE_BYTES];
    nonce[..8].copy_from_slice(&nr.to_le_bytes());
    nonce[8..16].copy_from_slice(&random());
    nonce[16..].copy_from_slice(&random());
    nonce
}

fn start<const LEN: usize>(hash: blake3::Hash) -> [u8; LEN] {
    let mut start = [0; LEN];
    start.copy_from_slice(&hash.as_bytes()[..LEN]);
    start
}
