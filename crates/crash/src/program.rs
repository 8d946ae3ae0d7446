//! A program that has the file open, and its death.

use std::sync::Arc;

use pagewell::io::engine::{Choice, Settings};
use pagewell::io::{Backend, FaultBackend, VolatileDevice, VolatileFile};
use pagewell::{Cache, Error, File, Nodes, OpenOptions, OwnedPageGuard, Writeback};

use crate::PAGE;
use crate::history;
use crate::log::{Hook, Log};
use crate::plug::{Plug, Plugged};
use crate::script::Script;

/// Frames of a cache: room for all pins beside a file and a log that are dirty.
const FRAMES: u64 = 176;

/// What one frame costs of the capacity, at most: its bytes and its record.
const FRAME_COST: u64 = PAGE as u64 + 64;

/// Fails the history if `$so` is not so.
macro_rules! check {
    ($so:expr, $($why:tt)+) => {
        if !$so {
            return Err(format!($($why)+));
        }
    };
}
pub(crate) use check;

/// An error, in full.
pub(crate) fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

/// A pinned page, and its bytes at the time of the pin.
pub(crate) struct Pin {
    pub(crate) guard: OwnedPageGuard,
    pub(crate) copy: Vec<u8>,
}

/// A program that has the file open: its parts until it dies.
pub(crate) struct Program {
    // Dropped in this order: the pins, the file, its log, the cache.
    pub(crate) pins: Vec<Pin>,
    pub(crate) file: File,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) cache: Cache,
    pub(crate) backend: Arc<FaultBackend<Plugged<VolatileFile>>>,
    plug: Plug,
}

/// How a program opens the file.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) page_size: usize,
    pub(crate) log: history::Log,
    pub(crate) engine: Settings,
    pub(crate) hook: Hook,
    pub(crate) script: Script,
}

impl Program {
    /// Opens the file and its log; returns the number of the log's last record, too.
    pub(crate) fn start(device: &VolatileDevice, setup: &Setup) -> Result<(Self, u64), Error> {
        let cache = Cache::builder()
            .capacity(FRAMES * FRAME_COST)
            .nodes(Nodes::Unbound(1))
            .engine(setup.engine)
            .build()?;
        let plug = Plug::default();
        let manual = OpenOptions::new().write().writeback(Writeback::Manual);
        let mut options = manual.clone().page_size(setup.page_size);
        let (mut log, mut last) = (None, u64::MAX);
        if setup.log == history::Log::Ahead {
            let file = plug.on(open_on(device, "log"));
            let file = cache.open_backend_with(file, "log", &manual)?;
            let (recovered, lsn) = Log::recover(file, setup.hook)?;
            let recovered = Arc::new(recovered);
            let hook = Arc::clone(&recovered);
            options = options.before_write(move |_, lsn| hook.before_write(lsn));
            (log, last) = (Some(recovered), lsn);
        }
        let backend = setup.script.on(plug.on(open_on(device, "file")));
        let file = cache.open_backend_with(Arc::clone(&backend), "file", &options)?;
        let program = Self {
            pins: Vec::new(),
            file,
            log,
            cache,
            backend,
            plug,
        };
        Ok((program, last))
    }

    /// Dies: none of its calls reaches the device any more. Its cache must still be in order.
    pub(crate) fn die(self) -> Result<(), String> {
        self.plug.pull();
        let Self {
            pins,
            file,
            log,
            cache,
            backend,
            ..
        } = self;
        drop((pins, file, log, backend));
        cache.verify()?;
        let stats = cache.stats();
        check!(
            stats.nr_free == stats.nr_frames,
            "frames are lost: {stats:?}"
        );
        Ok(())
    }
}

pub(crate) fn open_on(device: &VolatileDevice, name: &str) -> VolatileFile {
    device
        .open(name)
        .expect("the names are durable, and the power is on")
}

/// All bytes that a storage has, read through another cache than the one that serves it.
///
/// # Errors
///
/// The error of the storage.
pub fn stored(backend: impl Backend) -> Result<Vec<u8>, Error> {
    let cache = Cache::builder()
        .capacity(FRAMES * FRAME_COST)
        .engine(Settings::new(Choice::Sync))
        .build()?;
    let file = cache.open_backend(backend, "stored")?;
    let mut bytes = vec![0; file.size() as usize];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}
