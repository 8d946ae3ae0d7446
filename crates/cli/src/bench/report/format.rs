//! Numbers and tables in few columns.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

pub(super) fn new_table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_header(header);
    table
}

/// Numbers stand below each other; columns are two spaces apart (one is the table's).
pub(super) fn align_right(table: &mut Table) {
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { 1 }, 0));
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A time in at most seven characters.
pub(in crate::bench) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A multiple in at most six characters, up to 99999.
pub(in crate::bench) fn times(value: f64) -> String {
    format!("{}x", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

pub(in crate::bench) fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// The widest that a line may be.
pub(in crate::bench) const COLUMNS: usize = 100;

/// As [`wrap_at`], at [`COLUMNS`].
pub(super) fn wrap(text: &str) -> String {
    wrap_at(text, COLUMNS)
}

/// Breaks lines that are wider than `most` columns at spaces; the rest of a line is indented by two spaces. A word that is wider by itself,
/// a path as a rule, has a line of its own: cut, it would be no path.
pub(in crate::bench) fn wrap_at(text: &str, most: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut columns = 0;
        for word in line.split_inclusive(' ') {
            let width = word.trim_end().chars().count();
            if columns > INDENT.len() && columns + width > most {
                wrapped.truncate(wrapped.trim_end_matches(' ').len());
                wrapped.push('\n');
                wrapped.push_str(INDENT);
                columns = INDENT.len();
            }
            wrapped.push_str(word);
            columns += word.chars().count();
        }
    }
    wrapped
}

const INDENT: &str = "  ";

/// A name in so many characters at the most: the end of a longer one is left out.
pub(super) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_multiples_are_short() {
        for (ns, text) in [
            (1.234, "1.23 ns"),
            (99.96, "100 ns"),
            (999.6, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (5e6, "5.00 ms"),
            (2e9, "2.00 s"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(times(0.5), "0.50x");
        assert_eq!(times(123.4), "123x");
    }

    #[test]
    fn lines_are_broken_at_spaces_and_words_are_not() {
        let words = "word ".repeat(40);
        let text = format!("short line\n{words}\nlast");
        let wrapped = wrap(&text);
        assert!(wrapped.lines().all(|line| line.chars().count() <= COLUMNS));
        assert!(
            wrapped
                .lines()
                .all(|line| line.trim_end() == line || line.ends_with("word "))
        );
        assert_eq!(
            wrapped.split_whitespace().collect::<Vec<_>>(),
            text.split_whitespace().collect::<Vec<_>>()
        );
        assert!(wrapped.starts_with("short line\nword word") && wrapped.ends_with("\nlast"));
        let path = format!("/{}", "x".repeat(150));
        assert_eq!(
            wrap(&format!("READ: 1 MiB in {path} (ext4), time\n")),
            format!("READ: 1 MiB in\n  {path}\n  (ext4), time\n")
        );
        assert_eq!(wrap(&path), path);
        assert_eq!(wrap(""), "");
    }

    #[test]
    fn a_long_name_is_shortened_by_characters() {
        assert_eq!(shortened("EPYC", 4), "EPYC");
        assert_eq!(shortened("Ryzen™ 9 7950X", 8), "Ryzen™…");
        assert_eq!(shortened("", 8), "");
    }
}
