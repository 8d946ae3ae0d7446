//! Bytes from a seed, and words that name their place.

use crate::rng::{Rng, mix};

/// Bytes of a word of a self-describing file.
pub const WORD: usize = 8;

/// `len` pseudo-random bytes, none of them 0: a zero among them comes from elsewhere.
#[must_use]
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = Vec::with_capacity(len + WORD);
    while bytes.len() < len {
        // With the lowest bit of every byte set; cheap without optimisation too.
        let word = rng.next_u64() | 0x0101_0101_0101_0101;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The word at byte `pos` (a multiple of 8) of file number `file` in its `version`th state.
///
/// The version is stored in the clear in the low 16 bits. So a reader who knows a word's place
/// can tell its version, and then that the rest is right.
#[must_use]
pub const fn word(file: u64, pos: u64, version: u16) -> u64 {
    mix(mix(file ^ 0x5EED) ^ mix(pos) ^ version as u64) & !0xFFFF | version as u64
}

/// Fills `bytes` with the words from byte `pos` of file number `file` on.
///
/// # Panics
///
/// When `pos` is not a multiple of 8.
pub fn write_words(bytes: &mut [u8], file: u64, pos: u64, version: u16) {
    assert!(pos.is_multiple_of(WORD as u64));
    for (i, chunk) in bytes.chunks_mut(WORD).enumerate() {
        let word = word(file, pos + (i * WORD) as u64, version).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Whether `bytes` are the bytes of file number `file` from byte `pos` on, all of one version. Returns that
/// version, or none if no whole word is among them.
///
/// # Errors
///
/// A sentence that names the fault and its place.
pub fn check_words(bytes: &[u8], file: u64, pos: u64) -> Result<Option<u16>, String> {
    let lead = (pos.next_multiple_of(WORD as u64) - pos) as usize;
    let whole = bytes.get(lead..).unwrap_or_default();
    let mut version = None;
    for (i, chunk) in whole.as_chunks::<WORD>().0.iter().enumerate() {
        let at = pos + (lead + i * WORD) as u64;
        let found = u64::from_le_bytes(*chunk);
        let says = found as u16;
        if found != word(file, at, says) {
            return Err(format!(
                "byte {at} of file {file}: {found:#018x} is not a word of it"
            ));
        }
        if *version.get_or_insert(says) != says {
            return Err(format!(
                "byte {at} of file {file}: version {says} after {version:?}"
            ));
        }
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_reproducible_and_free_of_zeros() {
        assert_eq!(content(3, 1001), content(3, 1001));
        assert_eq!(content(3, 1001)[..17], content(3, 17)[..]);
        assert_ne!(content(3, 16), content(4, 16));
        assert!(!content(5, 10_000).contains(&0));
    }

    #[test]
    fn words_that_are_foreign_torn_or_misplaced_are_found() {
        let mut bytes = [0; 64];
        write_words(&mut bytes, 1, 4096, 7);
        assert_eq!(check_words(&bytes, 1, 4096), Ok(Some(7)));
        assert_eq!(check_words(&bytes[3..], 1, 4099), Ok(Some(7)));
        assert_eq!(check_words(&bytes[3..9], 1, 4099), Ok(None));
        assert!(check_words(&bytes, 2, 4096).is_err());
        assert!(check_words(&bytes, 1, 4104).is_err());
        assert!(check_words(&[0; 16], 1, 0).is_err());

        write_words(&mut bytes[32..], 1, 4096 + 32, 8);
        assert!(check_words(&bytes, 1, 4096).is_err(), "torn");
    }
}
