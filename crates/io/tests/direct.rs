//! Transfers past the operating system's cache: what they leave there, in the file, and where they are not to be had.

#![cfg(not(loom))]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use pagewell_io::engine::{Job, Request};
use pagewell_io::{Backend, Buffered, Direct, FileBackend, FileOptions, Transfers};
use pagewell_testkit::resident::{holds_no_direct_pages, nr_resident};
use pagewell_testkit::skip::skipped;

use support::{Memory, Rng, assert_reads, content, engines, read_all, write};

mod support;

fn open(path: &Path, direct: Direct) -> FileBackend {
    FileBackend::open_writable(path, &FileOptions::new().create().direct(direct)).unwrap()
}

/// Whether the file is transferred directly; if not, the test is none.
fn is_direct(file: &FileBackend) -> bool {
    match file.transfers() {
        Transfers::Direct { alignment } => {
            assert!(alignment.is_power_of_two() && alignment <= 4096);
            true
        }
        buffered => {
            skipped(&buffered.to_string());
            false
        }
    }
}

#[test]
fn nothing_is_left_in_the_cache_of_the_operating_system() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let bytes = content(3 << 20);

    let buffered = open(&path, Direct::Never);
    assert_eq!(
        buffered.transfers(),
        Transfers::Buffered(Buffered::NotAsked)
    );
    write(&buffered, 0, &bytes).unwrap();
    // The system may have reclaimed some. A file system without pages in its cache would make the counts below say
    // nothing.
    let counts = holds_no_direct_pages(&path);
    assert!(!counts || nr_resident(&path) > 0);
    let nr_resident = |path: &Path| if counts { nr_resident(path) } else { 0 };
    drop(buffered);
    std::fs::remove_file(&path).unwrap();

    let file = open(&path, Direct::Auto);
    if !is_direct(&file) {
        return;
    }
    // Whole blocks, by every engine.
    let file: Arc<dyn Backend> = Arc::new(file);
    for (_, engine) in engines() {
        let half = Memory::with_bytes(&bytes[..1 << 20]);
        let jobs =
            (0..3).map(|nr| half.write(nr << 20, &[1 << 20], |result| assert!(result.is_ok())));
        engine.run(
            &mut jobs
                .map(|request| Job::new(Arc::clone(&file), request))
                .collect(),
        );
        let read = Memory::new(1 << 20);
        let jobs =
            (0..3).map(|nr| read.read(nr << 20, &[1 << 19; 2], |result| assert!(result.is_ok())));
        engine.run(
            &mut jobs
                .map(|request| Job::new(Arc::clone(&file), request))
                .collect(),
        );
        assert!(read.bytes() == bytes[..1 << 20]);
    }
    assert_eq!(nr_resident(&path), 0);
    // Parts of blocks, and ends within them.
    write(&*file, 0, &bytes).unwrap();
    write(&*file, (3 << 20) - 100, &bytes[..1000]).unwrap();
    assert_reads("part", &*file, &bytes, 1001, &[77, 5000]);
    assert_eq!(nr_resident(&path), 0);
    // To cut within a block, a system may read the block, and keep it; ext4 does not.
    file.set_size(5000).unwrap();
    file.sync_data().unwrap();
    assert_eq!(nr_resident(&path), 0);
    assert_eq!(read_all(&*file), bytes[..5000]);
    assert_eq!(nr_resident(&path), 0);
}

#[test]
fn a_file_ends_where_it_was_written_to_whatever_the_blocks_are() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let file = open(&path, Direct::Auto);
    let mut expected = Vec::new();
    for (pos, len) in [
        (0, 1),
        (1, 511),
        (512, 1),
        (4095, 1),
        (4096, 1),
        (5000, 4096),
        (100, 50),
        (9000, 300_000),
    ] {
        let bytes = content(len);
        write(&file, pos as u64, &bytes).unwrap();
        if expected.len() < pos + len {
            expected.resize(pos + len, 0);
        }
        expected[pos..pos + len].copy_from_slice(&bytes);
        assert_eq!(file.size().unwrap(), expected.len() as u64);
        // As everybody else sees it.
        assert!(std::fs::read(&path).unwrap() == expected, "{len} at {pos}");
    }
}

