//! A B+tree that real code could start from: keys and values of changing lengths, readers without a pin and without a lock, several
//! writers, a write-ahead log, recovery. `docs/guide/btree.md` goes through it; the tree is in `engine`.
//!
//!     cargo run --release --example btree [folder]
//!
//! puts the words of a sentence into a tree in the folder (default: a temporary one), each with how often it was there, over all runs.

// What the example does not call, the tests and `pagewell bench tree` do.
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
    tree.sync()?; // from here on a crash does no harm

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
