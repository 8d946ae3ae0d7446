//! What each format's lines say, what is a bad line, and that no bytes do harm.

use std::io::{Cursor, Write};

use proptest::prelude::*;

use super::*;

fn bytes(file: u32, offset: u64, len: u64, op: Op) -> Request {
    Request {
        file,
        span: Span::Bytes { offset, len },
        op,
        time: None,
    }
}

fn parse(trace: &[u8], format: Option<Format>) -> (Vec<Request>, Result<Report, TraceError>) {
    let mut requests = Vec::new();
    let report = Source::new(Box::new(Cursor::new(trace.to_vec())), 0).and_then(|source| {
        let mut sink = |request, _| {
            requests.push(request);
            Ok(())
        };
        read(source, &Options { format }, &mut sink, &mut || {})
    });
    (requests, report)
}

/// The requests of a good trace, without times.
fn requests(trace: impl AsRef<[u8]>) -> Vec<Request> {
    let (requests, report) = parse(trace.as_ref(), None);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.nr_bad, 0, "{report:?}");
    let untimed = |request| Request {
        time: None,
        ..request
    };
    requests.into_iter().map(untimed).collect()
}

fn error_of(trace: impl AsRef<[u8]>) -> String {
    match parse(trace.as_ref(), None).1 {
        Ok(report) => panic!("no error: {report:?}"),
        Err(error) => error.to_string(),
    }
}

fn blocks(trace: impl AsRef<[u8]>) -> Vec<(u64, u64)> {
    let spans = requests(trace).into_iter().map(|request| request.span);
    spans
        .map(|span| match span {
            Span::Blocks { first, count } => (first, count),
            span => panic!("{span:?}"),
        })
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

const FIO_2: &str = "\
fio version 2 iolog
/a add
/b add
/a open
/a read 0 4096
/b write 8192 512
/a trim 0 4096
/a sync 0 0
/a wait 1000 0
/a read 4096 4096
/a close
";

#[test]
fn iologs_of_both_versions_are_read() {
    let expected = [
        bytes(0, 0, 4096, Op::Read),
        bytes(1, 8192, 512, Op::Write),
        bytes(0, 4096, 4096, Op::Read),
    ];
    assert_eq!(requests(FIO_2), expected);
    let version_3 = "fio version 3 iolog\n0 /a add\n0 /a open\n7 /a read 0 4096\n\
                     9 /b write 8192 512\n10 /a trim 0 1\n11 /a read 4096 4096\n12 /a close\n";
    assert_eq!(requests(version_3), expected);
    let (timed, _) = parse(version_3.as_bytes(), None);
    let times: Vec<_> = timed.iter().map(|request| request.time).collect();
    assert_eq!(
        times,
        [Some(7000), Some(9000), Some(11_000)],
        "microseconds"
    );
    assert!(error_of("fio version 1 iolog\n0 1 2\n").contains("version 2"));
}

#[test]
fn strace_follows_positions_and_descriptors() {
    let trace = r#"
10 openat(AT_FDCWD, "a", O_RDWR|O_CREAT, 0644) = 3
10 read(3, "x\"), y"..., 100) = 100
10 read(3, "", 4096) = 0
10 write(3, "abc", 3) = 3
10 dup(3) = 4
10 lseek(4, 1000, SEEK_SET) = 1000
10 read(3, "z", 50) = 50
10 pread64(4, "z", 10, 5000) = 10
10 read(3, "z", 7) = -1 EAGAIN (Resource temporarily unavailable)
10 close(3) = 0
10 read(4, "z", 1) = 1
10 openat(AT_FDCWD, "b", O_WRONLY|O_APPEND) = 3
10 pwritev2(3, [{iov_base="q, r", iov_len=4}], 1, 77, 0) = 4
10 write(3, "q", 1) = 1
10 copy_file_range(4, [8] => [10], 3, NULL, 2, 0) = 2
10 exit_group(0) = ?
10 +++ exited with 0 +++
"#;
    let expected = [
        bytes(0, 0, 100, Op::Read),
        bytes(0, 100, 3, Op::Write),
        bytes(0, 1000, 50, Op::Read),
        bytes(0, 5000, 10, Op::Read),
        bytes(0, 1050, 1, Op::Read),
        // Where writes go to the end, the end is what is known of it.
        bytes(1, 0, 4, Op::Write),
        bytes(1, 4, 1, Op::Write),
        bytes(0, 8, 2, Op::Read),
        bytes(1, 5, 2, Op::Write),
    ];
    assert_eq!(requests(trace), expected);
}

#[test]
fn strace_tells_files_by_their_paths_and_leaves_others_out() {
    let trace = r#"
[pid  7] 12:00:00.000001 read(3</data/x>, "ab", 2) = 2 <0.000010>
[pid  7] 12:00:00.000002 read(0</dev/pts/0<char 136:0>>, "ab", 2) = 2
[pid  7] 12:00:00.000003 write(1<pipe:[123]>, "ab", 2) = 2
[pid  7] 12:00:00.000004 read(5<TCP:[127.0.0.1:1->127.0.0.1:2]>, "ab", 2) = 2
[pid  7] 12:00:00.000005 read(6<socket:[44]>, "ab", 2) = 2
[pid  7] 12:00:00.000006 read(3</data/x>, "ab", 2) = 2
[pid  7] 12:00:00.000007 --- SIGCHLD {si_signo=SIGCHLD} ---
[pid  7] 12:00:00.000008 read(3</data/odd \74\76, name (deleted)>, "ab", 2) = 2
[pid  7] 12:00:00.000009 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</data/x>, 0) = 0x7f0000000000
"#;
    let (timed, report) = parse(trace.as_bytes(), None);
    let spans: Vec<_> = timed
        .iter()
        .map(|request| (request.file, request.span))
        .collect();
    let at = |offset| Span::Bytes { offset, len: 2 };
    assert_eq!(spans, [(0, at(0)), (0, at(2)), (1, at(0))]);
    assert_eq!(timed[0].time, Some(43_200_000_001_000));
    let notes = report.unwrap().notes.join("\n");
    assert!(notes.contains("mmap is invisible"), "{notes}");
    assert!(notes.contains("4 transfers of pipes"), "{notes}");
}

