//! Faults: each as its script says, and counted.

use std::io;
use std::sync::{Arc, Barrier};
use std::thread;

use pagewell_io::{Backend, MemoryBackend};
use pagewell_io_testing::{Fault, FaultBackend, Operation, VolatileDevice};

use support::{Buffers, UNTOUCHED, assert_reads, content, read_all, write};

#[path = "../../io/tests/support/mod.rs"]
mod support;

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

/// Writable bytes, of which each call has what `fault` says.
fn scripted(
    bytes: &[u8],
    fault: impl Fn(&Operation) -> Fault + Send + Sync + 'static,
) -> FaultBackend<MemoryBackend> {
    FaultBackend::with_script(MemoryBackend::writable(bytes.to_vec()), fault)
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

#[test]
fn a_script_sees_every_call_and_every_call_is_counted() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    let backend = scripted(&content(10), move |operation| {
        list.lock().unwrap().push(*operation);
        Fault::None
    });
    write(&backend, 5, b"seven b").unwrap();
    backend.set_size(11).unwrap();
    backend.sync_data().unwrap();
    backend.sync_all().unwrap();
    backend.sync_all().unwrap();
    assert_eq!(read_all(&backend)[5..], *b"seven ");
    assert_eq!(
        *seen.lock().unwrap(),
        [
            Operation::Write { pos: 5, len: 7 },
            Operation::SetSize { size: 11 },
            Operation::SyncData,
            Operation::SyncAll,
            Operation::SyncAll,
            Operation::Size,
            Operation::Read { pos: 0, len: 11 },
        ]
    );
    assert_eq!(backend.nr_reads(), 1);
    assert_eq!(backend.nr_writes(), 1);
    assert_eq!(backend.nr_sizes(), 1);
    assert_eq!(backend.nr_set_sizes(), 1);
    assert_eq!(backend.nr_sync_datas(), 1);
    assert_eq!(backend.nr_sync_alls(), 2);
    assert_eq!(backend.inner().nr_syncs(), 3);
}

#[test]
fn a_call_that_fails_does_nothing() {
    let backend = scripted(&content(10), |_| Fault::Fail(timed_out()));
    let answers = [
        write(&backend, 0, b"new"),
        backend.set_size(3),
        backend.sync_data(),
        backend.sync_all(),
        backend.size().map(|_| ()),
        backend.read_at(&[], 0).map(|_| ()),
    ];
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    assert_eq!(read_all(backend.inner()), content(10));
    assert_eq!(backend.inner().nr_syncs(), 0);
}

#[test]
fn a_call_that_is_done_and_then_fails_is_done() {
    let backend = scripted(&content(10), |_| Fault::DoneThenFail(timed_out()));
    let answers = [
        write(&backend, 0, b"new"),
        backend.set_size(4),
        backend.sync_data(),
        backend.sync_all(),
    ];
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    assert_eq!(read_all(backend.inner())[..3], *b"new");
    assert_eq!(backend.inner().size().unwrap(), 4);
    assert_eq!(backend.inner().nr_syncs(), 2);
}

#[test]
fn a_short_write_leaves_its_first_part() {
    for written in [0, 1, 3, 4, 9, 12, 100] {
        let backend = scripted(&[0; 4], move |operation| match operation {
            Operation::Write { .. } => Fault::ShortThenFail {
                written,
                error: io::ErrorKind::StorageFull.into(),
            },
            _ => Fault::None,
        });
        let new = content(12);
        let buffers = Buffers::with_bytes(&[3, 0, 1, 8], &new);
        let error = backend.write_at(&buffers.sources(), 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let mut expected = vec![0; 2];
        expected.extend(&new[..written.min(12)]);
        expected.resize(expected.len().max(4), 0);
        assert_eq!(read_all(&backend), expected, "{written}");
    }
}

#[test]
fn a_script_that_waits_makes_a_call_late() {
    let (arrived, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let hold = (Arc::clone(&arrived), Arc::clone(&go));
    let backend = scripted(b"old", move |operation| {
        if matches!(operation, Operation::Write { .. }) {
            hold.0.wait();
            hold.1.wait();
        }
        Fault::None
    });
    thread::scope(|scope| {
        scope.spawn(|| write(&backend, 0, b"new").unwrap());
        arrived.wait();
        assert_eq!(read_all(&backend), b"old");
        go.wait();
    });
    assert_eq!(read_all(&backend), b"new");
}

#[test]
fn faults_come_before_any_backend() {
    let file = VolatileDevice::new(1).create("file").unwrap();
    let backend = FaultBackend::with_script(file, |operation| match operation {
        Operation::SyncData => Fault::Fail(timed_out()),
        _ => Fault::None,
    });
    write(&backend, 0, b"new").unwrap();
    backend.sync_data().unwrap_err();
    backend.sync_all().unwrap();
    assert_eq!(read_all(&backend), b"new");
}

#[test]
#[should_panic(expected = "to which it does not apply")]
fn a_fault_that_a_call_cannot_have_is_a_bug_of_the_script() {
    let _ = scripted(&[], |_| Fault::EndAfter(0)).sync_data();
}
