//! Opening a file once more: every worker does, as separate tasks would. A descriptor that threads share has a count that they would write
//! to with each `pread`.

use std::error::Error;
use std::fs::File;

use pagewell::Cache;

use crate::bench::data::DataFile;
use crate::failure::{Failure, chain};

/// Opens the file in a cache.
pub(super) fn open_in(cache: &Cache, data: &DataFile) -> Result<pagewell::File, Failure> {
    opened(data, cache.open(&data.path))
}

/// Names the file in the error of a cache, of either scheme, that could not open it.
pub(super) fn opened<F>(data: &DataFile, result: Result<F, impl Error>) -> Result<F, Failure> {
    result.map_err(|error| {
        Failure::because(
            format_args!("cannot open {} in a cache", data.label),
            chain(&error),
        )
    })
}

/// Opens the file for the system calls.
pub(super) fn reopen(data: &DataFile) -> Result<File, Failure> {
    File::open(&data.path)
        .map_err(|error| Failure::because(format_args!("cannot open {} again", data.label), error))
}
