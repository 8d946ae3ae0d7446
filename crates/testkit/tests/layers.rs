//! The order of modules inside each crate: compares the imports of all crates with `layers.txt`.
//!
//! An import is a path that begins with `crate::` or `super::`, in a `use` declaration or in other
//! code. The path as written decides, not the module that defines the item behind a re-export.
//! The code must be formatted by rustfmt: indentation shows where an item ends.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of one folder, bottom up, each with the modules that it may import from, if limited.
struct Folder<'a> {
    path: &'a str,
    modules: Vec<(&'a str, Option<Vec<&'a str>>)>,
}

/// A source file: its path, the parts of its module's path, and its text.
type Source = (PathBuf, Vec<String>, String);

#[test]
fn imports_go_to_lower_modules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = parse_table(include_str!("layers.txt")).expect("layers.txt");
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(root.join("crates")).expect("crates") {
        let path = entry.expect("an entry").path().join("src");
        let src = path.strip_prefix(&root).expect("below the root");
        let mut sources = Vec::new();
        read(&root, src, &mut sources);
        let is_listed = folders.iter().any(|folder| src == Path::new(folder.path));
        if !is_listed && sources.len() > 1 {
            faults.push(format!("layers.txt: [{}] is missing", src.display()));
        }
        all.append(&mut sources);
    }
    faults.extend(folders.iter().flat_map(|folder| check(folder, &all)));
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Threads that are started elsewhere take the signals of the program.
#[test]
fn threads_are_started_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    for folders in [
        &[
            "crates/cache",
            "crates/frame",
            "crates/io",
            "crates/io-testing",
            "crates/pagewell",
        ][..],
        &["crates/policy", "crates/space", "crates/sync"],
        &["adapters/capi", "adapters/object-store", "adapters/sqlite"],
    ] {
        for folder in folders {
            read(&root, &Path::new(folder).join("src"), &mut sources);
        }
    }
    let starts = |(_, module, text): &&Source| {
        let is_model = module.contains(&"models".to_owned());
        let code = product_code(text);
        let calls = ["thread::Builder", "thread::{Builder", "thread::spawn("];
        let mut calls = calls.into_iter().chain(["thread::scope("]);
        !is_model && calls.any(|call| code.contains(call))
    };
    let found = sources.iter().filter(starts);
    let paths: Vec<_> = found.map(|(path, ..)| path).collect();
    assert_eq!(paths, [Path::new("crates/sync/src/signals.rs")]);
}

fn parse_table(text: &str) -> Result<Vec<Folder<'_>>, String> {
    let mut folders: Vec<Folder<'_>> = Vec::new();
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for line in text.lines().filter(is_content) {
        if let Some(path) = line.strip_prefix('[') {
            let path = path.trim_end_matches(']');
            let modules = Vec::new();
            folders.push(Folder { path, modules });
            continue;
        }
        let folder = folders.last_mut();
        let modules = &mut folder.ok_or("a module before the first folder")?.modules;
        let (names, limit) = match line.split_once(':') {
            Some((name, limit)) => (name, Some(limit.split_whitespace().collect::<Vec<_>>())),
            None => (line, None),
        };
        let is_listed = |modules: &[(&str, _)], name: &str| modules.iter().any(|(n, _)| *n == name);
        let mut unknown = limit.iter().flatten().filter(|n| !is_listed(modules, n));
        if let Some(name) = unknown.next() {
            return Err(format!("{line}: `{name}` is no module below"));
        }
        for name in names.split_whitespace() {
            if is_listed(modules, name) {
                return Err(format!("{line}: `{name}` is listed twice"));
            }
            modules.push((name, limit.clone()));
        }
    }
    Ok(folders)
}

/// Reads the sources in `folder`. A program beside a library is a crate of its own, and left out.
fn read(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else {
        return;
    };
    for entry in entries {
        let path = folder.join(entry.expect("an entry").file_name());
        let is_program = path.ends_with("src/main.rs") && root.join(folder).join("lib.rs").exists();
        if path.file_stem().is_some_and(|name| name == "tests") || is_program {
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(root.join(&path)).expect("source text");
            sources.push(source(path, text));
        } else {
            read(root, &path, sources);
        }
    }
}

