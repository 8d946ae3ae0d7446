//! Results of transfers: bytes, errors of the backend.

use std::io;
use std::sync::Arc;

use pagewell_io::engine::{Job, Request};
use pagewell_io::{Backend, Direct, FileBackend};

use crate::backends::{each, file};
use crate::results::{Results, WAYS, perform};
use crate::support::{Memory, Rng, UNTOUCHED, content, engines, read_all};

#[test]
fn reads_get_what_is_there_up_to_the_end_in_every_way() {
    let bytes = content(150_000);
    each(&bytes, |name, engine, storage| {
        for way in WAYS {
            let places = [
                (0, vec![4096]),
                (4096, vec![4096; 8]),
                (100, vec![7, 0, 300]),
                (147_456, vec![4096]),
                (147_456, vec![4096, 4096]),
                (149_999, vec![1, 1]),
                (150_000, vec![4096]),
                (151_552, vec![4096]),
                (1 << 40, vec![4096]),
                (i64::MAX as u64, vec![10]),
                (u64::MAX - 3, vec![4]),
                (u64::MAX, vec![4096]),
                (0, vec![]),
                (0, vec![0]),
                (0, vec![16; 3000]),
                (0, vec![200_000]),
            ];
            let results = Results::of(places.len());
            let memories: Vec<_> = places
                .iter()
                .map(|(_, lens)| Memory::new(lens.iter().sum()))
                .collect();
            let jobs =
                places
                    .iter()
                    .zip(&memories)
                    .enumerate()
                    .map(|(nr, ((pos, lens), memory))| {
                        Job::new(
                            Arc::clone(storage),
                            memory.read(*pos, lens, results.note(nr)),
                        )
                    });
            let done = perform(&**engine, way, jobs.collect(), &results);
            for (((pos, lens), memory), result) in places.iter().zip(&memories).zip(done) {
                let what = format!("{name}, {way:?}, {} from {pos} on", lens.len());
                let total: usize = lens.iter().sum();
                let start = usize::try_from(*pos).map_or(bytes.len(), |pos| pos.min(bytes.len()));
                let expected = &bytes[start..][..total.min(bytes.len() - start)];
                assert_eq!(result.unwrap(), expected.len(), "{what}");
                let got = memory.bytes();
                assert!(got[..expected.len()] == *expected, "{what}");
                // A direct read of the block that has the end may leave zeros.
                assert!(
                    got[expected.len()..]
                        .iter()
                        .all(|&b| b == UNTOUCHED || b == 0),
                    "{what}"
                );
            }
        }
    });
}

#[test]
fn holes_are_zeros() {
    each(&content(10), |name, engine, storage| {
        let results = Results::of(3);
        let size = Request::set_size(100_000, Box::new(results.note(0)));
        engine.run(&mut vec![Job::new(Arc::clone(storage), size)]);
        let memory = Memory::with_bytes(&content(4096));
        let end = memory.write(200_704, &[4096], results.note(1));
        engine.run(&mut vec![Job::new(Arc::clone(storage), end)]);
        let read = Memory::new(204_800);
        let all = read.read(0, &[204_800], results.note(2));
        engine.run(&mut vec![Job::new(Arc::clone(storage), all)]);
        let mut expected = content(10);
        expected.resize(200_704, 0);
        expected.extend(content(4096));
        let results: Vec<_> = results.all().into_iter().map(Result::unwrap).collect();
        assert_eq!(results, [0, 4096, 204_800], "{name}");
        assert!(read.bytes() == expected, "{name}");
    });
}

#[test]
fn many_writes_at_once_of_any_alignment_leave_what_a_vector_would_have() {
    let mut rng = Rng::new(7);
    each(&content(9000), |name, engine, storage| {
        for way in WAYS {
            let mut model = read_all(&**storage);
            // Places that do not meet, so that any order gives the same.
            let mut pos = rng.below(3000);
            let mut places = Vec::new();
            while places.len() < 60 {
                let len = [1 + rng.below(9000), 4096, 512][rng.below(3)];
                places.push((pos, len));
                pos += len + [0, rng.below(2000)][rng.below(2)];
                pos = [pos, pos.next_multiple_of(4096)][rng.below(2)];
            }
            let results = Results::of(places.len());
            let mut jobs = Vec::new();
            for (nr, (pos, len)) in places.iter().enumerate() {
                let bytes: Vec<u8> = (0..*len).map(|_| rng.next() as u8).collect();
                if model.len() < pos + len {
                    model.resize(pos + len, 0);
                }
                model[*pos..pos + len].copy_from_slice(&bytes);
                let memory = Memory::with_bytes(&bytes);
                let lens = [vec![len / 3, len - len / 3], vec![*len]];
                let request = memory.write(*pos as u64, &lens[rng.below(2)], results.note(nr));
                jobs.push(Job::new(Arc::clone(storage), request));
            }
            // In any order.
            for nr in 0..jobs.len() {
                let other = rng.below(jobs.len());
                jobs.swap(nr, other);
            }
            let done = perform(&**engine, way, jobs, &results);
            for (result, (_, len)) in done.into_iter().zip(&places) {
                assert_eq!(result.unwrap(), *len, "{name}, {way:?}");
            }
            assert!(read_all(&**storage) == model, "{name}, {way:?}");
        }
    });
}

#[test]
fn what_the_storage_refuses_is_refused_by_every_engine() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("read only");
    std::fs::write(&path, content(5000)).unwrap();
    for direct in [Direct::Never, Direct::Auto] {
        let reader = FileBackend::open_for_reading(&path, direct).unwrap();
        let reader: Arc<dyn Backend> = Arc::new(reader);
        let writer: Arc<dyn Backend> = Arc::new(file(&content(5000), direct, dir.path()));
        for (name, engine) in engines() {
            for way in WAYS {
                let results = Results::of(6);
                let memory = Memory::new(4096);
                let of_reader = [
                    memory.write(0, &[4096], results.note(0)),
                    memory.write(0, &[], results.note(1)),
                    Request::sync_data(Box::new(results.note(2))),
                    Request::set_size(1, Box::new(results.note(3))),
                ];
                let too_large = i64::MAX as u64 - 4095;
                let of_writer = [
                    memory.write(too_large, &[4096], results.note(4)),
                    memory.write(u64::MAX, &[4096], results.note(5)),
                ];
                let jobs = of_reader
                    .into_iter()
                    .map(|request| Job::new(Arc::clone(&reader), request));
                let more = of_writer
                    .into_iter()
                    .map(|request| Job::new(Arc::clone(&writer), request));
                let done = perform(&*engine, way, jobs.chain(more).collect(), &results);
                let kinds: Vec<_> = done
                    .into_iter()
                    .map(|result| result.unwrap_err().kind())
                    .collect();
                assert_eq!(
                    kinds[..4],
                    [io::ErrorKind::Unsupported; 4],
                    "{name}, {way:?}"
                );
                assert_eq!(
                    kinds[4..],
                    [io::ErrorKind::FileTooLarge; 2],
                    "{name}, {way:?}"
                );
            }
            assert_eq!(reader.size().unwrap(), 5000);
            assert!(read_all(&*writer) == content(5000));
        }
    }
}
