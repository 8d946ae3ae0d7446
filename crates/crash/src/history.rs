//! The steps done to a file, as data.
//!
//! A seed determines a history, on every machine. A history that fails is shortened: steps are left
//! out as long as it still fails.

use pagewell::io::Operation;
use pagewell_testkit::Rng;

use crate::PAGE;
use crate::script::Way;

/// The most bytes of a file.
pub const MOST_BYTES: usize = 18 * PAGE;

/// The most steps of a history.
const MOST_STEPS: usize = 30;

/// A file, and the steps done to it.
#[derive(Clone, Debug)]
pub struct History {
    /// The seed of the device, and of random choices at the end.
    pub seed: u64,
    /// How large the pages are: the smallest, shifted left by this.
    pub page_order: u32,
    /// What a crash leaves of a sector.
    pub sectors: Sectors,
    /// Whether there is a write-ahead log.
    pub log: Log,
    /// How the device takes transfers.
    pub transfers: Transfers,
    /// What does several writes at once.
    pub engine: Engine,
    /// How many bytes the file has to begin with.
    pub len: usize,
    /// The steps.
    pub steps: Vec<Step>,
}

/// What a crash leaves of a sector that was being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sectors {
    /// All, or nothing.
    Whole,
    /// A first part, too.
    Torn,
}

/// How the device takes transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfers {
    /// Of any bytes, as through the operating system's cache.
    Buffered,
    /// In blocks of so many bytes: tails are padded, and sizes set apart. Several writes are on their way at once.
    Direct(usize),
}

/// The engine of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The thread itself.
    Sync,
    /// Threads. In which order they give what is on its way at once to a direct file is the machine's.
    Worker,
    /// io_uring, or threads where the system has none. As for threads.
    Uring,
}

/// Whether each write is recorded in a log, which is synced before the page is given to the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// There is no log.
    None,
    /// There is one, on the same device and in the same cache.
    Ahead,
}

/// One step. Positions and lengths are bytes; contents follow from `seed`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are those of the calls of a file")]
pub enum Step {
    Write {
        pos: usize,
        len: usize,
        seed: u8,
    },
    Append {
        len: usize,
        seed: u8,
    },
    SetLen {
        len: usize,
    },
    Read {
        pos: usize,
        len: usize,
        path: Path,
    },
    Pin {
        page: u64,
    },
    Unpin {
        pin: usize,
    },
    /// Changes a page in place, and does another step before the change is published.
    PinMut {
        page: u64,
        seed: u8,
        then: Box<Step>,
    },
    Flush {
        pos: usize,
        len: usize,
    },
    Sync {
        what: Sync,
    },
    Discard {
        pos: usize,
        len: usize,
    },
    Invalidate {
        pos: usize,
        len: usize,
    },
    Evict {
        nr: usize,
    },
    /// Makes `nr` calls fail, after the first `after` of their kind.
    Break {
        what: What,
        way: Way,
        after: u8,
        nr: u8,
    },
    /// Makes the next sync of the device fail and forget the changes that it should have made durable.
    FailSync,
    /// Turns the power off at a later call.
    PowerOffAfter {
        nr: u64,
        then: Off,
    },
    /// Turns the power off, unless it is off already, and on again.
    Crash {
        seed: u64,
    },
}

/// By which way a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the calls of a file")]
pub enum Path {
    Optimistic,
    Referenced,
}

/// Which sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the calls of a file")]
pub enum Sync {
    Data,
    All,
}

/// The consequence of a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// It comes on again after the step: a crash.
    Crash,
    /// The program goes on without it, until it comes on again by another step.
    GoOn,
}

/// Calls of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the calls of a backend")]
pub enum What {
    Read,
    Write,
    SetSize,
    Size,
    Sync,
    Any,
}

impl What {
    /// Whether a call is of this kind.
    #[must_use]
    pub fn is_of(self, operation: &Operation) -> bool {
        match operation {
            Operation::Read { .. } => matches!(self, Self::Read | Self::Any),
            Operation::Write { .. } => matches!(self, Self::Write | Self::Any),
            Operation::SetSize { .. } => matches!(self, Self::SetSize | Self::Any),
            Operation::Size => matches!(self, Self::Size | Self::Any),
            _ => matches!(self, Self::Sync | Self::Any),
        }
    }
}

