//! The entries of the trees.

use crate::failure::Failure;

/// How long a key is, and a value.
const KEY: usize = 8;
pub(super) const VALUE: usize = 120;

/// The key with this number. Its bytes are the same for all runs, and in no order.
pub(super) fn key(nr: u64) -> [u8; KEY] {
    // Odd, so that no two numbers have one key.
    nr.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// The value of the key with this number, which is in its first bytes.
pub(super) fn value(nr: u64) -> [u8; VALUE] {
    let mut value = [nr as u8; VALUE];
    value[..8].copy_from_slice(&nr.to_le_bytes());
    value
}

/// Why a run ends.
pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::because("the tree has failed", error)
}
