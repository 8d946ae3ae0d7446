//! Errors of the store, which all readers get that have waited for the same bytes.

use std::fmt;
use std::io;
use std::sync::Arc;

use object_store::Error;

/// The name of the wrapper in errors.
pub(crate) const STORE: &str = "Pagewell";

/// An error of the store, or of the wrapper, that several readers get.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    error: Arc<Error>,
    why: Why,
}

/// What an error says of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It is another one than was known, or gone.
    Changed,
    Failed,
}

impl Shared {
    /// An error of the store, of a request without conditions.
    pub(crate) fn new(error: Error) -> Self {
        Self {
            error: Arc::new(error),
            why: Why::Failed,
        }
    }

    /// An error of the store, of a request for the object as it was known.
    pub(crate) fn of_known(error: Error) -> Self {
        let is_of_change = matches!(error, Error::Precondition { .. } | Error::NotFound { .. });
        Self {
            error: Arc::new(error),
            why: if is_of_change {
                Why::Changed
            } else {
                Why::Failed
            },
        }
    }

    /// The store has another object than was known.
    pub(crate) fn changed(path: &object_store::path::Path) -> Self {
        Self {
            error: Arc::new(Error::Precondition {
                path: path.to_string(),
                source: "the object was replaced while it was being read".into(),
            }),
            why: Why::Changed,
        }
    }

    /// The store does not do as its interface says.
    pub(crate) fn broken(what: String) -> Self {
        Self::new(generic(what))
    }

    /// Whether the object is another one, or gone: to be looked up again.
    pub(crate) fn is_of_change(&self) -> bool {
        self.why == Why::Changed
    }

    /// As an error of a storage, for all that wait for a page.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::other(self)
    }

    /// What the cache's error has of the store, if it comes from there.
    pub(crate) fn of_cache(error: pagewell::Error) -> Self {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(now) = source {
            let inner = now.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            let shared = inner.and_then(|inner| inner.downcast_ref::<Self>());
            if let Some(shared) = shared.or_else(|| now.downcast_ref::<Self>()) {
                return shared.clone();
            }
            source = now.source();
        }
        Self::new(generic(error))
    }

    /// As the store said it, with this as its source.
    pub(crate) fn into_store_error(self) -> Error {
        let error = Arc::clone(&self.error);
        let source = Box::new(Cause(Arc::clone(&error)));
        match &*error {
            Error::NotFound { path, .. } => Error::NotFound {
                path: path.clone(),
                source,
            },
            Error::AlreadyExists { path, .. } => Error::AlreadyExists {
                path: path.clone(),
                source,
            },
            Error::Precondition { path, .. } => Error::Precondition {
                path: path.clone(),
                source,
            },
            Error::NotModified { path, .. } => Error::NotModified {
                path: path.clone(),
                source,
            },
            Error::PermissionDenied { path, .. } => Error::PermissionDenied {
                path: path.clone(),
                source,
            },
            Error::Unauthenticated { path, .. } => Error::Unauthenticated {
                path: path.clone(),
                source,
            },
            Error::NotSupported { .. } => Error::NotSupported { source },
            Error::Generic { store, .. } => Error::Generic { store, source },
            _ => Error::Generic {
                store: STORE,
                source,
            },
        }
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// What an error is because of, without what it says itself.
#[derive(Debug)]
struct Cause(Arc<Error>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::error::Error::source(&*self.0) {
            Some(source) => fmt::Display::fmt(source, f),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)?.source()
    }
}

/// An error that has no name of its own in the interface of stores.
pub(crate) fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic {
        store: STORE,
        source: source.into(),
    }
}
