//! The benchmarks, and the cases of each: who works on what.

use clap::ValueEnum;
use pagewell_frame::Order;

/// A benchmark: cases that have their engines in common.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bench {
    Refcount,
    Pin,
    Read,
    Write,
    Contig,
    Alloc,
    Space,
    Fork,
    Migrate,
    Tree,
    Cold,
}

impl Bench {
    pub(crate) const ALL: [Bench; 11] = [
        Bench::Refcount,
        Bench::Pin,
        Bench::Read,
        Bench::Write,
        Bench::Contig,
        Bench::Alloc,
        Bench::Space,
        Bench::Fork,
        Bench::Migrate,
        Bench::Tree,
        Bench::Cold,
    ];

    /// The name in the JSON format and on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Bench::Refcount => "refcount",
            Bench::Pin => "pin",
            Bench::Read => "read",
            Bench::Write => "write",
            Bench::Contig => "contig",
            Bench::Alloc => "alloc",
            Bench::Space => "space",
            Bench::Fork => "fork",
            Bench::Migrate => "migrate",
            Bench::Tree => "tree",
            Bench::Cold => "cold",
        }
    }

    /// Its cases, in the order in which they are measured.
    pub(in crate::bench) const fn cases(self) -> &'static [Case] {
        match self {
            Bench::Refcount => &[Case::OneCount, Case::OwnCount, Case::OneCountProcesses],
            Bench::Pin => &[Case::OnePage, Case::OwnPages],
            Bench::Read => &[
                Case::SameHot,
                Case::DiffHot,
                Case::SameRandom,
                Case::CurveHot,
                Case::CurveRandom,
                Case::MissBuffered,
            ],
            Bench::Write => &[
                Case::WriteHot,
                Case::WriteRandom,
                Case::WriteBesideWaiters,
                Case::WriteCommit1,
                Case::WriteCommit64,
                Case::Append,
                Case::AppendCommit1,
                Case::AppendCommit64,
                Case::Writeback,
            ],
            Bench::Contig => &[Case::Order9, Case::Lengths, Case::Fragmentation],
            Bench::Alloc => &[
                Case::Order0Private,
                Case::Order9Private,
                Case::Order0Burst,
                Case::Order9Burst,
                Case::Order0Mixed,
                Case::Order9Mixed,
            ],
            Bench::Space => &[
                Case::SpaceHot,
                Case::SpaceRandom,
                Case::SpaceHugeHot,
                Case::SpaceHugeRandom,
                Case::FileHot,
                Case::FileRandom,
                Case::PrivateRandom,
            ],
            Bench::Fork => &[Case::Fork, Case::FirstWrite],
            Bench::Migrate => &[Case::Forks, Case::Mapped4, Case::Mapped32, Case::SecondWalk],
            Bench::Tree => &[
                Case::GetsCached,
                Case::Gets4x,
                Case::Inserts,
                Case::InsertsSync,
            ],
            Bench::Cold => &[
                Case::RandomDepth1,
                Case::RandomDepth32,
                Case::RandomDepth64,
                Case::RandomThreads32,
                Case::Sequential,
                Case::CommitThreads64,
            ],
        }
    }
}