/// Parts of one block that are written at the same time are not undone by each other, nor is the end of the file.
#[test]
fn writers_of_parts_of_a_block_do_not_undo_each_other() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let file: Arc<dyn Backend> = Arc::new(open(&path, Direct::Auto));
    let expected = content(40_000);
    for (name, engine) in engines() {
        file.set_size(0).unwrap();
        thread::scope(|scope| {
            for part in 0..8 {
                let (engine, file, expected) = (&engine, &file, &expected);
                scope.spawn(move || {
                    // Pieces of 100 bytes, each eighth one this thread's; and whole blocks in between, where they are.
                    for nr in (part..400).step_by(8) {
                        let bytes = &expected[nr * 100..][..100];
                        let pos = nr as u64 * 100;
                        let request = Memory::with_bytes(bytes)
                            .write(pos, &[100], |result| assert!(result.is_ok()));
                        engine.run(&mut vec![Job::new(Arc::clone(file), request), sync(file)]);
                    }
                });
            }
        });
        assert!(read_all(&*file) == expected, "{name}");
    }
}

fn sync(file: &Arc<dyn Backend>) -> Job {
    let request = Request::sync_data(Box::new(|result: io::Result<usize>| {
        assert!(result.is_ok())
    }));
    Job::new(Arc::clone(file), request)
}

#[test]
fn whole_blocks_and_parts_at_the_same_time() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let file: Arc<dyn Backend> = Arc::new(open(&path, Direct::Auto));
    let mut rng = Rng::new(3);
    for (name, engine) in engines() {
        let expected: Vec<u8> = (0..64 * 4096 + 77).map(|_| rng.next() as u8).collect();
        file.set_size(0).unwrap();
        let mut lane = engine.lane();
        let mut pos = 0;
        while pos < expected.len() {
            // A page, or pieces of one, so that neighbours are of both kinds; the last one is the tail.
            let len = [4096 - pos % 4096, (4096 - pos % 4096).min(700)][rng.below(2)]
                .min(expected.len() - pos);
            let memory = Memory::with_bytes(&expected[pos..pos + len]);
            let request = memory.write(pos as u64, &[len], move |result| {
                assert_eq!(result.unwrap(), len)
            });
            lane.submit(Job::new(Arc::clone(&file), request));
            lane.wait(rng.below(2));
            pos += len;
        }
        drop(lane);
        assert_eq!(file.size().unwrap(), expected.len() as u64, "{name}");
        assert!(read_all(&*file) == expected, "{name}");
    }
}

#[test]
fn a_file_that_changes_behind_reads_gives_what_is_there() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(100_000)).unwrap();
    let file: Arc<dyn Backend> =
        Arc::new(FileBackend::open_for_reading(&path, Direct::Auto).unwrap());
    let other = File::options().write(true).open(&path).unwrap();
    for (name, engine) in engines() {
        for size in [100_000, 8192, 5000, 0, 4096, 70_001] {
            other.set_len(size).unwrap();
            let expected = std::fs::read(&path).unwrap();
            assert_eq!(file.size().unwrap(), size, "{name}");
            let memory = Memory::new(131_072);
            let (done, is_done) = std::sync::mpsc::channel();
            let request = memory.read(0, &[4096; 32], move |result| done.send(result).unwrap());
            engine.submit(Job::new(Arc::clone(&file), request));
            let nr = is_done
                .recv_timeout(pagewell_testkit::wait::limit())
                .unwrap()
                .unwrap();
            assert_eq!(nr as u64, size, "{name}");
            assert!(memory.bytes()[..nr] == expected, "{name}");
        }
    }
}

