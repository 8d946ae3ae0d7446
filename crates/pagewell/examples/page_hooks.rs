//! Two files whose pages are changed on their way to the storage: one with checksums, one encrypted: `cargo run -p pagewell --example page_hooks`.
//!
//! Both are the program's part, in some thirty lines each: a [`PageHooks`], and a page of which the last bytes are left for it. The program writes zeros there
//! (or nothing), and reads zeros; the storage has a checksum, or a nonce and a tag.
//!
//! # What a checksum of each page finds
//!
//! Bytes that changed in the storage, pages that were written in part when the power was lost, and pages that came to another place, since the number of the page is
//! summed up too. What it does not find: a whole page of an earlier time, which has a good checksum (a write that the device said it had done, and lost); and, unless holes are
//! refused, a page of zeros.
//!
//! # What encryption of each page is good for, and what not
//!
//! Each page is sealed by XChaCha20-Poly1305 (crate `chacha20poly1305`), with a nonce at random for each time that it is written, so that two versions of a page tell nothing of each other, and
//! with the identity of the file and the number of the page as associated data. Who has the storage, and not the key,
//! - does not learn what is in the pages, and cannot change any of it, nor move a page to another place or file: that is an error, which names the page;
//! - *does* learn how large the file is, which pages were written, and when, which pages nobody has written, and whatever leaks by that;
//! - *can* put an earlier version of a page, or of the whole file, in place of the present one (replay). Nothing in the page tells its age. Who has to find that out keeps something
//!   outside of the storage, or of the page: a counter of versions for each page, or a tree of tags with its root in a safe place;
//! - *can* cut the file to whole pages, or make it longer; here holes are refused, and how many pages there are is for the program to know.
//!
//! The pages are in plain text in the cache's memory, and so may be in a swap file or a core dump. The key here is made at random and lost at the end; a program has to keep it.

use std::io;
use std::sync::Arc;

use chacha20poly1305::aead::{AeadInOut, Generate, Key, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use pagewell::{Cache, ErrorKind, File, OpenOptions, OutgoingPage, PageHooks};

type Failure = Box<dyn std::error::Error>;

const PAGE: usize = 4096;

/// A checksum at the end of each page.
struct Checksummed;

impl Checksummed {
    const TRAILER: usize = 4;

    fn sum(page: u64, body: &[u8]) -> [u8; 4] {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&page.to_le_bytes());
        hasher.update(body);
        hasher.finalize().to_le_bytes()
    }
}

impl PageHooks for Checksummed {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        for page in pages {
            let nr = page.page();
            let (body, trailer) = split(page.bytes_mut(), Self::TRAILER);
            check_free(trailer)?;
            trailer.copy_from_slice(&Self::sum(nr, body));
        }
        Ok(())
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (body, trailer) = split(bytes, Self::TRAILER);
        if *trailer != Self::sum(page, body) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checksum is another one",
            ));
        }
        trailer.fill(0);
        Ok(())
    }
}

/// Pages that are sealed, with a nonce and a tag at the end of each.
struct Sealed {
    cipher: XChaCha20Poly1305,
    /// What tells this file from others with the same key.
    file: u64,
}

impl Sealed {
    const NONCE: usize = 24;
    const TAG: usize = 16;
    const TRAILER: usize = Self::NONCE + Self::TAG;

    fn associated_data(&self, page: u64) -> [u8; 16] {
        let mut data = [0; 16];
        data[..8].copy_from_slice(&self.file.to_le_bytes());
        data[8..].copy_from_slice(&page.to_le_bytes());
        data
    }
}

