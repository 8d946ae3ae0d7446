//! The order of rooms in the project, and the check on crates made for it: each thing that it must notice is there once.

use std::fs;
use std::path::{Path, PathBuf};

use pagewell_verify::rooms::{self, Detail, Options};
use pagewell_verify::{Ended, Trouble};

/// A table for the crate of [`Fixture::clean`].
const TABLE: &str = r#"
["crates/x/src"]
rooms = [
  { name = "base", owns = "words" },
  { name = "index", owns = "leaves" },
  { name = "read", owns = "reads", calls = ["index"] },
]
"#;

/// A crate in a workspace of its own.
struct Fixture {
    dir: PathBuf,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("rooms")
            .join(name);
        let _ = fs::remove_dir_all(&dir);
        Self { dir }
    }

    /// Three rooms, one of them a folder, and nothing wrong.
    fn clean(name: &str) -> Self {
        Self::new(name)
            .with("rooms.toml", TABLE)
            .with(
                "src/lib.rs",
                "mod base;\nmod index;\nmod read;\npub use index::Leaf;\n",
            )
            .with(
                "src/base.rs",
                "pub struct Word;\nimpl Word { pub fn new() -> Self { Word } }\n",
            )
            .with(
                "src/index/mod.rs",
                "mod leaf;\nmod tree;\npub use self::leaf::Leaf;\npub use tree::*;\n",
            )
            .with(
                "src/index/leaf.rs",
                "use crate::base::Word;\npub struct Leaf(Word);\n",
            )
            .with(
                "src/index/tree.rs",
                "use super::Leaf;\npub struct Tree(Leaf);\n",
            )
            .with(
                "src/read.rs",
                "use crate::index::{Leaf, Tree};\npub fn read(_: Leaf, _: Tree) {}\n",
            )
    }

    /// Writes a file: `src` is that of the crate.
    fn with(self, path: &str, text: &str) -> Self {
        let path = match path.strip_prefix("src/") {
            Some(inner) => self.dir.join("crates/x/src").join(inner),
            None => self.dir.join(path),
        };
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
        self
    }

    fn run(&self, detail: Detail, names: &[&str]) -> (Result<Ended, Trouble>, String) {
        let options = Options {
            table: self.dir.join("rooms.toml"),
            root: self.dir.clone(),
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            detail,
        };
        let mut report = Vec::new();
        let ended = rooms::run(&options, &mut report);
        (ended, String::from_utf8(report).expect("text"))
    }

    /// Asserts that exactly one fault is found, and that the report says this of it.
    #[track_caller]
    fn has_one_fault(&self, lines: &[&str]) {
        let (ended, report) = self.run(Detail::Faults, &[]);
        assert_eq!(ended, Ok(Ended::Failed), "\n{report}");
        assert!(report.contains(" 1 faults\n"), "\n{report}");
        for line in lines {
            assert!(report.contains(line), "no `{line}` in\n{report}");
        }
    }

    #[track_caller]
    fn has_no_fault(&self) {
        let (ended, report) = self.run(Detail::Faults, &[]);
        assert_eq!(ended, Ok(Ended::Well), "\n{report}");
        assert!(report.contains(" 0 faults\n"), "\n{report}");
    }

    /// Asserts that exactly these arrows are found.
    #[track_caller]
    fn has_arrows(&self, expected: &[&str]) {
        let (_, report) = self.run(Detail::Arrows, &[]);
        let is_arrow = |line: &&str| line.contains(" -> ");
        let mut found: Vec<&str> = report.lines().filter(is_arrow).map(str::trim).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "\n{report}");
    }
}

#[test]
fn the_crates_of_the_project_keep_their_order() {
    let verify = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options = Options {
        table: verify.join("rooms.toml"),
        root: verify.join(".."),
        names: Vec::new(),
        detail: Detail::Faults,
    };
    let mut report = Vec::new();
    let ended = rooms::run(&options, &mut report);
    let report = String::from_utf8_lossy(&report);
    assert_eq!(ended, Ok(Ended::Well), "\n{report}");
    assert!(report.contains("verify/src: "), "\n{report}");
}

#[test]
fn a_clean_crate_passes() {
    let fixture = Fixture::clean("clean");
    fixture.has_no_fault();
    fixture.has_arrows(&[
        "index/leaf.rs -> base.rs: Word",
        "index/tree.rs -> index/leaf.rs: Leaf",
        "read.rs -> index/leaf.rs: Leaf",
        "read.rs -> index/tree.rs: Tree",
    ]);
}

