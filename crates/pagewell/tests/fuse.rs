//! A FUSE file system with ambiguous inode numbers, as merged and virtual file systems have them, and
//! with files whose size is not reported.
//!
//! `cargo test -p pagewell --test fuse -- --ignored`, as root; `.ci/nightly ignored` does so.

use std::error::Error as _;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use pagewell::{Cache, ErrorKind, OpenOptions};
use pagewell_testkit::scratch;
use pagewell_testkit::skip::skipped;

/// Inode numbers that `stat` returns.
#[derive(Clone, Copy, Debug)]
enum Numbers {
    /// One for each file.
    Distinct,
    /// One for all files.
    Same,
    /// A new one for each call.
    Changing,
}

/// Sizes that `stat` returns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sizes {
    True,
    /// 0 for all files. Reads bypass the page cache of the system, as of generated files.
    Zero,
}

/// Files in memory: node `FIRST + n` is called `n`.
struct Files {
    numbers: Numbers,
    sizes: Sizes,
    contents: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Union of the flags of all reads.
    read_flags: Arc<AtomicU64>,
    next_number: AtomicU64,
}

const FIRST: u64 = 2;

/// Attributes are not cached.
const TTL: Duration = Duration::ZERO;

impl Files {
    fn index(node: INodeNo) -> Option<usize> {
        node.0.checked_sub(FIRST).map(|nr| nr as usize)
    }

