//! Direct I/O (`O_DIRECT`): how a file's transfers are made, and the reason if they are buffered.
//!
//! With [`Direct::Auto`], `O_DIRECT` is set if the system reports an alignment of at most [`PAGE`],
//! and cleared if it rejects transfers. The flag of the open descriptor is changed, since a second
//! open of the path could open another file.

#![allow(unsafe_code)] // Three system calls.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use pagewell_sync::atomic::{AtomicU32, Ordering};

use super::open::{again, flags};
use crate::backend::{Buffered, Transfers};

/// Policy for direct I/O of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Direct if the file system permits it and reports an alignment up to 4096, else buffered.
    Auto,
    /// Always direct. If the file system reports no alignment, transfers are aligned to 4096 bytes.
    /// If it requires more or rejects direct I/O, the open or the transfer fails.
    Always,
    /// Through the kernel's page cache.
    #[default]
    Never,
}

/// Maximum supported alignment in bytes.
const PAGE: usize = 4096;

/// Value of `State::refusal` after the system rejected a smaller alignment than [`PAGE`].
const BY_PAGE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct State {
    /// Mode of transfers while `refusal` is 0.
    first: Transfers,
    /// 0, [`BY_PAGE`], or the error number by which the system rejected direct transfers.
    refusal: AtomicU32,
    /// Locked while the refusal and the flag change.
    change: Mutex<()>,
    asked: Direct,
}

impl State {
    /// Sets the flag if requested and possible. Fails with [`io::ErrorKind::Unsupported`] if
    /// `Always` was requested and direct I/O is unavailable.
    pub(super) fn new(file: &File, asked: Direct) -> io::Result<Self> {
        Self::with_alignment(file, asked, || told(file))
    }

    /// Like [`new`](Self::new), but `told` reports the alignment, or 0 for none.
    pub(super) fn with_alignment(
        file: &File,
        asked: Direct,
        told: impl FnOnce() -> u32,
    ) -> io::Result<Self> {
        let transfers = match asked {
            Direct::Never => Transfers::Buffered(Buffered::NotAsked),
            Direct::Auto | Direct::Always => match (told(), asked) {
                (0, Direct::Auto) => Transfers::Buffered(Buffered::NoAlignment),
                (0, _) => switch_on(file, PAGE),
                (alignment, _) if alignment as usize > PAGE => {
                    Transfers::Buffered(Buffered::TooCoarse(alignment))
                }
                (alignment, _) => switch_on(file, alignment as usize),
            },
        };
        if let (Direct::Always, Transfers::Buffered(reason)) = (asked, transfers) {
            return Err(refusal(reason));
        }
        Ok(Self {
            first: transfers,
            refusal: AtomicU32::new(0),
            change: Mutex::new(()),
            asked,
        })
    }

    pub(super) fn transfers(&self) -> Transfers {
        // ORDERING: Relaxed; `refusal` publishes no other memory, since `first` is immutable. A
        // transfer in an outdated mode succeeds, or is rejected and repeated.
        match self.refusal.load(Ordering::Relaxed) {
            0 => self.first,
            BY_PAGE => Transfers::Direct { alignment: PAGE },
            errno => Transfers::Buffered(Buffered::RefusedAtTransfer(errno.cast_signed())),
        }
    }

    pub(super) fn unit(&self) -> Option<usize> {
        match self.transfers() {
            Transfers::Direct { alignment } => Some(alignment),
            Transfers::Buffered(_) => None,
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked != Direct::Never
    }

    /// Handles a transfer that failed with `error` at alignment `unit`. If systems reject direct
    /// transfers by this error, and a next mode is left (alignment to a page, then buffered if
    /// permitted), switches to it, and the caller repeats the transfer. Otherwise returns `error`.
    pub(super) fn refused(&self, file: &File, unit: usize, error: io::Error) -> io::Result<()> {
        let errno = match error.raw_os_error() {
            Some(errno @ (libc::EINVAL | libc::EOPNOTSUPP)) => errno,
            _ => return Err(error),
        };
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        if self.unit() != Some(unit) {
            return Ok(());
        }
        let next = if unit < PAGE {
            BY_PAGE
        } else if self.asked == Direct::Auto {
            set_flag(file, false)?;
            errno.cast_unsigned()
        } else {
            return Err(error);
        };
        // ORDERING: Relaxed, as in `transfers`.
        self.refusal.store(next, Ordering::Relaxed);
        Ok(())
    }
}

fn refusal(reason: Buffered) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("direct I/O is unavailable: {reason}"),
    )
}