impl PageHooks for Sealed {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        for page in pages {
            let data = self.associated_data(page.page());
            let (body, trailer) = split(page.bytes_mut(), Self::TRAILER);
            check_free(trailer)?;
            let nonce = XNonce::try_generate().map_err(io::Error::other)?;
            let tag = self
                .cipher
                .encrypt_inout_detached(&nonce, &data, body.into())
                .map_err(io::Error::other)?;
            trailer[..Self::NONCE].copy_from_slice(&nonce);
            trailer[Self::NONCE..].copy_from_slice(&tag);
        }
        Ok(())
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        let data = self.associated_data(page);
        let (body, trailer) = split(bytes, Self::TRAILER);
        let bad = |_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "it was not sealed with this key, for this place",
            )
        };
        let nonce = XNonce::try_from(&trailer[..Self::NONCE]).map_err(io::Error::other)?;
        let tag = Tag::try_from(&trailer[Self::NONCE..]).map_err(io::Error::other)?;
        self.cipher
            .decrypt_inout_detached(&nonce, &data, body.into(), &tag)
            .map_err(bad)?;
        trailer.fill(0);
        Ok(())
    }

    fn hole(&self, _page: u64) -> io::Result<()> {
        // This program writes every page before it reads it. So somebody else has made it zeros.
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "nobody with the key has written it",
        ))
    }
}

/// A page's bytes for the program, and those at its end for the hook.
fn split(bytes: &mut [u8], trailer: usize) -> (&mut [u8], &mut [u8]) {
    bytes.split_at_mut(bytes.len() - trailer)
}

/// The bytes for the hook would be lost, if the program had used them.
fn check_free(trailer: &[u8]) -> io::Result<()> {
    match trailer.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the end of the page is in use",
        )),
    }
}

/// Writes three pages with `text` in each, which are durable then.
fn write_pages(file: &File, text: &str, trailer: usize) -> Result<(), Failure> {
    for page in 0..3_u64 {
        let mut body = format!("{text} of page {page}. ").repeat(PAGE);
        body.truncate(PAGE - trailer);
        file.write_at(body.as_bytes(), page * PAGE as u64)?;
    }
    file.set_size(3 * PAGE as u64)?;
    Ok(file.sync_data()?)
}

