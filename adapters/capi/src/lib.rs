//! The C interface of Pagewell: `pagewell.h`, which cbindgen makes of this crate, and the functions behind it.
//!
//! The header is the documentation: what a C program may rely on is said there, at the functions, which are here. How handles are made safe is said in
//! `handles`, how pins are in `pins`, how requests are in `queue`.
//!
//! | room | what |
//! |---|---|
//! | `error` | codes, texts, the last error of a thread |
//! | `handles` | from a number to an object, and who may close |
//! | `arguments` | pointers, sizes and offsets, checked |
//! | `entry` | what every call goes through: panics become errors |
//! | `pins` | where pins are kept |
//! | `cache` | caches, their options |
//! | `hooks` | functions of the program's that files call |
//! | `file` | files: options, opening, closing, what is known of them |
//! | `read` | reads, pins, views, advice |
//! | `write` | writes, syncs |
//! | `edit` | pages that are pinned to be changed |
//! | `queue` | requests that do not wait |
//!
//! A room calls rooms above it in this table only. `modelled.rs` is the root of another crate: of what has models (`models/capi`).

// The duties of the callers, which are C programs, are in the header.
#![allow(clippy::missing_safety_doc)]
// Answers are taken whole by the calls that are exported.
#![allow(clippy::too_many_arguments)]
// In C they are `struct pw_file`.
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

/// The version of the library, as "0.1.0".
///
/// Returns: a text that is never null and stays for as long as the process runs.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn pw_version() -> *const std::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
