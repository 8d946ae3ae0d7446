//! What a figure has to say of the machine that it is of.

/// The name of the processor, as the system tells it.
#[must_use]
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown".into(), |(_, name)| name.to_owned())
}