#[test]
fn where_there_are_none_auto_says_why_and_always_fails() {
    // A file of the kernel's with bytes of a fixed number, and without storage.
    let path = Path::new("/sys/kernel/notes");
    if !path.exists() {
        return skipped("no /sys/kernel/notes");
    }
    let file = FileBackend::open_for_reading(path, Direct::Auto).unwrap();
    assert_eq!(file.transfers(), Transfers::Buffered(Buffered::NoAlignment));
    assert_eq!(file.alignment(), 1);
    assert!(file.transfers().to_string().contains("no alignment"));
    let error = FileBackend::open_for_reading(path, Direct::Always).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

/// What is refused for other reasons than that it is direct does not turn direct transfers off.
#[test]
fn odd_requests_leave_direct_transfers_on() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let file = open(&path, Direct::Auto);
    if !is_direct(&file) {
        return;
    }
    write(&file, 0, &content(10_000)).unwrap();
    let before = file.transfers();
    let high = i64::MAX as u64;
    for pos in [
        0,
        4096,
        8192,
        12_288,
        1 << 40,
        1 << 44,
        1 << 50,
        1 << 62,
        high - 4095,
        high - 8191,
        high,
        high + 1,
    ] {
        for lens in [&[4096][..], &[1], &[4096, 4096], &[100_000]] {
            assert_reads("odd", &file, &content(10_000), pos, lens);
            // Every other one makes a file that is too large, and fails.
            if pos >= 1 << 44 {
                let kind = write(&file, pos, &vec![0; lens.iter().sum()])
                    .unwrap_err()
                    .kind();
                assert_eq!(kind, io::ErrorKind::FileTooLarge, "{pos}");
            }
            assert_eq!(file.transfers(), before, "{lens:?} at {pos}");
        }
    }
    let file: Arc<dyn Backend> = Arc::new(file);
    for (name, engine) in engines() {
        for pos in [8192, 12_288, 1 << 44, 1 << 62, high - 4095] {
            let memory = Memory::new(8192);
            let expected = 10_000_u64.saturating_sub(pos) as usize;
            let read = memory.read(pos, &[4096, 4096], move |result| {
                assert_eq!(result.unwrap(), expected)
            });
            let one = memory.read(pos, &[8192], move |result| {
                assert_eq!(result.unwrap(), expected)
            });
            engine.run(&mut vec![
                Job::new(Arc::clone(&file), read),
                Job::new(Arc::clone(&file), one),
            ]);
        }
        assert!(file.alignment() > 1, "{name}");
    }
}

/// A file system in a file, for root.
struct Mounted {
    dir: tempfile::TempDir,
    at: PathBuf,
}

/// Runs a program; if that fails, the test is none.
fn run(program: &str, args: &[&OsStr]) -> Option<()> {
    let why = match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => return Some(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    skipped(&format!("{program}: {why}"));
    None
}

impl Mounted {
    /// A new one of so many MiB.
    fn new(mib: u64) -> Option<Self> {
        let dir = pagewell_testkit::scratch::dir();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(mib << 20).unwrap();
        run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image.as_ref()])?;
        let at = dir.path().join("mounted");
        std::fs::create_dir(&at).unwrap();
        let mounted = Self { dir, at };
        mounted.mount()?;
        Some(mounted)
    }

    fn mount(&self) -> Option<()> {
        let (image, at) = (self.dir.path().join("image"), self.at.as_ref());
        run(
            "mount",
            &["-o".as_ref(), "loop".as_ref(), image.as_ref(), at],
        )
    }

    /// Stops the file system without its last changes, and mounts it again. Its files must be closed.
    fn lose_power(&self) -> Option<()> {
        const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587D;
        let no_log_flush = 2_u32;
        let root = File::open(&self.at).unwrap();
        // SAFETY: the descriptor is open; the request reads a number of 32 bits, which outlives the call.
        let result =
            unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const no_log_flush) };
        if result != 0 {
            skipped(&io::Error::last_os_error().to_string());
            return None;
        }
        drop(root);
        run("umount", &[self.at.as_ref()])?;
        self.mount()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

#[test]
#[ignore = "loop devices, for root; .ci/nightly"]
fn a_full_disk_is_an_error_and_what_was_there_stays() {
    let Some(mounted) = Mounted::new(16) else {
        return;
    };
    let path = mounted.at.join("file");
    let file = open(&path, Direct::Auto);
    if !is_direct(&file) {
        return;
    }
    let bytes = content(1 << 20);
    write(&file, 0, &bytes).unwrap();
    file.sync_data().unwrap();
    let file: Arc<dyn Backend> = Arc::new(file);
    for (name, engine) in engines() {
        // Whole blocks, and parts of blocks.
        for shift in [0, 100] {
            let memory = Memory::with_bytes(&bytes);
            let (done, is_done) = std::sync::mpsc::channel();
            for nr in 1..32 {
                let done = done.clone();
                let request = memory.write((nr << 20) + shift, &[1 << 20], move |result| {
                    done.send(result).unwrap();
                });
                engine.submit(Job::new(Arc::clone(&file), request));
            }
            drop(done);
            let mut nr_full = 0;
            for result in is_done {
                match result {
                    Ok(nr) => assert_eq!(nr, 1 << 20),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{name}");
                        nr_full += 1;
                    }
                }
            }
            assert!(nr_full > 10, "{name}");
            assert_reads(name, &*file, &bytes, 0, &[1 << 20]);
            file.set_size(1 << 20).unwrap();
            // There is room again.
            write(&*file, 1 << 20, &bytes).unwrap();
            file.set_size(1 << 20).unwrap();
            file.sync_data().unwrap();
        }
    }
}

