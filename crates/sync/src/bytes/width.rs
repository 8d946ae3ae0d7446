//! Width of the moves by which more than 64 bytes are copied.
//!
//! It depends on the processor's features alone (`docs/adr/0013`), and is selected when the first
//! [`Region`](crate::region::Region) is reserved. Until then, copies use 16 bytes.

use std::fmt;

use super::place::RacyBytes;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
use super::x86_64 as native;

/// Width of the moves of a long copy. Copies of at most 64 bytes are the same for all widths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Width {
    /// 16 bytes, which every x86-64 processor has.
    Sse2 = 1,
    /// 32 bytes.
    Avx = 2,
    /// 64 bytes.
    Avx512 = 3,
}

impl Width {
    /// All widths, the narrowest first.
    pub const ALL: [Width; 3] = [Width::Sse2, Width::Avx, Width::Avx512];

    /// Returns the name, for output that programs parse.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Width::Sse2 => "sse2",
            Width::Avx => "avx",
            Width::Avx512 => "avx512",
        }
    }

    /// Fails if this build has no assembly, or if the processor or the system lacks the registers.
    pub fn check(self) -> Result<(), UnsupportedWidth> {
        match native::supports(self) {
            true => Ok(()),
            false => Err(UnsupportedWidth(self)),
        }
    }

    /// Copies all of `src` to all of `dst` by moves of this width, for tests. Panics if this build
    /// or processor does not support it, or if the lengths differ.
    #[track_caller]
    pub fn copy(self, dst: RacyBytes<'_>, src: RacyBytes<'_>) {
        self.must_be_supported();
        native::copy_with(self, dst, src);
    }

    /// Zeros `dst` by moves of this width. Panics if this build or processor does not support it.
    #[track_caller]
    pub fn zero(self, dst: RacyBytes<'_>) {
        self.must_be_supported();
        native::zero_with(self, dst);
    }

    #[track_caller]
    fn must_be_supported(self) {
        if let Err(error) = self.check() {
            panic!("{error}");
        }
    }
}

/// Returns the width that this process uses, or `None` if this build has no assembly.
#[must_use]
pub fn selected() -> Option<Width> {
    select_default();
    native::selected()
}

/// Makes all later copies of this process use `width`, to compare widths. Fails, without effect, if
/// this build or processor does not support it.
pub fn select(width: Width) -> Result<(), UnsupportedWidth> {
    width.check()?;
    native::select(width);
    Ok(())
}

/// Selects the default width, unless a width is selected.
pub(crate) fn select_default() {
    native::select_default();
}

/// Error of a width that this build, processor or operating system does not support.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnsupportedWidth(Width);

impl fmt::Display for UnsupportedWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        write!(
            f,
            "cannot copy by {name}: this processor, system or build lacks it"
        )
    }
}

impl std::error::Error for UnsupportedWidth {}

/// Counterpart of `x86_64` for builds without assembly.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
mod native {
    use super::{RacyBytes, Width};

    pub(super) fn supports(_: Width) -> bool {
        false
    }

    pub(super) fn copy_with(_: Width, _: RacyBytes<'_>, _: RacyBytes<'_>) {}

    pub(super) fn zero_with(_: Width, _: RacyBytes<'_>) {}

    pub(super) fn select(_: Width) {}

    pub(super) fn select_default() {}

    pub(super) fn selected() -> Option<Width> {
        None
    }
}