/// Who works on what. The names are part of the JSON format.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Case {
    /// All threads take and drop references of one count
    OneCount,
    /// Each thread takes and drops references of a count of its own
    OwnCount,
    /// All processes take and drop references of one count in shared memory
    OneCountProcesses,
    /// All threads pin one page
    OnePage,
    /// Each thread pins a page of its own
    OwnPages,
    /// All threads read the block at offset 0 of one file
    SameHot,
    /// Each thread reads the block at offset 0 of a file of its own
    DiffHot,
    /// All threads read blocks at random positions of one file
    SameRandom,
    /// All threads read the block at offset 1 of one file: 1 to 512 bytes
    CurveHot,
    /// All threads read blocks at random odd offsets of one file: 1 to 512 bytes
    CurveRandom,
    /// All threads read blocks at random positions of a file four times as large as the cache
    MissBuffered,
    /// Each thread writes the block at the beginning of a part of its own of one file
    WriteHot,
    /// Each thread writes blocks at random positions of its part of one file
    WriteRandom,
    /// As write-random, alone and beside 20 000 tasks that wait for 64 pages of another file
    WriteBesideWaiters,
    /// As write-random, and a sync after each write
    #[value(name = "write-commit-1")]
    WriteCommit1,
    /// As write-random, and a sync after 64 writes
    #[value(name = "write-commit-64")]
    WriteCommit64,
    /// Each thread writes records at the end of a file of its own
    Append,
    /// As append, and a sync after each record
    #[value(name = "append-commit-1")]
    AppendCommit1,
    /// As append, and a sync after 64 records
    #[value(name = "append-commit-64")]
    AppendCommit64,
    /// A file larger than the limit of dirty memory is written from end to end, and synced
    Writeback,
    /// A block of 2 MiB is allocated, split, and freed as a range of 512 frames
    #[value(name = "order-9")]
    Order9,
    /// Ranges of many lengths, from an odd frame on, are freed
    Lengths,
    /// How much of the free memory is in large blocks after a random history
    Fragmentation,
    /// A frame is allocated and freed by the same thread
    #[value(name = "order-0-private")]
    Order0Private,
    /// A block of 2 MiB is allocated and freed by the same thread
    #[value(name = "order-9-private")]
    Order9Private,
    /// 64 frames are allocated, then freed, by the same thread
    #[value(name = "order-0-burst")]
    Order0Burst,
    /// 8 blocks of 2 MiB are allocated, then freed, by the same thread
    #[value(name = "order-9-burst")]
    Order9Burst,
    /// Every frame is freed by another thread than the one that allocated it
    #[value(name = "order-0-mixed")]
    Order0Mixed,
    /// Every block of 2 MiB is freed by another thread than the one that allocated it
    #[value(name = "order-9-mixed")]
    Order9Mixed,
    /// All threads read 64 bytes at the beginning of a space
    SpaceHot,
    /// All threads read 64 bytes at random places of a space
    SpaceRandom,
    /// The same as space-hot where the space has pages of 2 MiB
    SpaceHugeHot,
    /// The same as space-random where the space has pages of 2 MiB
    SpaceHugeRandom,
    /// All threads read 64 bytes at the beginning of a file that is mapped into a space
    FileHot,
    /// All threads read 64 bytes at random places of a file that is mapped into a space
    FileRandom,
    /// The same where the mapping is private
    PrivateRandom,
    /// All of the memory is forked
    Fork,
    /// The first write to a page after all of the memory was forked
    FirstWrite,
    /// A range is migrated that forks have written, each all of it
    Forks,
    /// The same, and three of the forks have not written it: each page is mapped 4 times
    #[value(name = "mapped-4")]
    Mapped4,
    /// The same, and 31 of the forks have not written it: each page is mapped 32 times
    #[value(name = "mapped-32")]
    Mapped32,
    /// The second walk's share of the time of a migration
    SecondWalk,
    /// Random keys of a B+tree that is cached
    GetsCached,
    /// Random keys of a B+tree four times as large as the cache
    #[value(name = "gets-4x")]
    Gets4x,
    /// All threads insert random keys into one B+tree with a log
    Inserts,
    /// As inserts, and a sync of the log after each
    InsertsSync,
    /// Pages at random places, none of them cached, one after the other
    #[value(name = "random-depth-1")]
    RandomDepth1,
    /// The same, 32 at a time by one thread
    #[value(name = "random-depth-32")]
    RandomDepth32,
    /// The same, 64 at a time by one thread
    #[value(name = "random-depth-64")]
    RandomDepth64,
    /// The same by 32 threads, each one after the other
    #[value(name = "random-threads-32")]
    RandomThreads32,
    /// A file that is not cached is read from end to end
    Sequential,
    /// 64 threads write a page each of one file, and sync it
    #[value(name = "commit-threads-64")]
    CommitThreads64,
}

