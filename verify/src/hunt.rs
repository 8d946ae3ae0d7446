//! All mutants together, and the report.
//!
//! 1. Every mutant must apply to the sources, or nothing is built.
//! 2. Every test that a mutant names runs once on the sources as they are. It must pass, and it must
//!    be a test: arguments that select none would let every mutant survive, or none.
//! 3. Each mutant alone is applied to the scratch tree, built, and tested. It must build, and its
//!    test must then fail; afterwards the file is as it was.
//!
//! Several jobs take tests and mutants in turns, each with a tree and build artefacts of its own, so that one compiles
//! while another tests.
//!
//! The output of each cargo run is kept in the scratch folder, in `JOB/logs`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::mutant::{self, Build, Hang, Mutant, Target};
use crate::tree::Tree;
use crate::{Ended, Trouble};

/// How often a running test is looked at.
const POLL: Duration = Duration::from_millis(20);

/// The folder, from the root, of the workspace that has the crates with loom's atomics.
const MODELS: &str = "models";

/// What to run, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The root of the workspace.
    pub root: PathBuf,
    /// The folder with the mutant files.
    pub mutants: PathBuf,
    /// The folder for the scratch tree, its build artefacts and the logs.
    pub scratch: PathBuf,
    /// The names of the mutants to run; all if empty.
    pub names: Vec<String>,
    /// How far to go.
    pub depth: Depth,
    /// How many jobs at once.
    pub jobs: usize,
    /// Which of the chosen ones.
    pub part: Part,
}

/// Number `nr` of `of` parts of about the same size: every `of`-th mutant, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// From 1 on.
    pub nr: usize,
    /// At least 1.
    pub of: usize,
}

impl Part {
    /// All of them.
    pub const ALL: Self = Self { nr: 1, of: 1 };

    /// Reads `NR/OF`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (nr, of) = text.split_once('/')?;
        let (nr, of) = (nr.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&nr).then_some(Self { nr, of })
    }
}

/// How far a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only to the check that every mutant applies.
    Apply,
    /// All the way.
    Test,
}

/// How one mutant went.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// Its test noticed it.
    Caught,
    /// Its test did not.
    Survived(String),
    /// Nothing was learned: the mutant or its test is not as it should be.
    Unusable(String),
}

/// How a run of cargo ended.
#[must_use]
enum CargoEnd {
    Exited(ExitStatus),
    TimedOut,
}

/// Runs the mutants and writes the report to `out`, a line for each test and each mutant.
///
/// # Errors
///
/// If a name selects no mutant, or a file, git or cargo fails in a way that is no mutant's doing.
pub fn run(options: &Options, out: &mut (dyn Write + Send)) -> Result<Ended, Trouble> {
    // Phase 1: the files, and whether they apply.
    let (mutants, mut problems) = mutant::read_folder(&options.mutants)?;
    if let Some(name) = options
        .names
        .iter()
        .find(|n| !mutants.iter().any(|m| m.name == **n))
    {
        let unreadable = problems
            .iter()
            .find(|p| p.starts_with(&format!("{name}.mutant:")));
        return Err(match unreadable {
            Some(problem) => Trouble::Broken(problem.clone()),
            None => Trouble::Usage(format!("there is no mutant `{name}`")),
        });
    }
    let chosen: Vec<Mutant> = mutants
        .into_iter()
        .filter(|m| options.names.is_empty() || options.names.contains(&m.name))
        .collect();
    // All of them must apply, also those of other parts.
    problems.extend(mutant::check_all_apply(&options.root, &chosen));
    if !problems.is_empty() {
        for problem in &problems {
            say(out, format!("BAD       {problem}"))?;
        }
        say(
            out,
            format!("{} bad mutant files; nothing was run", problems.len()),
        )?;
        return Ok(Ended::Failed);
    }
    if options.depth == Depth::Apply {
        say(out, format!("{} mutants apply", chosen.len()))?;
        return Ok(Ended::Well);
    }
    let chosen: Vec<Mutant> = chosen
        .into_iter()
        .skip(options.part.nr - 1)
        .step_by(options.part.of)
        .collect();
    // Phase 2: the tests as they are. The limit of a test is the longest of its mutants'.
    let jobs = (0..options.jobs.max(1)).map(|nr| Scratch::open(options, nr));
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let out = Mutex::new(out);
    let mut limits: BTreeMap<&Target, Duration> = BTreeMap::new();
    for mutant in &chosen {
        let limit = limits.entry(&mutant.target).or_default();
        *limit = mutant.limit.max(*limit);
    }
    let targets: Vec<(&Target, Duration)> = limits.into_iter().collect();
    let usable = in_turns(&jobs, targets.len(), |scratch, nr| {
        let (target, limit) = targets[nr];
        let started = Instant::now();
        let problem = scratch.unmutated(target, limit, &format!("unmutated-{nr}"))?;
        let took = started.elapsed().as_secs_f32();
        let args = target.args.join(" ");
        let line = match &problem {
            None => format!("passes    {took:6.1} s  cargo test {args}"),
            Some(why) => format!("UNUSABLE  {took:6.1} s  cargo test {args}: {why}"),
        };
        say(&mut **lock(&out), line)?;
        Ok((target, problem.is_none()))
    })?;
    let usable: BTreeMap<&Target, bool> = usable.into_iter().collect();
    // Phase 3: the mutants.
    let verdicts = in_turns(&jobs, chosen.len(), |scratch, nr| {
        let mutant = &chosen[nr];
        let started = Instant::now();
        let verdict = if usable[&mutant.target] {
            scratch.judge(mutant)?
        } else {
            Verdict::Unusable("its test does not pass without it".to_owned())
        };
        let took = started.elapsed().as_secs_f32();
        let name = &mutant.name;
        let line = match &verdict {
            Verdict::Caught => format!("caught    {took:6.1} s  {name}"),
            Verdict::Survived(how) => {
                format!("SURVIVED  {took:6.1} s  {name}: {how}; {}", mutant.why)
            }
            Verdict::Unusable(why) => format!("UNUSABLE  {took:6.1} s  {name}: {why}"),
        };
        say(&mut **lock(&out), line)?;
        Ok(verdict)
    })?;
    let nr_of = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
    let nr_caught = nr_of(|verdict| matches!(verdict, Verdict::Caught));
    let nr_survived = nr_of(|verdict| matches!(verdict, Verdict::Survived(_)));
    let nr_unusable = chosen.len() - nr_caught - nr_survived;
    say(
        &mut **lock(&out),
        format!("{nr_caught} mutants caught, {nr_survived} survived, {nr_unusable} unusable"),
    )?;
    Ok(if nr_caught == chosen.len() {
        Ended::Well
    } else {
        Ended::Failed
    })
}

