//! The contract of a backend, checked on each of them: what every call must do, whoever implements it.

#![cfg(not(loom))]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use pagewell_io::{Backend, Direct, FileBackend, FileId, FileOptions, MemoryBackend};
use pagewell_io_testing::{Fault, FaultBackend, VolatileDevice};
use pagewell_sync::bytes::RacyBytes;

use support::{Buffers, Rng, assert_reads, content, read_all, write};

mod support;

/// Each kind of backend with these bytes, and its name; `dir` is for those that need files.
fn backends(bytes: &[u8], dir: &Path) -> Vec<(&'static str, Box<dyn Backend>)> {
    let mut all = read_only_backends(bytes, dir);
    all.extend(writable_backends(bytes, dir));
    all
}

/// Each kind of backend that can be written, with these bytes.
fn writable_backends(bytes: &[u8], dir: &Path) -> Vec<(&'static str, Box<dyn Backend>)> {
    let path = dir.join("writable");
    let options = FileOptions::new().create_new();
    let file = FileBackend::open_writable(&path, &options).unwrap();
    // A file without a name is as good as any other, and the next one can have it.
    std::fs::remove_file(&path).unwrap();
    let direct = FileBackend::open_writable(&path, &options.direct(Direct::Auto)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let memory = MemoryBackend::writable(Vec::new());
    let volatile = VolatileDevice::new(1).create("file").unwrap();
    let faulty = FaultBackend::with_script(MemoryBackend::writable(Vec::new()), |_| Fault::None);
    let backends: Vec<(&str, Box<dyn Backend>)> = vec![
        ("writable file", Box::new(file)),
        ("writable direct file", Box::new(direct)),
        ("writable memory", Box::new(memory)),
        ("file of a volatile device", Box::new(volatile)),
        ("sane fault over writable memory", Box::new(faulty)),
    ];
    for (name, backend) in &backends {
        assert!(backend.is_writable(), "{name}");
        write(&**backend, 0, bytes).unwrap();
    }
    backends
}

/// Each kind of backend that cannot, with these bytes.
fn read_only_backends(bytes: &[u8], dir: &Path) -> Vec<(&'static str, Box<dyn Backend>)> {
    let path = dir.join(format!("file of {}", bytes.len()));
    std::fs::write(&path, bytes).unwrap();
    let sane = |_: u64, _: usize| Fault::None;
    vec![
        ("file", Box::new(FileBackend::open(&path).unwrap())),
        (
            "direct file",
            Box::new(FileBackend::open_for_reading(&path, Direct::Auto).unwrap()),
        ),
        ("memory", Box::new(MemoryBackend::new(bytes.to_vec()))),
        (
            "sane fault over memory",
            Box::new(FaultBackend::new(MemoryBackend::new(bytes.to_vec()), sane)),
        ),
        (
            "sane fault over file",
            Box::new(FaultBackend::new(FileBackend::open(&path).unwrap(), sane)),
        ),
        (
            "shared memory",
            Box::new(Arc::new(MemoryBackend::new(bytes.to_vec()))),
        ),
        (
            "what implements only what it must",
            Box::new(Least(MemoryBackend::writable(bytes.to_vec()))),
        ),
    ]
}

/// A backend with no more than the methods that every backend has to have.
#[derive(Debug)]
struct Least(MemoryBackend);

impl Backend for Least {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.0.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn id(&self) -> FileId {
        self.0.id()
    }
}

#[test]
fn a_read_is_as_long_as_the_file_allows_and_fills_buffers_in_order() {
    let dir = pagewell_testkit::scratch::dir();
    for len in [0, 1, 7, 8, 4095, 4096, 4097, 20_000] {
        let file = content(len);
        for (name, backend) in backends(&file, dir.path()) {
            assert_eq!(backend.size().unwrap(), len as u64, "{name}");
            for pos in [0, 1, 8, 4095, 4096, 19_999] {
                for lens in [
                    &[][..],
                    &[0],
                    &[1],
                    &[4096],
                    &[3, 0, 5, 1],
                    &[0, 0, 9],
                    &[4096, 4096, 4096],
                    &[1, 30_000],
                    &[30_000, 1],
                ] {
                    assert_reads(name, &*backend, &file, pos, lens);
                }
            }
        }
    }
}

#[test]
fn a_list_of_any_length_is_one_read() {
    let dir = pagewell_testkit::scratch::dir();
    let file = content(50_000);
    for (name, backend) in backends(&file, dir.path()) {
        for nr in [63, 64, 65, 128, 129, 1000, 2000] {
            let lens: Vec<usize> = (0..nr).map(|i| i * 7 % 41).collect();
            assert_reads(name, &*backend, &file, 11, &lens);
            assert_reads(name, &*backend, &file, 49_000, &lens);
        }
    }
}

#[test]
fn positions_at_and_past_the_end_give_nothing_up_to_the_highest() {
    let dir = pagewell_testkit::scratch::dir();
    for len in [0, 100, 4096] {
        let file = content(len);
        for (name, backend) in backends(&file, dir.path()) {
            let end = len as u64;
            for pos in [
                end,
                end + 1,
                1 << 32,
                1 << 62,
                i64::MAX as u64 - 8,
                i64::MAX as u64,
                i64::MAX as u64 + 1,
                u64::MAX - 8,
                u64::MAX,
            ] {
                assert_reads(name, &*backend, &file, pos, &[1]);
                assert_reads(name, &*backend, &file, pos, &[4096, 4096]);
                assert_reads(name, &*backend, &file, pos, &[]);
            }
        }
    }
}

#[test]
fn a_hole_gives_zeros() {
    let file = pagewell_testkit::scratch::file().into_file();
    file.write_all_at(b"end", 1 << 40).unwrap();
    let backend = FileBackend::from_file(file).unwrap();
    assert_eq!(backend.size().unwrap(), (1 << 40) + 3);
    for pos in [0, 5000, 1 << 39] {
        assert_reads("hole", &backend, &vec![0; 1 << 16], 0, &[100, 4096]);
        let buffers = Buffers::new(&[5000]);
        assert_eq!(backend.read_at(&buffers.list(), pos).unwrap(), 5000);
        assert!(buffers.bytes().iter().all(|&b| b == 0));
    }
    let buffers = Buffers::new(&[4, 100]);
    let n = backend.read_at(&buffers.list(), (1 << 40) - 5).unwrap();
    assert_eq!(n, 8);
    assert_eq!(buffers.bytes()[..8], *b"\0\0\0\0\0end");
}

#[test]
fn the_size_is_that_of_now() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(10)).unwrap();
    let file = FileBackend::open(&path).unwrap();
    let memory = MemoryBackend::new(content(10));
    for len in [0, 5000, 3] {
        std::fs::write(&path, content(len)).unwrap();
        memory.modify(|bytes| *bytes = content(len));
        for backend in [&file as &dyn Backend, &memory] {
            assert_eq!(backend.size().unwrap(), len as u64);
            assert_reads("changed", backend, &content(len), 1, &[6000]);
        }
    }
}

