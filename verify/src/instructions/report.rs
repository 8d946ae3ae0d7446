//! A table for people, or one object a line.

use std::io::{self, Write};

use serde::Serialize;

/// What the report looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Columns, with a head that says what they are.
    Table,
    /// A JSON object for each kind, one a line, and nothing else.
    Json,
}

/// What was counted of one kind of hit.
#[derive(Debug, Clone, Copy)]
pub struct Count<'k> {
    /// The kind.
    pub kind: &'k str,
    /// The instructions of a hit.
    pub here: f64,
    /// Those in the other checkout.
    pub base: Option<f64>,
}

/// The object of a kind.
#[derive(Serialize)]
struct Line<'k> {
    kind: &'k str,
    instructions: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<f64>,
}

/// Writes that nothing was counted, and why.
pub fn skipped(out: &mut impl Write, format: Format, why: &str) -> io::Result<()> {
    match format {
        Format::Table => writeln!(out, "skipped: {why}"),
        Format::Json => writeln!(out, "{}", serde_json::json!({ "skipped": why })),
    }
}

/// Writes what stands above the counts of a table.
pub fn head(
    out: &mut impl Write,
    format: Format,
    valgrind: &str,
    count: u64,
    kinds: &[String],
    has_base: bool,
) -> io::Result<()> {
    if format == Format::Json {
        return Ok(());
    }
    writeln!(
        out,
        "Instructions of a hit: the difference of runs with {} and {count} hits, a hit.",
        2 * count
    )?;
    writeln!(
        out,
        "{valgrind} hides from the program what it does not know of the processor, AVX-512 for one: copies are those of a \
         processor without."
    )?;
    let width = width(kinds);
    if has_base {
        writeln!(
            out,
            "{:width$} {:>12} {:>12} {:>12}",
            "kind", "base", "here", "difference"
        )
    } else {
        writeln!(out, "{:width$} {:>12}", "kind", "here")
    }
}

/// Writes the counts of a kind.
pub fn count(
    out: &mut impl Write,
    format: Format,
    count: &Count<'_>,
    kinds: &[String],
) -> io::Result<()> {
    let Count { kind, here, base } = *count;
    let difference = base.map(|base| here - base);
    if format == Format::Json {
        let line = Line {
            kind,
            instructions: here,
            base,
            difference,
        };
        return writeln!(out, "{}", serde_json::to_string(&line)?);
    }
    let width = width(kinds);
    match base.zip(difference) {
        Some((base, difference)) => {
            writeln!(
                out,
                "{kind:width$} {base:>12.2} {here:>12.2} {difference:>+12.2}"
            )
        }
        None => writeln!(out, "{kind:width$} {here:>12.2}"),
    }
}

/// How wide the column with the kinds is.
fn width(kinds: &[String]) -> usize {
    kinds.iter().map(String::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, base: Option<f64>) -> String {
        let kinds = ["read".to_owned()];
        let mut out = Vec::new();
        head(
            &mut out,
            format,
            "valgrind-3.19.0",
            10,
            &kinds,
            base.is_some(),
        )
        .expect("written");
        let one = Count {
            kind: "read",
            here: 53.0,
            base,
        };
        count(&mut out, format, &one, &kinds).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_table_has_the_difference_where_there_is_a_base() {
        let alone = written(Format::Table, None);
        assert!(alone.ends_with("read        53.00\n"), "{alone}");
        let beside = written(Format::Table, Some(54.5));
        assert!(
            beside.ends_with("read        54.50        53.00        -1.50\n"),
            "{beside}"
        );
    }

    #[test]
    fn an_object_a_line_and_nothing_else() {
        assert_eq!(
            written(Format::Json, None),
            "{\"kind\":\"read\",\"instructions\":53.0}\n"
        );
        assert_eq!(
            written(Format::Json, Some(54.5)),
            "{\"kind\":\"read\",\"instructions\":53.0,\"base\":54.5,\"difference\":-1.5}\n"
        );
    }
}
