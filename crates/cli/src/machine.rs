//! What this process may use of the machine: processors and memory.

use std::fs;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this process may run on, in the order in which workers
/// take them: one of each core first, then the cores' further threads; within
/// that, socket by socket.
///
/// Empty when the system does not tell: then nothing is pinned.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let mut cpus: Vec<Processor> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .map(Processor::read)
        .collect();
    cpus.sort();
    cpus.into_iter().map(|processor| processor.number).collect()
}

/// How many workers can run at the same time.
pub(crate) fn nr_cpus(allowed: &[usize]) -> u32 {
    let nr = match allowed.len() {
        0 => thread::available_parallelism().map_or(1, |nr| nr.get()),
        nr => nr,
    };
    u32::try_from(nr).unwrap_or(u32::MAX)
}

/// Keeps the calling thread on one processor; whether that worked.
pub(crate) fn pin_current_thread(cpu: usize) -> bool {
    if cpu >= CpuSet::MAX_CPU {
        return false;
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).is_ok()
}

/// Lets this process open as many files as it may: every worker opens some.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it stays as it is, opening too many files fails with a clear error.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// What the processor calls itself; not every architecture has a name to tell, and a virtual machine may have none.
pub(crate) fn cpu_model() -> Option<String> {
    let text = fs::read("/proc/cpuinfo").ok()?;
    cpu_model_in(&String::from_utf8_lossy(&text))
}

/// The first name in the text of `/proc/cpuinfo`: words of printable characters, one space apart.
fn cpu_model_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (field, name) = line.split_once(':')?;
        let printable = name.replace(|c: char| c.is_control(), " ");
        let words: Vec<&str> = printable.split_whitespace().collect();
        let is_name = matches!(field.trim(), "model name" | "Model" | "cpu model" | "cpu");
        (is_name && !words.is_empty()).then(|| words.join(" "))
    })
}

/// The bytes of memory that can be taken without swapping, as far as the system
/// says: the least of what is available and what the control group has left.
pub(crate) fn available_memory() -> Option<u64> {
    let available = meminfo("MemAvailable");
    let group = cgroup_left();
    match (available, group) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A field of `/proc/meminfo` in bytes.
pub(crate) fn meminfo(field: &str) -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo").ok()?, field)
}

/// The value in bytes of a line such as `MemFree:  1234 kB`, also when words
/// stand before the field's name (`Node 0 MemFree: 1234 kB`).
pub(crate) fn kib_field(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.split_whitespace().next_back() != Some(field) {
            return None;
        }
        let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    })
}

/// The text of a small file of the system, without its line end.
pub(crate) fn system_text(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// What this process's control group may still take, if it has a limit. Cached
/// files count as free, since the kernel gives them up for it.
fn cgroup_left() -> Option<u64> {
    // Version 2 has one line, `0::/path`.
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let folder = format!("/sys/fs/cgroup{}", path.trim_end_matches('/'));
    let limit: u64 = system_text(&format!("{folder}/memory.max"))?.parse().ok()?;
    let used: u64 = system_text(&format!("{folder}/memory.current"))?
        .parse()
        .ok()?;
    let stat = system_text(&format!("{folder}/memory.stat")).unwrap_or_default();
    let field = |name: &str| {
        stat.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    let cached = field("file ").saturating_sub(field("shmem "));
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// A processor's place; the order of the fields is the order of preference.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Processor {
    /// Which of its core's threads it is.
    sibling: usize,
    package: u64,
    number: usize,
}

impl Processor {
    fn read(number: usize) -> Processor {
        let topology = format!("/sys/devices/system/cpu/cpu{number}/topology");
        let siblings = system_text(&format!("{topology}/thread_siblings_list"));
        Processor {
            sibling: siblings.map_or(0, |list| rank_in_list(&list, number)),
            package: system_text(&format!("{topology}/physical_package_id"))
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            number,
        }
    }
}

/// How many numbers of a list such as `0-3,8` are smaller than `number`.
fn rank_in_list(list: &str, number: usize) -> usize {
    list_members(list).filter(|&member| member < number).count()
}

/// The numbers of a list as the kernel writes it: `0-3,8,10-11`.
pub(crate) fn list_members(list: &str) -> impl Iterator<Item = usize> {
    list.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().ok()?;
            let last: usize = last.trim().parse().ok()?;
            Some(first..=last)
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_understood() {
        let members: Vec<_> = list_members("0-3,8,10-11\n").collect();
        assert_eq!(members, [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(list_members("").count(), 0);
        assert_eq!(rank_in_list("0,48", 48), 1);
        assert_eq!(rank_in_list("0-1", 0), 0);
    }

    #[test]
    fn a_processors_name_is_its_words_and_an_empty_one_is_none() {
        let name = |text| cpu_model_in(text);
        let padded = "processor\t: 0\nmodel name\t: Xeon(R)  CPU\t E5620   @ 2.40GHz \n";
        assert_eq!(name(padded).as_deref(), Some("Xeon(R) CPU E5620 @ 2.40GHz"));
        assert_eq!(name("cpu\t: POWER9\n").as_deref(), Some("POWER9"));
        assert_eq!(
            name("model name\t: a\u{1b}[31mb\n").as_deref(),
            Some("a [31mb")
        );
        assert_eq!(name("model name\t: \nmodel name\t: \n"), None);
        assert_eq!(name("model\t: 17\n"), None);
        assert_eq!(name(""), None);
    }

    #[test]
    fn memory_fields_are_found_in_both_files() {
        assert_eq!(
            kib_field("MemTotal: 2 kB\nMemFree:  1 kB\n", "MemFree"),
            Some(1024)
        );
        assert_eq!(kib_field("Node 0 MemFree:  3 kB\n", "MemFree"), Some(3072));
        assert_eq!(kib_field("MemFreeish: 3 kB\n", "MemFree"), None);
    }

    #[test]
    fn first_threads_of_cores_come_before_second_ones() {
        let mut processors =
            [(1, 0, 4), (0, 1, 2), (0, 0, 1), (0, 0, 0)].map(|(sibling, package, number)| {
                Processor {
                    sibling,
                    package,
                    number,
                }
            });
        processors.sort();
        assert_eq!(processors.map(|p| p.number), [0, 1, 2, 4]);
    }

    #[test]
    fn a_thread_is_pinned_to_a_processor_that_it_may_use() {
        let Some(&cpu) = allowed_cpus().first() else {
            pagewell_testkit::skip::skipped("the system tells no processors");
            return;
        };
        let pinned = thread::spawn(move || pin_current_thread(cpu)).join();
        assert!(pinned.unwrap());
        assert!(!pin_current_thread(CpuSet::MAX_CPU));
    }
}
