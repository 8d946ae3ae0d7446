//! Traces: what a program has asked of its files, as other tools have written it down.
//!
//! | module | what |
//! |---|---|
//! | [`request`] | a request, and what makes a line a bad one |
//! | [`error`] | why a trace cannot be read |
//! | [`files`] | the files that a trace names, as numbers |
//! | [`source`] | bytes of a file or a pipe, unpacked |
//! | [`lines`] | lines of bounded length |
//! | [`formats`] | what a line of each format says |
//! | [`detect`] | which format it is |
//! | [`reader`] | from bytes to requests; bad lines |
//!
//! - **Owns** the formats, and what is a bad line.
//! - **May call** nothing of the command: the fuzz target `traces` compiles this room by itself.
//! - **Promises** that no bytes make it panic; that it keeps a bounded amount of memory, whatever the trace; and that an error says
//!   where in the trace it is.

mod detect;
mod error;
mod files;
mod formats;
mod lines;
mod reader;
mod request;
mod source;
#[cfg(test)]
mod tests;
mod zstd;

pub(crate) use self::detect::Format;
pub(crate) use self::error::TraceError;
pub(crate) use self::reader::{Options, Report, read};
pub(crate) use self::request::{Op, Request, Span};
pub(crate) use self::source::Source;