/// Writes a line of the report.
fn say(out: &mut dyn Write, line: String) -> Result<(), String> {
    writeln!(out, "{line}").map_err(|e| format!("cannot write the report: {e}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the jobs do `work` for all numbers below `nr`, each number once; the outcomes in the order of the numbers.
fn in_turns<T: Send>(
    jobs: &[Scratch],
    nr: usize,
    work: impl Fn(&Scratch, usize) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for job in jobs {
            scope.spawn(|| {
                loop {
                    // ORDERING: Relaxed; only that each number is given once matters.
                    let nr_now = next.fetch_add(1, Ordering::Relaxed);
                    if nr_now >= nr {
                        break;
                    }
                    let outcome = work(job, nr_now);
                    lock(&outcomes).push((nr_now, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(nr, _)| *nr);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// A job's folder: the tree, its build artefacts, the logs.
struct Scratch {
    tree: Tree,
    artefacts: PathBuf,
    logs: PathBuf,
}

impl Scratch {
    fn open(options: &Options, nr: usize) -> Result<Self, String> {
        let folder = options.scratch.join(nr.to_string());
        let tree = Tree::refresh(&options.root, &folder)?;
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).map_err(|e| format!("cannot create {}: {e}", logs.display()))?;
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        Ok(Self {
            tree,
            // Cargo runs in the tree, so a relative path would mean something else to it.
            artefacts: absolute(folder.join("target"))?,
            logs,
        })
    }

    /// Runs a test on the tree as it is. Returns why it cannot show anything about a mutant, if so.
    fn unmutated(
        &self,
        target: &Target,
        limit: Duration,
        log: &str,
    ) -> Result<Option<String>, String> {
        let log = self.logs.join(format!("{log}.log"));
        if !self.builds(target, &log)? {
            return Ok(Some(format!("it does not build, see {}", log.display())));
        }
        Ok(match self.cargo(target, &[], Some(limit), &log)? {
            CargoEnd::TimedOut => Some(format!("it does not end within {} s", limit.as_secs())),
            CargoEnd::Exited(status) if !status.success() => {
                Some(format!("it fails, see {}", log.display()))
            }
            CargoEnd::Exited(_) => {
                let text = fs::read_to_string(&log)
                    .map_err(|e| format!("cannot read {}: {e}", log.display()))?;
                (nr_tests_run(&text) == 0).then(|| "it selects no test".to_owned())
            }
        })
    }

    /// Applies a mutant, runs its test, and puts the file back.
    fn judge(&self, mutant: &Mutant) -> Result<Verdict, String> {
        let source = self.tree.read(&mutant.file)?;
        let broken = match mutant.apply(&source) {
            Ok(broken) => broken,
            Err(why) => return Ok(Verdict::Unusable(why)),
        };
        self.tree.write(&mutant.file, &broken)?;
        let verdict = self.judge_applied(mutant);
        self.tree.write(&mutant.file, &source)?;
        verdict
    }

    fn judge_applied(&self, mutant: &Mutant) -> Result<Verdict, String> {
        let log = self.logs.join(format!("{}.log", mutant.name));
        if !self.builds(&mutant.target, &log)? {
            return Ok(Verdict::Unusable(format!(
                "it does not build, see {}",
                log.display()
            )));
        }
        Ok(
            match self.cargo(&mutant.target, &[], Some(mutant.limit), &log)? {
                CargoEnd::Exited(status) if status.success() => {
                    Verdict::Survived("the test passes".to_owned())
                }
                CargoEnd::Exited(_) => Verdict::Caught,
                CargoEnd::TimedOut if mutant.hang == Hang::Counts => Verdict::Caught,
                CargoEnd::TimedOut => Verdict::Survived(format!(
                    "the test did not end within {} s",
                    mutant.limit.as_secs()
                )),
            },
        )
    }

    /// Builds the test without running it. Building has no limit of time.
    fn builds(&self, target: &Target, log: &Path) -> Result<bool, String> {
        match self.cargo(target, &["--no-run"], None, log)? {
            CargoEnd::Exited(status) => Ok(status.success()),
            CargoEnd::TimedOut => Ok(false),
        }
    }

    /// Runs `cargo test` in the tree, with its output in the file `log`.
    fn cargo(
        &self,
        target: &Target,
        extra: &[&str],
        limit: Option<Duration>,
        log: &Path,
    ) -> Result<CargoEnd, String> {
        let show = |e: std::io::Error| format!("cannot write {}: {e}", log.display());
        let stdout = File::create(log).map_err(show)?;
        let stderr = stdout.try_clone().map_err(show)?;
        // Inside `cargo run`, `CARGO` is the cargo that runs us.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .arg("test")
            .current_dir(self.tree.root())
            .env("CARGO_TARGET_DIR", &self.artefacts)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            // A group of its own, so that the tests can be ended together with their cargo.
            .process_group(0);
        if target.build == Build::Loom {
            let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
            flags.push_str(" --cfg loom");
            command
                .current_dir(self.tree.root().join(MODELS))
                .env("RUSTFLAGS", flags.trim())
                .args(["--profile", "loom"]);
        }
        if let Some(n) = target.preemptions {
            command.env("LOOM_MAX_PREEMPTIONS", n.to_string());
        }
        let child = command
            .args(extra)
            .args(&target.args)
            .spawn()
            .map_err(|e| format!("cannot run cargo: {e}"))?;
        wait(child, limit)
    }
}

/// Waits for the leader of a process group, and ends the whole group at the limit.
fn wait(mut child: Child, limit: Option<Duration>) -> Result<CargoEnd, String> {
    let show = |e: std::io::Error| format!("cannot wait for cargo: {e}");
    let Some(limit) = limit else {
        return child.wait().map(CargoEnd::Exited).map_err(show);
    };
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(show)? {
            return Ok(CargoEnd::Exited(status));
        }
        if started.elapsed() >= limit {
            break;
        }
        thread::sleep(POLL);
    }
    // The standard library can end one process only; the tests are children of cargo.
    let group = format!("-{}", child.id());
    let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
    if !killed.is_ok_and(|status| status.success()) {
        child.kill().map_err(|e| format!("cannot end cargo: {e}"))?;
    }
    child.wait().map_err(show)?;
    Ok(CargoEnd::TimedOut)
}

/// How many tests a run of `cargo test` has run, by the `running N tests` lines of its output.
fn nr_tests_run(output: &str) -> u64 {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("running ")?.split_once(" test"))
        .filter_map(|(n, _)| n.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted() {
        let text = "running 0 tests\n\ntest result: ok.\nrunning 1 test\nrunning 12 tests\n";
        assert_eq!(nr_tests_run(text), 13);
        assert_eq!(nr_tests_run("running out of paper\n"), 0);
    }

    #[test]
    fn hanging_group_is_ended() {
        let child = Command::new("sh")
            .args(["-c", "sleep 600 & wait"])
            .process_group(0)
            .spawn()
            .expect("a shell");
        let started = Instant::now();
        let end = wait(child, Some(Duration::from_millis(50)));
        assert!(matches!(end, Ok(CargoEnd::TimedOut)));
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
