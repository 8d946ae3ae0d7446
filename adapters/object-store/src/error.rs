//! Errors that several readers can share.

use std::fmt;
use std::io;
use std::sync::Arc;

use object_store::Error;
use pagewell::io::engine::GivenUp;

pub(crate) const STORE: &str = "Pagewell";

#[derive(Clone, Debug)]
pub(crate) struct Shared {
    error: Arc<Error>,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Changed,
    /// The object was found to be replaced at each try, for example since servers disagree.
    Disputed,
    Uncacheable,
    /// The cache has no memory for the object.
    Full,
    /// The task of the request ended early.
    Abandoned,
    TimedOut,
    Failed,
}

impl Shared {
    /// Wraps an error of an unconditional request.
    pub(crate) fn new(error: Error) -> Self {
        Self {
            error: Arc::new(error),
            why: Why::Failed,
        }
    }

    /// Wraps an error of a request for a known state of an object.
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

    pub(crate) fn changed(path: &object_store::path::Path) -> Self {
        Self {
            error: Arc::new(Error::Precondition {
                path: path.to_string(),
                source: "the object was replaced while it was being read".into(),
            }),
            why: Why::Changed,
        }
    }

    pub(crate) fn broken(what: String) -> Self {
        Self::new(generic(what))
    }

    /// Returns `true` if the object was replaced or deleted, so that the caller must open it again.
    pub(crate) fn is_of_change(&self) -> bool {
        self.why == Why::Changed
    }

    pub(crate) fn uncacheable(error: Error) -> Self {
        Self {
            error: Arc::new(error),
            why: Why::Uncacheable,
        }
    }

    pub(crate) fn into_disputed(self) -> Self {
        Self {
            why: Why::Disputed,
            ..self
        }
    }

    pub(crate) fn is_disputed(&self) -> bool {
        self.why == Why::Disputed
    }

    pub(crate) fn into_uncacheable(self) -> Self {
        Self {
            why: Why::Uncacheable,
            ..self
        }
    }

    pub(crate) fn abandoned(what: impl fmt::Display) -> Self {
        let why = "its task panicked, or the runtime of the task was shut down";
        Self {
            error: Arc::new(generic(format!("{what}: {why}"))),
            why: Why::Abandoned,
        }
    }

    /// Returns `true` if the operation may succeed when the caller repeats it on its own runtime.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.why == Why::Abandoned
    }

    pub(crate) fn timeout(what: String) -> Self {
        Self {
            error: Arc::new(generic(what)),
            why: Why::TimedOut,
        }
    }

    pub(crate) fn is_timeout(&self) -> bool {
        self.why == Why::TimedOut
    }

    pub(crate) fn is_of_missing(&self) -> bool {
        matches!(*self.error, Error::NotFound { .. })
    }

    pub(crate) fn is_not_supported(&self) -> bool {
        matches!(*self.error, Error::NotSupported { .. })
    }

    pub(crate) fn is_uncacheable(&self) -> bool {
        self.why == Why::Uncacheable
    }

    pub(crate) fn full(error: pagewell::Error) -> Self {
        Self {
            error: Arc::new(generic(error)),
            why: Why::Full,
        }
    }

    /// Returns `true` if the caller must pass its request on to the store.
    pub(crate) fn is_for_store(&self) -> bool {
        matches!(self.why, Why::Disputed | Why::Uncacheable | Why::Full)
    }

    /// Converts to an error of a backend. The cache returns it only to the reader that began the
    /// request. Other readers of the page repeat the request.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::other(self)
    }

    /// Returns the error of the store that is the source of `error`, or else wraps `error`. If the
    /// request was dropped without an answer, the result is an [abandoned](Self::abandoned) one.
    pub(crate) fn of_cache(error: pagewell::Error) -> Self {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(now) = source {
            let inner = now.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            let shared = inner.and_then(|inner| inner.downcast_ref::<Self>());
            if let Some(shared) = shared.or_else(|| now.downcast_ref::<Self>()) {
                return shared.clone();
            }
            if inner.is_some_and(|inner| inner.is::<GivenUp>()) || now.is::<GivenUp>() {
                return Self::abandoned(error);
            }
            source = now.source();
        }
        Self::new(generic(error))
    }

    /// Returns an error of the same kind with this source. Rarer kinds become [`Error::Generic`].
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

/// Source of an error, without the message of the error itself.
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

/// Wraps `source` in [`Error::Generic`], for errors without a kind of the store interface.
pub(crate) fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic {
        store: STORE,
        source: source.into(),
    }
}
