//! The order of rooms: which files of a crate may import which.
//!
//! A *room* is a file or folder at the top of a crate's `src`, or of a folder that has an order of its own. The [`table`] lists
//! the rooms of each, bottom up: code imports from rooms below its own. An *arrow* is an import, from the file that names
//! something to the file that defines it, whatever re-exports lie between.
//!
//! | module | what |
//! |---|---|
//! | [`table`] | the table: which rooms there are, and in which order |
//! | [`test_code`] | which code is only compiled for tests, and left out |
//! | [`mention`] | a name somewhere in the code |
//! | [`names`] | what the text of one module defines, imports and names |
//! | [`tokens`] | the same for the tokens of a macro |
//! | [`tree`] | the modules of a crate, and the files in which they stand |
//! | [`resolve`] | from a path to the file that defines what it names |
//! | [`arrows`] | all arrows of a crate, and its inherent `impl` blocks |
//! | [`circles`] | files that import each other |
//! | [`check`] | what of this is not as the table says |
//!
//! `verify/README.md` says what is checked, and how a crate is added.

pub mod arrows;
pub mod check;
pub mod circles;
pub mod mention;
pub mod names;
pub mod resolve;
pub mod table;
pub mod test_code;
pub mod tokens;
pub mod tree;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{Ended, Trouble};
use arrows::Arrows;
use check::Fault;
use table::{Holds, Order, Table};
use tree::Tree;

/// What to check.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file with the table.
    pub table: PathBuf,
    /// The folder from which the table's paths count.
    pub root: PathBuf,
    /// The crates to check, by the names of their folders; all whose order holds, if empty.
    pub names: Vec<String>,
    /// How much is reported.
    pub detail: Detail,
}

/// How much is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What is wrong.
    Faults,
    /// And every arrow from file to file.
    Arrows,
}

/// Checks crates against the table, and reports to `out`.
pub fn run(options: &Options, out: &mut impl Write) -> Result<Ended, Trouble> {
    let text = read(&options.table)?;
    let table = Table::parse(&text).map_err(|e| format!("{}: {e}", options.table.display()))?;
    let mut ended = Ended::Well;
    for src in chosen(&table, &options.names)? {
        let tree = Tree::read(&options.root.join(src))?;
        let arrows = Arrows::of(&tree);
        let faults = check::check(&table, src, &tree, &arrows);
        report(out, src, &tree, &arrows, &faults, options.detail)
            .map_err(|e| format!("cannot write the report: {e}"))?;
        if !faults.is_empty() {
            ended = Ended::Failed;
        }
    }
    Ok(ended)
}

/// The folders with the sources of the crates that are asked for, or of all whose order holds.
fn chosen<'t>(table: &'t Table, asked: &[String]) -> Result<Vec<&'t str>, Trouble> {
    let name_of = |src: &str| {
        Path::new(src)
            .parent()?
            .file_name()?
            .to_str()
            .map(str::to_owned)
    };
    let names: Vec<Option<String>> = table.crates().map(|(src, _)| name_of(src)).collect();
    if let Some(unknown) = asked
        .iter()
        .find(|name| !names.contains(&Some((*name).clone())))
    {
        return Err(Trouble::Usage(format!(
            "`{unknown}` is no crate of the table"
        )));
    }
    let is_chosen = |src: &str, order: &Order| match asked {
        [] => order.holds == Holds::Now,
        asked => name_of(src).is_some_and(|name| asked.contains(&name)),
    };
    Ok(table
        .crates()
        .filter(|(src, order)| is_chosen(src, order))
        .map(|(src, _)| src)
        .collect())
}

fn report(
    out: &mut impl Write,
    src: &str,
    tree: &Tree,
    arrows: &Arrows,
    faults: &[Fault],
    detail: Detail,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{src}: {} files, {} arrows, {} faults",
        tree.product_files().count(),
        arrows.between_files().len(),
        faults.len()
    )?;
    for fault in faults {
        writeln!(out, "  {fault}")?;
    }
    if detail == Detail::Arrows {
        for ((from, to), uses) in arrows.between_files() {
            let names: Vec<&str> = uses.iter().map(|arrow| arrow.name.as_str()).collect();
            let (from, to) = (tree.file(*from), tree.file(*to));
            writeln!(out, "  {from} -> {to}: {}", names.join(", "))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}
