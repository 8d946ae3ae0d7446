//! libCacheSim's `csv`: a request a line, with a line of names before them or without.
//!
//! Columns are found by their names (`time`, `obj_id`, `op` and others that are in use), or else by their places: time,
//! object, size, operation. Objects are numbers, or words if the first one is a word below a line of names. An
//! object counts as a page, whatever its size.

use std::hash::{BuildHasher, BuildHasherDefault};

use rustc_hash::FxHasher;

use super::{LineReader, Stop};
use crate::trace::files::Files;
use crate::trace::request::{Bad, Op, Request, Span, number, seconds};

#[derive(Default)]
pub(in crate::trace) struct Csv {
    columns: Option<Columns>,
}

struct Columns {
    separator: u8,
    object: usize,
    time: Option<usize>,
    op: Option<usize>,
    objects: Objects,
    least: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Objects {
    /// The first one decides.
    Undecided,
    Numbers,
    Words,
}

const SEPARATORS: [u8; 3] = *b",;\t";
const OBJECT: [&str; 12] = [
    "obj_id",
    "objid",
    "obj",
    "object",
    "object_id",
    "id",
    "key",
    "block",
    "lba",
    "lbn",
    "page",
    "page_id",
];
const TIME: [&str; 6] = [
    "time",
    "timestamp",
    "ts",
    "real_time",
    "clock_time",
    "clock",
];
const OP: [&str; 5] = ["op", "operation", "type", "cmd", "rw"];

impl LineReader for Csv {
    fn line(
        &mut self,
        line: &[u8],
        _: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        if line.starts_with(b"#") {
            return Ok(());
        }
        let columns = match &mut self.columns {
            Some(columns) => columns,
            None => match named(line)? {
                Some(columns) => {
                    self.columns = Some(columns);
                    return Ok(());
                }
                None => self.columns.insert(placed(line)?),
            },
        };
        requests.push(columns.request(line)?);
        Ok(())
    }
}

impl Columns {
    fn request(&mut self, line: &[u8]) -> Result<Request, Bad> {
        let (mut object, mut time, mut op, mut nr_cells) = (None, None, None, 0);
        for (at, cell) in cells(line, self.separator).enumerate() {
            nr_cells = at + 1;
            match at {
                _ if at == self.object => object = Some(cell),
                _ if Some(at) == self.time => time = Some(cell),
                _ if Some(at) == self.op => op = Some(cell),
                _ => {}
            }
        }
        let object = object.ok_or("no column of objects")?;
        if nr_cells < self.least {
            return Err("fewer columns than the lines before");
        }
        if self.objects == Objects::Undecided {
            self.objects = match number(object) {
                Err("a word where a number should be") if !object.is_empty() => Objects::Words,
                _ => Objects::Numbers,
            };
        }
        let object = match self.objects {
            Objects::Words if object.is_empty() => return Err("an object without a name"),
            Objects::Words => BuildHasherDefault::<FxHasher>::default().hash_one(object),
            _ => number(object)?,
        };
        Ok(Request {
            file: 0,
            span: Span::blocks(object, 1)?,
            op: match op.map(<[u8]>::to_ascii_lowercase).as_deref() {
                Some(b"w" | b"write" | b"set" | b"put" | b"add" | b"update") => Op::Write,
                _ => Op::Read,
            },
            time: time.map(seconds).transpose()?,
        })
    }
}

/// The columns that a line of names tells; None if this is none.
fn named(line: &[u8]) -> Result<Option<Columns>, Bad> {
    let Some(separator) = separator_in(line) else {
        return Ok(None);
    };
    let names: Vec<String> = cells(line, separator)
        .map(|cell| String::from_utf8_lossy(cell).to_ascii_lowercase())
        .collect();
    if names.iter().any(|name| number(name.as_bytes()).is_ok()) {
        return Ok(None);
    }
    let place = |known: &[&str]| {
        names
            .iter()
            .position(|name| known.contains(&name.replace([' ', '-'], "_").as_str()))
    };
    let object = place(&OBJECT).ok_or("a line of names, none of which is an object's (obj_id)")?;
    Ok(Some(Columns {
        separator,
        object,
        time: place(&TIME),
        op: place(&OP),
        objects: Objects::Undecided,
        least: names.len(),
    }))
}

/// The columns of lines without names.
fn placed(line: &[u8]) -> Result<Columns, Bad> {
    let separator = separator_in(line).ok_or("no columns, with commas between them")?;
    let nr = cells(line, separator).count();
    Ok(Columns {
        separator,
        object: 1,
        time: Some(0),
        op: (nr >= 4).then_some(3),
        objects: Objects::Numbers,
        least: nr,
    })
}

fn separator_in(line: &[u8]) -> Option<u8> {
    SEPARATORS.into_iter().find(|byte| line.contains(byte))
}

/// The cells of a line, without spaces and quotes around them.
fn cells(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |&byte| byte == separator).map(|cell| {
        let cell = cell.trim_ascii();
        cell.strip_prefix(b"\"")
            .and_then(|cell| cell.strip_suffix(b"\""))
            .unwrap_or(cell)
    })
}
