//! The modules of a crate, and the files in which they stand.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, ItemMod};

use super::mention::text;
use super::names::{Names, has};
use super::test_code::is_test_code;

/// The number of a file in its [`Tree`].
pub type FileNr = usize;

/// The number of a module in its [`Tree`].
pub type ModuleNr = usize;

/// The module at the root of the crate.
pub const ROOT: ModuleNr = 0;

/// A crate's modules.
#[derive(Debug, Default)]
pub struct Tree {
    files: Vec<SourceFile>,
    modules: Vec<Module>,
    /// The files under `src` that no module is made of.
    stray: Vec<String>,
}

/// A file that a module is made of.
#[derive(Debug)]
struct SourceFile {
    /// From `src` on.
    path: String,
    built: Built,
}

/// In which builds something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Built {
    Always,
    ForTests,
}

/// A module, in a file of its own or within that of another.
#[derive(Debug)]
pub struct Module {
    pub(crate) file: FileNr,
    pub(crate) parent: Option<ModuleNr>,
    pub(crate) children: Vec<Child>,
    pub(crate) names: Names,
}

/// A module inside another.
#[derive(Debug)]
pub struct Child {
    pub(crate) name: String,
    pub(crate) module: ModuleNr,
    /// Whether `#[macro_use]` shows its macros to the modules after it.
    pub(crate) shows_macros: bool,
}

/// Where the files of a module's own modules are.
struct Folders {
    /// Where `#[path]` counts from.
    of_file: PathBuf,
    /// Where `name.rs` and `name/mod.rs` are.
    of_modules: PathBuf,
}

impl Tree {
    /// Reads the crate whose sources are in the folder `src`. A `main.rs` beside a `lib.rs` is a program of its own.
    pub fn read(src: &Path) -> Result<Self, String> {
        let root = ["lib.rs", "main.rs"]
            .into_iter()
            .find(|name| src.join(name).is_file())
            .ok_or_else(|| format!("{} has no lib.rs and no main.rs", src.display()))?;
        let mut tree = Self::default();
        tree.read_file(src, Path::new(root), PathBuf::new(), None, Built::Always)?;
        let mut known: BTreeSet<String> = tree.files.iter().map(|file| file.path.clone()).collect();
        known.insert("main.rs".to_owned());
        let mut all = Vec::new();
        list(src, Path::new(""), &mut all)?;
        tree.stray = all
            .into_iter()
            .filter(|file| !known.contains(file))
            .collect();
        Ok(tree)
    }

    /// The path of a file, from `src` on.
    pub fn file(&self, file: FileNr) -> &str {
        &self.files[file].path
    }

    /// The files that are not only for tests, by their paths.
    pub fn product_files(&self) -> impl Iterator<Item = &str> {
        self.files_built(Built::Always)
    }

    /// The files that are only for tests, by their paths.
    pub fn test_files(&self) -> impl Iterator<Item = &str> {
        self.files_built(Built::ForTests)
    }

    fn files_built(&self, built: Built) -> impl Iterator<Item = &str> {
        self.files
            .iter()
            .filter(move |file| file.built == built)
            .map(|file| file.path.as_str())
    }

    /// The files under `src` that no module is made of.
    pub fn stray_files(&self) -> &[String] {
        &self.stray
    }

    /// All modules that are not only for tests.
    pub fn modules(&self) -> impl Iterator<Item = (ModuleNr, &Module)> {
        self.modules.iter().enumerate()
    }

    /// A module.
    pub fn module(&self, module: ModuleNr) -> &Module {
        &self.modules[module]
    }

    /// A module, and those that it is in, from the inside out.
    pub fn outwards(&self, module: ModuleNr) -> impl Iterator<Item = ModuleNr> {
        std::iter::successors(Some(module), |module| self.modules[*module].parent)
    }

    fn read_file(
        &mut self,
        src: &Path,
        path: &Path,
        of_modules: PathBuf,
        parent: Option<ModuleNr>,
        built: Built,
    ) -> Result<ModuleNr, String> {
        let full = src.join(path);
        let show = |e: &dyn std::fmt::Display| format!("{}: {e}", full.display());
        let source = fs::read_to_string(&full).map_err(|e| show(&e))?;
        let parsed = syn::parse_file(&source)
            .map_err(|e| format!("{}:{}: {e}", full.display(), e.span().start().line))?;
        let file = self.files.len();
        self.files.push(SourceFile {
            path: path.display().to_string(),
            built,
        });
        let folders = Folders {
            of_file: path.parent().unwrap_or(Path::new("")).to_owned(),
            of_modules,
        };
        self.read_module(src, &parsed.items, file, &folders, parent, built)
    }

    /// Reads a module and those inside it. Modules that are only for tests leave nothing but their files.
    fn read_module(
        &mut self,
        src: &Path,
        items: &[Item],
        file: FileNr,
        folders: &Folders,
        parent: Option<ModuleNr>,
        built: Built,
    ) -> Result<ModuleNr, String> {
        let module = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            children: Vec::new(),
            names: match built {
                Built::Always => Names::of(items),
                Built::ForTests => Names::default(),
            },
        });
        for item in items {
            let Item::Mod(item) = item else { continue };
            let name = text(&item.ident);
            let built = if is_test_code(&item.attrs) {
                Built::ForTests
            } else {
                built
            };
            let inner = match &item.content {
                Some((_, items)) => {
                    let folder = folders.of_modules.join(&name);
                    let folders = Folders {
                        of_file: folder.clone(),
                        of_modules: folder,
                    };
                    self.read_module(src, items, file, &folders, Some(module), built)?
                }
                None => {
                    let (path, of_modules) = place(src, item, &name, folders)?;
                    self.read_file(src, &path, of_modules, Some(module), built)?
                }
            };
            if built == Built::Always {
                self.modules[module].children.push(Child {
                    name,
                    module: inner,
                    shows_macros: has(&item.attrs, "macro_use"),
                });
            }
        }
        Ok(module)
    }
}

/// Where the file of a module is, and where those of its own modules are.
fn place(
    src: &Path,
    item: &ItemMod,
    name: &str,
    folders: &Folders,
) -> Result<(PathBuf, PathBuf), String> {
    if let Some(path) = item.attrs.iter().find_map(named_path) {
        let path = folders.of_file.join(path);
        let inner = path.parent().unwrap_or(Path::new("")).to_owned();
        return Ok((path, inner));
    }
    let inner = folders.of_modules.join(name);
    let candidates = [
        inner.with_file_name(format!("{name}.rs")),
        inner.join("mod.rs"),
    ];
    candidates
        .into_iter()
        .find(|path| src.join(path).is_file())
        .map(|path| (path, inner.clone()))
        .ok_or_else(|| {
            format!(
                "{}: no file for the module `{name}`",
                src.join(&inner).display()
            )
        })
}

/// The file that `#[path = ".."]` names.
fn named_path(attribute: &Attribute) -> Option<String> {
    let syn::Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    match &meta.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(path),
            ..
        }) if meta.path.is_ident("path") => Some(path.value()),
        _ => None,
    }
}

/// Lists the `.rs` files under `src`/`inner`.
fn list(src: &Path, inner: &Path, files: &mut Vec<String>) -> Result<(), String> {
    let folder = src.join(inner);
    let show = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(&folder).map_err(show)? {
        let entry = entry.map_err(show)?;
        let path = inner.join(entry.file_name());
        if entry.file_type().map_err(show)?.is_dir() {
            list(src, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path.display().to_string());
        }
    }
    files.sort();
    Ok(())
}
