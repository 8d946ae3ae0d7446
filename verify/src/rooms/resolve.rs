//! From a path to the file that defines what it names.
//!
//! Imports are followed, public or not, through as many modules as it takes: what `index/mod.rs` re-exports from
//! `index/leaf.rs` is in the latter. What a module re-exports from another crate counts as its own. Names are not told
//! apart by kind, so that one may lead to several places.

use std::collections::BTreeSet;

use super::names::Brings;
use super::tree::{FileNr, ModuleNr, ROOT, Tree};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A module of the crate.
    Module(ModuleNr),
    /// An item of the crate that is no module, or something that belongs to one: a variant, a function of a type.
    Item {
        /// The module that defines it.
        module: ModuleNr,
        /// The file that it stands in.
        file: FileNr,
    },
}

/// The names that are being looked up, each in a module, so that imports that lead to each other come to an end.
type Looking = BTreeSet<(ModuleNr, String)>;

/// What a path in `module` leads to; nothing, if it is of another crate, or a local name.
pub fn resolve(tree: &Tree, module: ModuleNr, path: &[String]) -> BTreeSet<Target> {
    follow(tree, module, path, &mut Looking::new())
}

/// What a macro's name leads to that no path brings: macros of modules around, and those that `#[macro_use]` shows.
pub fn resolve_macro(tree: &Tree, module: ModuleNr, name: &str) -> BTreeSet<Target> {
    let mut found = BTreeSet::new();
    for around in tree.outwards(module) {
        find_macro(tree, around, name, &mut found);
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// What names without a path lead to in `module`, if that is what an import of everything brings.
pub fn resolve_brought(tree: &Tree, module: ModuleNr, name: &str) -> BTreeSet<Target> {
    if named_here(tree, module, name) {
        return BTreeSet::new();
    }
    look_up(tree, module, name, &mut Looking::new())
}

fn follow(
    tree: &Tree,
    module: ModuleNr,
    path: &[String],
    looking: &mut Looking,
) -> BTreeSet<Target> {
    let mut outwards = tree.outwards(module);
    let mut targets = BTreeSet::new();
    let mut rest = path;
    match path.first().map(String::as_str) {
        Some("crate") => {
            targets.insert(Target::Module(ROOT));
            rest = &path[1..];
        }
        Some("self" | "super") => {
            let mut at = outwards.next();
            while let Some(first @ ("self" | "super")) = rest.first().map(String::as_str) {
                if first == "super" {
                    at = outwards.next();
                }
                rest = &rest[1..];
            }
            targets.extend(at.map(Target::Module));
        }
        // `::name` is of another crate; `Self` is at home.
        None | Some("" | "Self") => {}
        Some(first) => {
            targets = look_up(tree, module, first, looking);
            rest = &path[1..];
        }
    }
    for segment in rest {
        targets = targets
            .into_iter()
            .flat_map(|target| match target {
                Target::Module(module) => {
                    let mut inner = look_up(tree, module, segment, looking);
                    if inner.is_empty() {
                        // What a macro defines, or comes from another crate with all that it has.
                        inner.insert(own(tree, module));
                    }
                    inner
                }
                item @ Target::Item { .. } => BTreeSet::from([item]),
            })
            .collect();
    }
    targets
}

/// What `name` leads to in the scope of `module`.
fn look_up(tree: &Tree, module: ModuleNr, name: &str, looking: &mut Looking) -> BTreeSet<Target> {
    let here = tree.module(module);
    let mut found = BTreeSet::new();
    if here.names.defined.iter().any(|defined| defined == name) {
        found.insert(own(tree, module));
    }
    let children = here.children.iter().filter(|child| child.name == name);
    found.extend(children.map(|child| Target::Module(child.module)));
    if module == ROOT {
        found.extend(exported_macros(tree, name));
    }
    find_own_macro(tree, module, name, &mut found);

    let key = (module, name.to_owned());
    if !looking.insert(key.clone()) {
        return found;
    }
    for import in &here.names.uses {
        if matches!(&import.brings, Brings::Name(brought) if brought == name) {
            let mut imported = follow(tree, module, &import.path, looking);
            if imported.is_empty() {
                // Of another crate: this module hands it on.
                imported.insert(own(tree, module));
            }
            found.extend(imported);
        }
    }
    if found.is_empty() {
        for import in &here.names.uses {
            if import.brings == Brings::All {
                for target in follow(tree, module, &import.path, looking) {
                    if let Target::Module(from) = target {
                        found.extend(look_up(tree, from, name, looking));
                    }
                }
            }
        }
    }
    looking.remove(&key);
    found
}

/// An item of `module` itself.
fn own(tree: &Tree, module: ModuleNr) -> Target {
    let file = tree.module(module).file;
    Target::Item { module, file }
}

/// Whether a module itself says what a name is there, be it of another crate.
fn named_here(tree: &Tree, module: ModuleNr, name: &str) -> bool {
    let here = tree.module(module);
    here.names.defined.iter().any(|defined| defined == name)
        || here.children.iter().any(|child| child.name == name)
        || here
            .names
            .uses
            .iter()
            .any(|import| matches!(&import.brings, Brings::Name(brought) if brought == name))
}

fn find_own_macro(tree: &Tree, module: ModuleNr, name: &str, found: &mut BTreeSet<Target>) {
    let mut macros = tree.module(module).names.macros.iter();
    if macros.any(|one| one.name == name) {
        found.insert(own(tree, module));
    }
}

/// Finds a macro of `module`, or one that its modules show to it.
fn find_macro(tree: &Tree, module: ModuleNr, name: &str, found: &mut BTreeSet<Target>) {
    find_own_macro(tree, module, name, found);
    for child in &tree.module(module).children {
        if child.shows_macros {
            find_macro(tree, child.module, name, found);
        }
    }
}

/// `#[macro_export]` puts a macro at the root, wherever it stands.
fn exported_macros(tree: &Tree, name: &str) -> impl Iterator<Item = Target> {
    let exports = move |module: &ModuleNr| {
        let mut macros = tree.module(*module).names.macros.iter();
        macros.any(|one| one.is_exported && one.name == name)
    };
    let modules = tree.modules().map(|(module, _)| module);
    modules.filter(exports).map(|module| own(tree, module))
}
