//! Which descriptor of which process is at which position of which file.
//!
//! As in the system, a descriptor names an open file, which has the position: `dup` and `fork` give further descriptors of the same
//! open file, threads have one table of descriptors.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::syntax::Fd;
use crate::trace::files::Files;
use crate::trace::formats::Stop;

/// An open file.
#[derive(Debug)]
pub(super) struct Open {
    /// None for what is not a regular file.
    pub(super) file: Option<u32>,
    pub(super) pos: u64,
    /// Whether writes go to the end.
    pub(super) appends: bool,
}

pub(super) type OpenRef = Rc<RefCell<Open>>;

#[derive(Clone, Debug)]
struct Descriptor {
    open: OpenRef,
    closes_on_exec: bool,
}

type Table = FxHashMap<u32, Descriptor>;
type TableRef = Rc<RefCell<Table>>;

/// What a new process has of its parent's table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sharing {
    Same,
    Copy,
}

/// The tables of all processes.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    tables: FxHashMap<u64, TableRef>,
    /// The table of the first process, which those whose beginning was not seen use too.
    first: TableRef,
    /// Processes that are in a call that makes another one.
    forking: Vec<(u64, Sharing)>,
    /// Descriptors that were put into tables since they were last counted.
    nr_inserted: usize,
    /// Descriptors without an opening in the trace, of which `-y` has told the path.
    pub(super) nr_found_open: u64,
    /// Calls for descriptors of which nothing is known.
    pub(super) nr_unknown: u64,
}

/// The most descriptors in all tables.
const MOST: usize = 1 << 20;
/// The most processes.
const MOST_PROCESSES: usize = 1 << 16;

impl Descriptors {
    /// The open file of a descriptor; None if it is not known.
    pub(super) fn get(
        &mut self,
        process: u64,
        fd: Fd<'_>,
        files: &mut Files,
    ) -> Result<Option<OpenRef>, Stop> {
        let table = self.table(process)?;
        let known = table
            .borrow()
            .get(&fd.nr)
            .map(|known| Rc::clone(&known.open));
        let Some(path) = fd.path else {
            self.nr_unknown += u64::from(known.is_none());
            return Ok(known);
        };
        let file = match is_regular(path) {
            true => Some(files.number(plain(path))?),
            false => None,
        };
        if let Some(known) = known
            && known.borrow().file == file
        {
            return Ok(Some(known));
        }
        // It was opened before the trace began, or in a way that was not traced.
        self.nr_found_open += u64::from(file.is_some());
        let open = Open {
            file,
            pos: 0,
            appends: false,
        };
        let open = Rc::new(RefCell::new(open));
        self.set(process, fd.nr, &open, false)?;
        Ok(Some(open))
    }

    /// Has a descriptor name an open file.
    pub(super) fn set(
        &mut self,
        process: u64,
        fd: u32,
        open: &OpenRef,
        closes_on_exec: bool,
    ) -> Result<(), Stop> {
        self.count(1)?;
        let descriptor = Descriptor {
            open: Rc::clone(open),
            closes_on_exec,
        };
        self.table(process)?.borrow_mut().insert(fd, descriptor);
        Ok(())
    }

    pub(super) fn close(&mut self, process: u64, fd: u32) -> Result<(), Stop> {
        self.table(process)?.borrow_mut().remove(&fd);
        Ok(())
    }

    pub(super) fn close_range(&mut self, process: u64, first: u64, last: u64) -> Result<(), Stop> {
        let table = self.table(process)?;
        let is_kept = |fd: &u32, _: &mut Descriptor| !(first..=last).contains(&u64::from(*fd));
        table.borrow_mut().retain(is_kept);
        Ok(())
    }

    /// The process has become another program.
    pub(super) fn exec(&mut self, process: u64) -> Result<(), Stop> {
        let table = self.table(process)?;
        table.borrow_mut().retain(|_, open| !open.closes_on_exec);
        Ok(())
    }

