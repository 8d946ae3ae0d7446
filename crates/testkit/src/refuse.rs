//! System calls that the system refuses from now on.

#![allow(unsafe_code)] // A filter of system calls.

use std::io;

/// The system call `call` fails with `errno` from now on, in all threads of this process and in its children. Of several
/// refusals of one call the last one counts.
///
/// # Panics
///
/// If the system takes no filter.
#[track_caller]
pub fn refuse(call: libc::c_long, errno: i32) {
    install(&mut [load(0), unless_equal(call as u32, 1), fail(errno), ALLOW]);
}

/// As [`refuse`], of those calls only whose second argument is `command`: `fcntl`, `ioctl`.
///
/// # Panics
///
/// If the system takes no filter.
#[track_caller]
pub fn refuse_command(call: libc::c_long, command: i32, errno: i32) {
    install(&mut [
        load(0),
        unless_equal(call as u32, 3),
        load(ARGUMENTS + 8),
        unless_equal(command as u32, 1),
        fail(errno),
        ALLOW,
    ]);
}

/// Where the arguments are in what a filter sees (`seccomp_data`), eight bytes each. The number of the call is its first
/// word.
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

/// Loads the word of four bytes at `offset`: of an argument, on a little-endian machine, its lower half.
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

const fn fail(errno: i32) -> libc::sock_filter {
    let answer = libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA);
    statement(libc::BPF_RET | libc::BPF_K, answer)
}

#[track_caller]
fn install(filter: &mut [libc::sock_filter]) {
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
            refuse_command(libc::SYS_fcntl, libc::F_GETFL, libc::EPERM);
            assert!(now().0 >= 0);
            refuse_command(libc::SYS_fcntl, libc::F_GETFD, libc::EPERM);
            assert_eq!(now(), (-1, Some(libc::EPERM)));
            refuse(libc::SYS_fcntl, libc::ENOSYS);
            assert_eq!(now(), (-1, Some(libc::ENOSYS)));
            0
        });
        assert_eq!(status, 0);
    }
}
