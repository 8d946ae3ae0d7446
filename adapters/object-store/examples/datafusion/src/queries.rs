//! The 22 queries with the values of the validation of TPC-H.

use anyhow::{Context as _, Result, ensure};
use tpchgen::q_and_a::queries;

/// Values of `:1`, `:2`, ... in each query.
const VALUES: [&str; 22] = [
    "90",
    "15|BRASS|EUROPE",
    "BUILDING|1995-03-15",
    "1993-07-01",
    "ASIA|1994-01-01",
    "1994-01-01|0.06|24",
    "FRANCE|GERMANY",
    "BRAZIL|AMERICA|ECONOMY ANODIZED STEEL",
    "green",
    "1993-10-01",
    "GERMANY|0.0001",
    "MAIL|SHIP|1994-01-01",
    "special|requests",
    "1995-09-01",
    "1996-01-01",
    "Brand#45|MEDIUM POLISHED|49|14|23|45|19|3|36|9",
    "Brand#23|MED BOX",
    "300",
    "Brand#12|Brand#23|Brand#34|1|10|20",
    "forest|1994-01-01|CANADA",
    "SAUDI ARABIA",
    "13|31|23|29|30|18|17",
];

/// Returns the statements of query `nr` (1 to 22) at this scale.
pub(crate) fn statements(nr: u8, scale: f64) -> Result<Vec<String>> {
    let text = queries::query(i32::from(nr)).with_context(|| format!("there is no query {nr}"))?;
    // `:s` is the number of a stream. DataFusion does not parse the precision of `day`.
    let mut text = text.replace(":s", "0").replace("day (3)", "day");
    let values: Vec<_> = VALUES[usize::from(nr) - 1].split('|').collect();
    // Backwards, since `:10` begins with `:1`.
    for (i, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!(":{}", i + 1), value);
    }
    if nr == 11 {
        // The threshold of a part's share is inversely proportional to the scale.
        text = text.replace("0.0001", &format!("{:.10}", 0.0001 / scale));
    }
    ensure!(!text.contains(':'), "query {nr} has other values: {text}");
    let limit = match nr {
        2 | 18 | 21 => " limit 100",
        3 => " limit 10",
        10 => " limit 20",
        _ => "",
    };
    let statements = text.trim().trim_end_matches(';').split(';');
    Ok(statements.map(|text| text.to_owned() + limit).collect())
}
