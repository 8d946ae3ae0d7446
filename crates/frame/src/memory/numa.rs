#![allow(unsafe_code)] // `sched_getcpu`.

use pagewell_sync::raced::Raced;

/// Returns the NUMA nodes that have memory, in ascending order. Returns only node 0 if the system
/// does not report its nodes, or reports more than [`MAX_NODES`](crate::MAX_NODES).
pub fn online() -> Vec<u32> {
    let listed = read_list("/sys/devices/system/node/has_memory")
        .or_else(|| read_list("/sys/devices/system/node/online"))
        .unwrap_or_default();
    if listed.is_empty() || listed.len() > crate::words::MAX_NODES {
        vec![0]
    } else {
        listed
    }
}

pub(crate) fn memory_bytes(node: u32) -> Option<u64> {
    let path = format!("/sys/devices/system/node/node{node}/meminfo");
    parse_memory(&std::fs::read_to_string(path).ok()?)
}

/// Returns the distance of each online NUMA node from `node`, whose own distance is 10.
pub(crate) fn distances(node: u32) -> Option<Vec<(u32, u32)>> {
    // The file lists all online nodes, with or without memory, in ascending order.
    let online = read_list("/sys/devices/system/node/online")?;
    let text =
        std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/distance")).ok()?;
    let listed: Option<Vec<u32>> = text.split_whitespace().map(|d| d.parse().ok()).collect();
    let listed = listed.filter(|listed| listed.len() == online.len())?;
    Some(online.into_iter().zip(listed).collect())
}

fn read_list(path: &str) -> Option<Vec<u32>> {
    parse_list(std::fs::read_to_string(path).ok()?.trim())
}

/// Returns the NUMA node of the current processor, usually without a system call.
pub(crate) fn current() -> Option<u32> {
    // SAFETY: the call has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    let nodes = NODES_OF_CPUS.get_or_make(nodes_of_cpus);
    *nodes.get(usize::try_from(cpu).ok()?)?
}

/// Node of each processor, which does not change while the machine runs.
static NODES_OF_CPUS: Raced<Box<[Option<u32>]>> = Raced::new();

fn nodes_of_cpus() -> Box<[Option<u32>]> {
    let lists = read_list("/sys/devices/system/node/online").unwrap_or_default();
    let of_nodes = lists.into_iter().filter_map(|node| {
        let cpus = read_list(&format!("/sys/devices/system/node/node{node}/cpulist"))?;
        Some((node, cpus))
    });
    by_cpu(of_nodes)
}

fn by_cpu(of_nodes: impl Iterator<Item = (u32, Vec<u32>)>) -> Box<[Option<u32>]> {
    let mut nodes = Vec::new();
    for (node, cpus) in of_nodes {
        for cpu in cpus.into_iter().map(|cpu| cpu as usize) {
            if nodes.len() <= cpu {
                nodes.resize(cpu + 1, None);
            }
            nodes[cpu] = Some(node);
        }
    }
    nodes.into_boxed_slice()
}

/// Returns the total, in bytes, from a line like `Node 0 MemTotal: 9398484 kB`.
fn parse_memory(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(" MemTotal:"))?;
    let (_, size) = line.split_once("MemTotal:")?;
    let kib = size.trim().strip_suffix("kB")?.trim_end();
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// Parses the kernel's list format for nodes and processors, such as `0-1,4`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    /// Limit above the number of any processor or node.
    const MOST: u32 = 1 << 14;
    let mut nodes = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last < first || last >= MOST {
            return None;
        }
        nodes.extend(first..=last);
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_format_is_understood() {
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("3-1"), None);
        assert_eq!(parse_list("0-4000000000"), None);
        assert_eq!(parse_list("x"), None);
    }

    #[test]
    fn processors_are_found_by_number() {
        let nodes = by_cpu([(0, vec![0, 1]), (2, vec![5])].into_iter());
        assert_eq!(*nodes, [Some(0), Some(0), None, None, None, Some(2)]);
        assert!(by_cpu(std::iter::empty()).is_empty());
    }

    #[test]
    fn this_thread_runs_on_a_node_that_is_online() {
        // The system may not report the node.
        if let Some(node) = current() {
            let listed = read_list("/sys/devices/system/node/online").unwrap();
            assert!(listed.contains(&node));
        }
    }

    #[test]
    fn the_size_of_a_node_is_found_in_its_list() {
        let text = "Node 1 MemTotal:        9398484 kB\nNode 1 MemFree:         4294760 kB\n";
        assert_eq!(parse_memory(text), Some(9_398_484 << 10));
        assert_eq!(parse_memory("Node 0 MemFree:  12 kB\n"), None);
        assert_eq!(parse_memory("Node 0 MemTotal:  many kB\n"), None);
        assert_eq!(
            parse_memory(&format!("Node 0 MemTotal: {} kB", u64::MAX)),
            None
        );
        assert_eq!(parse_memory(""), None);
    }

    #[test]
    fn every_machine_has_a_node() {
        assert!(!online().is_empty());
    }
}
