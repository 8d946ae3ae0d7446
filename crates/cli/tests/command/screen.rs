//! `pagewell` without a command.

use super::{Finished, pagewell, run};

/// Runs it for a moment, without fio.
fn screen(arguments: &str) -> Finished {
    run(pagewell(&format!("--seconds 0.01 {arguments}")).env("PATH", "")).succeeded()
}

#[test]
fn the_bare_command_prints_one_screen() {
    let finished = screen("");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines.len() <= 45, "{finished:?}");
    for line in &lines {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
    for start in [
        "pagewell ",
        "Linux ",
        "read 64 B, one cached page ",
        "  pread ",
        "  memcpy from mmap ",
        "read 64 B, random in ",
        "pin one page, ",
        "write 64 B, random in ",
        "write 4 KiB and sync, 64 threads ",
        "read 4 KiB from the device ",
        "the same, 64 reads in flight ",
        "snapshot of ",
        "migrate a page beside ",
        "free 2 MiB ",
        "hit ratio, ",
        "Details: cargo run --release -- bench all",
    ] {
        let is_there = lines.iter().any(|line| line.starts_with(start));
        assert!(is_there, "no {start:?} in {finished:?}");
    }
    assert!(!finished.stdout.contains("left out"), "{finished:?}");
}

#[test]
fn its_figures_are_those_of_cells_as_json_lines() {
    let finished = screen("--format json");
    for (field, value) in [
        ("case", "same-hot"),
        ("case", "commit-threads-64"),
        ("case", "order-9"),
        ("bench", "hit-ratio"),
        ("ratio", "optimistic/pread"),
    ] {
        let text = format!("\"{field}\":\"{value}\"");
        assert!(finished.stdout.contains(&text), "no {text} in {finished:?}");
    }
    assert!(finished.stdout.lines().all(|line| line.starts_with('{')));
}
