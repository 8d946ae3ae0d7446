//! Lock-free notes about fills and page moves, for the policy.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::words::{Ghost, Note};

/// A word for each frame, with the last event in the frame that the policy has not processed. A
/// late or lost note costs the page only its queue position. Notes for unknown frames are dropped.
#[derive(Debug)]
pub struct Notes(Box<[AtomicU32]>);

impl Notes {
    /// Creates the notes of frames `0..nr_frames`.
    #[must_use]
    pub fn new(nr_frames: usize) -> Self {
        Self((0..nr_frames).map(|_| AtomicU32::new(0)).collect())
    }

    /// Records that a page, whose slot held `ghost`, was filled into `frame`. The page must be
    /// resident, since the policy may query it immediately.
    pub fn arrived(&self, frame: u32, ghost: Option<Ghost>) {
        self.note(frame, Note::Arrived(ghost));
    }

    /// Records that the page in `from` has moved to `to`, with its queue position. The caller makes
    /// this call before `from` can be filled again.
    pub fn moved(&self, from: u32, to: u32) {
        let Some(word) = self.0.get(from as usize) else {
            return;
        };
        // The note moves with the page, unless the policy takes it: the swap decides.
        // ORDERING: Relaxed, as in `note`.
        let unread = match word.load(Ordering::Relaxed) {
            0 => 0,
            _ => word.swap(0, Ordering::Relaxed),
        };
        let note = match Note::from_bits(unread) {
            Note::Nothing => Note::MovedFrom(from),
            // The page is back in the frame in which the policy recorded it.
            Note::MovedFrom(home) if home == to => Note::Nothing,
            unread => unread,
        };
        self.note(to, note);
    }

    fn note(&self, frame: u32, note: Note) {
        if let Some(word) = self.0.get(frame as usize) {
            // ORDERING: Relaxed; a note publishes no other memory. The policy queries the cache
            // about the page before it acts, and examines a frame again if it missed the note.
            word.store(note.bits(), Ordering::Relaxed);
        }
    }

    pub(crate) fn take(&self, frame: u32) -> Note {
        let Some(word) = self.0.get(frame as usize) else {
            return Note::Nothing;
        };
        // ORDERING: Relaxed, as in `note`.
        match word.load(Ordering::Relaxed) {
            0 => Note::Nothing,
            _ => Note::from_bits(word.swap(0, Ordering::Relaxed)),
        }
    }

    /// Restores a taken note, unless the frame has a newer one.
    pub(crate) fn put_back(&self, frame: u32, note: Note) {
        if let Some(word) = self.0.get(frame as usize) {
            let (old, new) = (0, note.bits());
            // ORDERING: Relaxed, as in `note`.
            let _ = word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Prefetches the word of a frame. The result has no meaning.
    pub(crate) fn touch(&self, frame: u32) -> u32 {
        let word = self.0.get(frame as usize);
        // ORDERING: Relaxed; no decision depends on the value.
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_taken_once() {
        let notes = Notes::new(4);
        notes.arrived(1, None);
        assert_eq!(notes.take(1), Note::Arrived(None));
        assert_eq!(notes.take(1), Note::Nothing);
        assert_eq!(notes.take(0), Note::Nothing);
    }

    #[test]
    fn a_note_that_was_not_read_moves_with_its_page() {
        let notes = Notes::new(4);
        let ghost = Some(Ghost::from_bits(77));
        notes.arrived(0, ghost);
        notes.moved(0, 1);
        notes.moved(1, 3);
        assert_eq!(notes.take(3), Note::Arrived(ghost));
        notes.moved(3, 2);
        notes.moved(2, 0);
        assert_eq!(notes.take(0), Note::MovedFrom(3));
        assert_eq!([1, 2, 3].map(|frame| notes.take(frame)), [Note::Nothing; 3]);
    }

    #[test]
    fn a_page_that_moves_there_and_back_has_not_moved() {
        let notes = Notes::new(4);
        notes.moved(0, 1);
        notes.moved(1, 2);
        notes.moved(2, 0);
        assert_eq!([0, 1, 2].map(|frame| notes.take(frame)), [Note::Nothing; 3]);
    }

    #[test]
    fn frames_that_do_not_exist_are_nobodys() {
        let notes = Notes::new(4);
        notes.arrived(4, None);
        notes.moved(9, 1);
        notes.moved(1, 9);
        assert_eq!(notes.take(4), Note::Nothing);
        assert_eq!(notes.take(1), Note::Nothing);
    }
}
