//! `pagewell info`: what of this machine matters to a page cache.

mod calls;
mod io_uring;
mod nodes;

use std::fmt::Write as _;
use std::fs;

use pagewell::io::engine::{Chosen, Settings};
use serde::Serialize;

use self::nodes::Node;
use crate::copies::{self, Copies};
use crate::failure::Failure;
use crate::machine::{self, meminfo, system_text};
use crate::output::{self, Format};
use crate::size::Bytes;

/// Everything that `pagewell info` shows; the order is that of the JSON object.
#[derive(Serialize)]
struct Info {
    version: &'static str,
    kernel: String,
    architecture: &'static str,
    cpu_model: Option<String>,
    cpus_online: usize,
    cpus_allowed: u32,
    memory_bytes: Option<u64>,
    memory_available_bytes: Option<u64>,
    page_size: usize,
    cache_page_sizes: [usize; 5],
    huge_page_sizes: Vec<u64>,
    transparent_huge_pages: Option<String>,
    nodes: Vec<Node>,
    io_uring: io_uring::Support,
    optional_calls: Vec<calls::Call>,
    engine: Engine,
    copies: Copies,
}

/// The engine that a cache would use if it is told nothing.
#[derive(Serialize)]
struct Engine {
    name: &'static str,
    reason: String,
}

impl Engine {
    fn of_default_cache() -> Self {
        let Chosen { engine, reason, .. } = Chosen::or_threads(Settings::default());
        Self {
            name: engine.name(),
            reason: reason.to_string(),
        }
    }
}

/// The machine in a line: the system, memory, the engine of a default cache.
pub(crate) fn line() -> String {
    let memory =
        meminfo("MemTotal").map_or_else(String::new, |all| format!(", {} of memory", Bytes(all)));
    format!(
        "Linux {} on {}{memory}; I/O by {}",
        rustix::system::uname().release().to_string_lossy(),
        std::env::consts::ARCH,
        Engine::of_default_cache().name,
    )
}

/// Prints what there is to know.
pub(crate) fn run(format: Format) -> Result<(), Failure> {
    let info = Info::read();
    match format {
        Format::Json => output::print_json(&info),
        Format::Table => output::print(&info.lines()),
    }
}

impl Info {
    fn read() -> Info {
        Info {
            version: env!("CARGO_PKG_VERSION"),
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            architecture: std::env::consts::ARCH,
            cpu_model: machine::cpu_model(),
            cpus_online: system_text("/sys/devices/system/cpu/online")
                .map_or(0, |list| machine::list_members(&list).count()),
            cpus_allowed: machine::nr_cpus(&machine::allowed_cpus()),
            memory_bytes: meminfo("MemTotal"),
            memory_available_bytes: machine::available_memory(),
            page_size: rustix::param::page_size(),
            cache_page_sizes: [4096, 8192, 16_384, 32_768, 65_536],
            huge_page_sizes: huge_page_sizes(),
            transparent_huge_pages: system_text("/sys/kernel/mm/transparent_hugepage/enabled")
                .as_deref()
                .and_then(chosen),
            nodes: nodes::read(),
            io_uring: io_uring::probe(),
            optional_calls: calls::probe(),
            engine: Engine::of_default_cache(),
            copies: Copies::read(),
        }
    }

    fn lines(&self) -> String {
        let unknown = || "unknown".to_owned();
        let bytes = |value: Option<u64>| value.map_or_else(unknown, |n| Bytes(n).to_string());
        let list = |sizes: &mut dyn Iterator<Item = u64>| {
            let sizes: Vec<String> = sizes.map(|size| Bytes(size).to_string()).collect();
            if sizes.is_empty() {
                "none".to_owned()
            } else {
                sizes.join(", ")
            }
        };
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<18}{value}");
        };
        line("pagewell", self.version);
        line(
            "kernel",
            &format!("Linux {} on {}", self.kernel, self.architecture),
        );
        line("processor", self.cpu_model.as_deref().unwrap_or("unknown"));
        line(
            "processors",
            &format!(
                "{} online, {} for this process",
                self.cpus_online, self.cpus_allowed
            ),
        );
        line(
            "memory",
            &format!(
                "{}, of which {} can be taken",
                bytes(self.memory_bytes),
                bytes(self.memory_available_bytes)
            ),
        );
        line("page size", &Bytes(self.page_size as u64).to_string());
        line(
            "cache page sizes",
            &list(&mut self.cache_page_sizes.iter().map(|&size| size as u64)),
        );
        line(
            "huge page sizes",
            &list(&mut self.huge_page_sizes.iter().copied()),
        );
        line(
            "transparent huge",
            self.transparent_huge_pages
                .as_deref()
                .unwrap_or("not supported"),
        );
        for node in &self.nodes {
            line(
                &format!("node {}", node.node),
                &format!(
                    "processors {}, memory {}, free {}",
                    if node.cpus.is_empty() {
                        "none"
                    } else {
                        &node.cpus
                    },
                    bytes(node.memory_bytes),
                    bytes(node.free_bytes)
                ),
            );
        }
        if self.nodes.is_empty() {
            line("nodes", "the kernel shows none");
        }
        line("io_uring", &self.io_uring.to_string());
        for call in &self.optional_calls {
            line(call.name(), &call.to_string());
        }
        line(
            "engine",
            &format!("{}: {}", self.engine.name, self.engine.reason),
        );
        line("copies", copies::width());
        text
    }
}

/// The sizes of the huge pages that can be reserved, in bytes.
fn huge_page_sizes() -> Vec<u64> {
    let Ok(folder) = fs::read_dir("/sys/kernel/mm/hugepages") else {
        return Vec::new();
    };
    let mut sizes: Vec<u64> = folder
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: u64 = name
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()?;
            kib.checked_mul(1024)
        })
        .collect();
    sizes.sort_unstable();
    sizes
}

/// The choice in brackets of a setting such as `always [madvise] never`.
fn chosen(setting: &str) -> Option<String> {
    let (_, rest) = setting.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    Some(choice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_setting_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always"), None);
    }
}
