//! Stores that answer like real ones: the wrapper over the clients of `object_store`, for each
//! dialect of the fake server and each operation.
//!
//! `cargo test --test dialects -- --nocapture` prints the matrix.

mod bench;
mod lists;
mod operations;
mod server;
mod table;

use std::fmt::Write as _;
use std::time::Duration;

use operations::Operation::{self, NoMixture, SameSecondMixture};
use table::DIALECTS;

/// Smallest page.
const PAGE: usize = 4096;

/// Cells of the matrix that fail: a cause, the dialects and the operations. Each of these cells
/// must fail, so that a corrected one is removed.
const KNOWN: &[(&str, &[&str], &[Operation])] = &[
    // Pages of two states that no validator tells apart are combined.
    ("mixture", &["HTTP: dates only"], &[SameSecondMixture]),
    (
        "mixture",
        &["HTTP: no validators"],
        &[NoMixture, SameSecondMixture],
    ),
];

/// Bytes that differ from place to place and from seed to seed.
fn content(len: usize, seed: u8) -> Vec<u8> {
    let byte = |nr: usize| (nr / 7) as u8 ^ (nr % 251) as u8 ^ seed;
    (0..len).map(byte).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrapper_answers_as_the_client_for_each_dialect_and_operation() {
    let (mut matrix, mut wrong) = (String::new(), String::new());
    for dialect in DIALECTS {
        let _ = write!(matrix, "\n{:40}", dialect.name);
        // The cells are tasks, so that a panic is the failure of one cell. The limit ends a cell
        // that hangs.
        let cells =
            Operation::ALL.map(|operation| (operation, tokio::spawn(operation.run(dialect))));
        for (operation, cell) in cells {
            let outcome = match tokio::time::timeout(Duration::from_mins(2), cell).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("no answer".to_owned()),
            };
            let name = dialect.name;
            let width = format!("{operation:?}").len();
            let known = KNOWN.iter().find(|(_, dialects, operations)| {
                dialects.contains(&name) && operations.contains(&operation)
            });
            let _ = match (&outcome, known) {
                (Ok(()), None) => write!(matrix, " {:width$}", "pass"),
                (Err(_), Some((cause, ..))) => write!(matrix, " {cause:width$}"),
                (Ok(()), Some(_)) => {
                    let _ = writeln!(wrong, "{name}, {operation:?} passes, but is in KNOWN");
                    write!(matrix, " {:width$}", "PASS")
                }
                (Err(error), None) => {
                    let _ = writeln!(wrong, "{name}, {operation:?}: {error}");
                    write!(matrix, " {:width$}", "FAIL")
                }
            };
        }
    }
    let names = Operation::ALL.map(|operation| format!("{operation:?}"));
    println!("{:40} {}{matrix}", "", names.join(" "));
    assert!(wrong.is_empty(), "\n{wrong}");
    for name in KNOWN.iter().flat_map(|(_, dialects, _)| *dialects) {
        let is_dialect = DIALECTS.iter().any(|dialect| dialect.name == *name);
        assert!(is_dialect, "KNOWN has {name}, which is no dialect");
    }
}
