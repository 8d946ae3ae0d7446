//! The command line of `pagewell what-if`.

use std::path::PathBuf;

use clap::Args;
use pagewell_sim::Policy;

use super::values::{TraceFormat, Usage, parse_trace_page_size};
use crate::output::Format;
use crate::size;
use crate::what_if::{Rate, Size, WhatIfSettings};

/// Simulate caches under the requests of a trace, and show how often they would hit
///
/// Formats: fio iologs (versions 2 and 3), strace (-f, -y, times), blkparse, libCacheSim's csv, txt and oracleGeneral, ARC's .lis, LIRS;
/// plain, or compressed by gzip or zstd. The format is found by looking at the beginning. To trace a program:
///
///   strace -f -y -o TRACE -e trace=%desc,%process PROGRAM
///
/// docs/what-if.md says what each format can tell; what a program reads through mmap is invisible to strace.
#[derive(Args, Debug)]
pub(crate) struct WhatIfArgs {
    /// The trace; - for the standard input
    trace: PathBuf,

    /// Sizes of the cache in pages, such as 1000,4000
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "sizes",
        value_parser = clap::value_parser!(u64).range(1..=MOST_PAGES))]
    pages: Vec<u64>,

    /// Sizes of the cache, in bytes or in per cent of what the trace touches, such as 64M,5% [default: ten, from 0.1% to 100%]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_cache_size)]
    sizes: Vec<Size>,

    /// Only these policies: pagewell, clock, lru, s3-fifo, arc, quick_cache, moka, belady (the limit) [default: all]
    #[arg(long = "policy", value_name = "LIST", value_delimiter = ',', value_parser = parse_policy)]
    policies: Vec<Policy>,

    /// Size of a page, a power of two from 512 to 16M. Blocks and objects count as a page whatever it is
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = parse_trace_page_size)]
    page_size: u64,

    /// Simulate a part of the pages, such as 0.01, or `auto` for as many as make a small error, or 1 for all [default: all; of more
    /// than 8 million page requests, auto]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    sample: Option<Rate>,

    /// What a miss costs, in microseconds, to tell what the misses take
    #[arg(long, value_name = "MICROSECONDS", default_value = "100", value_parser = parse_miss)]
    miss_us: f64,

    /// Write a page of HTML with the curves to this file too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The format of the trace, instead of what its beginning looks like
    #[arg(long, value_enum, value_name = "FORMAT")]
    trace_format: Option<TraceFormat>,

    /// How to print: text for people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

const MOST_PAGES: u64 = 1 << 40;

/// In the order in which they are shown.
const ALL: [Policy; 8] = [
    Policy::Pagewell,
    Policy::Clock,
    Policy::Lru,
    Policy::S3Fifo,
    Policy::Arc,
    Policy::QuickCache,
    Policy::Moka,
    Policy::Belady,
];

impl WhatIfArgs {
    pub(crate) fn settings(self) -> Result<WhatIfSettings, Usage> {
        let mut policies = self.policies;
        if policies.is_empty() {
            policies = ALL.to_vec();
        }
        // Each once, in the order given.
        let mut kept = Vec::new();
        policies.retain(|policy| {
            let is_new = !kept.contains(policy);
            kept.push(*policy);
            is_new
        });
        let pages = self.pages.into_iter().map(Size::Pages);
        Ok(WhatIfSettings {
            trace: self.trace,
            trace_format: self.trace_format.map(TraceFormat::format),
            page_size: self.page_size,
            sizes: pages.chain(self.sizes).collect(),
            policies,
            sample: self.sample.unwrap_or(Rate::Usual),
            miss_us: self.miss_us,
            html: self.html,
            format: self.format,
        })
    }
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    text.parse().map_err(|_| {
        let names: Vec<String> = ALL.iter().map(ToString::to_string).collect();
        format!("the policies are {}", names.join(", "))
    })
}

fn parse_cache_size(text: &str) -> Result<Size, String> {
    match text.trim().strip_suffix('%') {
        None => match size::parse(text)? {
            0 => Err("it must not be zero".to_owned()),
            bytes => Ok(Size::Bytes(bytes)),
        },
        Some(number) => match number.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 1000.0 => Ok(Size::Percent(percent)),
            _ => Err("expected more than 0 and at most 1000 per cent".to_owned()),
        },
    }
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    if text == "auto" {
        return Ok(Rate::Auto);
    }
    match text.parse::<f64>() {
        Ok(1.0) => Ok(Rate::All),
        Ok(rate) if (1e-9..1.0).contains(&rate) => Ok(Rate::Part(rate)),
        _ => Err("expected a part between 0.000000001 and 1, or auto".to_owned()),
    }
}

fn parse_miss(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(us) if (0.001..=1e9).contains(&us) => Ok(us),
        _ => Err("expected between 0.001 and 1000000000 microseconds".to_owned()),
    }
}
