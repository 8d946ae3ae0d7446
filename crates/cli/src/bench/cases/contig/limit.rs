//! The limit: what every way to free a range frame by frame has to do at the least.

use std::sync::atomic::{AtomicU32, Ordering};

/// As large as the record of a frame in the pool, with the count at its beginning too.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Record {
    count: AtomicU32,
}

/// The records of contiguous frames.
pub(super) struct Records(Vec<Record>);

impl Records {
    pub(super) fn new(nr: usize) -> Records {
        Records((0..nr).map(|_| Record::default()).collect())
    }

    /// Gives each frame of a range one reference: a plain store, as publishing it is.
    #[inline(always)]
    pub(super) fn publish(&self, first: usize, nr: usize) {
        for record in &self.0[first..first + nr] {
            // ORDERING: Relaxed; a plain store on every machine, and there is nothing to publish.
            record.count.store(1, Ordering::Relaxed);
        }
    }

    /// Drops each frame's reference; the error says that one was not the last.
    #[inline(always)]
    pub(super) fn put(&self, first: usize, nr: usize) -> Result<(), String> {
        let mut nr_last = 0;
        for record in &self.0[first..first + nr] {
            // ORDERING: Release, as a put; there is nothing to publish.
            nr_last += usize::from(record.count.fetch_sub(1, Ordering::Release) == 1);
        }
        if nr_last == nr {
            Ok(())
        } else {
            Err(format!("{} references were not the last", nr - nr_last))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_published_frames_have_a_last_reference() {
        let records = Records::new(8);
        records.publish(1, 7);
        assert_eq!(records.put(1, 7), Ok(()));
        assert!(records.put(0, 8).is_err());
    }

    #[test]
    fn records_are_as_far_apart_as_those_of_the_pool() {
        type Meta = pagewell_frame::FrameMeta;
        assert_eq!(size_of::<Record>(), size_of::<Meta>());
        assert_eq!(align_of::<Record>(), align_of::<Meta>());
    }
}
