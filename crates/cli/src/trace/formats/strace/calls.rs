//! What each call does to descriptors, and which are requests.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::descriptors::{Descriptors, Open, OpenRef, Sharing, is_regular};
use super::syntax::{self, Call, fd, quoted};
use crate::trace::files::Files;
use crate::trace::formats::Stop;
use crate::trace::request::{Op, Request, Span, number};

/// The calls so far, and what they have left.
#[derive(Debug, Default)]
pub(super) struct Calls {
    descriptors: Descriptors,
    /// How far each file is known to reach, for writes to its end.
    sizes: FxHashMap<u32, u64>,
    nr_mapped: u64,
    nr_rings: u64,
    nr_elsewhere: u64,
}

/// Where a call says that it is.
enum Place {
    /// At the position of the open file, which moves.
    Current,
    At(u64),
}

impl Calls {
    /// A call has begun that others in the trace interrupt.
    pub(super) fn begin(&mut self, process: u64, text: &[u8]) {
        if let Ok((name, arguments)) = syntax::name(text)
            && let Some(sharing) = sharing_of(name, arguments)
        {
            self.descriptors.begin_fork(process, sharing);
        }
    }

    /// A process has ended.
    pub(super) fn end(&mut self, process: u64) {
        self.descriptors.end(process);
    }

