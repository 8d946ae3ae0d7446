//! Results of requests, and the ways to submit them.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use pagewell_io::engine::{Engine, Job};

/// Where results go: each at its number, at most once.
#[derive(Clone, Default)]
pub(crate) struct Results(Arc<(Mutex<List>, Condvar)>);

type List = Vec<Option<io::Result<usize>>>;

impl Results {
    pub(crate) fn of(nr: usize) -> Self {
        let results = Self::default();
        results.0.0.lock().unwrap().resize_with(nr, || None);
        results
    }

    pub(crate) fn note(
        &self,
        number: usize,
    ) -> impl FnOnce(io::Result<usize>) + Send + 'static + use<> {
        let results = self.clone();
        move |result| {
            let mut list = results.0.0.lock().unwrap();
            assert!(list[number].replace(result).is_none(), "twice: {number}");
            drop(list);
            results.0.1.notify_all();
        }
    }

    pub(crate) fn nr_done(&self) -> usize {
        let list = self.0.0.lock().unwrap();
        list.iter().filter(|result| result.is_some()).count()
    }

    /// Waits for all.
    pub(crate) fn all(&self) -> Vec<io::Result<usize>> {
        let (results, limit) = (self.clone(), pagewell_testkit::wait::limit());
        let (mut list, timeout) = results
            .0
            .1
            .wait_timeout_while(self.0.0.lock().unwrap(), limit, |list| {
                list.iter().any(Option::is_none)
            })
            .unwrap();
        assert!(!timeout.timed_out(), "not all are completed");
        list.drain(..).flatten().collect()
    }
}

/// The ways in which requests are given and waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Submit,
    SubmitAll,
    Run,
    Lane,
}

pub(crate) const WAYS: [Way; 4] = [Way::Submit, Way::SubmitAll, Way::Run, Way::Lane];

/// Has `engine` do these for `storage`, in some way, and waits for them.
pub(crate) fn perform(
    engine: &dyn Engine,
    way: Way,
    jobs: Vec<Job>,
    results: &Results,
) -> Vec<io::Result<usize>> {
    let mut jobs = jobs;
    match way {
        Way::Submit => jobs.drain(..).for_each(|job| engine.submit(job)),
        Way::SubmitAll => engine.submit_all(&mut jobs),
        Way::Run => engine.run(&mut jobs),
        Way::Lane => {
            let mut lane = engine.lane();
            let nr = jobs.len();
            let mut nr_done = 0;
            for job in jobs.drain(..) {
                lane.submit(job);
                if lane.nr_in_flight() == 40 {
                    nr_done += lane.wait(1);
                }
            }
            while nr_done < nr {
                let nr_new = lane.wait(3);
                assert!(nr_new >= 3.min(nr - nr_done));
                nr_done += nr_new;
            }
            assert_eq!((nr_done, lane.nr_in_flight(), lane.wait(9)), (nr, 0, 0));
        }
    }
    assert!(jobs.is_empty());
    if matches!(way, Way::Run | Way::Lane) {
        assert_eq!(results.nr_done(), results.0.0.lock().unwrap().len());
    }
    results.all()
}
