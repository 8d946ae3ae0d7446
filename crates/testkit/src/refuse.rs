//! System calls that the system refuses from now on.

#![allow(unsafe_code)] // A filter of system calls.

use std::io;

/// Calls that a filter matches.
#[derive(Clone, Copy, Debug)]
pub enum Calls {
    /// All calls of this number.
    Of(libc::c_long),
    /// The calls of this number whose second argument is this command: `fcntl`, `ioctl`.
    Command(libc::c_long, i32),
}

/// Makes `calls` fail with `errno` from now on, in all threads of this process and in its children.
/// If several refusals match a call, the last one counts.
///
/// # Panics
///
/// If the system takes no filter.
#[track_caller]
pub fn refuse(calls: Calls, errno: i32) {
    let action = libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA);
    install(calls, action);
}

/// From now on, ends the process by SIGSYS at the first of `calls`.
///
/// # Panics
///
/// If the system takes no filter.
#[track_caller]
pub fn die_at(calls: Calls) {
    install(calls, libc::SECCOMP_RET_KILL_PROCESS);
}

/// Where the arguments are in what a filter sees (`seccomp_data`), eight bytes each. The number of
/// the call is its first word.
const ARGUMENTS: u32 = 16;

const ALLOW: libc::sock_filter = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Loads the word of four bytes at `offset`: of an argument, on a little-endian machine, its lower
/// half.
const fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

/// Skips `nr` statements unless the loaded word is `value`.
const fn unless_equal(value: u32, nr: u8) -> libc::sock_filter {
    libc::sock_filter {
        jf: nr,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    }
}

#[track_caller]
fn install(calls: Calls, action: u32) {
    let action = statement(libc::BPF_RET | libc::BPF_K, action);
    let filter: &mut [libc::sock_filter] = match calls {
        Calls::Of(call) => &mut [load(0), unless_equal(call as u32, 1), action, ALLOW],
        Calls::Command(call, command) => &mut [
            load(0),
            unless_equal(call as u32, 3),
            load(ARGUMENTS + 8),
            unless_equal(command as u32, 1),
            action,
            ALLOW,
        ],
    };
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: numbers only.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0);
    // SAFETY: the program and its filter outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child;

    #[test]
    fn calls_are_refused_as_told_and_others_are_not() {
        let status = in_child(|| {
            let now = || {
                // SAFETY: no pointers.
                let result = unsafe { libc::fcntl(0, libc::F_GETFD) };
                (result, io::Error::last_os_error().raw_os_error())
            };
            refuse(Calls::Command(libc::SYS_fcntl, libc::F_GETFL), libc::EPERM);
            assert!(now().0 >= 0);
            refuse(Calls::Command(libc::SYS_fcntl, libc::F_GETFD), libc::EPERM);
            assert_eq!(now(), (-1, Some(libc::EPERM)));
            refuse(Calls::Of(libc::SYS_fcntl), libc::ENOSYS);
            assert_eq!(now(), (-1, Some(libc::ENOSYS)));
            0
        });
        assert_eq!(status, 0);
    }
}
