//! Direct transfers of a simulated file: whole blocks by the device, everything else by the code that serves real files.
//!
//! In a model there are none.

#[cfg(not(loom))]
mod imp {
    use std::io;

    use pagewell_sync::bytes::{RacyBytes, RacySource};

    use crate::backend::{Span, Transfers};
    use crate::doubles::volatile::file::VolatileFile;
    use crate::file::{Blocks, Gate, are_aligned, read_blocks, write_blocks};

    /// How the blocks of a file are aligned, and who may write parts of them.
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
            file: &VolatileFile,
            bufs: &[RacyBytes<'_>],
            pos: u64,
        ) -> io::Result<usize> {
            read_blocks(file, bufs, pos, self.unit)
        }

        pub(in crate::doubles::volatile) fn write(
            &self,
            file: &VolatileFile,
            bufs: &[RacySource<'_>],
            pos: u64,
        ) -> io::Result<()> {
            write_blocks(file, &self.gate, bufs, pos, self.unit)
        }

        /// The size, but not while the tail is written.
        pub(in crate::doubles::volatile) fn size(&self, file: &VolatileFile) -> io::Result<u64> {
            let _shared = self.gate.share();
            file.size_now()
        }

        /// Sets the size while nobody writes a part of a block.
        pub(in crate::doubles::volatile) fn set_size(
            &self,
            file: &VolatileFile,
            size: u64,
        ) -> io::Result<()> {
            let _alone = self.gate.alone();
            file.set_size_now(size)
        }

        /// Refuses, as systems do, what is not of whole blocks.
        fn check(&self, spans: impl Iterator<Item = Span>, pos: u64) -> io::Result<()> {
            match are_aligned(spans, pos, self.unit) {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            }
        }
    }

    /// What the device does of a direct transfer.
    impl Blocks for VolatileFile {
        fn read(&self, bufs: &[RacyBytes<'_>], pos: u64, _: usize) -> io::Result<usize> {
            if let Some(direct) = self.direct() {
                direct.check(bufs.iter().map(|buf| Span::from(*buf)), pos)?;
            }
            self.read_now(bufs, pos)
        }

        fn write(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
            if let Some(direct) = self.direct() {
                direct.check(bufs.iter().map(|buf| Span::from(*buf)), pos)?;
            }
            self.write_now(bufs, pos)
        }

        fn size_if_any(&self) -> io::Result<Option<u64>> {
            self.size_now().map(Some)
        }

        fn set_size_apart(&self, size: u64) -> io::Result<()> {
            match self.keeps_padding() {
                true => Ok(()),
                false => self.set_size_now(size),
            }
        }

        fn ends_at(&self, pos: u64) -> bool {
            self.size_now().is_ok_and(|size| size <= pos)
        }
    }
}

#[cfg(loom)]
mod imp {
    use std::convert::Infallible;
    use std::io;

    use pagewell_sync::bytes::{RacyBytes, RacySource};

    use crate::doubles::volatile::file::VolatileFile;

    #[derive(Debug)]
    pub(in crate::doubles::volatile) struct Direct(Infallible);

    impl Direct {
        pub(in crate::doubles::volatile) fn new(_: usize) -> Self {
            unreachable!("a model has no direct transfers")
        }

        pub(in crate::doubles::volatile) fn unit(&self) -> usize {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn read(
            &self,
            _: &VolatileFile,
            _: &[RacyBytes<'_>],
            _: u64,
        ) -> io::Result<usize> {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn write(
            &self,
            _: &VolatileFile,
            _: &[RacySource<'_>],
            _: u64,
        ) -> io::Result<()> {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn size(&self, _: &VolatileFile) -> io::Result<u64> {
            match self.0 {}
        }

        pub(in crate::doubles::volatile) fn set_size(
            &self,
            _: &VolatileFile,
            _: u64,
        ) -> io::Result<()> {
            match self.0 {}
        }
    }
}

pub(super) use self::imp::Direct;
