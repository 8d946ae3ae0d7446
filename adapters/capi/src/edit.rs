//! Edits: pages pinned for writing.
//!
//! - Owns: `pw_edit`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`.
//! - Promises: an edit ends once, in the thread that began it. Its file cannot be closed before.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::thread::ThreadId;

use library::{PageGuardMut, PublishedPage};

use crate::arguments::{answer, needed, structure};
use crate::entry::call_with;
use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::file::{OpenFile, pw_file};
use crate::handles::{Counted, Taken, reserve, tables, take, used_counted};

/// Page being edited: ::pw_edit_begin. All copies of the structure denote the same edit.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_edit {
    /// Copy of the page's bytes, which the program may change. Null once the edit has ended.
    pub data: *mut c_void,
    /// Number of bytes: the page size, or less in the last page of the file.
    pub size: usize,
    /// Number of the page.
    pub page: u64,
    /// Internal: identifies the edit.
    pub opaque: u64,
}

/// Flag of ::pw_edit_begin: do not wait if the page is being edited; fail with ::PW_ERROR_LOCKED.
pub const PW_EDIT_TRY: c_int = 1;

enum Stage {
    Editing(PageGuardMut<'static>),
    /// The bytes are published. The page stays locked until this value is dropped.
    Published(PublishedPage<'static>),
    Over,
}

impl Stage {
    /// Address and size of the copy that is being edited.
    fn copy(&mut self) -> (*mut c_void, usize) {
        match self {
            Self::Editing(guard) => (guard.as_mut_ptr().cast(), guard.len()),
            Self::Published(_) | Self::Over => (ptr::null_mut(), 0),
        }
    }
}

pub(crate) struct Edit {
    /// Dropped first: it borrows from the file.
    stage: Stage,
    thread: ThreadId,
    _file: Counted<OpenFile>,
}

tables! {
    Edit: 6, "edit", 16384, Counted;
}

// SAFETY: the guard in `Stage` is not `Send`, and only the thread that began the edit accesses and
// drops it: `taken` compares thread ids. Other threads access only the thread id and the file.
unsafe impl Send for Edit {}
// SAFETY: as above; only `taken` gives access.
unsafe impl Sync for Edit {}

/// Takes the edit out of its handle, if this thread began it.
fn taken(edit: &pw_edit) -> Result<Taken<Edit>> {
    let mut taken = take::<Edit>(edit.opaque)?;
    if taken.object().thread != std::thread::current().id() {
        return Err(Failure::Ours(
            PW_ERROR_THREAD,
            format!("another thread edits page {}", edit.page).into(),
        ));
    }
    Ok(taken)
}

/// Begins an edit of a page, and returns a copy of its bytes for the program to change.
/// ::pw_edit_publish or ::pw_edit_commit replaces the page's bytes by the copy. Until then, readers
/// see the old bytes, and other threads that write to the page wait. A call of this thread that
/// would wait for the edit returns ::PW_ERROR_DEADLOCK.
///
/// `flags`: 0 or ::PW_EDIT_TRY. `edit`: receives the edit, which the same thread must end by
/// ::pw_edit_commit or ::pw_edit_cancel.
///
/// Errors: ::PW_ERROR_LOCKED if ::PW_EDIT_TRY is set and any thread edits the page;
/// ::PW_ERROR_DEADLOCK if it is not set and this thread edits the page; ::PW_ERROR_READ_ONLY,
/// ::PW_ERROR_THROTTLED, ::PW_ERROR_LIMIT if 16383 edits exist, and those of ::pw_pin.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_edit_begin(
    file: *mut pw_file,
    page_number: u64,
    flags: c_int,
    edit: *mut pw_edit,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        needed(edit)?;
        if flags & !PW_EDIT_TRY != 0 {
            return Err(Failure::unknown("flags", flags));
        }
        let counted = used_counted::<OpenFile>(file as u64)?;
        let file = counted.file();
        // The slot is reserved before the page is locked: if the reservation failed afterwards, the
        // drop of the guard would publish the copy.
        let slot = reserve::<Edit>()?;
        let guard = match flags {
            PW_EDIT_TRY => file.try_pin_mut(page_number)?,
            _ => file.pin_mut(page_number)?,
        };
        // SAFETY: only the lifetime changes. The file counts as in use until the guard is dropped.
        let guard = unsafe { transmute::<PageGuardMut<'_>, PageGuardMut<'static>>(guard) };
        let mut object = Box::new(Edit {
            stage: Stage::Editing(guard),
            thread: std::thread::current().id(),
            _file: counted,
        });
        // The object stays in this box, so the address is final.
        let (data, size) = object.stage.copy();
        let begun = pw_edit {
            data,
            size,
            page: page_number,
            opaque: slot.fill(object),
        };
        // SAFETY: by the header, valid for writes.
        unsafe { answer(edit, begun) }
    })
}

