//! By which ways the bytes get to the storage: how a file is transferred, and what does many transfers at once. They take turns.

use std::path::Path;

use clap::ValueEnum;
use pagewell::io::engine::{Choice, Settings};
use pagewell::io::{Direct, Transfers as Found};
use pagewell::{Cache, OpenOptions};

/// How a file is transferred.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Transfers {
    /// Through the operating system's cache
    #[default]
    Buffered,
    /// Past it, in whole blocks
    Direct,
}

/// What does many transfers at once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Engine {
    /// The thread itself
    #[default]
    Sync,
    /// Threads
    Worker,
    /// `io_uring`
    Uring,
}

/// One of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Way {
    pub(super) transfers: Transfers,
    pub(super) engine: Engine,
}

/// Those that are tried, and those that this system has not.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    pub(super) all: Vec<Way>,
    pub(super) skipped: Vec<String>,
}

impl Transfers {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
        }
    }

    pub(super) fn direct(self) -> Direct {
        match self {
            Self::Buffered => Direct::Never,
            Self::Direct => Direct::Always,
        }
    }

    /// Whether files in `folder` can be transferred so.
    fn check(self, folder: &Path) -> Result<(), String> {
        if self == Self::Buffered {
            return Ok(());
        }
        let try_it = || -> Result<Option<Found>, pagewell::Error> {
            let cache = Cache::builder().capacity(1 << 20).build()?;
            let options = OpenOptions::new().create().direct(self.direct());
            let file = cache.open_with(folder.join("direct"), &options)?;
            // A part of a block, too.
            file.append(&[1; 5000])?;
            file.sync_data()?;
            Ok(file.transfers())
        };
        match try_it() {
            Ok(Some(Found::Direct { .. })) => Ok(()),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Engine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Worker => "worker",
            Self::Uring => "uring",
        }
    }

    pub(super) fn settings(self) -> Settings {
        Settings::new(match self {
            Self::Sync => Choice::Sync,
            Self::Worker => Choice::Worker,
            Self::Uring => Choice::Uring,
        })
    }

    /// Whether there is such an engine.
    fn check(self) -> Result<(), String> {
        let cache = Cache::builder()
            .capacity(1 << 20)
            .engine(self.settings())
            .build();
        cache.map(drop).map_err(|error| error.to_string())
    }
}

impl Way {
    /// As it is told, and as the replaying command has it.
    pub(super) fn name(self) -> String {
        format!("{} {}", self.transfers.name(), self.engine.name())
    }
}

impl Ways {
    /// Those that are asked for, as far as files in `folder` (none: simulated ones) and the system have them.
    ///
    /// # Errors
    ///
    /// If that is none at all, why.
    pub(super) fn of(
        (asked_transfers, asked_engine): (Option<Transfers>, Option<Engine>),
        folder: Option<&Path>,
    ) -> Result<Self, String> {
        let mut skipped = Vec::new();
        let mut has = |name: &str, checked: Result<(), String>| {
            let has = checked.is_ok();
            skipped.extend(checked.err().map(|why| format!("{name} ({why})")));
            has
        };
        let mut transfers = vec![Transfers::Buffered, Transfers::Direct];
        transfers.retain(|way| asked_transfers.is_none_or(|asked| asked == *way));
        if let Some(folder) = folder {
            transfers.retain(|way| has(way.name(), way.check(folder)));
        }
        let mut engines = vec![Engine::Sync, Engine::Worker, Engine::Uring];
        engines.retain(|way| asked_engine.is_none_or(|asked| asked == *way));
        engines.retain(|way| has(way.name(), way.check()));
        // Engine by engine, and each with both ways of transfers.
        let all: Vec<Way> = (0..transfers.len() * engines.len())
            .map(|nr| Way {
                transfers: transfers[nr % transfers.len()],
                engine: engines[nr / transfers.len()],
            })
            .collect();
        match all.is_empty() {
            true => Err(format!("this system has not {}", skipped.join(", "))),
            false => Ok(Self { all, skipped }),
        }
    }

    /// That of process `number`.
    pub(super) fn turn(&self, number: u64) -> Way {
        self.all[(number % self.all.len() as u64) as usize]
    }
}