#[test]
fn strace_joins_calls_that_were_interrupted() {
    let trace = r#"
1 openat(AT_FDCWD, "a", O_RDONLY <unfinished ...>
2 openat(AT_FDCWD, "b", O_RDONLY) = 4
1 <... openat resumed>)             = 3
1 pread64(3,  <unfinished ...>
2 pread64(4, "x", 10, 20) = 10
1 <... pread64 resumed>"\177\0"..., 30, 40) = 30
2 read(4,  <unfinished ...>
2 <... read resumed> <unfinished ...>) = ?
2 +++ killed by SIGKILL +++
"#;
    // `a` is opened when its call resumes.
    let expected = [bytes(0, 20, 10, Op::Read), bytes(1, 40, 30, Op::Read)];
    assert_eq!(requests(trace), expected);
}

#[test]
fn strace_gives_children_what_their_parents_have() {
    let trace = r#"
1 openat(AT_FDCWD, "a", O_RDONLY) = 3
1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD <unfinished ...>
2 read(3, "x", 10) = 10
2 close(3) = 0
2 openat(AT_FDCWD, "b", O_RDONLY|O_CLOEXEC) = 3
1 <... clone resumed>, child_tidptr=0x7f) = 2
2 read(3, "x", 5) = 5
1 read(3, "x", 1) = 1
1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES, child_tid=0x7f, exit_signal=0}, 88) = 3
3 close(3) = 0
1 read(3, "x", 1) = 1
2 dup2(3, 9) = 9
2 execve("/bin/x", ["x"], 0x7f /* 3 vars */) = 0
2 read(3, "x", 1) = 1
2 read(9, "x", 1) = 1
"#;
    let expected = [
        bytes(0, 0, 10, Op::Read),
        bytes(1, 0, 5, Op::Read),
        // The position is that of the open file, which both have.
        bytes(0, 10, 1, Op::Read),
        bytes(1, 5, 1, Op::Read),
    ];
    assert_eq!(requests(trace), expected);
}

#[test]
fn blkparse_counts_each_request_once() {
    let trace = "
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  P   N [kjournald]
  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]
  8,16   3        4     0.000003000   697  Q  RA 8 + 16 [cat]
  8,0    3        5     0.000004000   697  Q FWS [kjournald]
  8,0    3        6     0.000005000   697  Q   D 0 + 4000000 [fstrim]
  8,0    3        7     0.000046788   697  D   W 223490 + 8 [kjournald]
  8,0    1        8     0.000250000     0  C   W 223490 + 8 [0]
CPU3 (8,0):
 Reads Queued:           0,        0KiB  Writes Queued:           1,        4KiB