/// Replaces the page's bytes by the edited ones, and keeps the page locked: all readers see the new
/// bytes, and other writers wait until ::pw_edit_commit. A program that edits several pages can
/// thus define the order in which readers see the changes. From now on `data` may only be read.
///
/// `lsn`: the log sequence number of the change, 0 for none.
///
/// Errors: ::PW_ERROR_THREAD if another thread began the edit, ::PW_ERROR_HANDLE if the edit has
/// ended, ::PW_ERROR_ARGUMENT if it is already published.
///
/// Threads: the one that began the edit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_edit_publish(edit: *mut pw_edit, lsn: u64) -> c_int {
    // SAFETY: by the header, null, or valid for reads and writes by this call alone.
    unsafe {
        change(edit, |mut taken, _| {
            let object = taken.object();
            match std::mem::replace(&mut object.stage, Stage::Over) {
                Stage::Editing(mut guard) => {
                    guard.set_lsn(lsn);
                    object.stage = Stage::Published(guard.publish());
                    Ok(())
                }
                stage => {
                    object.stage = stage;
                    Err(Failure::argument("the edit is already published"))
                }
            }
        })
    }
}

/// Ends an edit: replaces the page's bytes by the edited ones, unless ::pw_edit_publish has done
/// so, and unlocks the page for other writers. All readers then see the new bytes; a later sync
/// makes them durable. If the page was truncated (::pw_set_size) or discarded (::pw_discard) since
/// the edit began, this call drops the edited bytes, and returns ::PW_OK.
///
/// `edit`: is cleared. `lsn`: as for ::pw_edit_publish; ignored if the edit is already published.
///
/// Errors: ::PW_ERROR_THREAD if another thread began the edit, ::PW_ERROR_HANDLE if the edit has
/// ended, ::PW_ERROR_ARGUMENT.
///
/// Threads: the one that began the edit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_edit_commit(edit: *mut pw_edit, lsn: u64) -> c_int {
    // SAFETY: by the header, null, or valid for reads and writes by this call alone.
    unsafe {
        change(edit, |taken, edit| {
            // The file is in use until the end of this scope.
            let Edit { stage, _file, .. } = taken.end();
            match stage {
                // The drop of the guard publishes the bytes.
                Stage::Editing(mut guard) => guard.set_lsn(lsn),
                // The drop unlocks the page.
                Stage::Published(page) => drop(page),
                Stage::Over => {}
            }
            (edit.data, edit.size, edit.opaque) = (ptr::null_mut(), 0, 0);
            Ok(())
        })
    }
}

/// Ends an edit without a change of the page. `edit` is cleared.
///
/// Errors: ::PW_ERROR_THREAD if another thread began the edit, ::PW_ERROR_HANDLE if the edit has
/// ended, ::PW_ERROR_ARGUMENT if it is published, which cannot be undone.
///
/// Threads: the one that began the edit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_edit_cancel(edit: *mut pw_edit) -> c_int {
    // SAFETY: by the header, null, or valid for reads and writes by this call alone.
    unsafe {
        change(edit, |mut taken, edit| {
            if let Stage::Published(_) = taken.object().stage {
                return Err(Failure::argument("the edit is published"));
            }
            let mut object = taken.end();
            if let Stage::Editing(guard) = std::mem::replace(&mut object.stage, Stage::Over) {
                guard.cancel();
            }
            (edit.data, edit.size, edit.opaque) = (ptr::null_mut(), 0, 0);
            Ok(())
        })
    }
}

/// # Safety
///
/// (a) `edit` is null, misaligned, or valid for reads and writes by this call alone.
unsafe fn change(
    edit: *mut pw_edit,
    work: impl FnOnce(TakenEdit, &mut pw_edit) -> Result<()>,
) -> c_int {
    // SAFETY: (a).
    let edit = unsafe { structure(edit) };
    let handle = edit.as_ref().map_or(0, |edit| edit.opaque);
    call_with::<Edit>(handle, || {
        let edit = edit?;
        work(taken(edit)?, edit)
    })
}

type TakenEdit = Taken<Edit>;
