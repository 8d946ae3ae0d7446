//! What each worker of a crew does, thread or process.

use super::gate::{Abandoned, Gate};
use super::lane::{Lane, Span, Tally};
use super::schedule::Schedule;
use crate::machine;

/// Why a worker stopped before the end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// An operation went wrong here.
    Failed(String),
    /// Another worker has stopped.
    Abandoned,
}

impl From<Abandoned> for Stopped {
    fn from(_: Abandoned) -> Stopped {
        Stopped::Abandoned
    }
}

/// What a worker knows of its crew.
pub(super) struct Worker<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) gate: &'a Gate,
    pub(super) crew: u32,
    pub(super) cpu: Option<usize>,
}

impl Worker<'_> {
    /// Runs the whole schedule and hands each tally to `record`.
    pub(super) fn work(
        &self,
        lanes: &mut [Box<dyn Lane + '_>],
        mut record: impl FnMut(usize, Tally),
    ) -> Result<(), Stopped> {
        // Leaves the gate open for the others, however this function ends.
        let watch = self.gate.watch();
        if let Some(cpu) = self.cpu {
            // Unpinned workers are slower or noisier, but no less right.
            machine::pin_current_thread(cpu);
        }
        for (number, step) in self.schedule.steps().enumerate() {
            let span = Span {
                start_ns: self.gate.meet(self.crew)?,
                warm_ns: self.schedule.warm_ns,
                slice_ns: self.schedule.slice_ns,
            };
            let lane = &mut lanes[step.lane as usize];
            record(number, lane.run(&span).map_err(Stopped::Failed)?);
        }
        watch.all_is_well();
        Ok(())
    }
}