/// What docs say of the size: what was synced is there, and the file is at most as long as the last write under way makes it, to the end of the block.
#[test]
#[ignore = "loop devices, for root; .ci/nightly"]
fn what_a_loss_of_power_leaves() {
    let bytes = content(200_000);
    let mut rng = Rng::new(11);
    for _ in 0..6 {
        let Some(mounted) = Mounted::new(16) else {
            return;
        };
        let path = mounted.at.join("file");
        let file = open(&path, Direct::Auto);
        if !is_direct(&file) {
            return;
        }
        let (mut len, mut synced) = (0, 0);
        for is_synced in [true, false] {
            for _ in 0..rng.below(20) {
                let more = 1 + rng.below(3000);
                write(&file, len as u64, &bytes[len..len + more]).unwrap();
                len += more;
            }
            if is_synced {
                file.sync_data().unwrap();
                synced = len;
            }
        }
        drop(file);
        if mounted.lose_power().is_none() {
            return;
        }
        let left = std::fs::read(mounted.at.join("file")).unwrap_or_default();
        assert!(left.len() >= synced, "{} of {synced}", left.len());
        assert!(
            left.len() <= len.next_multiple_of(4096),
            "{} of {len}",
            left.len()
        );
        assert!(left[..synced] == bytes[..synced]);
        // What was not synced is there, or zeros, block by block; past the end there is nothing but zeros.
        for (nr, byte) in left.iter().enumerate().skip(synced) {
            assert!(
                *byte == 0 || (nr < len && *byte == bytes[nr]),
                "byte {nr} of {len}"
            );
        }
    }
}

/// A file system that takes no writes until it is thawed.
struct Frozen(File);

impl Frozen {
    fn new(mounted: &Mounted) -> Option<Self> {
        let frozen = Self(File::open(&mounted.at).unwrap());
        let result = frozen.control(0xC004_5877); // FIFREEZE
        if let Err(error) = &result {
            skipped(&error.to_string());
        }
        result.is_ok().then_some(frozen)
    }

    fn control(&self, request: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the descriptor is open; neither request takes an argument.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request, 0) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.control(0xC004_5878).unwrap(); // FITHAW
    }
}

