//! A memory control group of Linux, for a process that this one has started: what that process and its threads use, the operating system's cache of the
//! files that it reads included, is bounded.
//!
//! The group is a child of this process's own group, so that every bound from above stays in force; it is removed when this is dropped, which must be
//! after the process has ended.
//!
//! **Version 2** lets a group have children with a memory controller only if it has no processes itself, but for the root. So this process
//! moves to a child of its own group first, if it is the only one there; `systemd-run --scope -p Delegate=yes pagewell ..` makes such a group. **Version 1** asks for nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A memory control group.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
}

/// Which version's files a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The group that this process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    folder: PathBuf,
    version: Version,
}

/// Under version 2: the group that had this process before it moved, and its children have the controller.
static LEFT: Mutex<Option<Own>> = Mutex::new(None);

impl MemoryGroup {
    /// Makes a group below that of this process, with so many bytes at most. The error says why there is none.
    pub(crate) fn create(name: &str, most_bytes: u64) -> Result<MemoryGroup, String> {
        let own = own_group()?;
        MemoryGroup::create_in(&own, name, most_bytes)
    }

    fn create_in(own: &Own, name: &str, most_bytes: u64) -> Result<MemoryGroup, String> {
        let folder = own.folder.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| {
            format!(
                "cannot make the control group {}: {error}",
                folder.display()
            )
        })?;
        // From here on dropping removes it.
        let group = MemoryGroup { folder };
        let limit = match own.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        group.write(limit, &most_bytes.to_string())?;
        if own.version == Version::Two {
            // Nothing of it goes to swap; version 1 has no such file on most systems, and its limit is for what swap has not taken.
            let _ = group.write("memory.swap.max", "0");
        }
        Ok(group)
    }

    /// Puts a process into the group: what it takes from now on is charged there.
    pub(crate) fn add(&self, process: u32) -> Result<(), String> {
        self.write("cgroup.procs", &process.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        write(&self.folder.join(file), text)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // It is empty, unless its process could not be ended; then it stays, and nothing is to be done about it.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text)
        .map_err(|error| format!("cannot write {text} to {}: {error}", file.display()))
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
}

/// The group whose children are to be made.
fn own_group() -> Result<Own, String> {
    let mut left = LEFT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(own) = &*left {
        return Ok(own.clone());
    }
    let own = own_group_in(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
        .ok_or("the system has no memory control groups, or has not mounted them")?;
    if own.version == Version::Two {
        delegate(&own.folder, std::process::id())?;
        *left = Some(own.clone());
    }
    Ok(own)
}

/// From what the system says of this process and of its mounts.
fn own_group_in(groups: &str, mounts: &str) -> Option<Own> {
    // `number:controllers:path`; version 2 has number 0 and no controllers.
    let path = |is_wanted: &dyn Fn(&str, &str) -> bool| {
        groups.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_wanted(number, controllers).then_some(path)
        })
    };
    let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
    // `.. root mount-point options .. - type source options`
    let mount = |kind: &str, is_wanted: &dyn Fn(&str) -> bool| {
        mounts.lines().find_map(|line| {
            let (front, back) = line.split_once(" - ")?;
            let mut back = back.split(' ');
            if back.next() != Some(kind) || !is_wanted(back.nth(1)?) {
                return None;
            }
            let mut front = front.split(' ');
            Some((front.nth(3)?, front.next()?))
        })
    };
    // The mount may show a part of the tree only.
    let folder = |(root, point): (&str, &str), path: &str| {
        let below = path.strip_prefix(root.trim_end_matches('/'))?;
        Some(PathBuf::from(point).join(below.trim_start_matches('/')))
    };
    if let Some(path) = path(&|_, controllers| has_memory(controllers)) {
        return Some(Own {
            folder: folder(mount("cgroup", &has_memory)?, path)?,
            version: Version::One,
        });
    }
    Some(Own {
        folder: folder(
            mount("cgroup2", &|_| true)?,
            path(&|number, _| number == "0")?,
        )?,
        version: Version::Two,
    })
}

/// Under version 2: has the children of a group get the memory controller.
fn delegate(folder: &Path, this_process: u32) -> Result<(), String> {
    let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    if !text("cgroup.controllers")
        .split_whitespace()
        .any(|name| name == "memory")
    {
        return Err(format!(
            "the control group {} has no memory controller",
            folder.display()
        ));
    }
    let control = folder.join("cgroup.subtree_control");
    let Err(why) = write(&control, "+memory") else {
        return Ok(());
    };
    if text("cgroup.procs").trim() != this_process.to_string() {
        return Err(format!("{why}; other processes are in the group"));
    }
    let leaf = folder.join(format!("pagewell-{this_process}"));
    fs::create_dir(&leaf)
        .map_err(|error| format!("cannot make the control group {}: {error}", leaf.display()))?;
    write(&leaf.join("cgroup.procs"), &this_process.to_string())?;
    write(&control, "+memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS_1: &str = "\
        25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        26 25 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        27 25 0:24 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_group_of_version_1_is_that_of_the_memory_controller() {
        let own = own_group_in("4:memory:/work/one\n1:cpu:/\n0::/\n", MOUNTS_1).unwrap();
        assert_eq!(own.version, Version::One);
        assert_eq!(own.folder, Path::new("/sys/fs/cgroup/memory/work/one"));
    }

    #[test]
    fn the_group_of_version_2_is_the_one_without_controllers() {
        let mounts =
            "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = own_group_in("0::/user.slice/run.scope\n", mounts).unwrap();
        assert_eq!(own.version, Version::Two);
        assert_eq!(own.folder, Path::new("/sys/fs/cgroup/user.slice/run.scope"));
        let inside = "30 20 0:26 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let own = own_group_in("0::/user.slice/run.scope\n", inside).unwrap();
        assert_eq!(own.folder, Path::new("/sys/fs/cgroup/run.scope"));
        assert_eq!(own_group_in("0::/other\n", inside), None);
        assert_eq!(own_group_in("0::/\n", ""), None);
    }

    #[test]
    fn a_group_has_its_limit_and_is_gone_when_it_is_dropped() {
        let parent = pagewell_testkit::scratch::dir();
        for (version, file) in [
            (Version::One, "memory.limit_in_bytes"),
            (Version::Two, "memory.max"),
        ] {
            let own = Own {
                folder: parent.path().to_owned(),
                version,
            };
            let group = MemoryGroup::create_in(&own, "test", 5 << 20).unwrap();
            let folder = group.folder.clone();
            assert_eq!(fs::read_to_string(folder.join(file)).unwrap(), "5242880");
            group.add(17).unwrap();
            assert_eq!(
                fs::read_to_string(folder.join("cgroup.procs")).unwrap(),
                "17"
            );
            // The system removes a group's files with it; a plain folder has them still.
            for entry in fs::read_dir(&folder).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            drop(group);
            assert!(!folder.exists());
        }
    }

    #[test]
    fn without_the_controller_the_reason_is_told() {
        let folder = pagewell_testkit::scratch::dir();
        fs::write(folder.path().join("cgroup.controllers"), "cpu io\n").unwrap();
        let why = delegate(folder.path(), 1).unwrap_err();
        assert!(why.contains("has no memory controller"), "{why}");
        fs::write(folder.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        delegate(folder.path(), 1).unwrap();
        let control = folder.path().join("cgroup.subtree_control");
        assert_eq!(fs::read_to_string(control).unwrap(), "+memory");
    }
}
