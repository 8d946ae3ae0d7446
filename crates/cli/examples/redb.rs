//! redb over Pagewell: its `StorageBackend`, and a load beside redb's own backend at equal memory.
//!
//! ```text
//! cargo run --release -p pagewell-cli --features peers --example redb -- [pagewell|file] [ITEMS]
//! ```
//!
//! Without a name, both backends are loaded in turn, three times. Each load prints a line of JSON:
//! seconds, and megabytes of the file. The system calls of one backend are counted by
//! `strace -f -c target/release/examples/redb pagewell`.
//!
//! A cache must be the only writer of its files, and does not detect changes by others. So redb's
//! modes that let several databases share a file (`SingleWriter`, `MultiWriter`) need its backend:
//! of redb 4.6.0's tests over this backend, 614 pass and the 34 of these modes fail.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use pagewell::io::FileLock;
use pagewell::{Cache, File, OpenOptions};
use redb::{Builder, Database, StorageBackend, TableDefinition};

/// Bytes that both have: redb's own cache, or Pagewell's with a smaller one of redb above it.
const MEMORY: usize = 64 << 20;
const PAGEWELL: usize = 48 << 20;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("items");
const ITEMS: u64 = 300_000;
const ITEMS_OF_TRANSACTION: u64 = 2_500;
const KEY_BYTES: usize = 100;
const VALUE_BYTES: usize = 1_000;

/// A database file in a cache. Its lock excludes other processes, and other handles of the cache.
#[derive(Debug)]
struct Pages(File);

impl Pages {
    fn open(cache: &Cache, path: &Path) -> Result<Self, pagewell::Error> {
        let options = OpenOptions::new()
            .create()
            .exclusive(true)
            // After a crash, the kernel ends the requests of the process before it unlocks the file.
            .lock(FileLock::Within(Duration::from_secs(1)));
        cache.open_with(path, &options).map(Self)
    }
}

impl StorageBackend for Pages {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.size())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Ok(self.0.read_exact_at(out, offset)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(self.0.set_size(len)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.0.sync_data()?)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Ok(self.0.write_all_at(data, offset)?)
    }

    /// The drop of the backend closes the file, and reports no error.
    fn close(&self) -> io::Result<()> {
        Ok(self.0.sync_all()?)
    }
}

type Failure = Box<dyn std::error::Error>;

fn open(name: &str, path: &Path) -> Result<Database, Failure> {
    let mut builder = Builder::new();
    Ok(match name {
        "pagewell" => {
            let cache = Cache::builder().capacity(PAGEWELL as u64).build()?;
            builder.set_cache_size(MEMORY - PAGEWELL);
            builder.create_with_backend(Pages::open(&cache, path)?)?
        }
        "file" => {
            builder.set_cache_size(MEMORY);
            builder.create(path)?
        }
        _ => return Err(format!("unknown backend {name}: pagewell or file").into()),
    })
}

/// The key of an item: in no order, and all different.
fn key(item: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    // An odd factor permutes the numbers.
    let mixed = item.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key
}

fn value(item: u64) -> [u8; VALUE_BYTES] {
    [item as u8; VALUE_BYTES]
}

fn load(database: &Database, nr_items: u64) -> Result<(), redb::Error> {
    let mut first = 0;
    while first < nr_items {
        let end = nr_items.min(first + ITEMS_OF_TRANSACTION);
        let transaction = database.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        for item in first..end {
            table.insert(&key(item)[..], &value(item)[..])?;
        }
        drop(table);
        transaction.commit()?;
        first = end;
    }
    Ok(())
}

fn check(database: &Database, nr_items: u64) -> Result<(), Failure> {
    use redb::{ReadableDatabase as _, ReadableTableMetadata as _};
    let table = database.begin_read()?.open_table(TABLE)?;
    let nr_found = table.len()?;
    for item in (0..nr_items).step_by(997) {
        let found = table.get(&key(item)[..])?;
        if found.is_none_or(|found| found.value() != &value(item)[..]) {
            return Err(format!("item {item} is not as it was inserted").into());
        }
    }
    match nr_found == nr_items {
        true => Ok(()),
        false => Err(format!("{nr_found} of {nr_items} items").into()),
    }
}

fn measure(name: &str, nr_items: u64) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(".")?;
    let path = folder.path().join("items");
    let begun = Instant::now();
    let database = open(name, &path)?;
    load(&database, nr_items)?;
    drop(database);
    let seconds = begun.elapsed().as_secs_f64();
    let database = open(name, &path)?;
    check(&database, nr_items)?;
    drop(database);
    let megabytes = std::fs::metadata(&path)?.len() / 1_000_000;
    println!(r#"{{"backend":"{name}","seconds":{seconds:.2},"megabytes":{megabytes}}}"#);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let nr_items = match arguments.next() {
        Some(number) => number.parse()?,
        None => ITEMS,
    };
    match name {
        Some(name) => measure(&name, nr_items),
        None => (0..3).try_for_each(|_| {
            ["pagewell", "file"]
                .into_iter()
                .try_for_each(|name| measure(name, nr_items))
        }),
    }
}
