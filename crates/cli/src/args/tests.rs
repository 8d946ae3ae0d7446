//! What of a command line is understood, and what is bad usage.

use std::time::Duration;

use clap::error::ErrorKind;

use super::*;
use crate::bench::Bench;

fn settings(line: &str) -> Result<Settings, ErrorKind> {
    let words = std::iter::once("pagewell").chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).map_err(|error| error.kind())?;
    match task(cli).map_err(|error| error.kind())? {
        Task::Bench(settings) => Ok(*settings),
        other => panic!("not a benchmark: {other:?}"),
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn the_bare_command_is_the_screen() {
    let screen = |line: &str| {
        let words = std::iter::once("pagewell").chain(line.split_whitespace());
        match task(Cli::try_parse_from(words).unwrap()).unwrap() {
            Task::Screen(format, seconds) => (format, seconds),
            other => panic!("not the screen: {other:?}"),
        }
    };
    assert_eq!(screen(""), (Format::Table, None));
    let second = Some(Duration::from_secs(1));
    assert_eq!(screen("--format json --seconds 1"), (Format::Json, second));
    assert!(settings("--format json bench read").is_err());
}

#[test]
fn the_quick_run_of_everything_is_the_default_of_quick() {
    let quick = format!("{:?}", Settings::quick());
    let spelled = format!("{:?}", settings("bench all --quick").unwrap());
    assert_eq!(quick, spelled);
}

#[test]
fn lists_are_split_and_lose_their_repeats() {
    let settings = settings("bench read --threads 2,1,2 --block 64,4K,64").unwrap();
    assert_eq!(settings.threads, [2, 1]);
    assert_eq!(settings.blocks, [64, 4096]);
    assert!(settings.asks_for(Bench::Read) && !settings.asks_for(Bench::Refcount));
}

#[test]
fn a_case_selects_its_benchmark() {
    let settings = settings("bench --case own-count,order-9").unwrap();
    let asked: Vec<Bench> = Bench::ALL
        .into_iter()
        .filter(|bench| settings.asks_for(*bench))
        .collect();
    assert_eq!(asked, [Bench::Refcount, Bench::Contig]);
}

#[test]
fn the_published_number_of_times_is_done_in_the_full_run_only() {
    let least = |line: &str| settings(line).unwrap().least_repeats(15);
    assert!(least("bench contig") * 15 >= 100_000);
    assert_eq!(least("bench contig --quick"), 1);
    assert_eq!(least("bench contig --seconds 0.1"), 1);
}

#[test]
fn values_that_make_no_sense_are_bad_usage() {
    for line in [
        "bench --threads 0",
        "bench --threads 1,,2",
        "bench --threads 5000",
        "bench --seconds 0",
        "bench --seconds -1",
        "bench --seconds nan",
        "bench --seconds inf",
        "bench --rounds 0",
        "bench read --page-size 5000",
        "bench read --page-size 2K",
        "bench read --page-size 128K",
        "bench read --capacity 0",
        "bench read --capacity 99999999T",
        "bench read --block 0",
        "bench read --size 0",
        "bench read --huge-pages maybe",
        "bench read --file x --size 4K",
        "bench read --file x --dir y",
        "bench read --file /",
        "bench read --file x --case diff-hot",
        "bench read --block 64K --size 4K,16K",
        "bench read --case one-count",
        "bench refcount --case same-hot",
        "bench refcount --file x",
        "bench refcount --capacity 1G",
        "bench contig --block 4K",
        "bench contig --copy avx",
        "bench read --copy avx1024",
        "bench contig --case order-0-private",
        "bench contig --case order-8",
        "bench alloc --case lengths",
        "bench alloc --page-size 4K",
        "bench write --file x",
        "bench write --case same-hot",
        "bench read --case writeback",
        "bench alloc --case append",
        "bench read --case lengths",
        "bench --format xml",
    ] {
        assert!(settings(line).is_err(), "{line}");
    }
}
