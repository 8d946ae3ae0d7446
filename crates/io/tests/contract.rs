//! The contract of a backend, checked on each of them: what every call must do, whoever implements it.

#![cfg(not(loom))]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::thread;

use pagewell_io::{Backend, Fault, FaultBackend, FileBackend, MemoryBackend};
use pagewell_sync::bytes::RacyBytes;

/// What buffers hold before a read, to see what it has touched.
const UNTOUCHED: u8 = 0xA5;

/// `len` bytes, none of them zero or [`UNTOUCHED`].
fn content(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 31 + i / 251) as u8 % 120 + 1)
        .collect()
}

/// Each kind of backend with these bytes, and its name; `dir` is for those that need files.
fn backends(bytes: &[u8], dir: &Path) -> Vec<(&'static str, Box<dyn Backend>)> {
    let path = dir.join(format!("file of {}", bytes.len()));
    std::fs::write(&path, bytes).unwrap();
    let sane = |_: u64, _: usize| Fault::None;
    vec![
        ("file", Box::new(FileBackend::open(&path).unwrap())),
        ("memory", Box::new(MemoryBackend::new(bytes.to_vec()))),
        (
            "sane fault over memory",
            Box::new(FaultBackend::new(MemoryBackend::new(bytes.to_vec()), sane)),
        ),
        (
            "sane fault over file",
            Box::new(FaultBackend::new(FileBackend::open(&path).unwrap(), sane)),
        ),
    ]
}

/// Memory for one transfer: buffers of these lengths, one after the other in one allocation.
struct Buffers {
    words: Vec<AtomicU64>,
    lens: Vec<usize>,
}

impl Buffers {
    fn new(lens: &[usize]) -> Self {
        let total: usize = lens.iter().sum();
        let untouched = u64::from_ne_bytes([UNTOUCHED; 8]);
        Self {
            words: (0..total.div_ceil(8))
                .map(|_| AtomicU64::new(untouched))
                .collect(),
            lens: lens.to_vec(),
        }
    }

    fn racy(&self) -> RacyBytes<'_> {
        let total = self.lens.iter().sum();
        let start = NonNull::from(&*self.words).cast::<u8>();
        // SAFETY: (a) the words are atomics that live as long as the borrow; (b) nothing but backends,
        // through racy bytes, and the system writes them.
        unsafe { RacyBytes::new(start, total) }
    }

    fn list(&self) -> Vec<RacyBytes<'_>> {
        let all = self.racy();
        let mut start = 0;
        self.lens
            .iter()
            .map(|len| {
                start += len;
                all.slice(start - len, *len)
            })
            .collect()
    }

    fn bytes(&self) -> Vec<u8> {
        let all = self.racy();
        let mut bytes = vec![0; all.len()];
        all.copy_to(0, &mut bytes);
        bytes
    }
}

/// Reads into buffers of `lens` from `pos` on, and checks that exactly what `file` has there comes.
#[track_caller]
fn assert_reads(name: &str, backend: &dyn Backend, file: &[u8], pos: u64, lens: &[usize]) {
    let buffers = Buffers::new(lens);
    let n = backend
        .read_at(&buffers.list(), pos)
        .unwrap_or_else(|error| panic!("{name}: {lens:?} from {pos} on: {error}"));
    let total: usize = lens.iter().sum();
    let start = usize::try_from(pos).map_or(file.len(), |pos| pos.min(file.len()));
    let expected = &file[start..][..total.min(file.len() - start)];
    assert_eq!(n, expected.len(), "{name}: {lens:?} from {pos} on");
    let bytes = buffers.bytes();
    assert_eq!(bytes[..n], *expected, "{name}: {lens:?} from {pos} on");
    assert!(
        bytes[n..].iter().all(|&b| b == UNTOUCHED),
        "{name}: bytes after the end of the file"
    );
}

#[test]
fn a_read_is_as_long_as_the_file_allows_and_fills_buffers_in_order() {
    let dir = tempfile::tempdir().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
    let file = tempfile::tempfile().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
fn a_file_that_was_not_opened_for_reading_gives_an_error_and_no_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, content(100)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let backend = FileBackend::from_file(file).unwrap();
    let buffers = Buffers::new(&[10]);
    backend.read_at(&buffers.list(), 0).unwrap_err();
    assert!(buffers.bytes().iter().all(|&b| b == UNTOUCHED));
}

#[test]
fn faults_come_as_the_script_says_and_are_counted() {
    let file = content(1000);
    let backend = FaultBackend::new(MemoryBackend::new(file.clone()), |pos, len| match pos {
        0 => Fault::None,
        1 => Fault::Fail(io::ErrorKind::TimedOut.into()),
        2 => Fault::EndAfter(3),
        _ => Fault::EndAfter(len * 2),
    });
    assert_reads("none", &backend, &file, 0, &[10, 20]);

    let buffers = Buffers::new(&[10, 20]);
    let error = backend.read_at(&buffers.list(), 1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(
        buffers.bytes().iter().all(|&b| b != UNTOUCHED),
        "rubbish, so that nobody relies on what a failed read leaves"
    );

    let buffers = Buffers::new(&[10, 20]);
    assert_eq!(backend.read_at(&buffers.list(), 2).unwrap(), 3);
    assert_eq!(buffers.bytes()[..3], file[2..5]);

    assert_reads("an end further than asked for", &backend, &file, 3, &[10]);
    assert_reads("the real end comes first", &backend, &file, 990, &[100]);
    assert_eq!(backend.nr_reads(), 5);
    assert_eq!(backend.size().unwrap(), 1000);
    backend.inner().modify(Vec::clear);
    assert_eq!(backend.size().unwrap(), 0);
}