#[test]
fn a_circle_of_files_is_a_fault() {
    let fixture = Fixture::clean("circle").with(
        "src/index/leaf.rs",
        "use crate::base::Word;\npub struct Leaf(Word);\nfn up(_: super::Tree) {}\n",
    );
    fixture.has_one_fault(&[
        "circle of 2 files:",
        "crates/x/src/index/leaf.rs:3 imports Tree from crates/x/src/index/tree.rs",
        "crates/x/src/index/tree.rs:1 imports Leaf from crates/x/src/index/leaf.rs",
    ]);
}

#[test]
fn an_arrow_up_is_a_fault() {
    let fixture = Fixture::clean("up").with(
        "src/base.rs",
        "pub struct Word;\n\npub fn up() { crate::read::read; }\n",
    );
    let fixture = fixture.with("src/read.rs", "pub fn read() {}\n");
    fixture.has_one_fault(&[
        "arrow: `base` may not import from `read`, which stands above it: \
         crates/x/src/base.rs:3 imports read from crates/x/src/read.rs",
    ]);
}

#[test]
fn an_arrow_to_the_root_is_a_fault() {
    let fixture = Fixture::clean("root")
        .with(
            "src/lib.rs",
            "mod base;\nmod index;\nmod read;\npub const N: u32 = 1;\n",
        )
        .with(
            "src/base.rs",
            "pub struct Word;\npub const M: u32 = crate::N;\n",
        );
    fixture.has_one_fault(&["`base` may not import from `lib`, which stands above it"]);
}

#[test]
fn an_arrow_outside_of_the_list_is_a_fault() {
    let fixture = Fixture::clean("list").with("src/read.rs", "use crate::base::Word;\n");
    fixture.has_one_fault(&[
        "arrow: `read` may not import from `base`, which is not among the rooms that it calls",
    ]);
}

#[test]
fn an_arrow_goes_through_re_exports() {
    // The folder's face, a second hand, a glob and another name: the arrow ends where the item is defined.
    let fixture = Fixture::clean("chain")
        .with("src/base.rs", "pub struct Word;\nuse crate::index::Short;\n")
        .with(
            "src/index/mod.rs",
            "mod hand;\nmod leaf;\nmod tree;\npub use hand::*;\npub use self::leaf::Leaf;\npub use tree::Tree;\n",
        )
        .with("src/index/hand.rs", "pub(crate) use super::leaf::Leaf as Short;\n")
        .with("src/index/leaf.rs", "pub struct Leaf;\n");
    fixture.has_one_fault(&[
        "`base` may not import from `index`, which stands above it: \
         crates/x/src/base.rs:2 imports Short from crates/x/src/index/leaf.rs",
    ]);
}

#[test]
fn a_file_in_no_room_is_a_fault() {
    let fixture = Fixture::clean("unlisted").with(
        "src/lib.rs",
        "mod base;\nmod index;\nmod read;\nmod extra;\npub use index::Leaf;\n",
    );
    let fixture = fixture.with("src/extra.rs", "");
    fixture.has_one_fault(&["file: crates/x/src/extra.rs is in no room of the table"]);
}

#[test]
fn a_file_in_no_module_is_a_fault() {
    let fixture = Fixture::clean("stray").with("src/index/old.rs", "");
    fixture.has_one_fault(&["file: crates/x/src/index/old.rs is in no module"]);
}

#[test]
fn a_room_without_a_file_is_a_fault() {
    let table = TABLE.replace("\n]", "\n  { name = \"write\", owns = \"writes\" },\n]");
    let fixture = Fixture::clean("missing").with("rooms.toml", &table);
    fixture.has_one_fault(&["table: there is no `write` in crates/x/src"]);
}

#[test]
fn an_impl_in_another_room_is_a_fault() {
    let fixture = Fixture::clean("impl").with(
        "src/read.rs",
        "use crate::index::Leaf;\n\nimpl Leaf { fn read(&self) {} }\nimpl Drop for Leaf { fn drop(&mut self) {} }\n",
    );
    fixture.has_one_fault(&[
        "impl: `Leaf` of crates/x/src/index/leaf.rs has impl blocks in other rooms:",
        "crates/x/src/read.rs:3",
    ]);
}

#[test]
fn an_impl_in_another_file_of_the_room_is_none() {
    let fixture = Fixture::clean("impl-inside").with(
        "src/index/tree.rs",
        "use super::Leaf;\npub struct Tree(Leaf);\nimpl Leaf { fn in_tree(&self) {} }\n",
    );
    fixture.has_no_fault();
}

