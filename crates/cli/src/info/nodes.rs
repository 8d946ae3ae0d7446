//! The machine's memory nodes.

use serde::Serialize;

use crate::machine::{kib_field, system_text};

/// One memory node, with the processors beside it.
#[derive(Serialize)]
pub(super) struct Node {
    pub(super) node: u32,
    /// A list such as `0-23,48`; empty for a node of memory alone.
    pub(super) cpus: String,
    pub(super) memory_bytes: Option<u64>,
    pub(super) free_bytes: Option<u64>,
}

/// The nodes that are online; none when the kernel knows of no nodes.
pub(super) fn read() -> Vec<Node> {
    if system_text("/sys/devices/system/node/online").is_none() {
        return Vec::new();
    }
    pagewell::numa::online()
        .into_iter()
        .map(|node| {
            let folder = format!("/sys/devices/system/node/node{node}");
            let memory = system_text(&format!("{folder}/meminfo")).unwrap_or_default();
            Node {
                node,
                cpus: system_text(&format!("{folder}/cpulist")).unwrap_or_default(),
                memory_bytes: kib_field(&memory, "MemTotal"),
                free_bytes: kib_field(&memory, "MemFree"),
            }
        })
        .collect()
}
