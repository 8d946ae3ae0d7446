//! Direct transfers of a simulated file, with the code for the partial blocks of real files.

#[cfg(not(loom))]
mod imp {
    use std::io;

    use pagewell_sync::bytes::{RacyBytes, RacySource};

    use crate::backend::{Span, Transfers};
    use crate::file::{Blocks, Gate, are_aligned, read_blocks, write_blocks};

    #[derive(Debug)]
    pub(in crate::doubles::volatile) struct Direct {
        unit: usize,
        gate: Gate,
    }

    impl Direct {
        pub(in crate::doubles::volatile) fn new(unit: usize) -> Self {
            let gate = Gate::default();
            Self { unit, gate }
        }

        pub(in crate::doubles::volatile) fn unit(&self) -> usize {
            self.unit
        }

        pub(in crate::doubles::volatile) fn transfers(&self) -> Transfers {
            let alignment = self.unit;
            Transfers::Direct { alignment }
        }

        pub(in crate::doubles::volatile) fn read(
            &self,
            file: &impl Blocks,
            bufs: &[RacyBytes<'_>],
            pos: u64,
        ) -> io::Result<usize> {
            read_blocks(file, bufs, pos, self.unit)
        }

        pub(in crate::doubles::volatile) fn write(
            &self,
            file: &impl Blocks,
            bufs: &[RacySource<'_>],
            pos: u64,
        ) -> io::Result<()> {
            write_blocks(file, &self.gate, bufs, pos, self.unit)
        }

        pub(in crate::doubles::volatile) fn size(
            &self,
            tell: impl FnOnce() -> io::Result<u64>,
        ) -> io::Result<u64> {
            let _shared = self.gate.share();
            tell()
        }

        pub(in crate::doubles::volatile) fn set_size(
            &self,
            set: impl FnOnce() -> io::Result<()>,
        ) -> io::Result<()> {
            let _alone = self.gate.alone();
            set()
        }

        pub(in crate::doubles::volatile) fn check(
            &self,
            spans: impl Iterator<Item = Span>,
            pos: u64,
        ) -> io::Result<()> {
            match are_aligned(spans, pos, self.unit) {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            }
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::convert::Infallible;
    use std::io;

    use pagewell_sync::bytes::{RacyBytes, RacySource};

    #[derive(Debug)]
    pub(in crate::doubles::volatile) struct Direct(Infallible);

    impl Direct {
        pub(in crate::doubles::volatile) fn new(_: usize) -> Self {
            unreachable!("a model has no direct transfers")
        }

        pub(in crate::doubles::volatile) fn unit(&self) -> usize {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn read<F>(
            &self,
            _: &F,
            _: &[RacyBytes<'_>],
            _: u64,
        ) -> io::Result<usize> {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn write<F>(
            &self,
            _: &F,
            _: &[RacySource<'_>],
            _: u64,
        ) -> io::Result<()> {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn size(
            &self,
            _: impl FnOnce() -> io::Result<u64>,
        ) -> io::Result<u64> {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn set_size(
            &self,
            _: impl FnOnce() -> io::Result<()>,
        ) -> io::Result<()> {
            match self.0 {}
        }
    }
}

pub(super) use self::imp::Direct;
