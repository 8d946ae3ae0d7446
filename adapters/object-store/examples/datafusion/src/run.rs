//! One process with one engine: the queries, and what each took.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use serde::{Deserialize, Serialize};

use crate::distance::Distance;
use crate::engines::{Engine, Making, Setup};
use crate::queries;

/// What a process does.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// Each query over a store and a session of its own: nothing is known of any object.
    Alone,
    /// All queries one after the other, from nothing; and once more.
    Twice,
    /// All queries once, with what the process before has left on its disk.
    Restarted,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Alone, Self::Twice, Self::Restarted];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "each query alone",
            Self::Twice => "all in a row, twice",
            Self::Restarted => "restarted",
        })
    }
}

/// What a process is told.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Plan {
    pub(crate) engine: Engine,
    pub(crate) part: Part,
    pub(crate) server: SocketAddr,
    pub(crate) latency_ms: u64,
    pub(crate) tables: PathBuf,
    pub(crate) scale: f64,
    /// Bytes of memory of the cache.
    pub(crate) capacity: u64,
    pub(crate) disk: PathBuf,
    pub(crate) queries: Vec<u8>,
}

/// What the queries begin with.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Case {
    /// With nothing, each of them.
    Cold,
    /// With what those before have left, the first with nothing.
    Row,
    /// With what all of them have left.
    Warm,
    /// With what a process that has ended has left.
    Restarted,
}

impl Case {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Row => "row",
            Self::Warm => "warm",
            Self::Restarted => "restarted",
        }
    }
}

/// What a query took.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Record {
    pub(crate) case: Case,
    pub(crate) query: u8,
    pub(crate) seconds: f64,
    /// How long its reads waited, all together: reads at the same time count each.
    pub(crate) reading_seconds: f64,
    pub(crate) nr_requests: u64,
    /// That came from the server.
    pub(crate) bytes: u64,
    pub(crate) nr_rows: usize,
    pub(crate) digest: u64,
}

/// Does what the plan says, and prints a record a line.
pub(crate) fn run(plan: &Plan) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let distance = Distance::start(plan.server, Duration::from_millis(plan.latency_ms))?;
        let mut making = Making {
            engine: plan.engine,
            store: distance.address,
            tables: &plan.tables,
            capacity: plan.capacity,
            disk: None,
        };
        match plan.part {
            Part::Alone => {
                for &query in &plan.queries {
                    let setup = making.setup().await?;
                    report(Case::Cold, query, plan.scale, &setup, &distance).await?;
                }
            }
            Part::Twice => {
                making.disk = Some(plan.disk.clone());
                let setup = making.setup().await?;
                for case in [Case::Row, Case::Warm] {
                    for &query in &plan.queries {
                        report(case, query, plan.scale, &setup, &distance).await?;
                    }
                }
                setup.close().await?;
            }
            Part::Restarted => {
                making.disk = Some(plan.disk.clone());
                let setup = making.setup().await?;
                for &query in &plan.queries {
                    report(Case::Restarted, query, plan.scale, &setup, &distance).await?;
                }
                setup.close().await?;
            }
        }
        Ok(())
    })
}

async fn report(
    case: Case,
    query: u8,
    scale: f64,
    setup: &Setup,
    distance: &Distance,
) -> Result<()> {
    let statements = queries::statements(query, scale)?;
    let waited = setup.waited.all();
    let (requests, bytes) = distance.counts();
    let begun = Instant::now();
    let mut result: Vec<RecordBatch> = Vec::new();
    for statement in &statements {
        let frame = setup.context.sql(statement).await;
        let frame = frame.with_context(|| format!("query {query}"))?;
        let batches = frame
            .collect()
            .await
            .with_context(|| format!("query {query}"))?;
        // Of a query with a view, the middle one has rows.
        if batches.iter().any(|batch| batch.num_rows() > 0) || result.is_empty() {
            result = batches;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let waited_now = setup.waited.all();
    let (requests_now, bytes_now) = distance.counts();
    let record = Record {
        case,
        query,
        seconds,
        reading_seconds: (waited_now - waited).as_secs_f64(),
        nr_requests: requests_now - requests,
        bytes: bytes_now - bytes,
        nr_rows: result.iter().map(RecordBatch::num_rows).sum(),
        digest: digest(&result)?,
    };
    println!("{}", serde_json::to_string(&record)?);
    Ok(())
}

/// The same for the same rows in any order.
fn digest(batches: &[RecordBatch]) -> Result<u64> {
    let text = pretty_format_batches(batches)?.to_string();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let mut hasher = DefaultHasher::new();
    lines.hash(&mut hasher);
    Ok(hasher.finish())
}
