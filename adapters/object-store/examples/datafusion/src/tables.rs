//! The eight tables of TPC-H as Parquet files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use datafusion::arrow::record_batch::RecordBatchReader;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tpchgen::generators::*;
use tpchgen_arrow::*;

const MAX_FILE_ROWS: f64 = 1.5e6;

/// Generator of a part of a table: scale, number of the part (from 1), number of parts.
type Generator = fn(f64, i32, i32) -> Box<dyn RecordBatchReader>;

macro_rules! rows {
    ($generator:ident, $arrow:ident) => {
        |scale, part, parts| Box::new($arrow::new($generator::new(scale, part, parts)))
    };
}

/// Name, rows at scale 1 and generator of each table.
pub(crate) const TABLES: [(&str, f64, Generator); 8] = [
    ("region", 5.0, rows!(RegionGenerator, RegionArrow)),
    ("nation", 25.0, rows!(NationGenerator, NationArrow)),
    ("supplier", 1e4, rows!(SupplierGenerator, SupplierArrow)),
    ("customer", 1.5e5, rows!(CustomerGenerator, CustomerArrow)),
    ("part", 2e5, rows!(PartGenerator, PartArrow)),
    ("partsupp", 8e5, rows!(PartSuppGenerator, PartSuppArrow)),
    ("orders", 1.5e6, rows!(OrderGenerator, OrderArrow)),
    ("lineitem", 6e6, rows!(LineItemGenerator, LineItemArrow)),
];

/// Writes the tables into a folder of `parent`, unless it exists, and returns its path.
pub(crate) fn make(parent: &Path, scale: f64) -> Result<PathBuf> {
    let folder = parent.join(format!("tables-{scale}"));
    if !folder.exists() {
        // Under another name until all are complete.
        let partial = parent.join("partial");
        let _ = fs::remove_dir_all(&partial);
        for (name, rows, generator) in TABLES {
            eprintln!("writing {name} at scale {scale}");
            let parts = (rows * scale / MAX_FILE_ROWS).ceil() as i32;
            for part in 1..=parts {
                write(&partial.join(name), part, generator(scale, part, parts))
                    .with_context(|| format!("cannot write {name} to {}", partial.display()))?;
            }
        }
        fs::rename(&partial, &folder)?;
    }
    Ok(folder)
}

fn write(folder: &Path, part: i32, rows: Box<dyn RecordBatchReader>) -> Result<()> {
    fs::create_dir_all(folder)?;
    let file = File::create(folder.join(format!("part-{part:03}.parquet")))?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties.build()))?;
    for batch in rows {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}
