//! Runs the mutants; `verify/README.md` says how.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use pagewell_verify::{Ended, Trouble, hunt, verify_folder};

const USAGE: &str = "\
usage: pagewell-verify mutants [--scratch DIR] [--jobs N] [--part NR/OF] [--check] [NAME...]

mutants  breaks the code in one place after the other; a test must notice each time
  --scratch DIR  where the mutants are built (default: target/mutants)
  --jobs N       how many mutants at a time, each with a build of its own (default: one a CPU)
  --part NR/OF   only every OF-th, from number NR on (all must apply)
  --check        only checks that the mutants apply to the code

NAME selects mutants by name.
Exit code: 0 well, 1 failed, 2 bad usage.
";

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Failed) => ExitCode::from(1),
        Err(Trouble::Broken(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(1)
        }
        Err(Trouble::Usage(message)) => {
            eprintln!("error: {message}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(args: Vec<OsString>) -> Result<Ended, Trouble> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{USAGE}");
        return Ok(Ended::Well);
    }
    let mut args = args.into_iter();
    match args.next().as_deref().and_then(|arg| arg.to_str()) {
        Some("mutants") => mutants(args),
        Some("help") => {
            print!("{USAGE}");
            Ok(Ended::Well)
        }
        Some(other) => Err(Trouble::Usage(format!("`{other}` is not a command"))),
        None => Err(Trouble::Usage("no command".to_owned())),
    }
}

fn mutants(mut args: impl Iterator<Item = OsString>) -> Result<Ended, Trouble> {
    let mut scratch = None;
    let mut depth = hunt::Depth::Test;
    let mut part = hunt::Part::ALL;
    let mut jobs = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut names = Vec::new();
    while let Some(arg) = args.next() {
        match text(&arg)? {
            "--scratch" => scratch = Some(PathBuf::from(value("--scratch", &mut args)?)),
            "--check" => depth = hunt::Depth::Apply,
            "--part" => {
                let text = value("--part", &mut args)?;
                part = text.to_str().and_then(hunt::Part::parse).ok_or_else(|| {
                    Trouble::Usage("--part needs NR/OF, with NR from 1 to OF".into())
                })?;
            }
            "--jobs" => {
                let n = value("--jobs", &mut args)?;
                let n = n.to_str().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                jobs = n.ok_or_else(|| Trouble::Usage("--jobs needs a number above 0".into()))?;
            }
            name => names.push(plain_name(name)?),
        }
    }
    let folder = verify_folder()?;
    let root = folder.parent().unwrap_or(&folder).to_owned();
    let options = hunt::Options {
        mutants: folder.join("mutants"),
        scratch: scratch.unwrap_or_else(|| root.join("target").join("mutants")),
        root,
        names,
        depth,
        jobs,
        part,
    };
    hunt::run(&options, &mut std::io::stdout())
}

fn text(arg: &OsString) -> Result<&str, Trouble> {
    arg.to_str()
        .ok_or_else(|| Trouble::Usage(format!("{} is not text", arg.display())))
}

fn value(option: &str, args: &mut impl Iterator<Item = OsString>) -> Result<OsString, Trouble> {
    args.next()
        .ok_or_else(|| Trouble::Usage(format!("{option} needs a value")))
}

fn plain_name(arg: &str) -> Result<String, Trouble> {
    if arg.starts_with('-') {
        return Err(Trouble::Usage(format!("`{arg}` is not an option")));
    }
    Ok(arg.to_owned())
}