fn switch_on(file: &File, alignment: usize) -> Transfers {
    match set_flag(file, true) {
        Ok(()) => Transfers::Direct { alignment },
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            Transfers::Buffered(Buffered::RefusedAtOpen(errno))
        }
    }
}

/// Returns the alignment of positions and memory for direct I/O, or 0 if no valid one is known.
fn told(file: &File) -> u32 {
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the descriptor is open, the path ends with NUL, and `answer` has the right size.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            answer.as_mut_ptr(),
        )
    };
    // SAFETY: the structure consists of integers, and was zeroed before the call.
    let answer = unsafe { answer.assume_init() };
    if result != 0 || answer.stx_mask & libc::STATX_DIOALIGN == 0 {
        return 0;
    }
    let (memory, offset) = (answer.stx_dio_mem_align, answer.stx_dio_offset_align);
    match memory.max(offset) {
        // Both values are 0 if direct I/O is not supported.
        alignment if memory != 0 && offset != 0 && alignment.is_power_of_two() => alignment,
        _ => 0,
    }
}

fn set_flag(file: &File, is_direct: bool) -> io::Result<()> {
    let flags = flags(file)?;
    let flags = match is_direct {
        true => flags | libc::O_DIRECT,
        false => flags & !libc::O_DIRECT,
    };
    // SAFETY: the descriptor is open, and the argument of the command is a number.
    again(|| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(asked: Direct, told: u32) -> io::Result<State> {
        let file = pagewell_testkit::scratch::file();
        // No case below sets the flag.
        State::with_alignment(file.as_file(), asked, || told)
    }

    #[test]
    fn what_the_system_tells_decides() {
        let buffered = |asked, told| state(asked, told).unwrap().transfers();
        assert_eq!(
            buffered(Direct::Never, 512),
            Transfers::Buffered(Buffered::NotAsked)
        );
        assert_eq!(
            buffered(Direct::Auto, 0),
            Transfers::Buffered(Buffered::NoAlignment)
        );
        let coarse = Buffered::TooCoarse(8192);
        assert_eq!(buffered(Direct::Auto, 8192), Transfers::Buffered(coarse));
        let error = state(Direct::Always, 8192).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("8192"), "{error}");
    }

    #[test]
    fn a_refused_transfer_is_tried_by_a_page_then_through_the_cache_and_each_once() {
        let file = pagewell_testkit::scratch::file();
        let file = file.as_file();
        let Ok(state) = State::with_alignment(file, Direct::Auto, || 512) else {
            unreachable!("auto never fails");
        };
        if state.unit() != Some(512) {
            pagewell_testkit::skip::skipped("no direct transfers here");
            return;
        }
        let refuse = |unit, errno| state.refused(file, unit, io::Error::from_raw_os_error(errno));
        assert_eq!(
            refuse(512, libc::EIO).unwrap_err().raw_os_error(),
            Some(libc::EIO)
        );
        refuse(512, libc::EINVAL).unwrap();
        assert_eq!(state.unit(), Some(4096));
        // A late rejection at the old alignment changes nothing.
        refuse(512, libc::EINVAL).unwrap();
        assert_eq!(state.unit(), Some(4096));
        refuse(4096, libc::EINVAL).unwrap();
        let reason = Buffered::RefusedAtTransfer(libc::EINVAL);
        assert_eq!(state.transfers(), Transfers::Buffered(reason));

        let always = State::with_alignment(file, Direct::Always, || 4096).unwrap();
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        always.refused(file, 4096, error).unwrap_err();
        assert_eq!(always.unit(), Some(4096));
    }
}
