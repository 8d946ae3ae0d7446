//! Which storages get several requests at once ([`super::flight`]).

use pagewell_frame::refcount::RefScheme;

use crate::mapping::record::Mapping;

/// Whether the storage of `mapping` does many writes at once.
#[cfg(not(loom))]
pub(super) fn is_deep<S: RefScheme>(mapping: &Mapping<S>) -> bool {
    use pagewell_io::Transfers::Direct;
    let backend = mapping.backend();
    matches!(backend.file_transfers(), Some(Direct { .. })) || backend.deferred().is_some()
}

/// A model has no engine.
#[cfg(loom)]
pub(super) fn is_deep<S: RefScheme>(_: &Mapping<S>) -> bool {
    false
}