/// A device that hangs keeps its own file's writes, and nobody else's; nor the thread that drops the engine.
#[test]
#[ignore = "loop devices, for root; .ci/nightly"]
fn a_file_system_that_hangs_keeps_its_own() {
    let Some(mounted) = Mounted::new(16) else {
        return;
    };
    let dir = pagewell_testkit::scratch::dir();
    let other: Arc<dyn Backend> = Arc::new(open(&dir.path().join("file"), Direct::Auto));
    write(&*other, 0, &content(1 << 20)).unwrap();
    for direct in [Direct::Auto, Direct::Never] {
        for (name, engine) in engines().into_iter().skip(1) {
            let path = mounted.at.join("file");
            let file = open(&path, direct);
            write(&file, 0, &content(1 << 20)).unwrap();
            file.sync_data().unwrap();
            let file: Arc<dyn Backend> = Arc::new(file);
            let Some(frozen) = Frozen::new(&mounted) else {
                return;
            };
            let memory = Memory::with_bytes(&[7; 4096]);
            let (done, is_done) = std::sync::mpsc::channel();
            for nr in 0..400 {
                let done = done.clone();
                let request = memory.write(nr % 256 * 4096, &[4096], move |result| {
                    done.send(result).unwrap();
                });
                engine.submit(Job::new(Arc::clone(&file), request));
            }
            let (read, is_read) = std::sync::mpsc::channel();
            for nr in 0..1000 {
                let read = read.clone();
                let request = Memory::new(4096).read(nr % 256 * 4096, &[4096], move |result| {
                    read.send(result).unwrap();
                });
                engine.submit(Job::new(Arc::clone(&other), request));
            }
            let mut lane = (0..50)
                .map(|nr| {
                    let read = read.clone();
                    let request = Memory::new(4096).read(nr * 4096, &[4096], move |result| {
                        read.send(result).unwrap();
                    });
                    Job::new(Arc::clone(&other), request)
                })
                .collect();
            engine.run(&mut lane);
            for _ in 0..1050 {
                let result = is_read
                    .recv_timeout(pagewell_testkit::wait::limit())
                    .unwrap();
                assert_eq!(result.unwrap(), 4096, "{name}");
            }
            assert!(
                is_done.try_recv().is_err(),
                "{name}, {direct:?}: the file system does not hang"
            );
            drop(engine);
            drop(frozen);
            for _ in 0..400 {
                let result = is_done
                    .recv_timeout(pagewell_testkit::wait::limit())
                    .unwrap();
                assert_eq!(result.unwrap(), 4096, "{name}");
            }
            assert!(read_all(&*file) == [7; 1 << 20], "{name}");
            drop(file);
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// A device made of a file, for root.
struct Device {
    name: PathBuf,
    dir: tempfile::TempDir,
}

impl Device {
    fn new(bytes: u64) -> Option<Self> {
        let dir = pagewell_testkit::scratch::dir();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(bytes).unwrap();
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&image)
            .output();
        match output {
            Ok(output) if output.status.success() => Some(Self {
                name: String::from_utf8_lossy(&output.stdout).trim_end().into(),
                dir,
            }),
            _ => {
                skipped("no device can be made");
                None
            }
        }
    }

    /// Sets the size of the device. It must be larger than the present one.
    fn grow(&self, bytes: u64) {
        let image = self.dir.path().join("image");
        let image = File::options().write(true).open(image).unwrap();
        image.set_len(bytes).unwrap();
        let output = Command::new("losetup")
            .arg("--set-capacity")
            .arg(&self.name)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.name)
            .output();
    }
}

#[test]
#[ignore = "loop devices, for root; .ci/nightly"]
fn a_device_is_transferred_directly_too_and_has_one_size() {
    let Some(device) = Device::new(1 << 20) else {
        return;
    };
    let file =
        FileBackend::open_writable(&device.name, &FileOptions::new().direct(Direct::Auto)).unwrap();
    if !is_direct(&file) {
        return;
    }
    let file: Arc<dyn Backend> = Arc::new(file);
    let mut model = vec![0; 1 << 20];
    let mut rng = Rng::new(5);
    for (name, engine) in engines() {
        for _ in 0..40 {
            let len = [1 + rng.below(9000), 4096, 512][rng.below(3)];
            let pos = rng.below(model.len() - len);
            let pos = [pos, pos - pos % 512][rng.below(2)];
            let bytes: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
            model[pos..pos + len].copy_from_slice(&bytes);
            let request = Memory::with_bytes(&bytes).write(pos as u64, &[len], move |result| {
                assert_eq!(result.unwrap(), len);
            });
            engine.run(&mut vec![Job::new(Arc::clone(&file), request)]);
        }
        let size = model.len() as u64;
        assert_eq!(file.size().unwrap(), size);
        for pos in [0, 100, size - 4096, size - 100, size, size + 4096] {
            assert_reads(name, &*file, &model, pos, &[4096, 70]);
        }
        write(&*file, size - 100, &[1; 200]).unwrap_err();
        file.check_size(size).unwrap();
        let error = file.check_size(size + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        let error = file.set_size(size + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        assert!(file.alignment() > 1);
        // Any part of what failed may be there.
        write(&*file, size - 4096, &model[model.len() - 4096..]).unwrap();
        assert!(read_all(&*file) == model, "{name}");
    }
}

#[test]
#[ignore = "loop devices, for root; .ci/nightly"]
fn device_that_grew_is_written_to_its_new_end() {
    let Some(device) = Device::new(1 << 20) else {
        return;
    };
    for direct in [Direct::Never, Direct::Auto] {
        let file =
            FileBackend::open_writable(&device.name, &FileOptions::new().direct(direct)).unwrap();
        let size = file.size().unwrap();
        let grown = size + (1 << 20);
        file.check_size(grown).unwrap_err();
        device.grow(grown);
        assert_eq!(file.size().unwrap(), grown);
        file.check_size(grown).unwrap();
        file.check_size(grown + 1).unwrap_err();
        write(&file, grown - 4096, &[7; 4096]).unwrap();
        file.sync_all().unwrap();
        assert_reads("pread", &file, &read_all(&file), grown - 4096, &[4096, 70]);
        assert!(read_all(&file)[size as usize..].ends_with(&[7; 4096]));
    }
}