#[test]
fn ids_are_equal_for_names_of_one_file_and_for_nothing_else() {
    let dir = pagewell_testkit::scratch::dir();
    let names = ["one", "same", "other"].map(|name| dir.path().join(name));
    std::fs::write(&names[0], "x").unwrap();
    std::fs::hard_link(&names[0], &names[1]).unwrap();
    std::fs::write(&names[2], "x").unwrap();
    let [one, same, other] = names.map(|name| FileBackend::open(&name).unwrap());
    assert_eq!(one.id(), same.id());
    assert_ne!(one.id(), other.id());

    let memory = [(); 3].map(|()| MemoryBackend::new(b"x".to_vec()));
    let ids = memory.each_ref().map(Backend::id);
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    assert!(!ids.contains(&one.id()));
    memory[0].modify(Vec::clear);
    assert_eq!(memory[0].id(), ids[0], "the same all along");
    let behind = memory[1].id();
    let [_, middle, _] = memory;
    let faulty = FaultBackend::new(middle, |_, _| Fault::None);
    assert_eq!(faulty.id(), behind);
}

#[test]
fn several_threads_read_at_once() {
    let dir = pagewell_testkit::scratch::dir();
    let file = content(100_000);
    for (name, backend) in backends(&file, dir.path()) {
        thread::scope(|scope| {
            for part in 0..4 {
                let (backend, file) = (&*backend, &file);
                scope.spawn(move || {
                    for round in 0..50 {
                        let pos = part * 25_000 + round * 13;
                        assert_reads(name, backend, file, pos, &[100, 4096, 8]);
                    }
                });
            }
        });
    }
}