    fn attributes(&self, node: INodeNo, number: u64) -> FileAttr {
        let contents = self.contents.lock().unwrap();
        let file = Self::index(node).map(|nr| &contents[nr]);
        FileAttr {
            ino: INodeNo(number),
            size: match (file, self.sizes) {
                (Some(file), Sizes::True) => file.len() as u64,
                _ => 0,
            },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: match file {
                Some(_) => FileType::RegularFile,
                None => FileType::Directory,
            },
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Attributes with the number that `stat` returns.
    fn shown(&self, node: INodeNo) -> FileAttr {
        let number = match (Self::index(node), self.numbers) {
            (None, _) | (_, Numbers::Distinct) => node.0,
            (Some(_), Numbers::Same) => 1000,
            (Some(_), Numbers::Changing) => self.next_number.fetch_add(1, Ordering::SeqCst),
        };
        self.attributes(node, number)
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let nr = name.to_str().and_then(|name| name.parse::<usize>().ok());
        match nr.filter(|nr| *nr < self.contents.lock().unwrap().len()) {
            Some(nr) => {
                // The kernel identifies files by this number, and `stat` returns that of `getattr`.
                let node = FIRST + nr as u64;
                reply.entry(&TTL, &self.attributes(INodeNo(node), node), Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = match self.sizes {
            Sizes::True => FopenFlags::empty(),
            Sizes::Zero => FopenFlags::FOPEN_DIRECT_IO,
        };
        reply.opened(FileHandle(0), flags);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.shown(node));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if let (Some(nr), Some(size)) = (Self::index(node), size) {
            self.contents.lock().unwrap()[nr].resize(size as usize, 0);
        }
        reply.attr(&TTL, &self.shown(node));
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_flags.fetch_or(flags.0 as u64, Ordering::SeqCst);
        let Some(nr) = Self::index(node) else {
            return reply.error(Errno::EISDIR);
        };
        let file = &self.contents.lock().unwrap()[nr];
        let start = file.len().min(offset as usize);
        let end = file.len().min(start + size as usize);
        reply.data(&file[start..end]);
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(nr) = Self::index(node) else {
            return reply.error(Errno::EISDIR);
        };
        let file = &mut self.contents.lock().unwrap()[nr];
        let end = offset as usize + data.len();
        file.resize(file.len().max(end), 0);
        file[offset as usize..end].copy_from_slice(data);
        reply.written(data.len() as u32);
    }
}

/// Mounted file system.
struct Mounted {
    contents: Arc<Mutex<Vec<Vec<u8>>>>,
    read_flags: Arc<AtomicU64>,
    session: Option<BackgroundSession>,
    dir: tempfile::TempDir,
}

impl Mounted {
    fn new(numbers: Numbers, sizes: Sizes, contents: &[Vec<u8>]) -> Option<Self> {
        let dir = scratch::dir();
        let contents = Arc::new(Mutex::new(contents.to_vec()));
        let read_flags = Arc::new(AtomicU64::new(0));
        let files = Files {
            numbers,
            sizes,
            contents: Arc::clone(&contents),
            read_flags: Arc::clone(&read_flags),
            next_number: AtomicU64::new(1 << 20),
        };
        match fuser::spawn_mount(files, dir.path(), &Config::default()) {
            Ok(session) => Some(Self {
                contents,
                read_flags,
                session: Some(session),
                dir,
            }),
            Err(error) => {
                skipped(&format!("cannot mount a FUSE file system: {error}"));
                None
            }
        }
    }

    fn path(&self, nr: usize) -> PathBuf {
        self.dir.path().join(nr.to_string())
    }

    /// Unmounts, and returns the contents of all files.
    fn unmount(mut self) -> Vec<Vec<u8>> {
        let session = self.session.take().unwrap();
        session.umount_and_join().unwrap();
        std::mem::take(&mut self.contents.lock().unwrap())
    }
}

fn cache() -> Cache {
    Cache::builder().capacity(8 << 20).build().unwrap()
}

#[test]
#[ignore = "mounts a FUSE file system, for root; .ci/nightly"]
fn files_with_the_same_inode_number_are_not_mixed() {
    // Of different sizes, and of one size: then file handles and locks are the only evidence.
    for sizes in [[10_000, 20_000], [10_000; 2]] {
        let contents = [vec![b'A'; sizes[0]], vec![b'B'; sizes[1]]];
        let Some(mounted) = Mounted::new(Numbers::Same, Sizes::True, &contents) else {
            return;
        };
        let [a, b] = [mounted.path(0), mounted.path(1)];
        let cache = cache();
        let write = OpenOptions::new().write();
        let open = cache.open_with(&a, &write).unwrap();
        open.write_at(b"new", 0).unwrap();
        for options in [&write, &write.clone().truncate(), &OpenOptions::new()] {
            let error = cache.open_with(&b, options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AmbiguousFile, "{error:?}");
        }
        // The same file joins.
        assert_eq!(cache.open(&a).unwrap().size(), sizes[0] as u64);
        open.sync_data().unwrap();
        open.close().unwrap();
        let open = cache.open_with(&b, &write).unwrap();
        let mut buf = vec![0; sizes[1]];
        assert_eq!(open.read_at(&mut buf, 0).unwrap(), sizes[1]);
        assert!(buf == contents[1]);
        open.close().unwrap();
        assert_eq!(
            mounted.read_flags.load(Ordering::SeqCst) & libc::O_NONBLOCK as u64,
            0
        );
        let found = mounted.unmount();
        assert!(found[0].starts_with(b"newAAA") && found[0].len() == sizes[0]);
        assert!(found[1] == contents[1]);
    }
}

#[test]
#[ignore = "mounts a FUSE file system, for root; .ci/nightly"]
fn changing_inode_number_is_reported_as_the_cause() {
    let contents = [vec![b'A'; 10_000]];
    let Some(mounted) = Mounted::new(Numbers::Changing, Sizes::True, &contents) else {
        return;
    };
    let cache = cache();
    let options = OpenOptions::new().write().truncate();
    let error = cache.open_with(mounted.path(0), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AmbiguousFile, "{error:?}");
    let source = error.source().unwrap().to_string();
    assert!(source.contains("changes the inode number"), "{source}");
    assert_eq!(cache.open(mounted.path(0)).unwrap().size(), 10_000);
    assert!(mounted.unmount() == contents);
}

#[test]
#[ignore = "mounts a FUSE file system, for root; .ci/nightly"]
fn file_without_a_size_is_refused() {
    let contents = [vec![b'A'; 10_000], Vec::new()];
    let Some(mounted) = Mounted::new(Numbers::Distinct, Sizes::Zero, &contents) else {
        return;
    };
    assert_eq!(std::fs::metadata(mounted.path(0)).unwrap().len(), 0);
    assert_eq!(std::fs::read(mounted.path(0)).unwrap(), contents[0]);
    let cache = cache();
    let write = OpenOptions::new().write();
    for options in [OpenOptions::new(), write.clone(), write.truncate()] {
        let error = cache.open_with(mounted.path(0), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAFile, "{error:?}");
        let source = error.source().unwrap().to_string();
        assert!(source.contains("no size"), "{source}");
        // An empty file has the size that is reported.
        assert_eq!(
            cache.open_with(mounted.path(1), &options).unwrap().size(),
            0
        );
    }
    assert!(mounted.unmount() == contents);
}
