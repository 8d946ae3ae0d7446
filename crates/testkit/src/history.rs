//! The steps that a user of a page cache may take, as data.
//!
//! A history has files and steps. It names handles and pins by
//! number, modulo how many there are at that moment. So every history makes sense, and a history
//! from which steps are taken out still does; shrinking needs that. The runner decides what each
//! step means for its cache.
//!
//! Histories come from a strategy (the model test) or from bytes ([`History::decode`], the fuzz target).

/// The largest order of pages: 16 frames.
pub const MAX_PAGE_ORDER: u8 = 4;

/// The smallest pool of a history, in frames.
pub const MIN_FRAMES: u16 = 16;

/// The largest pool of a history, in frames: the largest pages just fit, so that eviction is constant.
pub const MAX_FRAMES: u16 = 80;

/// The largest file of a history at its start, in bytes.
pub const MAX_FILE_BYTES: u32 = 192 << 10;

/// The most files of a history.
pub const MAX_FILES: usize = 4;

/// The most bytes of one read.
pub const MAX_READ_BYTES: u32 = 128 << 10;

/// The most steps of a history that is decoded from bytes.
pub const MAX_STEPS: usize = 96;

/// A cache, some files, and steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// How many frames the cache has, from [`MIN_FRAMES`] to [`MAX_FRAMES`].
    pub nr_frames: u16,
    /// Over how many nodes they are spread, from 1 to 3.
    pub nr_nodes: u8,
    /// The files, from 1 to [`MAX_FILES`].
    pub files: Vec<FileSpec>,
    /// The steps, in this order.
    pub steps: Vec<Step>,
}

/// A file at the start of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its size in bytes, up to [`MAX_FILE_BYTES`].
    pub len: u32,
    /// The order of the pages that it is usually opened with, up to [`MAX_PAGE_ORDER`].
    pub page_order: u8,
    /// The storage of its bytes.
    pub store: Store,
}

/// The storage of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In memory; reads can be made to fail.
    Memory,
    /// In a real file with two names.
    Disk,
}

/// A position in a file whose size is known only when the step is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// This many bytes from the start.
    Start(u32),
    /// This many bytes after the end, or before it if negative.
    End(i32),
    /// This many bytes before the highest position that can be named.
    Last(u16),
}

impl Spot {
    /// The position in a file of `len` bytes.
    #[must_use]
    pub fn of(self, len: u64) -> u64 {
        match self {
            Self::Start(pos) => u64::from(pos),
            Self::End(distance) => len.saturating_add_signed(i64::from(distance)),
            Self::Last(distance) => u64::MAX - u64::from(distance),
        }
    }
}

/// The way of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As users do it.
    Optimistic,
    /// With a reference to each page.
    Referenced,
    /// By a view of each page.
    Views,
}

/// What the test tells the cache after it has changed a file behind the cache's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Nothing.
    Nothing,
    /// Which bytes have changed.
    Invalidate,
    /// To look at the size again.
    Refresh,
    /// Both.
    Both,
}

/// A fault of a read of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// The read fails.
    Fail,
    /// The file seems to end this many bytes after the start of the read.
    EndAfter(u16),
}

/// One step. It names files, handles and pins by a number modulo how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open a file by one of its two names; with pages of another order than its usual one if given.
    Open {
        /// Which file.
        file: u8,
        /// By which name: even or odd.
        name: u8,
        /// The order of the pages, if not the usual one.
        page_order: Option<u8>,
    },
    /// Make another handle of the same open file.
    Clone {
        /// Which handle.
        handle: u8,
    },
    /// Drop a handle.
    Close {
        /// Which handle.
        handle: u8,
    },
    /// Read some bytes.
    Read {
        /// Which handle.
        handle: u8,
        /// From where.
        from: Spot,
        /// How many, up to [`MAX_READ_BYTES`].
        len: u32,
        /// In which way.
        way: Way,
    },
    /// Pin the page at a position, until it is unpinned.
    Pin {
        /// Which handle.
        handle: u8,
        /// A position in the page.
        at: Spot,
    },
    /// Pin the page at a position with a guard that borrows, during some more steps.
    PinDuring {
        /// Which handle.
        handle: u8,
        /// A position in the page.
        at: Spot,
        /// How many steps.
        nr_steps: u8,
    },
    /// Drop a guard.
    Unpin {
        /// Which guard.
        pin: u8,
    },
    /// Evict some pages.
    Evict {
        /// How many.
        nr: u16,
    },
    /// Say that some bytes may have changed.
    Invalidate {
        /// Which handle.
        handle: u8,
        /// From where.
        from: Spot,
        /// How many.
        len: u32,
    },
    /// Take over the size of the file.
    Refresh {
        /// Which handle.
        handle: u8,
    },
    /// Overwrite some bytes behind the cache's back.
    Write {
        /// Which file.
        file: u8,
        /// From where; bytes past the end are not written.
        from: Spot,
        /// How many.
        len: u16,
        /// What to write.
        seed: u8,
        /// What the cache is told.
        tell: Tell,
    },
    /// Change the size of a file behind the cache's back.
    SetLen {
        /// Which file.
        file: u8,
        /// The new size in bytes, up to [`MAX_FILE_BYTES`].
        len: u32,
        /// What to write where the file grows.
        seed: u8,
        /// What the cache is told.
        tell: Tell,
    },
    /// Let reads of a file's storage go wrong.
    Break {
        /// Which file; one on disk stays whole.
        file: u8,
        /// How.
        breakage: Breakage,
        /// How many reads succeed before.
        after: u8,
        /// How many reads fail then.
        nr: u8,
    },
}