    /// A call has returned. Its requests are added.
    pub(super) fn call(
        &mut self,
        process: u64,
        time: Option<u64>,
        text: &[u8],
        files: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        let call = Call::parse(text)?;
        let Some(returned) = call.returned()? else {
            return Ok(());
        };
        let mut transfers = Transfers {
            process,
            time,
            len: returned,
            files,
            requests,
        };
        match call.name {
            b"read" | b"readv" => {
                self.transfer(&mut transfers, call.argument(0)?, Place::Current, Op::Read)?;
            }
            b"write" | b"writev" => {
                self.transfer(&mut transfers, call.argument(0)?, Place::Current, Op::Write)?;
            }
            b"pread64" | b"pread" | b"preadv" | b"preadv2" => {
                let place = place(call.argument(3)?)?;
                self.transfer(&mut transfers, call.argument(0)?, place, Op::Read)?;
            }
            b"pwrite64" | b"pwrite" | b"pwritev" | b"pwritev2" => {
                let place = place(call.argument(3)?)?;
                self.transfer(&mut transfers, call.argument(0)?, place, Op::Write)?;
            }
            b"sendfile" | b"sendfile64" => {
                let place = pointed_at(call.argument(2)?)?;
                self.transfer(&mut transfers, call.argument(1)?, place, Op::Read)?;
            }
            b"copy_file_range" => {
                let (from, to) = (
                    pointed_at(call.argument(1)?)?,
                    pointed_at(call.argument(3)?)?,
                );
                self.transfer(&mut transfers, call.argument(0)?, from, Op::Read)?;
                self.transfer(&mut transfers, call.argument(2)?, to, Op::Write)?;
            }
            b"lseek" => {
                if let Some(open) = self.open(process, call.argument(0)?, files)? {
                    open.borrow_mut().pos = returned;
                }
            }
            b"open" => self.opened(process, &call, 0, call.argument(1)?, files)?,
            b"openat" | b"openat2" => {
                self.opened(process, &call, 1, call.argument(2)?, files)?;
            }
            b"creat" => self.opened(process, &call, 0, b"O_WRONLY", files)?,
            b"close" => {
                if let Some(fd) = fd(call.argument(0)?)? {
                    self.descriptors.close(process, fd.nr)?;
                }
            }
            b"close_range" => {
                let (first, last) = (number(call.argument(0)?)?, number(call.argument(1)?)?);
                let flags = call.argument(2)?;
                if flags == b"0" {
                    self.descriptors.close_range(process, first, last)?;
                }
            }
            b"dup" | b"dup2" => self.duplicated(process, &call, false, files)?,
            b"dup3" => {
                let closes = contains(call.argument(2)?, b"O_CLOEXEC");
                self.duplicated(process, &call, closes, files)?;
            }
            b"fcntl" | b"fcntl64" => match call.argument(1)? {
                b"F_DUPFD" => self.duplicated(process, &call, false, files)?,
                b"F_DUPFD_CLOEXEC" => self.duplicated(process, &call, true, files)?,
                _ => {}
            },
            b"execve" | b"execveat" => self.descriptors.exec(process)?,
            b"mmap" | b"mmap2" => {
                let of_file = call.argument(4)?;
                if let Some(fd) = fd(of_file)?
                    && fd.path.is_none_or(is_regular)
                {
                    self.nr_mapped += 1;
                }
            }
            b"io_uring_enter" | b"io_submit" => self.nr_rings += 1,
            name => {
                let arguments = &text[name.len()..];
                if let Some(sharing) = sharing_of(name, arguments)
                    && returned > 0
                {
                    self.descriptors.fork(process, returned, sharing)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.nr_mapped > 0 {
            notes.push(format!(
                "{} mappings of files: what a program reads and writes through mmap is invisible \
                 to strace",
                self.nr_mapped
            ));
        }
        if self.nr_rings > 0 {
            notes.push(format!(
                "{} calls submit asynchronous I/O, whose requests strace does not show",
                self.nr_rings
            ));
        }
        if self.nr_elsewhere > 0 {
            notes.push(format!(
                "{} transfers of pipes, sockets, devices and the like are left out",
                self.nr_elsewhere
            ));
        }
        if self.descriptors.nr_unknown > 0 {
            notes.push(format!(
                "{} calls are left out, since the trace does not say which file they are for \
                 (strace -y does)",
                self.descriptors.nr_unknown
            ));
        }
        if self.descriptors.nr_found_open > 0 {
            notes.push(format!(
                "{} descriptors were opened where the trace does not show it: they are taken to be \
                 at the beginning",
                self.descriptors.nr_found_open
            ));
        }
        notes
    }

    /// The open file that an argument names; None if it is not known, or none.
    fn open(
        &mut self,
        process: u64,
        argument: &[u8],
        files: &mut Files,
    ) -> Result<Option<OpenRef>, Stop> {
        match fd(argument)? {
            Some(fd) => self.descriptors.get(process, fd, files),
            None => Ok(None),
        }
    }

    fn transfer(
        &mut self,
        transfers: &mut Transfers<'_>,
        argument: &[u8],
        place: Place,
        op: Op,
    ) -> Result<(), Stop> {
        let Some(open) = self.open(transfers.process, argument, transfers.files)? else {
            return Ok(());
        };
        // Nothing is read at the end of a file.
        if transfers.len == 0 {
            return Ok(());
        }
        let mut open = open.borrow_mut();
        let Some(file) = open.file else {
            self.nr_elsewhere += 1;
            return Ok(());
        };
        let size = self.sizes.entry(file).or_default();
        let offset = match place {
            _ if op == Op::Write && open.appends => *size,
            Place::At(offset) => offset,
            Place::Current => open.pos,
        };
        let span = Span::bytes(offset, transfers.len)?;
        let end = offset + transfers.len;
        *size = end.max(*size);
        if let Place::Current = place {
            open.pos = end;
        }
        transfers.requests.push(Request {
            file,
            span,
            op,
            time: transfers.time,
        });
        Ok(())
    }

    /// A call has returned a descriptor of the file that its argument `at` names.
    fn opened(
        &mut self,
        process: u64,
        call: &Call<'_>,
        at: usize,
        flags: &[u8],
        files: &mut Files,
    ) -> Result<(), Stop> {
        let name = call.argument(at)?;
        let path = call.returned_path().or_else(|| quoted(name));
        let Some(returned) = call.returned()? else {
            return Ok(());
        };
        let returned = u32::try_from(returned).map_err(|_| "a descriptor that no process has")?;
        let path = path.ok_or("a file without a name")?;
        let is_folder = contains(flags, b"O_DIRECTORY") || contains(flags, b"O_PATH");
        let file = match is_regular(path) && !is_folder {
            true => Some(files.number(path)?),
            false => None,
        };
        if let Some(file) = file
            && contains(flags, b"O_TRUNC")
        {
            self.sizes.remove(&file);
        }
        let open = Open {
            file,
            pos: 0,
            appends: contains(flags, b"O_APPEND"),
        };
        let open = Rc::new(RefCell::new(open));
        let closes = contains(flags, b"O_CLOEXEC");
        self.descriptors.set(process, returned, &open, closes)
    }

    /// A call has returned another descriptor of the open file that its first argument names.
    fn duplicated(
        &mut self,
        process: u64,
        call: &Call<'_>,
        closes: bool,
        files: &mut Files,
    ) -> Result<(), Stop> {
        let open = self.open(process, call.argument(0)?, files)?;
        let (Some(open), Some(returned)) = (open, call.returned()?) else {
            return Ok(());
        };
        let returned = u32::try_from(returned).map_err(|_| "a descriptor that no process has")?;
        self.descriptors.set(process, returned, &open, closes)
    }
}

/// What a call transfers.
struct Transfers<'a> {
    process: u64,
    time: Option<u64>,
    len: u64,
    files: &'a mut Files,
    requests: &'a mut Vec<Request>,
}

/// What a process has of its parent's descriptors if this call makes it.
fn sharing_of(name: &[u8], arguments: &[u8]) -> Option<Sharing> {
    match name {
        b"fork" | b"vfork" => Some(Sharing::Copy),
        b"clone" | b"clone2" | b"clone3" if contains(arguments, b"CLONE_FILES") => {
            Some(Sharing::Same)
        }
        b"clone" | b"clone2" | b"clone3" => Some(Sharing::Copy),
        _ => None,
    }
}

/// An offset that is a number; -1 is the position.
fn place(argument: &[u8]) -> Result<Place, Stop> {
    match argument {
        b"-1" => Ok(Place::Current),
        offset => Ok(Place::At(number(offset)?)),
    }
}

/// An offset behind a pointer: `NULL`, `[5]`, or `[5] => [9]`.
fn pointed_at(argument: &[u8]) -> Result<Place, Stop> {
    let Some(inside) = argument.strip_prefix(b"[") else {
        return Ok(Place::Current);
    };
    let end = inside.iter().position(|&byte| !byte.is_ascii_digit());
    Ok(Place::At(number(&inside[..end.unwrap_or(inside.len())])?))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
