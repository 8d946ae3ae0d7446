//! `fork(2)`: a child that does nothing but wait for its end.

#![allow(unsafe_code)] // The system calls themselves.

use std::io;
use std::os::fd::AsRawFd;

use crate::failure::Failure;

/// A child process, which waits until it is told to end.
#[derive(Debug)]
pub(super) struct Child {
    pid: libc::pid_t,
    /// The child reads the other end, and ends with this one.
    pipe: io::PipeWriter,
}

/// Forks this process. The child has all of its memory, and waits.
pub(super) fn fork() -> Result<Child, Failure> {
    let failed = |error: io::Error| Failure::because("cannot fork", error);
    let (reader, writer) = io::pipe().map_err(failed)?;
    let (read_end, write_end) = (reader.as_raw_fd(), writer.as_raw_fd());
    // SAFETY: the process may have other threads, so the child calls only what is safe in a signal handler, and returns
    // to no Rust code: it closes a descriptor, reads, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let mut byte = 0_u8;
        // SAFETY: a descriptor of this process's own, which nothing uses any more.
        unsafe { libc::close(write_end) };
        // SAFETY: a byte of the stack's is written at the most. Whatever comes back, the child ends.
        unsafe { libc::read(read_end, (&raw mut byte).cast(), 1) };
        // SAFETY: ends the process without running anything of it.
        unsafe { libc::_exit(0) };
    }
    if pid < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    Ok(Child { pid, pipe: writer })
}

impl Child {
    /// Has the child end, and waits until it has.
    pub(super) fn end(self) -> Result<(), Failure> {
        drop(self.pipe);
        let mut status = 0;
        // SAFETY: the call writes one number, to a variable of ours.
        let ended = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        if ended == self.pid {
            Ok(())
        } else {
            let error = io::Error::last_os_error();
            Err(Failure::because("cannot wait for a forked process", error))
        }
    }
}
