//! The program fio, where it is installed: what its users know the speed of a storage by.
//!
//! It opens our file by the number that it has in this process, and times itself: from its first transfer to its last, or to the end of
//! its sync, without the start of the program.

use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::bench::data::DataFile;

/// That it is installed.
#[derive(Debug)]
pub(super) struct Fio(());

/// What it is to read: for so long, blocks of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    /// `psync` or `io_uring`.
    pub(super) engine: &'static str,
    /// `randread` or `read`.
    pub(super) pattern: &'static str,
    pub(super) block: u64,
    /// How many at a time, by each thread.
    pub(super) depth: u32,
    pub(super) threads: u32,
    /// Past the operating system's cache.
    pub(super) direct: bool,
    pub(super) time: Duration,
}

/// What it says that it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Report {
    pub(super) bytes: u64,
    pub(super) ns: u64,
    /// Processor time of its threads, user and system.
    pub(super) cpu_ns: u64,
}

/// Of shorter runs of many threads it may report no processor time at all.
const SHORTEST: Duration = Duration::from_millis(100);

impl Fio {
    pub(super) fn find() -> Option<Fio> {
        let version = Command::new("fio")
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        version.status.success().then_some(Fio(()))
    }

    /// Writes the first `bytes` bytes of `data` in blocks of `block` bytes, and syncs it; how many nanoseconds that took.
    pub(super) fn write(&self, data: &DataFile, bytes: u64, block: usize) -> Result<u64, String> {
        let report = run(Command::new("fio")
            .args(["--name=pagewell", "--rw=write", "--ioengine=psync"])
            .args(["--end_fsync=1", "--fallocate=none", "--invalidate=0"])
            .arg(path_of(data))
            .arg(format!("--bs={block}"))
            .arg(format!("--size={bytes}")))?;
        time_of(&report, bytes)
    }

    /// Reads blocks of `data`, again from the beginning when it comes to the end.
    pub(super) fn read(&self, data: &DataFile, reads: &Reads) -> Result<Report, String> {
        let report = run(Command::new("fio")
            .args(["--name=pagewell", "--readonly", "--time_based"])
            .args(["--randrepeat=0", "--norandommap", "--group_reporting"])
            .arg(path_of(data))
            .arg(format!("--size={}", data.bytes))
            .arg(format!("--rw={}", reads.pattern))
            .arg(format!("--ioengine={}", reads.engine))
            .arg(format!("--bs={}", reads.block))
            .arg(format!("--iodepth={}", reads.depth))
            .arg(format!("--numjobs={}", reads.threads))
            .arg(format!("--direct={}", u8::from(reads.direct)))
            .arg(format!(
                "--runtime={}ms",
                reads.time.max(SHORTEST).as_millis()
            )))?;
        reads_of(&report)
    }
}

fn path_of(data: &DataFile) -> String {
    let (process, number) = (std::process::id(), data.file.as_raw_fd());
    format!("--filename=/proc/{process}/fd/{number}")
}

/// Runs it to its end; what it reports.
fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command
        .args(["--thread", "--output-format=json"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next().unwrap_or_default();
        return Err(format!("it ended with {}: {line}", output.status));
    }
    Ok(output.stdout)
}

/// What its report says, if that is of a run that wrote `bytes` bytes.
fn time_of(report: &[u8], bytes: u64) -> Result<u64, String> {
    let job = job_of(report)?;
    let write = &job["write"];
    match (write["io_bytes"].as_u64(), write["runtime"].as_u64()) {
        // Its clock has milliseconds.
        (Some(wrote), Some(ms)) if wrote == bytes => Ok(ms.max(1).saturating_mul(1_000_000)),
        (wrote, _) => Err(format!(
            "it was to write {bytes} bytes, and says that it wrote {wrote:?}"
        )),
    }
}

/// What its report says of reads.
fn reads_of(report: &[u8]) -> Result<Report, String> {
    let job = job_of(report)?;
    let read = &job["read"];
    let shares = (job["usr_cpu"].as_f64(), job["sys_cpu"].as_f64());
    // Of several threads the shares are of the sum of their times, which this is.
    let of_threads = job["job_runtime"].as_f64();
    match (
        read["io_bytes"].as_u64(),
        read["runtime"].as_u64(),
        shares,
        of_threads,
    ) {
        (Some(bytes), Some(ms), (Some(user), Some(system)), Some(of_threads)) if bytes != 0 => {
            Ok(Report {
                bytes,
                ns: ms.max(1).saturating_mul(1_000_000),
                cpu_ns: ((user + system) / 100.0 * of_threads * 1e6) as u64,
            })
        }
        _ => Err("it says that it read nothing, or not how long that took".to_owned()),
    }
}

/// The one job, or group of jobs, of its report.
fn job_of(report: &[u8]) -> Result<Value, String> {
    // It may say something before its report.
    let start = report.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let mut report: Value = serde_json::from_slice(&report[start..])
        .map_err(|error| format!("its report is no JSON: {error}"))?;
    let job = report["jobs"][0].take();
    if job["error"] != 0 {
        return Err(format!(
            "it says that it failed, with error {}",
            job["error"]
        ));
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_a_report_which_says_that_all_was_written() {
        let report = |error: u32, bytes: u64| {
            format!(
                "note: whatever\n{{\"jobs\":[{{\"error\":{error},\
                 \"write\":{{\"io_bytes\":{bytes},\"runtime\":25}}}}]}}"
            )
        };
        let time = |report: String| time_of(report.as_bytes(), 4096);
        assert_eq!(time(report(0, 4096)), Ok(25_000_000));
        assert!(time(report(0, 4095)).unwrap_err().contains("4095"));
        assert!(time(report(5, 4096)).unwrap_err().contains("error 5"));
        assert!(time("fio: no space".to_owned()).is_err());
    }

    #[test]
    fn the_processor_time_of_reads_is_that_of_all_threads() {
        let report = |bytes: u64| {
            format!(
                "{{\"jobs\":[{{\"error\":0,\"usr_cpu\":5.0,\"sys_cpu\":20.0,\"job_runtime\":200,\
                 \"read\":{{\"io_bytes\":{bytes},\"runtime\":100}}}}]}}"
            )
        };
        let expected = Report {
            bytes: 8192,
            ns: 100_000_000,
            cpu_ns: 50_000_000,
        };
        assert_eq!(reads_of(report(8192).as_bytes()), Ok(expected));
        assert!(reads_of(report(0).as_bytes()).is_err());
    }
}
