//! What the crates below give to programs can be named by this one.
//!
//! In each crate the compiler sees to it that what is returned is exported (`unnameable_types`, denied in the workspace). This test
//! sees to it that the facade exports all of that, so a program can name whatever it gets, and needs no crate below.

use std::collections::BTreeSet;
use std::path::Path;

/// What only crates of this workspace need, and no function that programs see returns: by crate and name.
const NOT_FOR_PROGRAMS: [(&str, &str); 15] = [
    // Numbers of the layout of words.
    ("frame", "FRAME_NR_BITS"),
    ("frame", "FRAME_SHIFT"),
    ("frame", "FRAME_WORDS"),
    ("frame", "MAX_NODES"),
    // The pure transitions of a reference count, which models and litmus tests drive.
    ("frame", "refword"),
    // For who keeps a pool for references that borrow nothing of it, as a cache does.
    ("frame", "HasPool"),
    ("frame", "OwnedHold"),
    ("frame", "PoolOwner"),
    // For crates that build on a cache, as that of spaces does.
    ("cache", "companion_or_else"),
    // The wait of `OpenOptions::lock`.
    ("io", "LockWait"),
    // For the cache.
    ("io", "Aligned"),
    ("io", "pools"),
    // For the crate of test doubles.
    ("io", "testing"),
    // For the tests of engines and of this project.
    ("io-testing", "sim"),
    // There in models only.
    ("cache", "model"),
];

/// The names that `source` exports by `pub use`, and its modules.
fn exported(source: &str) -> BTreeSet<String> {
    let code: Vec<&str> = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let mut names = BTreeSet::new();
    for statement in code.join(" ").split("pub use ").skip(1) {
        let path = statement.split(';').next().unwrap_or_default();
        // What is in braces, or the whole path; of each path the last part.
        let list = path.split_once('{').map_or(path, |(_, list)| list);
        for item in list.split(['{', '}', ',']) {
            let name = item.rsplit("::").next().unwrap_or_default().trim();
            if !name.is_empty() {
                names.insert(name.to_owned());
            }
        }
    }
    for module in code.join(" ").split("pub mod ").skip(1) {
        let name = module.split([' ', ';']).next().unwrap_or_default();
        names.insert(name.to_owned());
    }
    names
}

fn lib_of(crate_name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(crate_name)
        .join("src/lib.rs");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn whatever_a_program_gets_has_a_name() {
    let facade = exported(&lib_of("pagewell"));
    // Two crates have names of their own for errors; the facade has both, in modules.
    for name in ["Cache", "File", "Error", "FramePool", "Space", "Backend"] {
        assert!(
            facade.contains(name),
            "{name}, which is exported, is not found"
        );
    }
    let mut missing = Vec::new();
    for (crate_name, least) in [
        ("frame", 8),
        ("io", 8),
        ("io-testing", 6),
        ("cache", 8),
        ("space", 8),
    ] {
        let names = exported(&lib_of(crate_name));
        assert!(names.len() >= least, "{crate_name} exports {names:?}");
        for name in names {
            let is_left_out = NOT_FOR_PROGRAMS.contains(&(crate_name, &name));
            if facade.contains(&name) == is_left_out {
                missing.push(format!("{crate_name}::{name}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not exported, or left out in vain: {missing:?}"
    );
}

/// It is enough to depend on the facade to write down the type of each value that its types give.
#[test]
fn a_program_can_name_what_a_file_is_mapped_by() {
    use pagewell::mapped::{HeldPage, MappedFile, Spare, Tried};

    struct Viewer {
        file: MappedFile,
    }

    impl Viewer {
        fn first_page(&self) -> HeldPage<'_> {
            self.file.hold(0, 1).expect("a file of one page")
        }
    }

    let cache = pagewell::Cache::builder().build().expect("a small cache");
    let backend = pagewell::io::MemoryBackend::writable(vec![7; 100]);
    let options = pagewell::OpenOptions::new().write();
    let file = cache
        .open_backend_with(backend, "file", &options)
        .expect("a writable backend");
    let viewer = Viewer {
        file: file.mapped(),
    };
    let held = viewer.first_page();
    let mut spare = Spare::default();
    let (tried, _) = viewer
        .file
        .try_edit((0, 1, 0), |bytes| bytes.copy_from(0, &[9]), &mut spare)
        .expect("a file that is open for writing");
    assert!(matches!(tried, Tried::Done | Tried::NotNow(_)));
    drop(held);
}