impl Case {
    /// The name in the JSON format and on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Case::OneCount => "one-count",
            Case::OwnCount => "own-count",
            Case::OneCountProcesses => "one-count-processes",
            Case::OnePage => "one-page",
            Case::OwnPages => "own-pages",
            Case::SameHot => "same-hot",
            Case::DiffHot => "diff-hot",
            Case::SameRandom => "same-random",
            Case::CurveHot => "curve-hot",
            Case::CurveRandom => "curve-random",
            Case::MissBuffered => "miss-buffered",
            Case::WriteHot => "write-hot",
            Case::WriteRandom => "write-random",
            Case::WriteBesideWaiters => "write-beside-waiters",
            Case::WriteCommit1 => "write-commit-1",
            Case::WriteCommit64 => "write-commit-64",
            Case::Append => "append",
            Case::AppendCommit1 => "append-commit-1",
            Case::AppendCommit64 => "append-commit-64",
            Case::Writeback => "writeback",
            Case::Order9 => "order-9",
            Case::Lengths => "lengths",
            Case::Fragmentation => "fragmentation",
            Case::Order0Private => "order-0-private",
            Case::Order9Private => "order-9-private",
            Case::Order0Burst => "order-0-burst",
            Case::Order9Burst => "order-9-burst",
            Case::Order0Mixed => "order-0-mixed",
            Case::Order9Mixed => "order-9-mixed",
            Case::SpaceHot => "space-hot",
            Case::SpaceRandom => "space-random",
            Case::SpaceHugeHot => "space-huge-hot",
            Case::SpaceHugeRandom => "space-huge-random",
            Case::FileHot => "file-hot",
            Case::FileRandom => "file-random",
            Case::PrivateRandom => "private-random",
            Case::Fork => "fork",
            Case::FirstWrite => "first-write",
            Case::Forks => "forks",
            Case::Mapped4 => "mapped-4",
            Case::Mapped32 => "mapped-32",
            Case::SecondWalk => "second-walk",
            Case::GetsCached => "gets-cached",
            Case::Gets4x => "gets-4x",
            Case::Inserts => "inserts",
            Case::InsertsSync => "inserts-sync",
            Case::RandomDepth1 => "random-depth-1",
            Case::RandomDepth32 => "random-depth-32",
            Case::RandomDepth64 => "random-depth-64",
            Case::RandomThreads32 => "random-threads-32",
            Case::Sequential => "sequential",
            Case::CommitThreads64 => "commit-threads-64",
        }
    }

    /// One line for people.
    pub(in crate::bench) const fn meaning(self) -> &'static str {
        match self {
            Case::OneCount => "all threads take and drop references of one count",
            Case::OwnCount => "each thread has a count of its own",
            Case::OneCountProcesses => "all processes use one count, in shared memory",
            Case::OnePage => "all threads pin one page",
            Case::OwnPages => "each thread pins a page of its own",
            Case::SameHot => "all threads read the block at offset 0 of one file",
            Case::DiffHot => "each thread reads the block at offset 0 of a file of its own",
            Case::SameRandom => "all threads read blocks at random positions of one file",
            Case::CurveHot => "all threads read the block at offset 1 of one file",
            Case::CurveRandom => "all threads read blocks at random odd offsets of one file",
            Case::MissBuffered => {
                "blocks read at random of a file four times as large as the cache"
            }
            Case::WriteHot => {
                "each thread writes the block at the beginning of its part of one file"
            }
            Case::WriteRandom => {
                "each thread writes blocks at random positions of its part of one file"
            }
            Case::WriteBesideWaiters => {
                "as write-random, alone and beside 20 000 waiters for 64 pages of another file"
            }
            Case::WriteCommit1 => "as write-random, and a sync after each write",
            Case::WriteCommit64 => "as write-random, and a sync after 64 writes",
            Case::Append => "each thread writes records at the end of a file of its own",
            Case::AppendCommit1 => "as append, and a sync after each record",
            Case::AppendCommit64 => "as append, and a sync after 64 records",
            Case::Writeback => {
                "a file larger than the limit of dirty memory, written from end to end and synced"
            }
            Case::Order9 => "2 MiB allocated, split, and freed as a range of 512 frames",
            Case::Lengths => "a range freed that begins at an odd frame (only that is timed)",
            Case::Fragmentation => {
                "the share of free memory in blocks of 2 MiB and more, after a random history"
            }
            Case::Order0Private => "each thread frees the frame that it has just allocated",
            Case::Order9Private => "each thread frees the 2 MiB that it has just allocated",
            Case::Order0Burst => "each thread allocates 64 frames, then frees them",
            Case::Order9Burst => "each thread allocates 8 blocks of 2 MiB, then frees them",
            Case::Order0Mixed => "each thread frees the frames that another one allocates",
            Case::Order9Mixed => "each thread frees the blocks that another one allocates",
            Case::SpaceHot => "all threads read 64 bytes at the beginning of one space",
            Case::SpaceRandom => "all threads read 64 bytes at random places of one space",
            Case::SpaceHugeHot => "as space-hot, of a space with pages of 2 MiB",
            Case::SpaceHugeRandom => "as space-random, of a space with pages of 2 MiB",
            Case::FileHot => "as space-hot, of a file that is mapped there and shared",
            Case::FileRandom => "as space-random, of a file that is mapped there and shared",
            Case::PrivateRandom => "as file-random, of a private mapping that nobody has written",
            Case::Fork => "all of the memory is forked",
            Case::FirstWrite => "8 bytes written to a random page, the first write after a fork",
            Case::Forks => "a range migrated that every fork has written: pages are mapped once",
            Case::Mapped4 => "the same with pages that are mapped 4 times",
            Case::Mapped32 => "the same with pages that are mapped 32 times",
            Case::SecondWalk => "the share of the second walk in the time of a migration",
            Case::GetsCached => "random keys of a B+tree that is cached",
            Case::Gets4x => "random keys of a B+tree four times as large as the cache",
            Case::Inserts => "random keys inserted by all threads into one B+tree with a log",
            Case::InsertsSync => "as inserts, and a sync of the log after each",
            Case::RandomDepth1 => "4 KiB at random that are not cached, one after the other",
            Case::RandomDepth32 => "the same, 32 at a time by one thread",
            Case::RandomDepth64 => "the same, 64 at a time by one thread",
            Case::RandomThreads32 => "the same by 32 threads, each one after the other",
            Case::Sequential => {
                "a file that is not cached, from end to end, by 64 KiB; fio-uring 8 times 1 MiB at \
                 once"
            }
            Case::CommitThreads64 => "64 threads each write 4 KiB of one file, and sync it",
        }
    }

    /// The benchmark that it belongs to.
    pub(crate) const fn bench(self) -> Bench {
        match self {
            Case::OneCount | Case::OwnCount | Case::OneCountProcesses => Bench::Refcount,
            Case::OnePage | Case::OwnPages => Bench::Pin,
            Case::SameHot
            | Case::DiffHot
            | Case::SameRandom
            | Case::CurveHot
            | Case::CurveRandom
            | Case::MissBuffered => Bench::Read,
            Case::WriteHot
            | Case::WriteRandom
            | Case::WriteBesideWaiters
            | Case::WriteCommit1
            | Case::WriteCommit64
            | Case::Append
            | Case::AppendCommit1
            | Case::AppendCommit64
            | Case::Writeback => Bench::Write,
            Case::Order9 | Case::Lengths | Case::Fragmentation => Bench::Contig,
            Case::Order0Private
            | Case::Order9Private
            | Case::Order0Burst
            | Case::Order9Burst
            | Case::Order0Mixed
            | Case::Order9Mixed => Bench::Alloc,
            Case::SpaceHot
            | Case::SpaceRandom
            | Case::SpaceHugeHot
            | Case::SpaceHugeRandom
            | Case::FileHot
            | Case::FileRandom
            | Case::PrivateRandom => Bench::Space,
            Case::Fork | Case::FirstWrite => Bench::Fork,
            Case::Forks | Case::Mapped4 | Case::Mapped32 | Case::SecondWalk => Bench::Migrate,
            Case::GetsCached | Case::Gets4x | Case::Inserts | Case::InsertsSync => Bench::Tree,
            Case::RandomDepth1
            | Case::RandomDepth32
            | Case::RandomDepth64
            | Case::RandomThreads32
            | Case::Sequential
            | Case::CommitThreads64 => Bench::Cold,
        }
    }

    /// Whether each worker reads a file of its own.
    pub(crate) const fn needs_own_files(self) -> bool {
        matches!(self, Case::DiffHot)
    }

    /// Whether workers exchange blocks, so that there must be two at least.
    pub(in crate::bench) const fn needs_partner(self) -> bool {
        matches!(self, Case::Order0Mixed | Case::Order9Mixed)
    }

    /// The order of the blocks that it allocates.
    pub(in crate::bench) const fn order(self) -> Order {
        match self {
            Case::Order9Private | Case::Order9Burst | Case::Order9Mixed => Order::PAGE_BLOCK,
            _ => Order::ZERO,
        }
    }

    /// Whether the quick run leaves it out, unless it is asked for.
    pub(in crate::bench) const fn is_only_in_full_run(self) -> bool {
        matches!(
            self,
            Case::WriteBesideWaiters
                | Case::WriteCommit1
                | Case::AppendCommit1
                | Case::Order0Burst
                | Case::Order9Burst
                | Case::InsertsSync
        )
    }

    /// Whether it is measured only where it is asked for: it has many lengths.
    pub(in crate::bench) const fn is_curve(self) -> bool {
        matches!(self, Case::CurveHot | Case::CurveRandom)
    }

    /// Whether it inserts into a tree that is its own.
    pub(in crate::bench) const fn inserts(self) -> bool {
        matches!(self, Case::Inserts | Case::InsertsSync)
    }

    /// After how many writes there is a sync, if there is one.
    pub(in crate::bench) const fn group(self) -> Option<u32> {
        match self {
            Case::WriteCommit1 | Case::AppendCommit1 => Some(1),
            Case::WriteCommit64 | Case::AppendCommit64 => Some(64),
            _ => None,
        }
    }

    /// Whether each worker appends to a file of its own.
    pub(in crate::bench) const fn appends(self) -> bool {
        matches!(
            self,
            Case::Append | Case::AppendCommit1 | Case::AppendCommit64
        )
    }

    /// Whether the workers write to one file, each to a part of its own.
    pub(in crate::bench) const fn writes_parts(self) -> bool {
        matches!(
            self,
            Case::WriteHot | Case::WriteRandom | Case::WriteCommit1 | Case::WriteCommit64
        )
    }

    /// What a worker is.
    pub(in crate::bench) const fn worker(self) -> &'static str {
        match self {
            Case::OneCountProcesses => "process",
            _ => "thread",
        }
    }

    /// Whether the processor time of the whole process is measured beside the speed: of what other threads do for the workers too.
    pub(in crate::bench) const fn has_cpu_time(self) -> bool {
        matches!(self, Case::MissBuffered) || matches!(self.bench(), Bench::Cold)
    }

    /// Whether its figures are parts of a whole, from 0 to 1, and no speeds.
    pub(in crate::bench) fn is_share(self) -> bool {
        self.unit() == "share"
    }

    /// What is measured: operations per second as a rule.
    pub(in crate::bench) const fn unit(self) -> &'static str {
        match self {
            Case::Fragmentation | Case::SecondWalk => "share",
            Case::Writeback | Case::Sequential => "MiB/s",
            Case::Forks | Case::Mapped4 | Case::Mapped32 => "pages/s",
            _ => "ops/s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_of_the_benchmark_that_lists_it_and_has_the_name_of_its_flag() {
        let mut nr = 0;
        for bench in Bench::ALL {
            for case in bench.cases() {
                assert_eq!(case.bench(), bench, "{case:?}");
                let value = case.to_possible_value();
                assert_eq!(value.unwrap().get_name(), case.name());
                nr += 1;
            }
        }
        assert_eq!(nr, Case::value_variants().len());
    }
}
