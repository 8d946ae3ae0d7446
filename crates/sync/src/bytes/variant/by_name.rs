//! Copies by a given variant, and functions that return or force the variant of this process.

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
use self::without_assembly as native;
use super::super::place::RacyBytes;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
use super::super::x86_64 as native;
use super::names::{Choice, Unusable, Variant};

impl Variant {
    /// Copies all of `src` to all of `dst` with this variant, for tests and measurements.
    /// Panics if this build or processor does not support it, or if the lengths differ.
    #[track_caller]
    pub fn copy(self, dst: RacyBytes<'_>, src: RacyBytes<'_>) {
        self.must_be_usable();
        native::copy_with(self, dst, src);
    }

    /// Zeros `dst` with this variant. Panics if this build or processor does not support it.
    #[track_caller]
    pub fn zero(self, dst: RacyBytes<'_>) {
        self.must_be_usable();
        native::zero_with(self, dst);
    }

    #[track_caller]
    fn must_be_usable(self) {
        if let Err(unusable) = self.check() {
            panic!("{unusable}");
        }
    }
}

/// Returns the variant that this process uses, which the first call may have to measure.
#[must_use]
pub fn choice() -> Choice {
    native::choice::choice()
}

/// Makes all later long copies of this process use `variant`, to compare variants. Fails, without
/// effect, if this build or processor does not support it.
pub fn force(variant: Variant) -> Result<(), Unusable> {
    variant.check()?;
    native::choice::force(variant);
    Ok(())
}

/// Counterpart of `x86_64` for builds without assembly.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
mod without_assembly {
    use super::super::super::place::RacyBytes;
    use super::super::super::portable;
    use super::super::names::Variant;

    pub(super) fn copy_with(_: Variant, dst: RacyBytes<'_>, src: RacyBytes<'_>) {
        portable::copy_between(dst, src);
    }

    pub(super) fn zero_with(_: Variant, dst: RacyBytes<'_>) {
        portable::zero(dst);
    }

    pub(super) mod choice {
        use super::super::super::names::{Choice, Reason, Variant};

        pub(in super::super) fn choice() -> Choice {
            Choice {
                variant: Variant::Portable,
                reason: Reason::Only,
            }
        }

        pub(in super::super) fn force(_: Variant) {}
    }
}
