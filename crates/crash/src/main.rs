//! `pagewell-simulator`: runs of the simulator, from a seed on.
//!
//! `cargo run --release -p pagewell-crash --features simulator -- --seed N` runs one seed. It ends with exit code 0, or with 1 and the steps of the first that fails, or with 3
//! if the threads of one wait for each other.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pagewell_crash::simulator::{self, Tally};
use pagewell_sync_testing::Draw;

struct Args {
    seed: u64,
    runs: u64,
    seconds: Option<Duration>,
    /// Every seed twice, to see that it has one run.
    twice: bool,
    /// How threads are drawn. Without it, the seed decides.
    draw: Option<Draw>,
    /// How many of the last steps of a failure are told.
    steps: usize,
}

fn parse() -> Result<Args, String> {
    let mut args = Args {
        seed: 0,
        runs: 1,
        seconds: None,
        twice: false,
        draw: None,
        steps: 40,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--draw" {
            args.draw = Some(match words.next().as_deref() {
                Some("uniform") => Draw::Uniform,
                Some("priorities") => Draw::Priorities,
                _ => return Err("--draw wants uniform or priorities".into()),
            });
            continue;
        }
        let mut number = || -> Result<u64, String> {
            let text = words.next().ok_or(format!("{word} wants a number"))?;
            text.parse().map_err(|_| format!("{text} is no number"))
        };
        match word.as_str() {
            "--seed" => args.seed = number()?,
            "--runs" => args.runs = number()?,
            "--seconds" => {
                args.seconds = Some(Duration::from_secs(number()?));
                args.runs = u64::MAX;
            }
            "--steps" => args.steps = usize::try_from(number()?).unwrap_or(usize::MAX),
            "--twice" => args.twice = true,
            _ => {
                return Err(format!(
                    "{word}: there are --seed N, --runs N, --seconds S, --draw DRAW, --steps N and --twice"
                ));
            }
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(why) => {
            eprintln!("pagewell-simulator: {why}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let (mut sum, mut nr_runs) = (Tally::default(), 0);
    while nr_runs < args.runs && args.seconds.is_none_or(|most| start.elapsed() < most) {
        let seed = args.seed.wrapping_add(nr_runs);
        let tally = match simulator::run(seed, args.draw) {
            Ok(tally) => tally,
            Err(failure) => {
                let from = failure.steps.len().saturating_sub(args.steps);
                for (nr, step) in failure.steps.iter().enumerate().skip(from) {
                    eprintln!("{nr:5} {step}");
                }
                eprintln!("{}", failure.plan);
                eprintln!(
                    "seed {seed}: {}; to replay: cargo run --release -p pagewell-crash --features \
                     simulator -- --seed {seed}{}",
                    failure.why,
                    match args.draw {
                        None => "",
                        Some(Draw::Uniform) => " --draw uniform",
                        Some(Draw::Priorities) => " --draw priorities",
                    }
                );
                return ExitCode::FAILURE;
            }
        };
        if args.twice {
            let again = simulator::run(seed, args.draw);
            if !again.as_ref().is_ok_and(|again| *again == tally) {
                eprintln!("seed {seed}: the second run is another one: {tally:?}, {again:?}");
                return ExitCode::FAILURE;
            }
        }
        sum += tally;
        nr_runs += 1;
    }
    println!(
        "{nr_runs} seeds from {}, {:.1} s: {sum:?}",
        args.seed,
        start.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
