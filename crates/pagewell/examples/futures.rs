//! A file that tasks read, without a runtime: the executor is thirty lines, and has one thread.
//!
//!     cargo run --release -p pagewell --example futures [FILE]
//!
//! 64 tasks go from block to block of the file; where each goes next is in the block. Only what misses waits, and then for the device alone,
//! while the other tasks go on. Without a file it makes one of 64 MiB.

use std::error::Error as StdError;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pagewell::io::Direct;
use pagewell::{Cache, Error, File, OpenOptions};

const BLOCK: u64 = 4096;
const NR_TASKS: u64 = if cfg!(test) { 4 } else { 64 };
const STEPS: usize = if cfg!(test) { 20 } else { 1000 };

/// The tasks that are to be polled, by number.
struct Woken {
    number: usize,
    ready: Mutex<Sender<usize>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        // If the executor is gone, nobody wants to know.
        let _ = ready.send(self.number);
    }
}

/// Polls all tasks until they are ready; this thread sleeps when none has been woken.
fn run<T>(tasks: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let (sender, ready): (Sender<usize>, Receiver<usize>) = channel();
    let nr_tasks = tasks.len();
    let mut tasks: Vec<_> = tasks
        .into_iter()
        .enumerate()
        .map(|(number, task)| {
            let ready = Mutex::new(sender.clone());
            let waker = Waker::from(Arc::new(Woken { number, ready }));
            waker.wake_by_ref();
            Some((task, waker))
        })
        .collect();
    let mut answers = Vec::new();
    while answers.len() < nr_tasks
        && let Ok(number) = ready.recv()
    {
        // One that was woken again while it became ready is not there any more.
        let Some((task, waker)) = &mut tasks[number] else {
            continue;
        };
        if let Poll::Ready(answer) = task.as_mut().poll(&mut Context::from_waker(waker)) {
            answers.push(answer);
            tasks[number] = None;
        }
    }
    answers
}

/// Goes from block to block: the first eight bytes of each, taken as a number, say which is next. Returns the sum of all of them.
async fn walk(file: &File, start: u64) -> Result<u64, Error> {
    let nr_blocks = (file.size() / BLOCK).max(1);
    let (mut block, mut sum) = (start % nr_blocks, 0_u64);
    let mut buf = vec![0; 8];
    for _ in 0..STEPS {
        let result;
        (buf, result) = file.read_at_async(buf, block * BLOCK).await;
        result?;
        let number = buf
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        sum = sum.wrapping_add(number);
        block = number % nr_blocks;
    }
    Ok(sum)
}

fn main() -> Result<(), Box<dyn StdError>> {
    let (path, is_ours) = match std::env::args_os().nth(1) {
        Some(path) => (PathBuf::from(path), false),
        None => (make_file(16_384)?, true),
    };
    let done = walk_all(&path);
    if is_ours {
        std::fs::remove_file(&path)?;
    }
    println!("{}", done?);
    Ok(())
}

fn walk_all(path: &PathBuf) -> Result<String, Box<dyn StdError>> {
    let cache = Cache::builder().capacity(16 << 20).build()?;
    let file = cache.open_with(path, &OpenOptions::new().direct(Direct::Auto))?;
    let tasks = (0..NR_TASKS).map(|start| Box::pin(walk(&file, start * 7)) as Pin<Box<_>>);
    let sums = run(tasks.collect());
    let sum = sums
        .into_iter()
        .try_fold(0_u64, |sum, next| Ok::<_, Error>(sum.wrapping_add(next?)))?;
    let stats = cache.stats();
    let how = file.transfers().map(|transfers| transfers.to_string());
    Ok(format!(
        "{NR_TASKS} tasks, {STEPS} blocks each: {} pages read, {}; engine {}; sum {sum:016x}",
        stats.nr_fills,
        how.unwrap_or_default(),
        cache.info().engine,
    ))
}

/// A file whose blocks begin with numbers that look random.
fn make_file(nr_blocks: u64) -> Result<PathBuf, Box<dyn StdError>> {
    let path = std::env::temp_dir().join(format!("pagewell-futures-{}", std::process::id()));
    let cache = Cache::builder().capacity(16 << 20).build()?;
    let file = cache.open_with(&path, &OpenOptions::new().create().truncate())?;
    file.set_size(nr_blocks * BLOCK)?;
    for nr in 0..nr_blocks {
        let number = (nr + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        file.write_at(&number.to_le_bytes(), nr * BLOCK)?;
    }
    file.close().map_err(|(_, error)| error)?;
    Ok(path)
}

#[test]
fn tasks_find_their_way() {
    let path = make_file(200).unwrap();
    let told = walk_all(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(told.contains("4 tasks, 20 blocks each"), "{told}");
    // The same by calls that wait.
    let mut sum = 0_u64;
    let number = |block: u64| {
        (block + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(31)
    };
    for start in 0..NR_TASKS {
        let mut block = start * 7 % 200;
        for _ in 0..STEPS {
            sum = sum.wrapping_add(number(block));
            block = number(block) % 200;
        }
    }
    assert!(told.ends_with(&format!("sum {sum:016x}")), "{told}");
}
