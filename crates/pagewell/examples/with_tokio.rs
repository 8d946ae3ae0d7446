//! A key-value file under tokio: many tasks append records and read them back, and none blocks a thread of the runtime.
//!
//!     cargo run --release -p pagewell --example with_tokio
//!
//! A record is appended, made durable together with those of other tasks (group commit), and then looked up by its place. A read has a
//! timeout: a future that is dropped harms nothing.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use pagewell::{Cache, Error, File, OpenOptions};

const NR_TASKS: u64 = if cfg!(test) { 20 } else { 1000 };

/// Appends a record, and returns its place when it is durable.
async fn put(file: &File, record: Vec<u8>) -> Result<std::ops::Range<u64>, Error> {
    let (_, place) = file.append_async(record).await;
    let place = place?;
    file.sync_data_async().await?;
    Ok(place)
}

/// The record at a place.
async fn get(
    file: &File,
    place: std::ops::Range<u64>,
) -> Result<Vec<u8>, Box<dyn StdError + Send + Sync>> {
    let len = usize::try_from(place.end - place.start)?;
    let read = file.read_at_async(vec![0; len], place.start);
    let (record, result) = tokio::time::timeout(Duration::from_secs(10), read).await?;
    if result? != len {
        return Err("the file has become shorter".into());
    }
    Ok(record)
}

async fn serve(file: Arc<File>) -> Result<usize, Box<dyn StdError + Send + Sync>> {
    let tasks: Vec<_> = (0..NR_TASKS)
        .map(|nr| {
            let file = Arc::clone(&file);
            tokio::spawn(async move {
                let record = format!("record number {nr}").into_bytes();
                let place = put(&file, record.clone()).await?;
                let found = get(&file, place).await?;
                if found == record {
                    Ok(found.len())
                } else {
                    Err::<usize, Box<dyn StdError + Send + Sync>>("another record".into())
                }
            })
        })
        .collect();
    let mut nr_bytes = 0;
    for task in tasks {
        nr_bytes += task.await??;
    }
    Ok(nr_bytes)
}

fn main() -> Result<(), Box<dyn StdError + Send + Sync>> {
    let path = std::env::temp_dir().join(format!("pagewell-tokio-{}", std::process::id()));
    let cache = Cache::builder().capacity(16 << 20).build()?;
    let file = Arc::new(cache.open_with(&path, &OpenOptions::new().create().truncate())?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    let nr_bytes = runtime.block_on(serve(Arc::clone(&file)));
    let size = file.size();
    drop((runtime, file));
    std::fs::remove_file(&path)?;
    let nr_bytes = nr_bytes?;
    if nr_bytes as u64 != size {
        return Err(format!("{nr_bytes} bytes of records in a file of {size}").into());
    }
    println!("{NR_TASKS} records, {nr_bytes} bytes, each durable before it was read");
    Ok(())
}

#[test]
fn records_are_found_again() {
    main().unwrap();
}