/// Changes a bit of the stored file, and shows what a reader of the cache is told.
fn break_page(path: &std::path::Path, file: &File, page: u64) -> Result<(), Failure> {
    use std::os::unix::fs::FileExt;
    let storage = std::fs::File::options().read(true).write(true).open(path)?;
    let mut byte = [0];
    let at = page * PAGE as u64 + 1000;
    storage.read_exact_at(&mut byte, at)?;
    storage.write_all_at(&[byte[0] ^ 1], at)?;
    file.invalidate(0..u64::MAX);
    for nr in 0..3 {
        match file.pin(nr) {
            Ok(pin) => println!("  page {nr}: {}...", String::from_utf8_lossy(&pin[..24])),
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                println!("  page {nr}: {error}: {}", source.unwrap_or_default());
                assert_eq!((nr, error.kind()), (page, ErrorKind::Corrupt));
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let cache = Cache::builder().capacity(16 << 20).build()?;

    println!("with checksums:");
    let path = dir.path().join("checksummed");
    let options = OpenOptions::new()
        .create()
        .page_hooks(Arc::new(Checksummed));
    let file = cache.open_with(&path, &options)?;
    write_pages(&file, "the content", Checksummed::TRAILER)?;
    let stored = std::fs::read(&path)?;
    assert!(stored.starts_with(b"the content"));
    println!(
        "  page 0 ends with {:02x?} in the storage",
        &stored[PAGE - 4..PAGE]
    );
    break_page(&path, &file, 1)?;

    println!("encrypted:");
    let path = dir.path().join("sealed");
    let key = Key::<XChaCha20Poly1305>::generate();
    let cipher = XChaCha20Poly1305::new(&key);
    let hooks = Arc::new(Sealed { cipher, file: 1 });
    let options = OpenOptions::new().create().page_hooks(hooks);
    let file = cache.open_with(&path, &options)?;
    write_pages(&file, "the secret", Sealed::TRAILER)?;
    let stored = std::fs::read(&path)?;
    let nr_plain = stored
        .windows(10)
        .filter(|part| part == b"the secret")
        .count();
    assert_eq!(nr_plain, 0);
    println!("  page 0 begins with {:02x?} in the storage", &stored[..8]);
    break_page(&path, &file, 2)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell::io::MemoryBackend;

    #[test]
    fn both_files_are_stored_as_they_should_and_tell_what_is_broken() {
        main().unwrap();
    }

    fn sealed(key: &Key<XChaCha20Poly1305>, file: u64) -> OpenOptions {
        let cipher = XChaCha20Poly1305::new(key);
        let options = OpenOptions::new().write();
        options.page_hooks(Arc::new(Sealed { cipher, file }))
    }

    fn kind(file: &File, page: u64) -> Option<ErrorKind> {
        file.pin(page).err().map(|error| error.kind())
    }

    #[test]
    fn pages_are_read_with_their_key_at_their_place_and_an_old_one_is_not_told() {
        let keys = [
            Key::<XChaCha20Poly1305>::generate(),
            Key::<XChaCha20Poly1305>::generate(),
        ];
        let storage = Arc::new(MemoryBackend::writable(Vec::new()));
        let cache = Cache::builder().capacity(16 << 20).build().unwrap();
        let open = |options: &OpenOptions| {
            cache
                .open_backend_with(Arc::clone(&storage), "sealed", options)
                .unwrap()
        };
        let file = open(&sealed(&keys[0], 7));
        write_pages(&file, "the secret", Sealed::TRAILER).unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        storage.modify(|bytes| first.clone_from(bytes));
        // The same text, written again, is stored as something else.
        write_pages(&file, "the secret", Sealed::TRAILER).unwrap();
        storage.modify(|bytes| second.clone_from(bytes));
        assert!(first.iter().zip(&second).filter(|(a, b)| a == b).count() < first.len() / 16);
        drop(file);
        for (key, identity, expected) in [
            (&keys[0], 7, None),
            (&keys[1], 7, Some(ErrorKind::Corrupt)),
            (&keys[0], 8, Some(ErrorKind::Corrupt)),
        ] {
            let file = open(&sealed(key, identity));
            assert_eq!(kind(&file, 0), expected);
        }
        let file = open(&sealed(&keys[0], 7));
        // Another place, and zeros.
        storage.modify(|bytes| bytes.copy_within(..PAGE, PAGE));
        assert_eq!(kind(&file, 1), Some(ErrorKind::Corrupt));
        storage.modify(|bytes| bytes[2 * PAGE..].fill(0));
        assert_eq!(kind(&file, 2), Some(ErrorKind::Corrupt));
        // What this does not find: a page of an earlier time.
        storage.modify(|bytes| bytes.copy_from_slice(&first));
        assert_eq!(kind(&file, 0), None);
        file.invalidate(0..u64::MAX);
        assert!(file.pin(0).unwrap().starts_with(b"the secret"));
    }

    #[test]
    fn a_program_that_uses_the_end_of_a_page_is_told() {
        for (trailer, options) in [
            (
                Checksummed::TRAILER,
                OpenOptions::new().write().page_hooks(Arc::new(Checksummed)),
            ),
            (
                Sealed::TRAILER,
                sealed(&Key::<XChaCha20Poly1305>::generate(), 1),
            ),
        ] {
            let cache = Cache::builder().capacity(16 << 20).build().unwrap();
            let storage = MemoryBackend::writable(Vec::new());
            let file = cache.open_backend_with(storage, "file", &options).unwrap();
            file.write_at(&vec![1; PAGE - trailer], 0).unwrap();
            file.sync_data().unwrap();
            file.write_at(&[1], (PAGE - trailer) as u64).unwrap();
            let error = file.sync_data().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            file.discard(0..u64::MAX).unwrap();
            let _ = file.sync_data();
        }
    }
}
