//! A name somewhere in the code.

use proc_macro2::Span;
use syn::Ident;
use syn::ext::IdentExt as _;

/// A path as it is written: its segments without generic arguments. What begins with `::` is of another crate, and has
/// an empty first segment.
pub type Path = Vec<String>;

/// A path somewhere in the code.
#[derive(Debug)]
pub struct Mention {
    pub(crate) path: Path,
    pub(crate) what: What,
    pub(crate) line: usize,
}

/// What is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Item,
    Macro,
}

/// The text of an identifier, without `r#`.
pub(crate) fn text(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// The line of a piece of code.
pub(crate) fn line(span: Span) -> usize {
    span.start().line
}