impl History {
    /// The history of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::part(seed, 0);
        let log = match rng.one_in(3) {
            true => Log::Ahead,
            false => Log::None,
        };
        let sectors = match rng.one_in(2) {
            true => Sectors::Torn,
            false => Sectors::Whole,
        };
        let mut history = Self {
            seed,
            page_order: rng.below(3) as u32,
            sectors,
            log,
            transfers: transfers(seed),
            engine: engine(seed),
            len: pos(&mut rng),
            steps: Vec::new(),
        };
        for _ in 0..=rng.below(MOST_STEPS as u64 - 1) {
            history.steps.push(step(&mut rng));
        }
        history
    }

    /// A shorter history that fails too, without steps that do not matter; and why it fails.
    pub fn shrunk<E>(self, why: E, mut run: impl FnMut(&Self) -> Result<(), E>) -> (Self, E) {
        let (mut shortest, mut why) = (self, why);
        let mut part = shortest.steps.len().next_power_of_two();
        while part > 0 {
            let mut from = 0;
            while from < shortest.steps.len() {
                let mut shorter = shortest.clone();
                let end = (from + part).min(shorter.steps.len());
                shorter.steps.drain(from..end);
                match run(&shorter) {
                    Ok(()) => from += part,
                    Err(error) => (shortest, why) = (shorter, error),
                }
            }
            part /= 2;
        }
        let simpler: [fn(&mut Self); 6] = [
            |history| history.engine = Engine::Sync,
            |history| history.transfers = Transfers::Buffered,
            |history| history.len = 0,
            |history| history.page_order = 0,
            |history| history.sectors = Sectors::Whole,
            |history| history.log = Log::None,
        ];
        for simplify in simpler {
            let mut simple = shortest.clone();
            simplify(&mut simple);
            if let Err(error) = run(&simple) {
                (shortest, why) = (simple, error);
            }
        }
        (shortest, why)
    }
}

/// All combinations take turns.
fn transfers(seed: u64) -> Transfers {
    match seed % 2 {
        0 => Transfers::Buffered,
        _ if (seed / 6).is_multiple_of(2) => Transfers::Direct(512),
        _ => Transfers::Direct(4096),
    }
}

fn engine(seed: u64) -> Engine {
    [Engine::Sync, Engine::Worker, Engine::Uring][(seed % 3) as usize]
}

/// One of several choices, each as often as its weight says.
fn weighted(rng: &mut Rng, weights: &[u64]) -> usize {
    let mut left = rng.below(weights.iter().sum());
    for (at, weight) in weights.iter().enumerate() {
        match left.checked_sub(*weight) {
            Some(rest) => left = rest,
            None => return at,
        }
    }
    unreachable!("less than the sum of the weights")
}

fn pos(rng: &mut Rng) -> usize {
    // Most faults are around page boundaries; positions anywhere find those that nobody expects.
    match weighted(rng, &[2, 3, 2]) {
        0 => rng.index(201),
        1 => {
            let page = rng.index(MOST_BYTES / PAGE + 1);
            let off = rng.index(5) as isize - 2;
            (page * PAGE).saturating_add_signed(off).min(MOST_BYTES)
        }
        _ => rng.index(MOST_BYTES + 1),
    }
}

fn len(rng: &mut Rng) -> usize {
    match weighted(rng, &[2, 2, 2, 1]) {
        0 => rng.index(201),
        1 => PAGE,
        2 => pos(rng),
        _ => rng.index(3 * PAGE + 1),
    }
}

fn page(rng: &mut Rng) -> u64 {
    rng.below((MOST_BYTES / PAGE) as u64 + 1)
}

fn seed(rng: &mut Rng) -> u8 {
    rng.below(256) as u8
}

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.index(all.len())]
}