#[test]
fn what_has_no_bytes_at_positions_is_refused_when_it_is_opened() {
    let dir = pagewell_testkit::scratch::dir();
    let error = FileBackend::open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    let directory = File::open(dir.path()).unwrap();
    let error = FileBackend::from_file(directory).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);

    let (pipe, _other_end) = io::pipe().unwrap();
    let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
    let error = FileBackend::from_file(pipe).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);

    let error = FileBackend::open(Path::new("/dev/null")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);

    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = FileBackend::open(&socket).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error:?}");

    let error = FileBackend::open(&dir.path().join("missing")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_file_that_was_not_opened_for_reading_is_refused() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(100)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let error = FileBackend::from_file(file).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn an_open_file_is_written_under_its_lock() {
    let options = FileOptions::default();
    let file = pagewell_testkit::scratch::file();
    std::fs::write(file.path(), b"old").unwrap();
    let open = || File::options().read(true).write(true).open(file.path());
    let backend = FileBackend::from_file_writable(open().unwrap(), &options).unwrap();
    write(&backend, 2, b"new").unwrap();
    backend.sync_data().unwrap();
    assert_eq!(read_all(&backend), b"olnew");
    let error = FileBackend::from_file_writable(open().unwrap(), &options).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    drop(backend);
    let reader = File::open(file.path()).unwrap();
    let error = FileBackend::from_file_writable(reader, &options).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(std::fs::read(file.path()).unwrap(), b"olnew");
    let options = options.truncate();
    let backend = FileBackend::from_file_writable(open().unwrap(), &options).unwrap();
    assert_eq!(backend.size().unwrap(), 0);
}

#[test]
fn a_backend_that_cannot_be_written_says_so_and_changes_nothing() {
    let dir = pagewell_testkit::scratch::dir();
    let file = content(100);
    for (name, backend) in read_only_backends(&file, dir.path()) {
        assert!(!backend.is_writable(), "{name}");
        let answers = [
            write(&*backend, 0, b"new"),
            write(&*backend, 0, b""),
            backend.set_size(50),
            backend.set_size(100),
            backend.sync_data(),
            backend.sync_all(),
        ];
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{name}");
        }
        assert_eq!(read_all(&*backend), file, "{name}");
    }
}

#[test]
fn random_writes_and_sizes_leave_what_they_would_leave_in_a_vector() {
    let dir = pagewell_testkit::scratch::dir();
    for seed in 0..20 {
        for (name, backend) in writable_backends(&content(3000), dir.path()) {
            let mut rng = Rng::new(seed);
            let mut model = content(3000);
            for step in 0..60 {
                let what = format!("{name}, seed {seed}, step {step}");
                match rng.below(8) {
                    0 => {
                        let size = rng.below(10_000);
                        backend.set_size(size as u64).unwrap();
                        model.resize(size, 0);
                    }
                    1 => backend.sync_data().unwrap(),
                    2 => backend.sync_all().unwrap(),
                    _ => write_to_both(&*backend, &mut model, &mut rng),
                }
                assert_eq!(backend.size().unwrap(), model.len() as u64, "{what}");
                let pos = rng.below(10_000) as u64;
                assert_reads(&what, &*backend, &model, pos, &[700, 0, 5000]);
            }
            assert_eq!(read_all(&*backend), model, "{name}, seed {seed}");
        }
    }
}