fn source(path: PathBuf, text: String) -> Source {
    let mut module = inside(&path.with_extension(""));
    let _ = module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    (path, module, text)
}

/// Parts of a path below the folder `src`.
fn inside(path: &Path) -> Vec<String> {
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    parts.skip_while(|part| part != "src").skip(1).collect()
}

/// Differences of the modules of `folder` and their imports from the table.
fn check(folder: &Folder<'_>, sources: &[Source]) -> Vec<String> {
    let path = inside(Path::new(folder.path));
    let sources: Vec<&Source> = sources
        .iter()
        .filter(|s| s.0.starts_with(folder.path))
        .collect();
    let layer = |module: &[String]| Some(module.strip_prefix(&path[..])?.first()?.clone());
    let present: BTreeSet<String> = sources.iter().filter_map(|(_, m, _)| layer(m)).collect();
    let position = |name: &str| folder.modules.iter().position(|(other, _)| *other == name);
    let mut faults = Vec::new();
    for (name, _) in &folder.modules {
        if *name != "lib" && !present.contains(*name) {
            faults.push(format!(
                "layers.txt [{}]: there is no module `{name}`",
                folder.path
            ));
        }
    }
    for name in present.iter().filter(|name| position(name).is_none()) {
        faults.push(format!(
            "layers.txt [{}]: module `{name}` is missing",
            folder.path
        ));
    }
    for (file, module, text) in sources {
        let Some(from) = layer(module) else { continue };
        let nr = position(&from).unwrap_or(usize::MAX);
        let limit = folder.modules.get(nr).and_then(|(_, limit)| limit.as_ref());
        for (line, import) in imports(module, text) {
            let to = layer(&import).filter(|name| present.contains(name));
            let to = to.as_deref().unwrap_or("lib");
            let rule = match limit {
                _ if from == to || !import.starts_with(&path) => continue,
                _ if position(to).is_none_or(|to| to > nr) => format!("`{to}` is above `{from}`"),
                Some(limit) if !limit.contains(&to) => {
                    format!("`{from}` may import only from [{}]", limit.join(", "))
                }
                _ => continue,
            };
            let (file, import) = (file.display(), import.join("::"));
            let folder = folder.path;
            faults.push(format!(
                "{file}:{line}: imports crate::{import}, but {rule} in {folder}"
            ));
        }
    }
    faults
}

/// All imports of a file: the line, and the parts of the path from the root of the crate.
fn imports(module: &[String], text: &str) -> Vec<(usize, Vec<String>)> {
    let code = product_code(text);
    let mut found = Vec::new();
    for (at, start) in code
        .match_indices("crate::")
        .chain(code.match_indices("super::"))
    {
        let before = &code[..at];
        let is_part = before.ends_with(|c| is_name(c) || c == ':') || before.ends_with("in ");
        // Inside of a module within the file, `super` is another one.
        let is_indented = before
            .rsplit('\n')
            .next()
            .is_some_and(|line| line.starts_with(' '));
        if is_part || start == "super::" && is_indented {
            continue;
        }
        let mut path = if start == "crate::" {
            Vec::new()
        } else {
            module.to_vec()
        };
        let mut rest = code[at..].trim_start_matches("crate::");
        while let Some(outer) = rest.strip_prefix("super::") {
            path.pop();
            rest = outer;
        }
        paths(rest, path, &mut found);
    }
    let line_of = |left: usize| code[..code.len() - left].matches('\n').count() + 1;
    found
        .into_iter()
        .map(|(left, path)| (line_of(left), path))
        .collect()
}

/// Text of the same lines without comments and without items that are compiled for tests only.
fn product_code(text: &str) -> String {
    let mut code = String::new();
    let mut skipped = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("").trim_end();
        let indent = line.len() - line.trim_start().len();
        if skipped.is_some() {
            let is_end = skipped == Some(indent) && line.ends_with([';', '}', ',']);
            skipped = skipped.filter(|_| !is_end);
        } else if ["#[cfg(test)]", "#[cfg(all(test"]
            .iter()
            .any(|a| line[indent..].starts_with(a))
        {
            skipped = Some(indent);
        } else {
            code.push_str(line);
        }
        code.push('\n');
    }
    code
}

