//! Opening a file once more: every worker does, as separate tasks would. A descriptor that threads share has a count that they would write
//! to with each `pread`.

use std::fs::File;

use pagewell::Cache;
use pagewell::refcount::RefScheme;

use crate::bench::data::DataFile;
use crate::failure::{Failure, chain};

/// Opens the file in a cache.
pub(super) fn open_in<S: RefScheme>(
    cache: &Cache<S>,
    data: &DataFile,
) -> Result<pagewell::File<S>, Failure> {
    cache.open(&data.path).map_err(|error| {
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
