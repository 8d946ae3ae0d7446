//! The program fio, where it is installed: what its users know the speed of a storage by.
//!
//! It opens our file by the number that it has in this process, and times itself: from its first write to the end of
//! its sync, without the start of the program.

use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bench::data::DataFile;

/// That it is installed.
#[derive(Debug)]
pub(super) struct Fio(());

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
        let path = format!("/proc/{}/fd/{}", std::process::id(), data.file.as_raw_fd());
        let output = Command::new("fio")
            .args(["--name=pagewell", "--rw=write", "--ioengine=psync"])
            .args(["--end_fsync=1", "--fallocate=none", "--invalidate=0"])
            .args(["--thread", "--output-format=json"])
            .arg(format!("--filename={path}"))
            .arg(format!("--bs={block}"))
            .arg(format!("--size={bytes}"))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().next().unwrap_or_default();
            return Err(format!("it ended with {}: {line}", output.status));
        }
        time_of(&output.stdout, bytes)
    }
}

/// What its report says, if that is of a run that wrote `bytes` bytes.
fn time_of(report: &[u8], bytes: u64) -> Result<u64, String> {
    // It may say something before its report.
    let start = report.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let report: Value = serde_json::from_slice(&report[start..])
        .map_err(|error| format!("its report is no JSON: {error}"))?;
    let job = &report["jobs"][0];
    if job["error"] != 0 {
        return Err(format!(
            "it says that it failed, with error {}",
            job["error"]
        ));
    }
    let write = &job["write"];
    match (write["io_bytes"].as_u64(), write["runtime"].as_u64()) {
        // Its clock has milliseconds.
        (Some(wrote), Some(ms)) if wrote == bytes => Ok(ms.max(1).saturating_mul(1_000_000)),
        (wrote, _) => Err(format!(
            "it was to write {bytes} bytes, and says that it wrote {wrote:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_a_report_which_says_that_all_was_written() {
        let report = |error: u32, bytes: u64| {
            format!(
                "note: whatever\n{{\"jobs\":[{{\"error\":{error},\"write\":{{\"io_bytes\":{bytes},\"runtime\":25}}}}]}}"
            )
        };
        let time = |report: String| time_of(report.as_bytes(), 4096);
        assert_eq!(time(report(0, 4096)), Ok(25_000_000));
        assert!(time(report(0, 4095)).unwrap_err().contains("4095"));
        assert!(time(report(5, 4096)).unwrap_err().contains("error 5"));
        assert!(time("fio: no space".to_owned()).is_err());
    }
}
