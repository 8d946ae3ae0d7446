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
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A multiple in at most six characters, up to 99999.
pub(super) fn times(value: f64) -> String {
    format!("{}x", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

pub(super) fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
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
}
