//! C interface of Pagewell. cbindgen generates `pagewell.h` from the functions and their comments.
//!
//! | module | contents |
//! |---|---|
//! | `error` | codes, messages, the last error of a thread |
//! | `handles` | numbers by which programs refer to objects; check before an object is closed |
//! | `arguments` | checks of pointers, sizes and offsets |
//! | `entry` | wrappers of calls: convert panics into errors |
//! | `pins` | storage of pins |
//! | `cache` | caches and their options |
//! | `hooks` | writeback callbacks and page codecs of the program |
//! | `file` | files: options, open, close, information |
//! | `read` | reads, pins, views, advice |
//! | `write` | writes, syncs |
//! | `edit` | pages pinned for writing |
//! | `queue` | asynchronous requests |
//!
//! A module calls only modules above it in this table. `modelled.rs` is the root of `models/capi`,
//! the crate of the loom models.

// The header states the obligations of the callers, which are C programs.
#![allow(clippy::missing_safety_doc)]
#![allow(clippy::too_many_arguments)]
#![allow(non_camel_case_types)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles are 64 bits, and are passed as pointers");

mod arguments;
mod cache;
mod edit;
mod entry;
mod error;
mod file;
mod handles;
mod hooks;
mod pins;
mod queue;
mod read;
mod write;

pub use self::cache::*;
pub use self::edit::*;
pub use self::error::*;
pub use self::file::*;
pub use self::hooks::*;
pub use self::pins::pw_page;
pub use self::queue::*;
pub use self::read::*;
pub use self::write::*;

/// Returns the version of the library, for example "0.1.0". The string is never null, and stays
/// valid until the process ends.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn pw_version() -> *const std::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
