//! The progress bar: on standard error, if that is a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Tells what is going on; silent in a pipe, except for notes.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// What the finished cells took of the planned time.
    done: Duration,
}

impl Progress {
    /// A bar for a run whose measuring takes `total`.
    pub(crate) fn new(total: Duration) -> Progress {
        Progress::of_steps(to_ms(total))
    }

    /// A bar for a run of so many steps that take about as long as each other.
    pub(crate) fn of_steps(total: u64) -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(5);
            let bar = ProgressBar::with_draw_target(Some(total), target);
            if let Ok(style) =
                ProgressStyle::with_template("[{bar:24}] {percent:>3} %  {eta:>3} left  {msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Progress {
            bar,
            done: Duration::ZERO,
        }
    }

    /// Says what is being done.
    pub(crate) fn say(&self, what: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(what);
        }
    }

    /// So many steps are done.
    pub(crate) fn step_to(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// So much of the present cell is done.
    pub(crate) fn within_cell(&self, measured: Duration) {
        self.step_to(to_ms(self.done + measured));
    }

    /// The present cell is done.
    pub(crate) fn finish_cell(&mut self, duration: Duration) {
        self.done += duration;
        self.within_cell(Duration::ZERO);
    }

    /// Tells the user something on standard error.
    pub(crate) fn note(&self, text: &str) {
        self.aside(|| output::complain(&format!("note: {text}")));
    }

    /// Takes the bar away while `print` writes to the terminal.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
