//! What of a crate is not as the table says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::arrows::{Arrow, Arrows};
use super::circles::circles;
use super::table::{Against, Order, Table};
use super::tree::{FileNr, Tree};

/// A place in a file, from the root of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line in it.
    pub line: usize,
}

/// What a file names of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Where it is named first.
    pub from: Place,
    /// The names.
    pub names: Vec<String>,
    /// The file that defines them.
    pub to: String,
}

/// Something that is not as the table says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An import that the order of rooms does not allow.
    AgainstOrder {
        /// The room that imports.
        from: String,
        /// The room that it imports from.
        to: String,
        /// What is against it.
        against: Against,
        /// The import.
        import: Import,
    },
    /// Something is imported that the table leaves out.
    OfApart {
        /// The import.
        import: Import,
    },
    /// Files that import each other.
    Circle {
        /// A shortest way around.
        way: Vec<Import>,
        /// All files of the circle.
        files: Vec<String>,
    },
    /// A file that is in no room of the table.
    InNoRoom {
        /// The file.
        file: String,
    },
    /// A file that no module is made of.
    InNoModule {
        /// The file.
        file: String,
    },
    /// The table has a name for which there is no file.
    NoSuchRoom {
        /// The folder whose order it is.
        folder: String,
        /// The name.
        room: String,
    },
    /// Inherent `impl` blocks outside of the room that defines the type.
    ImplElsewhere {
        /// The type.
        name: String,
        /// The file that defines it.
        home: String,
        /// The blocks.
        blocks: Vec<Place>,
    },
}

/// Compares the crate whose sources are in the folder `src` with the table.
pub fn check(table: &Table, src: &str, tree: &Tree, arrows: &Arrows) -> Vec<Fault> {
    let house = House {
        src,
        orders: table.orders_of(src).collect(),
        tree,
        arrows,
    };
    let mut faults = house.wrong_files();
    faults.extend(house.wrong_arrows());
    faults.extend(house.circles());
    faults.extend(house.wrong_impls());
    faults
}

/// A crate beside its part of the table.
struct House<'a> {
    src: &'a str,
    orders: Vec<(&'a str, &'a Order)>,
    tree: &'a Tree,
    arrows: &'a Arrows,
}

