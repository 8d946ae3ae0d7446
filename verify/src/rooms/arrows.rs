//! All arrows of a crate, and its inherent `impl` blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::mention::{Mention, What};
use super::names::{Brings, Reach, Use};
use super::resolve::{Target, resolve, resolve_brought, resolve_macro};
use super::tree::{FileNr, ModuleNr, Tree};

/// One import: a file names what another one defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// The file that names.
    pub from: FileNr,
    /// The line in it.
    pub line: usize,
    /// The file that defines.
    pub to: FileNr,
    /// What it names: the item, without what belongs to it.
    pub name: String,
}

/// An inherent `impl` block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Impl {
    /// The type's name.
    pub name: String,
    /// The file that defines the type.
    pub home: FileNr,
    /// The file of the block.
    pub file: FileNr,
    /// The line of the block.
    pub line: usize,
}

/// All arrows of a crate, and its inherent `impl` blocks.
#[derive(Debug, Default)]
pub struct Arrows {
    arrows: BTreeMap<(FileNr, FileNr), Vec<Arrow>>,
    impls: BTreeSet<Impl>,
}

impl Arrows {
    /// Finds them.
    pub fn of(tree: &Tree) -> Self {
        let mut all = BTreeSet::new();
        let mut impls = BTreeSet::new();
        for (module, here) in tree.modules() {
            let mut point = |name: String, line, files: BTreeSet<FileNr>| {
                for to in files.into_iter().filter(|to| *to != here.file) {
                    all.insert(Arrow {
                        from: here.file,
                        line,
                        to,
                        name: name.clone(),
                    });
                }
            };
            for import in &here.names.uses {
                let mut name = item_name(tree, module, &import.path);
                if import.brings == Brings::All {
                    name.push_str("::*");
                }
                point(name, import.line, imported(tree, module, import));
            }
            for mention in &here.names.mentions {
                let name = item_name(tree, module, &mention.path);
                point(name, mention.line, named(tree, module, mention));
            }
            for block in &here.names.impls {
                for home in files(&resolve(tree, module, &block.path)) {
                    impls.insert(Impl {
                        name: block.path.last().cloned().unwrap_or_default(),
                        home,
                        file: here.file,
                        line: block.line,
                    });
                }
            }
        }
        let mut arrows = BTreeMap::<_, Vec<Arrow>>::new();
        for arrow in all {
            let uses = arrows.entry((arrow.from, arrow.to)).or_default();
            // One line for each name; the set has them by line.
            if uses.iter().all(|known| known.name != arrow.name) {
                uses.push(arrow);
            }
        }
        Self { arrows, impls }
    }

    /// The arrows from one file to another, by the two.
    pub fn between_files(&self) -> &BTreeMap<(FileNr, FileNr), Vec<Arrow>> {
        &self.arrows
    }

    /// The inherent `impl` blocks of types of the crate.
    pub fn impls(&self) -> impl Iterator<Item = &Impl> {
        self.impls.iter()
    }
}

/// The files that an import points to.
///
/// A module that is imported is only a way to its items: what is named by that way counts. A re-export of what is
/// inside the module itself is none: that is its face.
fn imported(tree: &Tree, module: ModuleNr, import: &Use) -> BTreeSet<FileNr> {
    let mut targets = resolve(tree, module, &import.path);
    if import.reach == Reach::Handed {
        targets.retain(|target| {
            let (Target::Module(inner) | Target::Item { module: inner, .. }) = *target;
            !tree.outwards(inner).any(|one| one == module)
        });
    }
    let mut files = files(&targets);
    if import.brings == Brings::All {
        // Methods of traits come without being named.
        files.extend(targets.iter().filter_map(|target| match *target {
            Target::Module(from) => {
                let from = tree.module(from);
                (!from.names.defined.is_empty()).then_some(from.file)
            }
            Target::Item { .. } => None,
        }));
    }
    files
}

/// The files that a path in the code points to. A name without a path was imported, or is of the module itself, unless
/// an import of everything brings it.
fn named(tree: &Tree, module: ModuleNr, mention: &Mention) -> BTreeSet<FileNr> {
    let targets = match (&mention.path[..], mention.what) {
        ([name], What::Macro) => {
            let mut targets = resolve_brought(tree, module, name);
            if targets.is_empty() {
                targets = resolve_macro(tree, module, name);
            }
            targets
        }
        ([name], What::Item) => resolve_brought(tree, module, name),
        (path, _) => resolve(tree, module, path),
    };
    files(&targets)
}

/// The item in a path: of `Leaf::new` it is `Leaf`.
fn item_name(tree: &Tree, module: ModuleNr, path: &[String]) -> String {
    let is_item = |target: &Target| matches!(target, Target::Item { .. });
    let prefixes = (1..path.len()).map(|len| &path[..len]);
    prefixes
        .filter(|prefix| resolve(tree, module, prefix).iter().any(is_item))
        .chain([path])
        .next()
        .and_then(|path| path.last().cloned())
        .unwrap_or_default()
}

/// The files of items.
fn files(targets: &BTreeSet<Target>) -> BTreeSet<FileNr> {
    targets
        .iter()
        .filter_map(|target| match *target {
            Target::Module(_) => None,
            Target::Item { file, .. } => Some(file),
        })
        .collect()
}
