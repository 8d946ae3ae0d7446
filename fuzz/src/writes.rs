//! Decodes bytes into a history of writes on a device that loses what was not synced, with faults of the storage, and
//! runs it against plain byte vectors, with the code of `pagewell crash-test`: what it finds is what that looks for, guided by
//! coverage.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewell_crash::history::{Engine, Log, MOST_BYTES, Off, Path, Sectors, Sync, Transfers, What};
use pagewell_crash::{Broken, History, PAGE, Step, Way, run};

/// The most steps of a history.
const MOST_STEPS: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let history = decode(bytes);
    if let Err(why) = run(&history, Broken::Nothing) {
        panic!("{why}\n{history:#?}");
    }
});

/// The history that `bytes` stand for: every sequence of bytes stands for one.
fn decode(bytes: &[u8]) -> History {
    let mut bytes = Bytes { rest: bytes };
    let (seed, page_order, device) = (bytes.u8(), bytes.u8(), bytes.u8());
    let mut history = History {
        seed: u64::from(seed),
        page_order: u32::from(page_order % 3),
        sectors: match device % 2 {
            0 => Sectors::Torn,
            _ => Sectors::Whole,
        },
        transfers: match device / 2 % 4 {
            1 => Transfers::Direct(512),
            2 => Transfers::Direct(4096),
            _ => Transfers::Buffered,
        },
        // The one by which a history repeats exactly.
        engine: Engine::Sync,
        log: match bytes.u8() % 3 {
            0 => Log::Ahead,
            _ => Log::None,
        },
        len: bytes.pos(),
        steps: Vec::new(),
    };
    while !bytes.rest.is_empty() && history.steps.len() < MOST_STEPS {
        history.steps.push(bytes.step());
    }
    history
}

/// Bytes that are consumed from the front; zeros follow the last.
struct Bytes<'b> {
    rest: &'b [u8],
}

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// A position in the file, likely to be near its start or the border of a page.
    fn pos(&mut self) -> usize {
        let pos = match self.u8() % 4 {
            0 => usize::from(self.u8()),
            1 => usize::from(self.u8()) * PAGE,
            2 => (usize::from(self.u8()) * PAGE + usize::from(self.u8() % 5)).saturating_sub(2),
            _ => usize::from(self.u16()) * 2 + usize::from(self.u8() % 2),
        };
        pos % (MOST_BYTES + 1)
    }

    fn page(&mut self) -> u64 {
        u64::from(self.u8()) % (MOST_BYTES / PAGE + 1) as u64
    }

    fn what(&mut self) -> What {
        match self.u8() % 8 {
            0 => What::Read,
            1 | 2 => What::Write,
            3 | 4 => What::SetSize,
            5 => What::Sync,
            6 => What::Size,
            _ => What::Any,
        }
    }

    fn way(&mut self) -> Way {
        match self.u8() % 4 {
            0 => Way::Fail,
            1 => Way::DoneThenFail,
            2 => Way::Short(self.u8()),
            _ => Way::Full,
        }
    }

    fn step(&mut self) -> Step {
        match self.u8() % 32 {
            0..=5 => self.write(),
            6..=8 => Step::Append {
                len: self.pos(),
                seed: self.u8(),
            },
            9 | 10 => Step::SetLen { len: self.pos() },
            11 | 12 => self.read(),
            13 => Step::Pin { page: self.page() },
            14 => Step::Unpin {
                pin: usize::from(self.u8()),
            },
            15 | 16 => Step::PinMut {
                page: self.page(),
                seed: self.u8(),
                then: Box::new(self.during()),
            },
            17 | 18 => self.flush(),
            19 | 20 => self.sync(),
            21 => Step::Discard {
                pos: self.pos(),
                len: self.pos(),
            },
            22 => self.invalidate(),
            23..=25 => self.evict(),
            27 | 28 => Step::Break {
                what: self.what(),
                way: self.way(),
                after: self.u8() % 3,
                nr: 1 + self.u8() % 3,
            },
            26 | 29 => Step::FailSync,
            30 => Step::PowerOffAfter {
                nr: u64::from(self.u8() % 6),
                then: match self.u8() % 2 {
                    0 => Off::Crash,
                    _ => Off::GoOn,
                },
            },
            _ => Step::Crash {
                seed: u64::from(self.u8()),
            },
        }
    }

    /// A step that may be done while a page is locked.
    fn during(&mut self) -> Step {
        match self.u8() % 6 {
            0 => self.read(),
            1 => Step::Pin { page: self.page() },
            2 => self.flush(),
            3 => self.sync(),
            4 => self.invalidate(),
            _ => self.evict(),
        }
    }

    fn write(&mut self) -> Step {
        Step::Write {
            pos: self.pos(),
            len: self.pos(),
            seed: self.u8(),
        }
    }

    fn read(&mut self) -> Step {
        Step::Read {
            pos: self.pos(),
            len: self.pos(),
            path: match self.u8() % 2 {
                0 => Path::Referenced,
                _ => Path::Optimistic,
            },
        }
    }

    fn flush(&mut self) -> Step {
        Step::Flush {
            pos: self.pos(),
            len: self.pos(),
        }
    }

    fn sync(&mut self) -> Step {
        Step::Sync {
            what: match self.u8() % 2 {
                0 => Sync::All,
                _ => Sync::Data,
            },
        }
    }

    fn invalidate(&mut self) -> Step {
        Step::Invalidate {
            pos: self.pos(),
            len: self.pos(),
        }
    }

    fn evict(&mut self) -> Step {
        Step::Evict {
            nr: usize::from(self.u8() % 20),
        }
    }
}