impl House<'_> {
    /// The path of a file from the root of the workspace.
    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.src)
    }

    fn import(&self, arrows: &[Arrow]) -> Option<Import> {
        let first = arrows.first()?;
        Some(Import {
            from: Place {
                file: self.path(self.tree.file(first.from)),
                line: first.line,
            },
            names: arrows.iter().map(|arrow| arrow.name.clone()).collect(),
            to: self.path(self.tree.file(first.to)),
        })
    }

    /// The folders with an order that two files are both in, in rooms that differ, with the two rooms.
    fn rooms_apart<'s>(
        &'s self,
        one: &'s str,
        other: &'s str,
    ) -> impl Iterator<Item = (&'s Order, &'s str, &'s str)> {
        self.orders.iter().filter_map(move |(folder, order)| {
            let (one, other) = (room_of(folder, one)?, room_of(folder, other)?);
            let is_known = |room| order.position(room).is_some() || is_face(room);
            // What is in no room is a fault of its own.
            (one != other && is_known(one) && is_known(other)).then_some((*order, one, other))
        })
    }

    fn is_apart(&self, file: &str) -> bool {
        self.orders.iter().any(|(folder, order)| {
            room_of(folder, file).is_some_and(|room| order.apart.iter().any(|apart| apart == room))
        })
    }

    fn wrong_files(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for file in self.tree.stray_files() {
            let file = self.path(file);
            faults.push(Fault::InNoModule { file });
        }
        for (folder, order) in &self.orders {
            for file in self.tree.product_files() {
                let Some(room) = room_of(folder, file) else {
                    continue;
                };
                let is_listed = order.position(room).is_some() || is_face(room);
                if !is_listed && !self.is_apart(file) {
                    let file = self.path(file);
                    faults.push(Fault::InNoRoom { file });
                }
            }
            let in_folder = |file| room_of(folder, file);
            let product: BTreeSet<&str> = self.tree.product_files().filter_map(in_folder).collect();
            let tests: BTreeSet<&str> = self.tree.test_files().filter_map(in_folder).collect();
            let listed = order.rooms.iter().map(|room| room.name.as_str());
            let missing = listed.filter(|room| !product.contains(room));
            let apart = order.apart.iter().map(String::as_str);
            let apart = apart.filter(|room| !product.contains(room) && !tests.contains(room));
            for room in missing.chain(apart) {
                faults.push(Fault::NoSuchRoom {
                    folder: self.path(folder).trim_end_matches('/').to_owned(),
                    room: room.to_owned(),
                });
            }
        }
        faults
    }

    fn wrong_arrows(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for ((from, to), arrows) in self.arrows.between_files() {
            let (from, to) = (self.tree.file(*from), self.tree.file(*to));
            let Some(import) = self.import(arrows).filter(|_| !self.is_apart(from)) else {
                continue;
            };
            if self.is_apart(to) {
                faults.push(Fault::OfApart { import });
                continue;
            }
            for (order, from, to) in self.rooms_apart(from, to) {
                if let Some(against) = order.forbids(from, to) {
                    faults.push(Fault::AgainstOrder {
                        from: from.to_owned(),
                        to: to.to_owned(),
                        against,
                        import: import.clone(),
                    });
                }
            }
        }
        faults
    }

    fn circles(&self) -> Vec<Fault> {
        let is_in = |file: &FileNr| !self.is_apart(self.tree.file(*file));
        let between = self.arrows.between_files();
        let arrows = between.keys().copied();
        circles(arrows.filter(|(from, to)| is_in(from) && is_in(to)))
            .into_iter()
            .map(|circle| {
                let nexts = circle.way.iter().cycle().skip(1);
                let steps = circle.way.iter().zip(nexts);
                Fault::Circle {
                    way: steps
                        .filter_map(|(from, to)| self.import(between.get(&(*from, *to))?))
                        .collect(),
                    files: circle
                        .files
                        .iter()
                        .map(|file| self.path(self.tree.file(*file)))
                        .collect(),
                }
            })
            .collect()
    }

    fn wrong_impls(&self) -> Vec<Fault> {
        let mut elsewhere = BTreeMap::<_, Vec<Place>>::new();
        for block in self.arrows.impls() {
            let (home, file) = (self.tree.file(block.home), self.tree.file(block.file));
            let is_apart = self.is_apart(home) || self.is_apart(file);
            if !is_apart && self.rooms_apart(home, file).next().is_some() {
                let key = (self.path(home), block.name.clone());
                elsewhere.entry(key).or_default().push(Place {
                    file: self.path(file),
                    line: block.line,
                });
            }
        }
        elsewhere
            .into_iter()
            .map(|((home, name), blocks)| Fault::ImplElsewhere { name, home, blocks })
            .collect()
    }
}

/// The room of `folder` that a file is in; `None` if it is outside of the folder. Paths begin at `src`.
fn room_of<'f>(folder: &str, file: &'f str) -> Option<&'f str> {
    let inner = if folder.is_empty() {
        file
    } else {
        let inner = file.strip_prefix(folder)?;
        if inner == ".rs" {
            return Some("mod");
        }
        inner.strip_prefix('/')?
    };
    let first = inner.split('/').next()?;
    Some(first.strip_suffix(".rs").unwrap_or(first))
}

/// Whether this is the file of the folder itself, which stands above all of its rooms unless the table says otherwise.
fn is_face(room: &str) -> bool {
    matches!(room, "lib" | "main" | "mod")
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.join(", ");
        write!(f, "{} imports {names} from {}", self.from, self.to)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AgainstOrder {
                from,
                to,
                against,
                import,
            } => {
                let why = match against {
                    Against::Order => "stands above it",
                    Against::List => "is not among the rooms that it calls",
                };
                write!(
                    f,
                    "arrow: `{from}` may not import from `{to}`, which {why}: {import}"
                )
            }
            Self::OfApart { import } => write!(f, "arrow: what is apart is imported: {import}"),
            Self::Circle { way, files } => {
                write!(f, "circle of {} files:", files.len())?;
                for import in way {
                    write!(f, "\n    {import}")?;
                }
                if files.len() > way.len() {
                    write!(f, "\n    all of its files: {}", files.join(", "))?;
                }
                Ok(())
            }
            Self::InNoRoom { file } => write!(f, "file: {file} is in no room of the table"),
            Self::InNoModule { file } => write!(f, "file: {file} is in no module"),
            Self::NoSuchRoom { folder, room } => {
                write!(f, "table: there is no `{room}` in {folder}")
            }
            Self::ImplElsewhere { name, home, blocks } => {
                write!(
                    f,
                    "impl: `{name}` of {home} has impl blocks in other rooms:"
                )?;
                for place in blocks {
                    write!(f, "\n    {place}")?;
                }
                Ok(())
            }
        }
    }
}
