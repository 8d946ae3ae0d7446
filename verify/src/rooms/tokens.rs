//! What the tokens of a macro name. They are no Rust yet, so paths are found by their form: names with `::` between.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::mention::{Mention, Path, What, line, text};

/// Something that tokens name.
pub(crate) enum Named {
    Path(Mention),
    Use(syn::ItemUse),
}

/// What is named in the tokens of a macro's call, or of its definition.
pub(crate) fn named(stream: TokenStream) -> Vec<Named> {
    let mut found = Vec::new();
    read(stream, &mut found);
    found
}

fn read(stream: TokenStream, found: &mut Vec<Named>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                read(group.stream(), found);
                at += 1;
            }
            TokenTree::Ident(ident) if ident == "use" => at = read_use(&tokens, at, found),
            TokenTree::Ident(_) => at = read_path(&tokens, at, found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
        }
    }
}

/// Reads a path that begins at `start`; returns where it ends.
fn read_path(tokens: &[TokenTree], start: usize, found: &mut Vec<Named>) -> usize {
    let mut path = Path::new();
    let line = line(tokens[start].span());
    if start >= 2 && is_colons(tokens, start - 2) {
        path.push(String::new());
    }
    let mut at = start;
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        path.push(text(ident));
        at += 1;
        if !is_colons(tokens, at) || !matches!(tokens.get(at + 2), Some(TokenTree::Ident(_))) {
            break;
        }
        at += 2;
    }
    let what = if is_call(tokens, at) {
        What::Macro
    } else {
        What::Item
    };
    if !is_member(tokens, start) {
        found.push(Named::Path(Mention { path, what, line }));
    }
    at
}

/// Reads a `use` that begins at `start`, if it is one; returns where it ends.
fn read_use(tokens: &[TokenTree], start: usize, found: &mut Vec<Named>) -> usize {
    let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ';');
    let Some(len) = tokens[start..].iter().position(is_end) else {
        return start + 1;
    };
    let declaration = tokens[start..=start + len].iter().cloned();
    // `$crate` is `crate` to the crate that defines the macro.
    let is_dollar = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == '$');
    let declaration = declaration.filter(|token| !is_dollar(token)).collect();
    let Ok(item) = syn::parse2::<syn::ItemUse>(declaration) else {
        return start + 1;
    };
    found.push(Named::Use(item));
    start + len + 1
}

/// Whether `::` stands there.
fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon = |at| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    is_colon(at) && is_colon(at + 1)
}

/// Whether `!` and the arguments of a macro stand there.
fn is_call(tokens: &[TokenTree], at: usize) -> bool {
    let is_bang = matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == '!');
    let is_group =
        matches!(tokens.get(at + 1), Some(TokenTree::Group(g)) if g.delimiter() != Delimiter::None);
    is_bang && is_group
}

/// Whether what stands there is a field or a method: behind a dot that is no range.
fn is_member(tokens: &[TokenTree], at: usize) -> bool {
    let is_dot = |back: usize| {
        let token = at.checked_sub(back).and_then(|at| tokens.get(at));
        matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == '.')
    };
    is_dot(1) && !is_dot(2)
}
