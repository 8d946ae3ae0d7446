//! Tasks of an actor on the shared files, on a random executor.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pagewell::{Cache, File, OpenOptions};
use pagewell_testkit::Rng;
use pagewell_testkit::wait::block_on;

use crate::PAGE;
use crate::executors::{Inline, Task, block_on_dropping, poll_once};
use crate::journal::step;
use crate::shared::{SHARED_BYTES, Shared, page_ranges, sub_range};

/// Returns a task of random calls on the slab, which change none of its bytes, and appends to the
/// log.
fn slab_task(shared: Arc<Shared>, slab: File, log: Option<File>, mut rng: Rng) -> Task {
    Box::pin(async move {
        for _ in 0..1 + rng.below(5) {
            let range = sub_range(&mut rng, SHARED_BYTES, 3 * PAGE);
            let (start, len) = (range.start, range.len());
            match (rng.below(8), &log) {
                (0, _) => {
                    let bytes = shared.bytes[range].to_vec();
                    let n = slab.write_at_async(bytes, start as u64).await.1?;
                    if n != len {
                        return Err("a short write".into());
                    }
                }
                (1, _) => slab.sync_data_async().await?,
                (2, _) => {
                    let page = start / PAGE;
                    let guard = slab.pin_async(page as u64).await?;
                    shared.check(&guard, page * PAGE)?;
                }
                (3, _) => {
                    let places = page_ranges(&mut rng, SHARED_BYTES);
                    let reads = places.iter().map(|range| (range.start, vec![0; 9]));
                    let answers = slab.read_many_async(reads.collect()).await;
                    for (place, (buf, result)) in std::iter::zip(&places, answers) {
                        result?;
                        shared.check(&buf, place.start as usize)?;
                    }
                }
                (4, _) => slab.invalidate(start as u64..(start + len) as u64),
                (5, Some(log)) => {
                    let nr = 1 + rng.below(500);
                    log.append_async(shared.start_append(nr)).await.1?;
                    shared.end_append(nr);
                }
                _ => {
                    let (buf, result) = slab.read_at_async(vec![0; len], start as u64).await;
                    let n = result?;
                    shared.check(&buf[..n], start)?;
                    if n != len {
                        return Err(format!("{n} of {len} bytes at {start}").into());
                    }
                }
            }
        }
        Ok(())
    })
}

/// Runs some tasks on a random executor. Some of them are dropped before they are done.
pub(crate) fn run(shared: &Arc<Shared>, cache: &Cache, rng: &mut Rng) {
    let (executor, nr_tasks) = (rng.below(5), 1 + rng.index(4));
    step(format!("{nr_tasks} tasks, executor {executor}"), || {
        let mut new_task = || {
            let slab = shared.open_slab(cache);
            let log = rng.one_in(3).then(|| shared.open_log(cache));
            slab_task(Arc::clone(shared), slab, log, Rng::new(rng.next_u64()))
        };
        let mut tasks: Vec<_> = (0..nr_tasks).map(|_| new_task()).collect();
        match executor {
            0 => tasks.into_iter().for_each(|task| block_on(task).unwrap()),
            // Wakers that drop a file.
            1 => {
                let path = shared.dir.join(format!("dropped-{}", rng.next_u64()));
                fs::write(&path, &shared.bytes).unwrap();
                let options = OpenOptions::new().write();
                for task in tasks {
                    let file = shared.open(|| cache.open_with(&path, &options)).unwrap();
                    file.write_at(&shared.bytes[..PAGE], 0).unwrap();
                    file.prefetch(&page_ranges(rng, SHARED_BYTES)).unwrap();
                    block_on_dropping(file, task).unwrap();
                }
            }
            // A few polls, after which the tasks are dropped.
            2 => {
                for _ in 0..rng.below(4) {
                    tasks.retain_mut(|task| poll_once(task).map(Result::unwrap).is_pending());
                    thread::yield_now();
                }
            }
            3 => {
                let mut runtime = tokio::runtime::Builder::new_current_thread();
                let is_cut = rng.one_in(3);
                runtime.enable_time().build().unwrap().block_on(async {
                    let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
                    for task in tasks {
                        if is_cut {
                            let _ = tokio::time::timeout(Duration::from_micros(200), task).await;
                        } else {
                            task.await.unwrap().unwrap();
                        }
                    }
                });
            }
            // Wakers that run their tasks.
            _ => {
                let started: Vec<_> = tasks.into_iter().map(Inline::start).collect();
                for (task, is_done) in started {
                    let is_cancelled = rng.one_in(3);
                    if is_cancelled {
                        task.cancel();
                    }
                    // Without the handle, a task that nothing can wake is dropped.
                    drop(task);
                    match is_done.recv() {
                        Ok(checked) => checked.unwrap(),
                        Err(_) => assert!(is_cancelled, "a waker was dropped without a wake"),
                    }
                }
            }
        }
    });
}