/// Writes random bytes, from a random number of buffers, to the backend and to the model of it.
fn write_to_both(backend: &dyn Backend, model: &mut Vec<u8>, rng: &mut Rng) {
    let nr = [1, 2, 5, 64, 65, 200][rng.below(6)];
    let lens: Vec<usize> = (0..nr).map(|_| rng.below(3000 / nr)).collect();
    let bytes: Vec<u8> = (0..lens.iter().sum()).map(|_| rng.next() as u8).collect();
    let pos = rng.below(8000);
    let buffers = Buffers::with_bytes(&lens, &bytes);
    backend.write_at(&buffers.sources(), pos as u64).unwrap();
    assert_eq!(buffers.bytes(), bytes, "the buffers are as they were");
    if bytes.is_empty() {
        return;
    }
    let end = pos + bytes.len();
    if end > model.len() {
        model.resize(end, 0);
    }
    model[pos..end].copy_from_slice(&bytes);
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, backend) in writable_backends(&content(5000), dir.path()) {
        for (cut, grown) in [(4000, 5000), (1000, 9000), (0, 3), (0, 0), (0, 700)] {
            let mut expected = read_all(&*backend);
            expected.resize(cut, 0);
            expected.resize(grown, 0);
            backend.set_size(cut as u64).unwrap();
            backend.set_size(grown as u64).unwrap();
            backend.sync_data().unwrap();
            assert_eq!(read_all(&*backend), expected, "{name}");
        }
        write(&*backend, 1000, b"x").unwrap();
        assert_eq!(read_all(&*backend)[700..1000], [0; 300], "{name}");
    }
}

#[test]
fn to_write_no_bytes_changes_nothing_wherever_it_is() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, backend) in writable_backends(&content(10), dir.path()) {
        for pos in [0, 10, 11, 1 << 40, i64::MAX as u64, u64::MAX] {
            for lens in [&[][..], &[0], &[0, 0, 0]] {
                let buffers = Buffers::new(lens);
                backend.write_at(&buffers.sources(), pos).unwrap();
            }
        }
        assert_eq!(read_all(&*backend), content(10), "{name}");
    }
}

#[test]
fn an_end_that_no_file_can_have_is_refused_with_nothing_written() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, backend) in writable_backends(&content(10), dir.path()) {
        for pos in [i64::MAX as u64, i64::MAX as u64 - 3, 1 << 63, u64::MAX] {
            let error = write(&*backend, pos, b"four").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{name} {pos}");
        }
        for size in [1 << 63, u64::MAX] {
            let error = backend.set_size(size).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{name} {size}");
        }
        assert_eq!(read_all(&*backend), content(10), "{name}");
    }
}

#[test]
fn several_threads_write_at_once() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, backend) in writable_backends(&[], dir.path()) {
        let expected = content(40_000);
        thread::scope(|scope| {
            for part in 0..4 {
                let (backend, expected) = (&*backend, &expected);
                scope.spawn(move || {
                    for round in 0..25 {
                        let pos = part * 10_000 + round * 400;
                        write(backend, pos as u64, &expected[pos..pos + 400]).unwrap();
                        if round % 8 == 0 {
                            backend.sync_data().unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(read_all(&*backend), expected, "{name}");
    }
}

#[test]
fn memory_counts_its_syncs_and_is_full_where_it_should_be() {
    let backend = MemoryBackend::writable_up_to(1000, content(900));
    backend.sync_data().unwrap();
    backend.sync_all().unwrap();
    assert_eq!(backend.nr_syncs(), 2);

    write(&backend, 900, &[7; 100]).unwrap();
    let error = write(&backend, 950, &[8; 51]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    let error = backend.set_size(1001).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(backend.size().unwrap(), 1000);
    write(&backend, 0, &[9; 1000]).unwrap();
    assert_eq!(read_all(&backend), [9; 1000]);
}
