//! The 22 queries, with the values that TPC-H validates with.

use anyhow::{Context as _, Result};
use tpchgen::q_and_a::{answers_sf1, queries};

/// What stands for `:1`, `:2`, ... in each query.
const VALUES: [&[&str]; 22] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY", "0.0001"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &[
        "Brand#45",
        "MEDIUM POLISHED",
        "49",
        "14",
        "23",
        "45",
        "19",
        "3",
        "36",
        "9",
    ],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

/// How many rows of the result are asked for, where not all are.
fn most_rows(nr: u8) -> Option<u32> {
    match nr {
        2 | 18 | 21 => Some(100),
        3 => Some(10),
        10 => Some(20),
        _ => None,
    }
}

/// The statements of query `nr` (from 1 on), at this scale.
pub(crate) fn statements(nr: u8, scale: f64) -> Result<Vec<String>> {
    let text = queries::query(i32::from(nr)).with_context(|| format!("there is no query {nr}"))?;
    // Places for a stream's number, and a precision that DataFusion does not know.
    let mut text = text.replace(":s", "0").replace("day (3)", "day");
    let values = VALUES[usize::from(nr) - 1];
    // From the last on: `:1` is also how `:10` begins.
    for (place, value) in values.iter().enumerate().rev() {
        let value = if nr == 11 && place == 1 {
            // The share that a part has is less, the more parts there are.
            format!("{:.10}", 0.0001 / scale)
        } else {
            (*value).to_owned()
        };
        text = text.replace(&format!(":{}", place + 1), &value);
    }
    let mut statements: Vec<String> = text
        .split(';')
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect();
    if let (Some(nr), [statement]) = (most_rows(nr), &mut statements[..]) {
        statement.push_str(&format!("\nlimit {nr}"));
    }
    Ok(statements)
}

/// How many rows query `nr` has at scale 1.
pub(crate) fn nr_rows(nr: u8) -> Result<usize> {
    let answer = answers_sf1::answer(i32::from(nr)).with_context(|| format!("no answer {nr}"))?;
    Ok(answer
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count()
        - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_has_all_its_values() {
        for nr in 1..=22 {
            for statement in statements(nr, 1.0).unwrap() {
                assert!(!statement.contains(':'), "{statement}");
            }
            assert!(nr_rows(nr).unwrap() > 0);
        }
    }
}
