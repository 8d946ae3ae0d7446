//! A B+tree to start a storage engine from: keys and values of variable length, readers without
//! pins and locks, concurrent writers, a write-ahead log, recovery. `docs/guide/btree.md` explains
//! it; the tree is in `engine`.
//!
//!     cargo run --release -p pagewell --example btree [FOLDER]
//!
//! counts the words of a sentence in a tree in the folder (default: a temporary one). The counts
//! add up over all runs.

// The tests and `pagewell bench tree` use the rest.
#[allow(dead_code, unused_imports)]
mod engine;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;

use pagewell::Cache;

use crate::engine::{Options, Tree};

const SENTENCE: &str =
    "the pages of the tree are in the cache, and the log of the tree is before the pages";

fn run(folder: &Path) -> Result<Vec<(String, u64)>, Box<dyn std::error::Error>> {
    let cache = Cache::builder().capacity(16 << 20).build()?;
    let (data, log) = (folder.join("words"), folder.join("words.log"));
    let tree = Tree::open(&cache, &data, &log, Options::default())?;

    let mut value = Vec::new();
    for word in SENTENCE.split([' ', ',']).filter(|word| !word.is_empty()) {
        let count = match tree.reader().get(word.as_bytes(), &mut value)? {
            true => u64::from_le_bytes(value[..].try_into()?),
            false => 0,
        };
        tree.insert(word.as_bytes(), &(count + 1).to_le_bytes())?;
    }
    tree.sync()?; // the counts survive a crash from here on

    let mut words = Vec::new();
    tree.reader().scan(b"", |key, value| {
        let count = value.try_into().map(u64::from_le_bytes).unwrap_or(0);
        words.push((String::from_utf8_lossy(key).into_owned(), count));
        ControlFlow::Continue(())
    })?;
    tree.close()?;
    Ok(words)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1);
    let folder = folder.as_deref().map_or(temporary.path(), Path::new);
    for (word, count) in run(folder)? {
        println!("{count:4} {word}");
    }
    Ok(())
}
