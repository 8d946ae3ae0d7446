//! Reads bytes as a trace: once by what they look like, and once as the format that the first byte names. No bytes may do harm, and
//! every request is such as the readers promise.

#![no_main]

#[allow(dead_code, unused_imports)]
#[path = "../../crates/cli/src/trace/mod.rs"]
mod trace;

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use trace::{Format, Options, Source, Span};

const FORMATS: [Format; 8] = [
    Format::Fio,
    Format::Strace,
    Format::Blkparse,
    Format::Csv,
    Format::Txt,
    Format::OracleGeneral,
    Format::Arc,
    Format::Lirs,
];

/// Bytes that are packed may be many when they are unpacked.
const MOST_REQUESTS: u64 = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    check(bytes, None);
    check(rest, Some(FORMATS[usize::from(*first) % FORMATS.len()]));
});

fn check(bytes: &[u8], format: Option<Format>) {
    let Ok(source) = Source::new(Box::new(Cursor::new(bytes.to_vec())), 0) else {
        return;
    };
    let mut nr = 0;
    let report = trace::read(
        source,
        &Options { format },
        &mut |request, _| {
            match request.span {
                Span::Bytes { offset, len } => {
                    assert!(len > 0 && len <= Span::MOST_BYTES);
                    assert!(offset <= i64::MAX as u64 - len);
                }
                Span::Blocks { first, count } => {
                    assert!(count > 0 && count <= Span::MOST_BLOCKS);
                    assert!(first.checked_add(count - 1).is_some());
                }
            }
            nr += 1;
            if nr > MOST_REQUESTS {
                return Err("enough".to_owned());
            }
            Ok(())
        },
        &mut || {},
    );
    match report {
        Ok(report) => {
            assert_eq!(report.nr_requests, nr);
            assert_eq!(report.nr_bad > 0, report.first_bad.is_some());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
