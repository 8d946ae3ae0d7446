//! Memory that the process may use, as reported by the operating system.

#![allow(unsafe_code)] // A call of `sysconf`.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the machine's memory in bytes, or the limit of the process's control group if smaller.
pub(crate) fn memory_limit() -> Option<u64> {
    machine_memory().into_iter().chain(group_limit()).min()
}

fn machine_memory() -> Option<u64> {
    // SAFETY: sysconf only reads its argument.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let page_bytes = pagewell_sync::system::page_bytes()? as u64;
    u64::try_from(pages).ok()?.checked_mul(page_bytes)
}

/// Returns the smallest limit of the process's control group and the groups that contain it.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    Group::find(&groups, &mounts)?.limit()
}

/// Memory control group: the mount point of its hierarchy, and its directory below the mount point.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    mount: PathBuf,
    folder: PathBuf,
    file: &'static str,
}

impl Group {
    fn find(groups: &str, mounts: &str) -> Option<Self> {
        let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
        // `NUMBER:CONTROLLERS:PATH`; the line of version 2 has no controllers.
        let path = |is_wanted: &dyn Fn(&str) -> bool| {
            groups.lines().find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                is_wanted(controllers).then_some(path)
            })
        };
        // `ID PARENT DEVICE ROOT MOUNT OPTIONS ... - TYPE SOURCE OPTIONS`; the mount may show only
        // a part of the hierarchy, from ROOT on.
        let place = |path: &str, kind: &str, is_wanted: &dyn Fn(&str) -> bool| {
            mounts.lines().find_map(|line| {
                let (front, back) = line.split_once(" - ")?;
                let mut back = back.split(' ');
                if back.next() != Some(kind) || !is_wanted(back.nth(1)?) {
                    return None;
                }
                let mut front = front.split(' ').skip(3);
                let below = Path::new(path).strip_prefix(front.next()?).ok()?;
                let mount = PathBuf::from(front.next()?);
                Some((mount.join(below), mount))
            })
        };
        let ((folder, mount), file) = match path(&has_memory) {
            Some(path) => (place(path, "cgroup", &has_memory)?, "memory.limit_in_bytes"),
            None => (
                place(path(&str::is_empty)?, "cgroup2", &|_| true)?,
                "memory.max",
            ),
        };
        Some(Self {
            mount,
            folder,
            file,
        })
    }

    fn limit(&self) -> Option<u64> {
        let folders = self.folder.ancestors();
        folders
            .take_while(|folder| folder.starts_with(&self.mount))
            .filter_map(|folder| fs::read_to_string(folder.join(self.file)).ok())
            // A group of version 2 without a limit has the text `max`.
            .filter_map(|text| text.trim().parse().ok())
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "\
        25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        26 25 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        27 25 0:24 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn found(groups: &str, mounts: &str) -> Option<(String, &'static str)> {
        let group = Group::find(groups, mounts)?;
        Some((group.folder.to_string_lossy().into_owned(), group.file))
    }

    #[test]
    fn group_is_found_in_both_versions() {
        let group = found("4:memory:/work/one\n1:cpu:/\n0::/\n", VERSION_1);
        let folder = "/sys/fs/cgroup/memory/work/one".to_owned();
        assert_eq!(group, Some((folder, "memory.limit_in_bytes")));
        let mounts =
            "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let group = found("0::/user.slice/run.scope\n", mounts);
        let folder = "/sys/fs/cgroup/user.slice/run.scope".to_owned();
        assert_eq!(group, Some((folder, "memory.max")));
    }

    #[test]
    fn mount_of_a_part_shows_the_groups_below_it() {
        let mounts = "30 20 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let group = found("0::/docker/1/job\n", mounts);
        let folder = "/sys/fs/cgroup/job".to_owned();
        assert_eq!(group, Some((folder, "memory.max")));
        assert_eq!(found("0::/other\n", mounts), None);
        assert_eq!(found("0::/\n", ""), None);
        assert_eq!(found("", VERSION_1), None);
    }

    #[test]
    fn smallest_limit_on_the_way_to_the_mount_counts() {
        let dir = pagewell_testkit::scratch::dir();
        let group = |name: &str| Group {
            mount: dir.path().to_path_buf(),
            folder: dir.path().join(name),
            file: "memory.max",
        };
        let set = |name: &str, limit: &str| {
            let folder = dir.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.max"), limit).unwrap();
        };
        set("outer", "max\n");
        set("outer/inner", "max\n");
        assert_eq!(group("outer/inner").limit(), None);
        set("outer/inner", "70000\n");
        assert_eq!(group("outer/inner").limit(), Some(70_000));
        set("outer", "50000\n");
        assert_eq!(group("outer/inner").limit(), Some(50_000));
        assert_eq!(group("missing").limit(), None);
    }

    #[test]
    fn limit_of_this_process_is_within_the_machine() {
        let limit = memory_limit().unwrap();
        assert!(
            limit > 1 << 20 && limit <= machine_memory().unwrap(),
            "{limit}"
        );
    }
}