#[test]
fn a_folder_may_have_an_order_of_its_own() {
    let inner = "[\"crates/x/src/index\"]\nrooms = [\n\
                 { name = \"tree\", owns = \"trees\" },\n{ name = \"leaf\", owns = \"leaves\" },\n]\n";
    let fixture = Fixture::clean("inner").with("rooms.toml", &format!("{TABLE}\n{inner}"));
    fixture.has_one_fault(&[
        "`tree` may not import from `leaf`, which stands above it: crates/x/src/index/tree.rs:1",
    ]);
}

#[test]
fn what_is_apart_is_left_out_and_not_imported() {
    let table = format!("{TABLE}apart = [\"model\"]\n");
    let lib =
        "mod base;\nmod index;\nmod read;\n#[cfg(loom)]\npub mod model;\npub use index::Leaf;\n";
    let model = "use crate::index::Leaf;\nuse crate::base::Word;\npub struct Model;\nimpl Leaf { fn m() {} }\n";
    let fixture = Fixture::clean("apart")
        .with("rooms.toml", &table)
        .with("src/lib.rs", lib)
        .with("src/model.rs", model);
    fixture.has_no_fault();
    let fixture = fixture.with(
        "src/base.rs",
        "pub struct Word;\nuse crate::model::Model;\n",
    );
    fixture.has_one_fault(&[
        "what is apart is imported: crates/x/src/base.rs:2 imports Model from crates/x/src/model.rs",
    ]);
}

#[test]
fn tests_are_left_out() {
    let fixture = Fixture::clean("tests")
        .with(
            "src/lib.rs",
            "mod base;\nmod index;\nmod read;\n#[cfg(all(test, loom))]\nmod models;\n",
        )
        .with("src/models.rs", "mod inner;\nuse crate::read::read;\n")
        .with("src/models/inner.rs", "")
        .with("src/base/tests.rs", "use crate::index::Leaf;\n")
        .with(
            "src/base.rs",
            "pub struct Word;\n\
             #[cfg(test)]\nuse crate::read::read;\n\
             #[cfg(test)]\nmod tests;\n\
             #[cfg(all(test, not(loom)))]\nmod more { use crate::read::read; }\n\
             impl Word { #[cfg(test)] fn f() { crate::read::read(); } }\n\
             fn g() { #[cfg(test)] crate::read::seen!(); #[cfg(test)] { crate::read::read() } }\n",
        );
    fixture.has_no_fault();
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let fixture = Fixture::new("paths")
        .with("rooms.toml", "[\"crates/x/src\"]\nrooms = []\n")
        .with("src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n#[path = \"far/e.rs\"]\nmod e;\n#[macro_use]\nmod m;\n")
        .with(
            "src/a.rs",
            "use crate::{b, c as sea};\n\
             fn f<T: b::Trait>(x: sea::Type) -> u32 { use crate::d::*; println!(\"{}\", b::one(x.c)); deep() }\n\
             fn g() { vec![crate::c::Kind::First; self::inner::N]; shout!(1); }\n\
             mod inner { pub const N: usize = super::super::e::E; }\n\
             macro_rules! local { () => { $crate::d::from_macro() } }\n",
        )
        .with("src/b.rs", "pub trait Trait {}\npub fn one(_: u32) -> u32 { 1 }\n")
        .with("src/c.rs", "pub struct Type { pub c: u32 }\n#[derive(Clone)]\npub enum Kind { First }\n")
        .with("src/d.rs", "pub fn deep() -> u32 { 1 }\npub fn from_macro() {}\n")
        .with("src/far/e.rs", "pub const E: usize = 1;\nmod f;\n")
        .with("src/far/f.rs", "use super::E;\n")
        .with("src/m.rs", "macro_rules! shout { ($x:expr) => { $x } }\n");
    fixture.has_arrows(&[
        "a.rs -> b.rs: Trait, one",
        "a.rs -> c.rs: Type, Kind",
        "a.rs -> d.rs: d::*, deep, from_macro",
        "a.rs -> far/e.rs: E",
        "a.rs -> m.rs: shout",
        "far/f.rs -> far/e.rs: E",
    ]);
}

