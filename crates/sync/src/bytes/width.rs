//! Width of the moves by which more than 64 bytes are copied.
//!
//! It depends on the processor's features alone (`docs/adr/0013`), and is selected when the first
//! [`Region`](crate::region::Region) is reserved. Until then, copies use 16 bytes.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

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
        if processor::supports(self) {
            Ok(())
        } else {
            Err(UnsupportedWidth(self))
        }
    }
}

/// The selected [`Width`], or 0, for which copies use [`Width::Sse2`].
///
/// All accesses of this word are `Relaxed`: it publishes no other memory, and every width that is
/// stored is supported. A copy that loads an old value uses the previous width. Models and the
/// simulator do not see it, since it has no part in a protocol.
static SELECTED: AtomicU32 = AtomicU32::new(0);

/// Returns [`SELECTED`], to compare with widths.
#[inline(always)]
pub(super) fn selected_or_zero() -> u32 {
    // ORDERING: Relaxed, see `SELECTED`.
    SELECTED.load(Ordering::Relaxed)
}

/// Returns the width that this process uses, or `None` if this build has no assembly.
#[must_use]
pub fn selected() -> Option<Width> {
    select_default();
    in_use()
}

/// Returns the width that is selected now.
pub(super) fn in_use() -> Option<Width> {
    let selected = selected_or_zero();
    let mut all = Width::ALL.into_iter();
    all.find(|&width| width as u32 == selected)
}

/// Makes all later copies of this process use `width`, to compare widths. Fails, without effect, if
/// this build or processor does not support it.
pub fn select(width: Width) -> Result<(), UnsupportedWidth> {
    width.check()?;
    // ORDERING: Relaxed, see `SELECTED`.
    SELECTED.store(width as u32, Ordering::Relaxed);
    Ok(())
}

/// Selects the default width, unless a width is selected.
pub(crate) fn select_default() {
    if selected_or_zero() != 0 {
        return;
    }
    // ORDERING: Relaxed, see `SELECTED`.
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    if let Some(width) = default_width() {
        // An error: another thread has selected a width.
        _ = SELECTED.compare_exchange(0, width as u32, success, failure);
    }
}

/// Returns the widest width that is supported and not slower than a narrower one.
pub(super) fn default_width() -> Option<Width> {
    let mut widest_first = Width::ALL.into_iter().rev();
    widest_first.find(|&width| processor::supports(width) && !processor::is_slow(width))
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

#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
mod processor {
    use std::arch::x86_64::__cpuid;

    use super::Width;

    pub(super) fn supports(width: Width) -> bool {
        match width {
            Width::Sse2 => true,
            Width::Avx => std::is_x86_feature_detected!("avx"),
            Width::Avx512 => std::is_x86_feature_detected!("avx512f"),
        }
    }

    /// Whether a supported width is slower than a narrower one. Processors before Ice Lake, which
    /// lack AVX512-VBMI2, reduce their clock frequency for moves of 64 bytes, and Zen 4 divides
    /// them.
    pub(super) fn is_slow(width: Width) -> bool {
        width == Width::Avx512 && (!std::is_x86_feature_detected!("avx512vbmi2") || is_zen_4())
    }

    /// Whether the processor is of AMD's family 19h, whose models with AVX-512 are Zen 4.
    fn is_zen_4() -> bool {
        const FAMILY_BITS: u32 = 0x0ff0_0f00;
        const FAMILY_19H: u32 = 0x00a0_0f00;
        let (vendor, version) = (__cpuid(0), __cpuid(1));
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        name.as_flattened() == b"AuthenticAMD" && version.eax & FAMILY_BITS == FAMILY_19H
    }
}

/// For builds without assembly.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
mod processor {
    use super::Width;

    pub(super) fn supports(_: Width) -> bool {
        false
    }

    pub(super) fn is_slow(_: Width) -> bool {
        false
    }
}
