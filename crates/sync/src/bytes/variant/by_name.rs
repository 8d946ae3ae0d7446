//! Copies by a variant that is named, and the variant that is used otherwise.

#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan)))))]
use self::without_assembly as native;
use super::super::place::RacyBytes;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, pagewell_tsan))))]
use super::super::x86_64 as native;
use super::names::{Choice, Unusable, Variant};

impl Variant {
    /// Copies all of `src` to all of `dst` by this variant, whichever is used otherwise: for tests and
    /// measurements. For the rest it is [`RacyBytes::copy_from_racy`].
    ///
    /// # Panics
    ///
    /// When it cannot be used here, and when the lengths differ.
    #[track_caller]
    pub fn copy(self, dst: RacyBytes<'_>, src: RacyBytes<'_>) {
        self.must_be_usable();
        native::copy_with(self, dst, src);
    }

    /// Makes all bytes of `dst` zero by this variant: as [`copy`](Self::copy).
    ///
    /// # Panics
    ///
    /// When it cannot be used here.
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

/// The variant that is used in this process, and why; it is measured now, if no long copy has been made
/// yet.
#[must_use]
pub fn choice() -> Choice {
    native::choice::choice()
}

/// Has `variant` used from now on by all long copies of this process: for programs that compare the
/// variants. Copies under way are not touched.
///
/// # Errors
///
/// [`Unusable`], when it cannot be used here; then nothing changes.
pub fn force(variant: Variant) -> Result<(), Unusable> {
    variant.check()?;
    native::choice::force(variant);
    Ok(())
}

/// What `x86_64` has for a build with assembly.
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