";
    let expected = [
        bytes(0, 223_490 * 512, 4096, Op::Write),
        bytes(1, 4096, 8192, Op::Read),
    ];
    assert_eq!(requests(trace), expected);
    let issued = "8,0 1 1 0.1 7 D R 8 + 8 [x]\n8,0 1 2 0.2 7 C R 8 + 8 [0]\n";
    assert_eq!(requests(issued), [bytes(0, 4096, 4096, Op::Read)]);
}

#[test]
fn numbers_and_runs_of_blocks_are_read() {
    assert_eq!(blocks("5 \n7\r\n5\n"), [(5, 1), (7, 1), (5, 1)]);
    assert_eq!(blocks("*\n5\n*\n6\n"), [(5, 1), (6, 1)]);
    let report = parse(b"*\n5\n*\n6\n", None).1.unwrap();
    assert_eq!(report.format, Format::Lirs);
    assert_eq!(blocks("10 3 0 0\n20 1 0 1\n"), [(10, 3), (20, 1)]);
    assert_eq!(parse(b"10 3 0 0\n", None).1.unwrap().format, Format::Arc);
}

#[test]
fn columns_are_found_by_name_or_place() {
    assert_eq!(blocks("1,42,512\n2,43,512\n"), [(42, 1), (43, 1)]);
    assert_eq!(
        blocks("obj_id;size;time\n42;1;0.5\n43;1;0.6\n"),
        [(42, 1), (43, 1)]
    );
    let named = parse(
        b"time,op,key\n1,get,user:1\n2,set,user:2\n3,get,user:1\n",
        None,
    )
    .0;
    assert_eq!(named[0].span, named[2].span);
    assert_ne!(named[0].span, named[1].span);
    assert_eq!(named[1].op, Op::Write);
    assert_eq!(named[1].time, Some(2_000_000_000));
}

fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
    let mut bytes = time.to_le_bytes().to_vec();
    bytes.extend(object.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

#[test]
fn records_of_oracle_general_are_read() {
    let trace: Vec<u8> = (0..20)
        .flat_map(|nr| {
            record(
                nr,
                u64::from(nr) << 33,
                4096,
                if nr == 7 { -1 } else { i64::from(nr) + 5 },
            )
        })
        .collect();
    let (requests, report) = parse(&trace, None);
    assert_eq!(report.unwrap().format, Format::OracleGeneral);
    assert_eq!(requests.len(), 20);
    assert_eq!(
        requests[3].span,
        Span::Blocks {
            first: 3 << 33,
            count: 1
        }
    );
    // The last one is cut.
    let (requests, report) = parse(&trace[..trace.len() - 5], None);
    let first = report.unwrap().first_bad.unwrap();
    assert_eq!((requests.len(), first.line), (19, 20));
}

#[test]
fn packed_traces_are_read_by_their_first_bytes() {
    let expected = requests(FIO_2);
    for packed in [gzip(FIO_2.as_bytes()), zstd(FIO_2.as_bytes())] {
        assert_eq!(requests(&packed), expected);
        // Several parts are one trace.
        let twice = [packed.clone(), packed.clone()].concat();
        let (twice, _) = parse(&twice, None);
        assert_eq!(twice.len(), 2 * expected.len());
    }
}

#[test]
fn packed_traces_that_are_cut_say_after_which_line() {
    // Long enough that the cut is past what is looked at first.
    let trace: String = (0..60_000_u64)
        .map(|nr| format!("{}\n", nr * 7919 % 100_003))
        .collect();
    for packed in [gzip(trace.as_bytes()), zstd(trace.as_bytes())] {
        let message = error_of(&packed[..packed.len() * 3 / 4]);
        assert!(message.contains("is cut"), "{message}");
        assert!(message.contains("after line "), "{message}");
        assert!(!message.contains("after line 0"), "{message}");
    }
    let mut wrong = gzip(trace.as_bytes());
    let middle = wrong.len() / 2;
    wrong[middle..middle + 100].fill(0x55);
    let message = error_of(&wrong);
    assert!(message.contains("line"), "{message}");
}

#[test]
fn what_is_no_trace_is_told() {
    assert!(error_of("").contains("is empty"));
    assert!(error_of("\n\n").contains("is empty"));
    assert!(error_of(gzip(b"")).contains("is empty"));
    assert!(error_of("some words\nof a letter\n").contains("no trace that is known"));
    let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0".to_vec();
    program.extend((0..2000_u32).flat_map(|nr| nr.wrapping_mul(0x9e37_79b9).to_le_bytes()));
    assert!(error_of(&program).contains("binary"));
    assert!(error_of(b"\xfd7zXZ\0\0\0").contains("xz"));
    assert!(error_of(b"BZh91AY&SY").contains("bzip2"));
    assert!(error_of("*\n*\n").contains("no reads and no writes"));
    assert!(error_of("fio version 2 iolog\n/a add\n").contains("no reads and no writes"));
}

#[test]
fn bad_lines_name_the_first_and_its_fault() {
    for (line, why) in [
        ("/a read -1 4096", "negative"),
        ("/a read 0 0", "no bytes"),
        ("/a read 99999999999999999999 1", "64 bits"),
        ("/a read 9223372036854775807 4096", "past the last offset"),
        ("/a read 0 1152921504606846976", "more than 4 GiB"),
        ("/a read 0", "no offset and length"),
        ("/a read x 4096", "a word"),
        ("/a dance 0 4096", "an action"),
        ("/a", "no file and action"),
    ] {
        // One is let pass, and told.
        let trace = format!("{FIO_2}{line}\n/a read 0 4096\n");
        let (requests, report) = parse(trace.as_bytes(), None);
        let report = report.unwrap_or_else(|error| panic!("{line}: {error}"));
        let first = report.first_bad.unwrap();
        assert_eq!(
            (requests.len(), report.nr_bad, first.line),
            (4, 1, 12),
            "{line}"
        );
        assert!(first.why.contains(why), "{line}: {}", first.why);
        // Many are the end.
        let trace = format!("{FIO_2}{}", format!("{line}\n").repeat(20));
        let message = error_of(&trace);
        assert!(message.contains("line 12: "), "{message}");
        assert!(message.contains("11 of the first 22 lines"), "{message}");
        assert!(message.contains(why), "{message}");
    }
    for (line, why) in [
        ("1 0 0 0", "no blocks"),
        ("1 1152921504606846976 0 0", "more than 1048576 blocks"),
        ("18446744073709551615 2 0 0", "past the last block"),
        ("-4 1 0 0", "negative"),
        ("1 1", "fewer than four"),
    ] {
        let trace = format!("{}{line}\n", "7 1 0 0\n".repeat(20));
        let first = parse(trace.as_bytes(), None).1.unwrap().first_bad.unwrap();
        assert_eq!(first.line, 21);
        assert!(first.why.contains(why), "{line}: {}", first.why);
    }
}

#[test]
fn one_bad_line_of_a_hundred_is_let_pass_however_long_the_trace() {
    let part = format!("{}x\n", "7 1 0 0\n".repeat(150));
    let report = parse(part.repeat(40).as_bytes(), None).1.unwrap();
    assert_eq!(report.nr_bad, 40);
    // A second trace behind the first.
    let mixed = format!("{}{}", "7 1 0 0\n".repeat(500), "8\n".repeat(500));
    let message = error_of(&mixed);
    assert!(message.contains("line 501: "), "{message}");
}

#[test]
fn mostly_bad_short_traces_are_refused() {
    let trace = "fio version 2 iolog\n/a read 0 1\n/a read 1\n/a read 2\n";
    let message = error_of(trace);
    assert!(message.contains("line 3: "), "{message}");
}

#[test]
fn a_line_without_an_end_takes_no_memory() {
    let mut trace = "7\n".repeat(5).into_bytes();
    trace.resize(trace.len() + (3 << 20), b'8');
    trace.extend(b"\n9\n");
    let (requests, report) = parse(&trace, Some(Format::Txt));
    let report = report.unwrap();
    assert_eq!((requests.len(), report.nr_bad, report.nr_lines), (6, 1, 7));
    assert!(report.first_bad.unwrap().why.contains("mebibyte"));
}

#[test]
fn who_gets_the_requests_may_stop() {
    let source = Source::new(Box::new(Cursor::new("1\n2\n3\n")), 0).unwrap();
    let mut nr = 0;
    let mut sink = |_, _| {
        nr += 1;
        if nr == 2 {
            Err("enough".to_owned())
        } else {
            Ok(())
        }
    };
    let stopped = read(source, &Options::default(), &mut sink, &mut || {});
    assert_eq!(stopped.unwrap_err().to_string(), "line 2: enough");
}

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

/// Parts of which lines are made, of all formats.
const PARTS: &[&str] = &[
    "1 ",
    "[pid 2] ",
    "read(",
    "pread64(",
    "openat(AT_FDCWD, ",
    "clone(",
    "dup(",
    "3</a>",
    "3",
    "4",
    ", ",
    "\"x\\\"\"",
    "\"",
    "\"a\"",
    ")",
    " = ",
    "3",
    "-1",
    "?",
    "<unfinished ...>",
    "<... read resumed>",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "/*",
    "*/",
    "4096",
    "18446744073709551615",
    "9223372036854775807",
    "O_APPEND",
    "O_CLOEXEC",
    "+++ exited",
    "fio version 2 iolog",
    "\n",
    "\n",
    "/a read 0 4096",
    "8,0 1 1 0.5 7 Q R 8 + 8",
    "*",
    "1 2 3 4",
    ",",
    ";",
    "time,obj_id",
    "-",
    " ",
    "12:00:00.1 ",
    "1700000000.5 ",
    "0.1 ",
    "close_range(0, 9, 0) = 0",
    "execve(\"x\") = 0",
];

/// Whatever is read, requests are such as were promised.
fn check(trace: &[u8], format: Option<Format>) {
    let (requests, report) = parse(trace, format);
    for request in &requests {
        match request.span {
            Span::Bytes { offset, len } => {
                assert!(len > 0 && len <= Span::MOST_BYTES && offset + len <= i64::MAX as u64);
            }
            Span::Blocks { first, count } => {
                assert!(count > 0 && count <= Span::MOST_BLOCKS);
                assert!(first.checked_add(count - 1).is_some());
            }
        }
    }
    match report {
        Ok(report) => {
            assert_eq!(report.nr_requests, requests.len() as u64);
            assert!(report.nr_bad <= report.nr_lines && report.nr_writes <= report.nr_requests);
            assert_eq!(report.nr_bad > 0, report.first_bad.is_some());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #[test]
    fn no_bytes_do_harm(trace in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&trace, None);
        for format in FORMATS {
            check(&trace, Some(format));
        }
        check(&gzip(&trace), None);
    }

    #[test]
    fn no_lines_do_harm(parts in prop::collection::vec(prop::sample::select(PARTS), 0..80)) {
        let trace = parts.concat();
        check(trace.as_bytes(), None);
        for format in FORMATS {
            check(trace.as_bytes(), Some(format));
        }
    }

    #[test]
    fn good_traces_survive_any_cut(cut in 0..FIO_2.len(), packed in any::<bool>()) {
        let whole = if packed { gzip(FIO_2.as_bytes()) } else { FIO_2.as_bytes().to_vec() };
        check(&whole[..cut.min(whole.len())], None);
    }

    #[test]
    fn what_is_written_as_an_iolog_is_read_again(
        written in prop::collection::vec(
            (0_u32..5, 0_u64..1 << 62, 1_u64..1 << 32, any::<bool>()),
            1..50
        )
    ) {
        let mut text = "fio version 2 iolog\n".to_owned();
        for file in 0..5 {
            // Their first requests give them their numbers.
            text.push_str(&format!("/f{file} read 0 1\n"));
        }
        for (file, offset, len, writes) in &written {
            let op = if *writes { "write" } else { "read" };
            text.push_str(&format!("/f{file} {op} {offset} {len}\n"));
        }
        let read = requests(&text);
        let expected: Vec<Request> = written
            .iter()
            .map(|(file, offset, len, writes)| {
                bytes(*file, *offset, *len, if *writes { Op::Write } else { Op::Read })
            })
            .collect();
        prop_assert_eq!(&read[5..], &expected[..]);
    }

    #[test]
    fn positions_are_those_of_a_naive_model(
        steps in prop::collection::vec((0_u8..4, 1_u64..5000), 1..60),
    ) {
        let mut text = "openat(AT_FDCWD, \"a\", O_RDWR) = 3\nread(3, \"\", 1) = 1\n".to_owned();
        let (mut pos, mut expected) = (1, vec![bytes(0, 0, 1, Op::Read)]);
        for (what, n) in steps {
            match what {
                0 => {
                    text.push_str(&format!("read(3, \"a, b\"..., 9999) = {n}\n"));
                    expected.push(bytes(0, pos, n, Op::Read));
                    pos += n;
                }
                1 => {
                    text.push_str(&format!("write(3, \"(\"..., {n}) = {n}\n"));
                    expected.push(bytes(0, pos, n, Op::Write));
                    pos += n;
                }
                2 => {
                    text.push_str(&format!("lseek(3, {n}, SEEK_SET) = {n}\n"));
                    pos = n;
                }
                _ => {
                    text.push_str(&format!("pread64(3, \"\"..., 8, {n}) = 8\n"));
                    expected.push(bytes(0, n, 8, Op::Read));
                }
            }
        }
        prop_assert_eq!(requests(&text), expected);
    }
}
