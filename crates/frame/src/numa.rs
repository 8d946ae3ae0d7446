//! The NUMA nodes of the machine.

/// The NUMA nodes that are online, in ascending order; node 0 alone where the system does not say.
pub fn online() -> Vec<u32> {
    let listed = std::fs::read_to_string("/sys/devices/system/node/has_memory")
        .or_else(|_| std::fs::read_to_string("/sys/devices/system/node/online"))
        .ok()
        .and_then(|text| parse_list(text.trim()))
        .unwrap_or_default();
    if listed.is_empty() || listed.len() > crate::config::MAX_NODES {
        vec![0]
    } else {
        listed
    }
}

/// Parses the kernel's list format: `0-1,4`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    /// No machine has more; a longer list is not one of the kernel's.
    const MOST: u32 = 1024;
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
    fn every_machine_has_a_node() {
        assert!(!online().is_empty());
    }
}
