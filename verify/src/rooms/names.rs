//! What the text of one module defines, imports and names.

use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, Type, UseTree, Visibility};

use super::mention::{Mention, Path, What, line, text};
use super::test_code::is_test_code;
use super::tokens::{Named, named};

/// What the text of one module says, test code left out. What stands in the blocks of its functions counts as its own.
#[derive(Debug, Default)]
pub struct Names {
    /// What it defines, modules and macros left out.
    pub defined: Vec<String>,
    /// The macros that it defines.
    pub macros: Vec<Macro>,
    /// What it imports.
    pub uses: Vec<Use>,
    /// What else it names.
    pub mentions: Vec<Mention>,
    /// Its inherent `impl` blocks, by the type.
    pub impls: Vec<Mention>,
}

/// A `macro_rules!`.
#[derive(Debug)]
pub struct Macro {
    pub(crate) name: String,
    pub(crate) is_exported: bool,
}

/// One name of a `use` declaration.
#[derive(Debug)]
pub struct Use {
    pub(crate) path: Path,
    pub(crate) brings: Brings,
    pub(crate) reach: Reach,
    pub(crate) line: usize,
}

/// What an import brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Brings {
    /// What the path names, under this name.
    Name(String),
    /// All that the path's module has.
    All,
}

/// Who sees an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The module, and those inside it.
    Private,
    /// Others too: it is a re-export.
    Handed,
}

impl Names {
    /// Reads the items of a module, those inside its own modules left out.
    pub fn of(items: &[Item]) -> Self {
        let mut names = Self::default();
        for item in items.iter().filter(|item| !matches!(item, Item::Mod(_))) {
            if is_test_code(attributes(item)) {
                continue;
            }
            names.define(item);
            names.visit_item(item);
        }
        names
    }

    fn define(&mut self, item: &Item) {
        let ident = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::TraitAlias(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) => {
                if let Some(ident) = &item.ident {
                    self.macros.push(Macro {
                        name: text(ident),
                        is_exported: has(&item.attrs, "macro_export"),
                    });
                }
                return;
            }
            _ => return,
        };
        self.defined.push(text(ident));
    }

    /// Takes a tree of a `use` apart. `path` is what stands before it.
    fn import(&mut self, tree: &UseTree, path: &Path, reach: Reach) {
        let mut add = |path: Path, brings, line| {
            self.uses.push(Use {
                path,
                brings,
                reach,
                line,
            });
        };
        match tree {
            UseTree::Path(inner) => {
                let path = joined(path, &inner.ident);
                self.import(&inner.tree, &path, reach);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path, reach);
                }
            }
            UseTree::Glob(glob) => add(path.clone(), Brings::All, line(glob.star_token.spans[0])),
            UseTree::Name(name) if name.ident == "self" => {
                let last = path.last().cloned().unwrap_or_default();
                add(path.clone(), Brings::Name(last), line(name.ident.span()));
            }
            UseTree::Name(name) => {
                let brings = Brings::Name(text(&name.ident));
                add(joined(path, &name.ident), brings, line(name.ident.span()));
            }
            UseTree::Rename(rename) => {
                let brings = Brings::Name(text(&rename.rename));
                let path = if rename.ident == "self" {
                    path.clone()
                } else {
                    joined(path, &rename.ident)
                };
                add(path, brings, line(rename.ident.span()));
            }
        }
    }

    fn mention(&mut self, path: &syn::Path, what: What) {
        self.mentions.push(Mention {
            path: segments(path),
            what,
            line: path
                .segments
                .first()
                .map_or(0, |first| line(first.ident.span())),
        });
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    // `pub(in path)` names what is around the code, not what it needs.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_code(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let reach = match item.vis {
            Visibility::Inherited => Reach::Private,
            _ => Reach::Handed,
        };
        let before = item.leading_colon.as_ref().map(|_| String::new());
        self.import(&item.tree, &before.into_iter().collect(), reach);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none()
            && let Some(path) = type_path(&item.self_ty)
        {
            self.impls.push(Mention {
                path: segments(path),
                what: What::Item,
                line: line(item.impl_token.span),
            });
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test_code(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        let attributes: &[Attribute] = match item {
            syn::TraitItem::Const(item) => &item.attrs,
            syn::TraitItem::Fn(item) => &item.attrs,
            syn::TraitItem::Type(item) => &item.attrs,
            syn::TraitItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test_code(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test_code(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !is_test_code(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !is_test_code(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_test_code(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test_code(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_stmt_macro(&mut self, stmt: &'ast syn::StmtMacro) {
        if !is_test_code(&stmt.attrs) {
            visit::visit_stmt_macro(self, stmt);
        }
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        if !is_test_code(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention(path, What::Item);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if !mac.path.is_ident("macro_rules") {
            self.mention(&mac.path, What::Macro);
        }
        for named in named(mac.tokens.clone()) {
            match named {
                Named::Path(mention) => self.mentions.push(mention),
                Named::Use(item) => self.import(&item.tree, &Path::new(), Reach::Private),
            }
        }
    }
}

/// The path of a type that can have an `impl` of its own.
fn type_path(ty: &Type) -> Option<&syn::Path> {
    match ty {
        Type::Path(ty) => Some(&ty.path),
        Type::Paren(ty) => type_path(&ty.elem),
        Type::Group(ty) => type_path(&ty.elem),
        Type::TraitObject(ty) => ty.bounds.iter().find_map(|bound| match bound {
            syn::TypeParamBound::Trait(bound) => Some(&bound.path),
            _ => None,
        }),
        _ => None,
    }
}

fn segments(path: &syn::Path) -> Path {
    let before = path.leading_colon.as_ref().map(|_| String::new());
    let idents = path.segments.iter().map(|segment| text(&segment.ident));
    before.into_iter().chain(idents).collect()
}

fn joined(path: &Path, ident: &Ident) -> Path {
    path.iter().cloned().chain([text(ident)]).collect()
}

/// Whether there is an attribute of this name.
pub(crate) fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|one| one.path().is_ident(name))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
