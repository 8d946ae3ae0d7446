//! Spaces that are filled with bytes, or have a file mapped: what `bench space` reads, and `bench fork` forks.

use pagewell::Cache;
use pagewell::frame::{FramePool, HugePages, Nodes, PoolConfig};
use pagewell::io::MemoryBackend;
use pagewell::space::{CacheSpaces as _, MapOptions, Protection, Sharing, Space, Spaces};
use pagewell_frame::FRAME_BYTES;

use crate::failure::Failure;

/// Which pages the memory is to be made of.
fn pages(huge_pages: bool) -> HugePages {
    if huge_pages {
        HugePages::Advise
    } else {
        HugePages::Never
    }
}

/// A space with a file of so many bytes mapped, all of it cached, and where it begins.
pub(super) fn mapped(
    bytes: u64,
    sharing: Sharing,
    huge_pages: bool,
) -> Result<(Space, u64), Failure> {
    let failed = |error| Failure::because("cannot map a file", error);
    let of_file = |error| Failure::because("cannot read a file", error);
    let cache = Cache::builder()
        .capacity(bytes * 2 + (16 << 20))
        .nodes(Nodes::Unbound(1))
        .huge_pages(pages(huge_pages))
        .build()
        .map_err(of_file)?;
    let backend = MemoryBackend::new(vec![0xA5; bytes as usize]);
    let file = cache.open_backend(backend, "memory").map_err(of_file)?;
    let space = cache.space().map_err(failed)?;
    let options = MapOptions::new().protection(Protection::Read);
    let area = space
        .map_file_with(&file, 0..bytes, sharing, &options)
        .map_err(failed)?;
    let mut page = [0; FRAME_BYTES];
    // Read in; and marked as referenced, so that the next read is a hit.
    for _ in 0..2 {
        for addr in area.clone().step_by(FRAME_BYTES) {
            space.read(addr, &mut page).map_err(failed)?;
        }
    }
    Ok((space, area.start))
}

/// Spaces with room for `bytes`, and as much again.
pub(super) fn spaces(bytes: u64, huge_pages: bool) -> Result<Spaces, Failure> {
    let nr_frames = bytes as usize / FRAME_BYTES * 2 + 1024;
    let mut config = PoolConfig::new(nr_frames);
    config.nodes = Nodes::Unbound(1);
    config.huge_pages = pages(huge_pages);
    FramePool::new(&config)
        .map(Spaces::new)
        .map_err(|error| Failure::because("cannot make a frame pool", error))
}

/// A space with an area of so many bytes, all of them written, in pages of `page_bytes`, and where it begins.
pub(super) fn filled(
    spaces: &Spaces,
    bytes: u64,
    page_bytes: usize,
) -> Result<(Space, u64), Failure> {
    let failed = |error| Failure::because("cannot fill a space", error);
    let space = spaces.space().map_err(failed)?;
    let options = MapOptions::new().page_bytes(page_bytes);
    let area = space.map_with(bytes, &options).map_err(failed)?;
    let page = [0xA5; FRAME_BYTES];
    for addr in area.clone().step_by(FRAME_BYTES) {
        space.write(addr, &page).map_err(failed)?;
    }
    Ok((space, area.start))
}