#[test]
fn names_of_other_crates_are_no_arrows() {
    let fixture = Fixture::new("others")
        .with("rooms.toml", "[\"crates/x/src\"]\nrooms = []\n")
        .with("src/lib.rs", "mod a;\nmod fmt;\n")
        .with(
            "src/a.rs",
            "use std::fmt;\nuse ::other::fmt::Thing;\nfn f(x: &dyn fmt::Debug, y: ::std::fmt::Error) { other::g(); x.fmt(); }\n",
        )
        .with("src/fmt.rs", "pub trait Debug {}\npub struct Thing;\npub struct Error;\n");
    fixture.has_arrows(&[]);
}

#[test]
fn what_comes_from_another_crate_is_of_the_module_that_hands_it_on() {
    let fixture = Fixture::new("handed")
        .with("rooms.toml", "[\"crates/x/src\"]\nrooms = []\n")
        .with("src/lib.rs", "mod atomic;\nmod made;\nmod user;\n")
        .with("src/atomic.rs", "pub use std::sync::atomic::AtomicU64;\npub use std::cell::*;\n")
        .with("src/made.rs", "thread_local! { pub static MADE: u32 = 1; }\n")
        .with(
            "src/user.rs",
            "use crate::atomic::{AtomicU64, Cell};\nuse crate::made::MADE;\nuse std::fmt;\nfn f() -> fmt::Result {}\n",
        );
    fixture.has_arrows(&[
        "user.rs -> atomic.rs: AtomicU64, Cell",
        "user.rs -> made.rs: MADE",
    ]);
}

#[test]
fn a_module_and_an_item_may_have_one_name() {
    let fixture = Fixture::new("one-name")
        .with("rooms.toml", "[\"crates/x/src\"]\nrooms = []\n")
        .with(
            "src/lib.rs",
            "mod content;\nmod user;\npub use content::content;\n",
        )
        .with("src/content.rs", "pub fn content() {}\n")
        .with("src/user.rs", "fn f() { crate::content() }\n");
    fixture.has_arrows(&["user.rs -> content.rs: content"]);
}

#[test]
fn imports_that_lead_to_each_other_come_to_an_end() {
    let fixture = Fixture::new("endless")
        .with("rooms.toml", "[\"crates/x/src\"]\nrooms = []\n")
        .with("src/lib.rs", "mod a;\nmod b;\nuse a::*;\nuse b::*;\n")
        .with("src/a.rs", "pub use crate::b::*;\npub fn f() { g() }\n")
        .with(
            "src/b.rs",
            "pub use crate::a::*;\npub fn g() { nowhere::h(); f() }\n",
        );
    fixture.has_arrows(&[
        "a.rs -> b.rs: b::*, g",
        "b.rs -> a.rs: a::*, f",
        "lib.rs -> a.rs: a::*",
        "lib.rs -> b.rs: b::*",
    ]);
}

#[test]
fn a_proposal_is_checked_only_when_it_is_named() {
    let later = format!("{TABLE}holds = \"later\"\n");
    let fixture = Fixture::clean("later")
        .with("rooms.toml", &later)
        .with("src/read.rs", "use crate::base::Word;\n");
    assert_eq!(
        fixture.run(Detail::Faults, &[]),
        (Ok(Ended::Well), String::new())
    );
    let (ended, report) = fixture.run(Detail::Faults, &["x"]);
    assert_eq!(ended, Ok(Ended::Failed), "\n{report}");
    let (ended, _) = fixture.run(Detail::Faults, &["y"]);
    assert!(matches!(ended, Err(Trouble::Usage(_))), "{ended:?}");
}

#[test]
fn a_table_that_contradicts_itself_is_an_error() {
    let tables = [
        (
            "[\"a/src\"]\nrooms = [{ name = \"x\", owns = \"\" }]",
            "does not say what it owns",
        ),
        (
            "[\"a/src\"]\nrooms = [{ name = \"x\", owns = \"o\" }, { name = \"x\", owns = \"o\" }]",
            "listed twice",
        ),
        (
            "[\"a/src\"]\nrooms = [{ name = \"x\", owns = \"o\", calls = [\"y\"] }]",
            "no room below it",
        ),
        (
            "[\"a/src\"]\napart = [\"x\"]\nrooms = [{ name = \"x\", owns = \"o\" }]",
            "both a room and apart",
        ),
        ("[\"a/src/b\"]\nrooms = []", "in no folder `src`"),
        ("[\"a/src\"]\nroom = []", "unknown field"),
    ];
    for (text, message) in tables {
        let fixture = Fixture::new("contradiction").with("rooms.toml", text);
        match fixture.run(Detail::Faults, &[]) {
            (Err(Trouble::Broken(error)), _) => assert!(error.contains(message), "{error}"),
            other => panic!("no error for {text}: {other:?}"),
        }
    }
}
