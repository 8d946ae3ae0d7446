//! TPC-H by DataFusion over local files, an S3 server, and the server behind Pagewell.
//!
//! `cargo run --release -- --scale 0.1` prints a line for each round, engine and phase. In `single`,
//! each query starts with an empty cache. Then all run in a row: from an `empty` cache, `again`, and
//! `restarted`, in a new cache with the second tier of the old one.

mod counts;
mod queries;
mod server;
mod tables;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::prelude::SessionContext;
use object_store::{ObjectStore, local::LocalFileSystem};
use pagewell_object_store::PagewellStore;
use tokio::runtime::Runtime;
use url::Url;

use server::{BUCKET, Server};
use tables::TABLES;

const CAPACITY_BYTES: u64 = 1 << 30;
const DISK_BYTES: u64 = 4 << 30;

#[derive(Parser)]
struct Args {
    /// Scale factor of the tables: 1 is a gigabyte before compression.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

struct Bench {
    scale: f64,
    tables: PathBuf,
    server: Server,
    /// Sorted lines of the first result of each query.
    results: HashMap<u8, Vec<String>>,
}

fn main() -> Result<()> {
    let Args { scale, rounds } = Args::parse();
    ensure!(scale > 0.0 && scale <= 100.0, "--scale is not in (0, 100]");
    let folder = std::path::absolute("data")?;
    let tables = tables::make(&folder, scale)?;
    let server = Server::start(&folder)?;
    Runtime::new()?.block_on(server.load(&tables))?;
    let mut bench = Bench {
        scale,
        tables,
        server,
        results: HashMap::new(),
    };
    for _ in 0..rounds {
        for engine in ["local", "store", "pagewell"] {
            let disk = tempfile::tempdir_in(&folder)?;
            // The end of a runtime ends all tasks, and drops the cache.
            Runtime::new()?.block_on(async {
                bench.phase([engine, "single"], None).await?;
                let session = bench.session(engine, Some(disk.path())).await?;
                bench.phase([engine, "empty"], Some(&session)).await?;
                bench.phase([engine, "again"], Some(&session)).await
            })?;
            Runtime::new()?.block_on(async {
                let session = bench.session(engine, Some(disk.path())).await?;
                bench.phase([engine, "restarted"], Some(&session)).await
            })?;
        }
    }
    Ok(())
}

impl Bench {
    /// Creates a session over a new store, with the second tier in the folder `disk`.
    async fn session(&self, engine: &str, disk: Option<&Path>) -> Result<SessionContext> {
        let client = Arc::new(self.server.client()?);
        let mut base = format!("s3://{BUCKET}");
        let mut store: Arc<dyn ObjectStore> = client.clone();
        if engine == "local" {
            base = format!("file://{}", self.tables.display());
            store = Arc::new(LocalFileSystem::new());
        } else if engine == "pagewell" {
            let mut builder = PagewellStore::builder(client).capacity(CAPACITY_BYTES);
            if let Some(folder) = disk {
                builder = builder.disk(folder, DISK_BYTES).namespace(BUCKET);
            }
            store = Arc::new(builder.build()?);
        }
        let session = SessionContext::new();
        session.register_object_store(&Url::parse(&base)?, store);
        for (name, _, generator) in TABLES {
            // With a schema, the registration reads nothing.
            let schema = Some(generator(1.0, 1, 1).schema());
            let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
            let path = format!("{base}/{name}/");
            let table = session.register_listing_table(name, path, options, schema, None);
            table.await?;
        }
        Ok(session)
    }

    /// Runs all queries in `shared`, or each in a session of its own, and prints the sums.
    async fn phase(&mut self, name: [&str; 2], shared: Option<&SessionContext>) -> Result<()> {
        let [engine, phase] = name;
        let mut seconds = 0.0;
        self.server.counts.take();
        for query in 1..=22 {
            let session = match shared {
                Some(session) => session,
                None => &self.session(engine, None).await?,
            };
            let start = Instant::now();
            let result = run(session, &queries::statements(query, self.scale)?).await;
            seconds += start.elapsed().as_secs_f64();
            let compared = result.and_then(|result| self.compare(query, &result));
            compared.with_context(|| format!("query {query}, {engine}, {phase}"))?;
        }
        let (requests, bytes, reading) = self.server.counts.take();
        let megabytes = bytes as f64 / 1e6;
        println!(
            "{engine:8} {phase:9} {seconds:7.2} s, {reading:7.2} s reading, \
             {megabytes:7.1} MB, {requests:5} requests"
        );
        Ok(())
    }

    /// Compares the rows, in any order, with the first result of the query.
    fn compare(&mut self, query: u8, result: &[RecordBatch]) -> Result<()> {
        let text = pretty_format_batches(result)?.to_string();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        let first = self.results.entry(query).or_insert_with(|| lines.clone());
        ensure!(*first == lines, "the result differs from the first one");
        Ok(())
    }
}

/// Runs the statements of a query and returns the rows.
async fn run(session: &SessionContext, statements: &[String]) -> Result<Vec<RecordBatch>> {
    let mut result = Vec::new();
    for statement in statements {
        let batches = session.sql(statement).await?.collect().await?;
        // The statements that create and drop a view have no rows.
        if batches.iter().any(|batch| batch.num_rows() > 0) {
            result = batches;
        }
    }
    Ok(result)
}