impl History {
    /// The history that `bytes` encode: every sequence of bytes encodes one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let mut bytes = Bytes { rest: bytes };
        let nr_frames = MIN_FRAMES + u16::from(bytes.u8()) % (MAX_FRAMES - MIN_FRAMES + 1);
        let nr_nodes = 1 + bytes.u8() % 3;
        let nr_files = 1 + usize::from(bytes.u8()) % MAX_FILES;
        let files = (0..nr_files).map(|_| bytes.file()).collect();
        let mut steps = Vec::new();
        while !bytes.rest.is_empty() && steps.len() < MAX_STEPS {
            steps.push(bytes.step());
        }
        Self {
            nr_frames,
            nr_nodes,
            files,
            steps,
        }
    }
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

    /// A number up to and including `most`, likely to be small or a multiple of a page.
    fn upto(&mut self, most: u32) -> u32 {
        let number = match self.u8() % 4 {
            0 => u32::from(self.u8()),
            1 => u32::from(self.u16()),
            2 => u32::from(self.u8()) * 4096,
            _ => (u32::from(self.u8()) * 4096).saturating_add_signed(i32::from(self.u8()) - 128),
        };
        number % (most + 1)
    }

    fn spot(&mut self) -> Spot {
        match self.u8() % 8 {
            0 => Spot::End(i32::from(self.u16()) - (1 << 15)),
            1 => Spot::End(i32::from(self.u8()) - 128),
            2 => Spot::Last(self.u16()),
            _ => Spot::Start(self.upto(MAX_FILE_BYTES + 4096)),
        }
    }

    fn file(&mut self) -> FileSpec {
        let kind = self.u8();
        FileSpec {
            page_order: kind % (MAX_PAGE_ORDER + 1),
            store: if kind >= 0xE0 {
                Store::Disk
            } else {
                Store::Memory
            },
            len: self.upto(MAX_FILE_BYTES),
        }
    }

    fn way(&mut self) -> Way {
        match self.u8() % 4 {
            0 | 2 => Way::Optimistic,
            1 => Way::Referenced,
            _ => Way::Views,
        }
    }

    fn tell(&mut self) -> Tell {
        match self.u8() % 4 {
            0 => Tell::Nothing,
            1 => Tell::Invalidate,
            2 => Tell::Refresh,
            _ => Tell::Both,
        }
    }

    fn breakage(&mut self) -> Breakage {
        if self.u8().is_multiple_of(2) {
            Breakage::Fail
        } else {
            Breakage::EndAfter(self.u16())
        }
    }

    fn step(&mut self) -> Step {
        match self.u8() % 22 {
            0..=2 => Step::Open {
                file: self.u8(),
                name: self.u8(),
                page_order: match self.u8() {
                    order @ 0..=MAX_PAGE_ORDER => Some(order),
                    _ => None,
                },
            },
            3 => Step::Clone { handle: self.u8() },
            4 => Step::Close { handle: self.u8() },
            5..=10 => Step::Read {
                handle: self.u8(),
                from: self.spot(),
                len: self.upto(MAX_READ_BYTES),
                way: self.way(),
            },
            11..=12 => Step::Pin {
                handle: self.u8(),
                at: self.spot(),
            },
            13 => Step::PinDuring {
                handle: self.u8(),
                at: self.spot(),
                nr_steps: self.u8() % 16,
            },
            14 => Step::Unpin { pin: self.u8() },
            15 => Step::Evict {
                nr: u16::from(self.u8()),
            },
            16 => Step::Invalidate {
                handle: self.u8(),
                from: self.spot(),
                len: self.upto(MAX_FILE_BYTES),
            },
            17 => Step::Refresh { handle: self.u8() },
            18..=19 => Step::Write {
                file: self.u8(),
                from: self.spot(),
                len: self.u16(),
                seed: self.u8(),
                tell: self.tell(),
            },
            20 => Step::SetLen {
                file: self.u8(),
                len: self.upto(MAX_FILE_BYTES),
                seed: self.u8(),
                tell: self.tell(),
            },
            _ => Step::Break {
                file: self.u8(),
                breakage: self.breakage(),
                after: self.u8() % 4,
                nr: 1 + self.u8() % 3,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::content;
    use crate::rng::Rng;

    #[test]
    fn every_sequence_of_bytes_stands_for_a_history_within_its_bounds() {
        for seed in 0..500 {
            let bytes = content(seed, seed as usize * 3);
            let history = History::decode(&bytes);
            assert!((MIN_FRAMES..=MAX_FRAMES).contains(&history.nr_frames));
            assert!((1..=3).contains(&history.nr_nodes));
            assert!((1..=MAX_FILES).contains(&history.files.len()));
            assert!(history.steps.len() <= MAX_STEPS);
            for file in &history.files {
                assert!(file.len <= MAX_FILE_BYTES && file.page_order <= MAX_PAGE_ORDER);
            }
            assert_eq!(History::decode(&bytes), history);
        }
        assert!(History::decode(&[]).steps.is_empty());
    }

    #[test]
    fn bytes_reach_every_kind_of_step() {
        let mut seen = std::collections::HashSet::new();
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            let bytes: Vec<u8> = (0..600).map(|_| rng.next_u64() as u8).collect();
            for step in History::decode(&bytes).steps {
                seen.insert(std::mem::discriminant(&step));
            }
        }
        assert_eq!(seen.len(), 13);
    }

    #[test]
    fn spots_are_counted_from_either_end_and_never_overflow() {
        assert_eq!(Spot::Start(7).of(3), 7);
        assert_eq!(Spot::End(-4).of(10), 6);
        assert_eq!(Spot::End(-4).of(3), 0);
        assert_eq!(Spot::End(4).of(u64::MAX), u64::MAX);
        assert_eq!(Spot::Last(0).of(3), u64::MAX);
    }
}
