//! The eight tables of TPC-H as Parquet files.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatchReader;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// A file has at most about so many rows.
const ROWS_OF_FILE: f64 = 1.5e6;

/// A table, and how its rows are made.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// Rows at scale 1.
    rows: f64,
    pub(crate) schema: fn() -> SchemaRef,
    make: fn(f64, i32, i32) -> Box<dyn RecordBatchReader>,
}

macro_rules! table {
    ($name:literal, $rows:literal, $generator:ident, $arrow:ident) => {
        Table {
            name: $name,
            rows: $rows,
            schema: $arrow::schema_ref,
            make: |scale, part, parts| Box::new($arrow::new($generator::new(scale, part, parts))),
        }
    };
}

pub(crate) const TABLES: [Table; 8] = [
    table!("region", 5.0, RegionGenerator, RegionArrow),
    table!("nation", 25.0, NationGenerator, NationArrow),
    table!("supplier", 1e4, SupplierGenerator, SupplierArrow),
    table!("customer", 1.5e5, CustomerGenerator, CustomerArrow),
    table!("part", 2e5, PartGenerator, PartArrow),
    table!("partsupp", 8e5, PartSuppGenerator, PartSuppArrow),
    table!("orders", 1.5e6, OrderGenerator, OrderArrow),
    table!("lineitem", 6e6, LineItemGenerator, LineItemArrow),
];

/// Makes the tables in `folder`, if they are not there, and says how many bytes they have.
pub(crate) fn make(folder: &Path, scale: f64) -> Result<u64> {
    if !folder.exists() {
        // Under another name until all are there.
        let making = folder.with_extension("making");
        let _ = fs::remove_dir_all(&making);
        for table in &TABLES {
            eprintln!("making {} at scale {scale}", table.name);
            table.write(&making.join(table.name), scale)?;
        }
        fs::rename(&making, folder)?;
    }
    let mut bytes = 0;
    for table in &TABLES {
        let of_table = folder.join(table.name);
        for name in crate::names_in(&of_table)? {
            bytes += fs::metadata(of_table.join(name))?.len();
        }
    }
    Ok(bytes)
}

impl Table {
    fn write(&self, folder: &Path, scale: f64) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let parts = (self.rows * scale / ROWS_OF_FILE).ceil().max(1.0) as i32;
        for part in 1..=parts {
            let file = File::create(folder.join(format!("part-{part:03}.parquet")))?;
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .build();
            let mut writer =
                ArrowWriter::try_new(file, Arc::clone(&(self.schema)()), Some(properties))?;
            for batch in (self.make)(scale, part, parts) {
                writer.write(&batch?)?;
            }
            writer.close()?;
        }
        Ok(())
    }
}