/// Collects the paths at the start of `text`, those of a group too, each with the number of bytes
/// from its last name to the end of the text. Returns what follows them.
fn paths<'t>(
    text: &'t str,
    mut path: Vec<String>,
    found: &mut Vec<(usize, Vec<String>)>,
) -> &'t str {
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if rest.is_empty() || rest.starts_with('}') {
                return rest.get(1..).unwrap_or("");
            }
            rest = paths(rest, path.clone(), found);
            rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
        }
    }
    let (name, rest) = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    if !["", "self"].contains(&name) {
        path.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) if rest.starts_with(|c| is_name(c) || c == '{' || c == '*') => {
            paths(rest, path, found)
        }
        _ => {
            found.push((text.len(), path));
            rest
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Faults of a small crate whose file `path` has the text `text`; its other files are empty.
fn faults_of(path: &str, text: &str) -> String {
    let table = "[crates/x/src]\nbase index\nread: index\n[crates/x/src/index]\nleaf tree\n";
    let files = [
        "base.rs",
        "index/mod.rs",
        "index/leaf.rs",
        "index/tree.rs",
        "read.rs",
        "lib.rs",
    ];
    let others = files
        .into_iter()
        .filter(|other| *other != path)
        .map(|other| (other, ""));
    let read =
        |(name, text): (&str, &str)| source(Path::new("crates/x/src").join(name), text.into());
    let sources: Vec<Source> = others.chain([(path, text)]).map(read).collect();
    let folders = parse_table(table).expect("a table");
    folders
        .iter()
        .flat_map(|folder| check(folder, &sources))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn import_from_a_higher_module_is_a_fault() {
    let nested = "use std::fmt;\nuse crate::{\n    base::{self, Word as W},\n    \
                  read::{look::Look, N},\n};\n";
    let fault = "crates/x/src/base.rs:4: imports crate::read::look::Look, \
                 but `read` is above `base` in crates/x/src\n";
    assert!(
        faults_of("base.rs", nested).starts_with(fault),
        "{}",
        faults_of("base.rs", nested)
    );
    for text in [
        "const C: char = '\"';\nfn f<'a>() -> Vec<crate::read::Look<u8>> {}",
        "#[cfg(not(test))]\nuse crate::read::*;",
        "#[cfg(test)]\nmod tests {\n    fn f() {\n    }\n}\nuse super::read;",
        "mod inner {\n}\nuse super::read as r;",
        "fn f() { m!($crate::read::look()) }",
    ] {
        assert!(
            faults_of("base.rs", text).contains("`read` is above `base`"),
            "{text}"
        );
    }
    assert!(faults_of("base.rs", "use crate::N;").contains("`lib` is above `base`"));
    assert!(faults_of("index/leaf.rs", "use super::tree::T;").contains("`tree` is above `leaf`"));
}

#[test]
fn import_outside_of_the_list_is_a_fault() {
    let fault = faults_of("read.rs", "use crate::{base, index};");
    assert!(fault.contains("imports crate::base, but `read` may import only from [index]"));
}

#[test]
fn imports_from_below_and_test_code_are_no_faults() {
    for text in [
        "use crate::base::Word;\npub(in crate::read) fn f() {} // crate::read",
        "//! [`crate::read`]\nuse my_crate::read::Look;",
        "#[cfg(test)]\nmod tests {\n    use crate::read::Look;\n}",
        "#[cfg(all(test, not(loom)))]\n#[allow(unused)]\nuse crate::{\n    read::Look,\n};",
        "fn f() {\n    #[cfg(test)]\n    crate::read::seen();\n}",
    ] {
        assert_eq!(faults_of("index/tree.rs", text), "", "{text}");
    }
}

#[test]
fn table_and_modules_must_agree() {
    assert_eq!(
        faults_of("new.rs", ""),
        "layers.txt [crates/x/src]: module `new` is missing"
    );
    let stale = parse_table("[crates/x/src]\nbase old\n").expect("a table");
    let fault = check(
        &stale[0],
        &[source("crates/x/src/base.rs".into(), String::new())],
    );
    assert_eq!(
        fault,
        ["layers.txt [crates/x/src]: there is no module `old`"]
    );
    for table in [
        "base",
        "[crates/x/src]\nbase base",
        "[crates/x/src]\nread: base\nbase",
    ] {
        assert!(parse_table(table).is_err(), "{table}");
    }
}