    /// The process is in a call that makes another one, which may be seen before the call returns.
    pub(super) fn begin_fork(&mut self, process: u64, sharing: Sharing) {
        self.end_fork(process);
        if self.forking.len() < MOST_PROCESSES {
            self.forking.push((process, sharing));
        }
    }

    fn end_fork(&mut self, process: u64) -> bool {
        let before = self.forking.len();
        self.forking.retain(|(parent, _)| *parent != process);
        self.forking.len() < before
    }

    /// The process has made another one.
    pub(super) fn fork(&mut self, process: u64, child: u64, sharing: Sharing) -> Result<(), Stop> {
        let was_seen = self.end_fork(process) && self.tables.contains_key(&child);
        if was_seen {
            return Ok(());
        }
        let table = self.table(process)?;
        self.add(child, &table, sharing)
    }

    /// The process has ended.
    pub(super) fn end(&mut self, process: u64) {
        self.end_fork(process);
        self.tables.remove(&process);
    }

    fn table(&mut self, process: u64) -> Result<TableRef, Stop> {
        if let Some(table) = self.tables.get(&process) {
            return Ok(Rc::clone(table));
        }
        let parent = self.forking.iter().find(|(parent, _)| *parent != process);
        let (table, sharing) = match parent.copied() {
            Some((parent, sharing)) if self.tables.contains_key(&parent) => {
                (Rc::clone(&self.tables[&parent]), sharing)
            }
            // As a thread of the first process: those are most often made without a trace of it.
            _ => (Rc::clone(&self.first), Sharing::Same),
        };
        self.add(process, &table, sharing)?;
        Ok(Rc::clone(&self.tables[&process]))
    }

    fn add(&mut self, process: u64, table: &TableRef, sharing: Sharing) -> Result<(), Stop> {
        if self.tables.len() >= MOST_PROCESSES {
            return Err(Stop::Bad("more processes than can be followed here"));
        }
        let table = match sharing {
            Sharing::Same => Rc::clone(table),
            Sharing::Copy => {
                let copy = table.borrow().clone();
                self.count(copy.len())?;
                Rc::new(RefCell::new(copy))
            }
        };
        self.tables.insert(process, table);
        Ok(())
    }

    /// Checks that there is room for so many more descriptors.
    fn count(&mut self, nr: usize) -> Result<(), Stop> {
        self.nr_inserted = self.nr_inserted.saturating_add(nr);
        if self.nr_inserted > MOST {
            // Many were closed, or replaced, since. Threads have one table.
            let mut tables: FxHashMap<*const RefCell<Table>, usize> = FxHashMap::default();
            for table in self.tables.values() {
                tables.insert(Rc::as_ptr(table), table.borrow().len());
            }
            let there: usize = tables.values().sum();
            self.nr_inserted = there.saturating_add(nr);
            // So that they are not counted at every call, half of the room has to be free.
            if self.nr_inserted > MOST / 2 {
                self.nr_inserted = MOST;
                return Err(Stop::Bad("more open descriptors than can be followed here"));
            }
        }
        Ok(())
    }
}

/// Whether a path that `-y` tells, or that was opened, can be one of a regular file.
pub(super) fn is_regular(path: &[u8]) -> bool {
    const ELSEWHERE: [&[u8]; 4] = [b"/dev/", b"/proc/", b"/sys/", b"/memfd:"];
    const KINDS: [&[u8]; 3] = [b"pipe:[", b"socket:[", b"anon_inode:"];
    if path.starts_with(b"/dev/shm/") {
        return true;
    }
    // `-yy` tells devices and the ends of connections: `/dev/pts/0<char 136:0>`, `TCP:[...]`.
    let is_connection = path.ends_with(b"]") && !path.starts_with(b"/") && path.contains(&b':');
    let is_device = path.contains(&b'<');
    let is_elsewhere = ELSEWHERE.iter().any(|folder| path.starts_with(folder));
    let is_other = KINDS.iter().any(|kind| path.starts_with(kind));
    !(is_connection || is_device || is_elsewhere || is_other)
}

/// The path without what strace adds once the file has been removed.
fn plain(path: &[u8]) -> &[u8] {
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}
