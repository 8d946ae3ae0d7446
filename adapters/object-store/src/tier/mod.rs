//! The second tier: pages in a file on a local disk.
//!
//! - Owns: the file of pages and the log of what is in it ([`files`]), which pages are there and which go next ([`slots`]), the thread that writes ([`disk`]).
//! - Calls: `metrics`, and the policy that the page cache evicts by.
//! - Promises: what is given is what was kept, of this very state of the object, or nothing: a checksum over the object's identity, the page's number and its
//!   bytes is looked at before any byte is. A restart finds what was kept; after a crash, what did not get to the disk whole is missing. When the disk fails, is full or
//!   read-only, the tier keeps nothing more, says so once, and the reads go on without it.
//!
//! Nothing is synced: there is nothing here that the store has not.

pub(crate) mod disk;
mod files;
mod slots;

use object_store::ObjectMeta;
use object_store::path::Path;

/// What a page is kept under: of which state of which object, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 16]);

/// What is kept with a page, to find out whether it is whole, and the one that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum([u8; 16]);

/// The state of an object in a store, as far as keys go.
#[derive(Clone)]
pub(crate) struct Identity(blake3::Hasher);

impl Identity {
    pub(crate) fn new(store: &str, meta: &ObjectMeta) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            // With their lengths, so that no two lists of fields are alike.
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
    /// Of the bytes of the page that is kept under `key`.
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