/// A step that works on the file.
fn simple(rng: &mut Rng) -> Step {
    match weighted(rng, &[10, 5, 5, 6, 2, 2, 4, 6, 2, 2, 4]) {
        0 => Step::Write {
            pos: pos(rng),
            len: len(rng),
            seed: seed(rng),
        },
        1 => Step::Append {
            len: len(rng),
            seed: seed(rng),
        },
        2 => Step::SetLen { len: pos(rng) },
        3 => Step::Read {
            pos: pos(rng),
            len: len(rng),
            path: one_of(rng, &[Path::Optimistic, Path::Referenced]),
        },
        4 => Step::Pin { page: page(rng) },
        5 => Step::Unpin {
            pin: rng.index(1 << 20),
        },
        6 => Step::Flush {
            pos: pos(rng),
            len: pos(rng),
        },
        7 => Step::Sync {
            what: one_of(rng, &[Sync::Data, Sync::All]),
        },
        8 => Step::Discard {
            pos: pos(rng),
            len: len(rng),
        },
        9 => Step::Invalidate {
            pos: pos(rng),
            len: pos(rng),
        },
        _ => Step::Evict {
            nr: 1 + rng.index(19),
        },
    }
}

/// The kind of call that fails: most often one of the frequent kinds.
const KINDS: [What; 11] = [
    What::Write,
    What::Write,
    What::Write,
    What::Sync,
    What::Sync,
    What::Any,
    What::Any,
    What::SetSize,
    What::SetSize,
    What::Read,
    What::Size,
];

fn step(rng: &mut Rng) -> Step {
    match weighted(rng, &[45, 3, 2, 1, 7, 2, 4, 3]) {
        0 => simple(rng),
        1 => Step::PinMut {
            page: page(rng),
            seed: seed(rng),
            then: Box::new(simple(rng)),
        },
        // Draws what two steps that are gone drew, so that a seed keeps the rest of its history.
        2 => Step::Evict {
            nr: 1 + page(rng) as usize,
        },
        3 => Step::Evict { nr: 1 },
        4 => Step::Break {
            what: one_of(rng, &KINDS),
            way: {
                let part = seed(rng);
                one_of(
                    rng,
                    &[Way::Fail, Way::DoneThenFail, Way::Short(part), Way::Full],
                )
            },
            after: one_of(rng, &[0, 0, 0, 1, 2]),
            nr: 1 + rng.below(3) as u8,
        },
        5 => Step::FailSync,
        6 => Step::PowerOffAfter {
            nr: rng.below(6),
            then: one_of(rng, &[Off::Crash, Off::Crash, Off::GoOn]),
        },
        _ => Step::Crash {
            seed: rng.next_u64(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_history_and_others_have_others() {
        let text = |seed| format!("{:?}", History::of(seed));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn histories_have_every_kind_of_step_log_and_page() {
        let all: String = (0..400)
            .map(|seed| format!("{:?}", History::of(seed)))
            .collect();
        for word in [
            "Write",
            "Append",
            "SetLen",
            "Read",
            "Pin {",
            "Unpin",
            "PinMut",
            "Flush",
            "Sync {",
            "Discard",
            "Invalidate",
            "Evict",
            "Break",
            "FailSync",
            "PowerOffAfter",
            "Crash",
            "Torn",
            "Whole",
            "Ahead",
            "None",
            "page_order: 2",
            "Buffered",
            "Direct(512)",
            "Direct(4096)",
            "Sync,",
            "Worker",
            "Uring",
        ] {
            assert!(all.contains(word), "{word}");
        }
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let fails = |history: &History| {
            let nr_syncs = |step: &&Step| matches!(step, Step::Sync { .. });
            match history.steps.iter().filter(nr_syncs).count() {
                nr @ 2.. => Err(nr),
                _ => Ok(()),
            }
        };
        let history = (0..)
            .map(History::of)
            .find(|history| fails(history).is_err_and(|nr| nr > 2))
            .expect("one of so many");
        let (shrunk, why) = history.shrunk(0, fails);
        assert_eq!((shrunk.steps.len(), why), (2, 2));
    }
}
