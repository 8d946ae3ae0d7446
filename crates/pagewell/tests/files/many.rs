//! Reads at many places in one call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{self, PAGE, UNTOUCHED};
use pagewell::io::MemoryBackend;
use pagewell::{Cache, ErrorKind, File, ReadRequest};
use pagewell_testkit::content::content;
use pagewell_testkit::{Rng, Seed};

fn file_of(cache: &Cache, bytes: Vec<u8>) -> File {
    let backend = MemoryBackend::writable(bytes);
    let options = pagewell::OpenOptions::new().write();
    cache.open_backend_with(backend, "file", &options).unwrap()
}

/// Within a page and over several, cached and not, at the end and past it, empty and twice the same.
#[test]
fn a_batch_reads_what_single_reads_do() {
    let seed = Seed::of_run();
    let mut rng = seed.rng();
    let bytes = content(1, 40 * PAGE + 100);
    for nr_frames in [32, 200] {
        let cache = support::cache(nr_frames);
        let file = file_of(&cache, bytes.clone());
        for _ in 0..200 {
            let nr = rng.below(70) as usize;
            let places: Vec<(u64, usize)> = (0..nr)
                .map(|_| {
                    let offset = rng.below(41 * PAGE as u64);
                    let most = [8, 64, 700, 3 * PAGE as u64][rng.below(4) as usize];
                    (offset, rng.below(most) as usize)
                })
                .collect();
            let mut buffers: Vec<Vec<u8>> = places
                .iter()
                .map(|(_, len)| vec![UNTOUCHED; *len])
                .collect();
            let mut requests: Vec<ReadRequest<'_>> = places
                .iter()
                .zip(&mut buffers)
                .map(|((offset, _), buf)| ReadRequest::new(*offset, buf))
                .collect();
            file.read_many(&mut requests);
            let lens: Vec<usize> = requests
                .into_iter()
                .map(|request| request.result.unwrap())
                .collect();
            for (((offset, len), buf), nr_read) in places.into_iter().zip(&buffers).zip(lens) {
                let start = (offset as usize).min(bytes.len());
                let end = (start + len).min(bytes.len());
                assert_eq!(nr_read, end - start, "{seed:?}");
                assert!(buf[..nr_read] == bytes[start..end], "{seed:?}");
                assert!(
                    buf[nr_read..]
                        .iter()
                        .all(|byte| [0, UNTOUCHED].contains(byte))
                );
            }
        }
    }
}

#[test]
fn each_request_has_its_own_error() {
    let cache = support::cache(64);
    let fails = |pos: u64, _| match pos / PAGE as u64 {
        3 => pagewell::io::Fault::Fail(std::io::ErrorKind::Other.into()),
        _ => pagewell::io::Fault::None,
    };
    let file = cache
        .open_backend(support::scripted(&content(1, 8 * PAGE), fails), "file")
        .unwrap();
    let mut buffers = [[UNTOUCHED; 16]; 3];
    let places = [2, 3, 4].map(|page| page * PAGE as u64);
    let mut requests: Vec<_> = places
        .into_iter()
        .zip(&mut buffers)
        .map(|(offset, buf)| ReadRequest::new(offset, buf))
        .collect();
    file.read_many(&mut requests);
    let results: Vec<_> = requests.into_iter().map(|request| request.result).collect();
    assert_eq!(results[1].as_ref().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!([0, 2].map(|at| *results[at].as_ref().unwrap()), [16, 16]);
    assert_eq!(buffers[1], [0; 16], "nothing foreign is left there");
}

/// A batch copies, and looks at all its slots again after that: what was written meanwhile is read anew.
#[test]
fn batches_and_views_are_whole_while_pages_are_written_and_evicted() {
    let cache = support::cache(48);
    let file = file_of(&cache, vec![0; 64 * PAGE]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng::new(1);
            for round in 0..20_000_u64 {
                let page = rng.below(64) * PAGE as u64;
                file.write_at(&[round as u8; 512], page).unwrap();
                if round % 16 == 0 {
                    cache.reclaim(4);
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut rng = Rng::new(2);
        while !is_over.load(Ordering::Relaxed) {
            let mut buffers = [[1; 512]; 24];
            let pages = [(); 24].map(|()| rng.below(64));
            let mut requests: Vec<_> = pages
                .into_iter()
                .zip(&mut buffers)
                .map(|(page, buf)| ReadRequest::new(page * PAGE as u64, buf))
                .collect();
            file.read_many(&mut requests);
            assert!(
                requests
                    .iter()
                    .all(|request| matches!(request.result, Ok(512)))
            );
            for buf in &buffers {
                assert!(buf.iter().all(|byte| *byte == buf[0]), "torn");
            }
            for page in pages {
                let answer = file.view(page, |v| Ok((v.u8(0)?, v.u8(511)?)));
                let (first, last) = answer.unwrap();
                assert_eq!(first, last, "torn");
            }
        }
    });
}
