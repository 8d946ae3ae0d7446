//! Performs hits of one kind, or misses, for a tool that counts instructions.
//!
//!     hit_instructions KIND COUNT
//!     hit_instructions --list
//!
//! `verify/instructions` runs it under callgrind with COUNT and with twice as many hits: the difference, divided by COUNT, is the
//! cost of one hit, without the preparation. The program uses the public interface only, so that it can be built against another
//! revision of the library; of the variants of the copy, which the library measures to choose one, it forces one. No kind waits for a
//! backend or has work for another thread: files are bytes in memory, and are written back only on request; misses read holes of a
//! file.

use std::error::Error;
use std::hint::black_box;

use pagewell::frame::{FramePool, HugePages, Nodes, PoolConfig};
use pagewell::io::MemoryBackend;
use pagewell::space::{CacheSpaces as _, MapOptions, Sharing, Space, Spaces};
use pagewell::{Cache, File, OpenOptions, Writeback};

/// What the setting up and the hits of a kind fail with.
type Failure = Box<dyn Error>;

/// A kind of hit: its name, and what performs so many.
type Kind = (&'static str, fn(u64) -> Result<(), Failure>);

/// All kinds, in the order in which they are listed.
const KINDS: &[Kind] = &[
    ("read-64-hot", read_64_hot),
    ("read-64-random", read_64_random),
    ("read-256-hot", read_hot::<256>),
    ("read-4096-hot", read_hot::<4096>),
    ("read-64-referenced", read_64_referenced),
    ("read-8-hot", read_8_hot),
    ("view-u64-hot", views::u64_hot),
    ("view-u64s-hot", views::u64s_hot),
    ("view-64-hot", views::copy_64_hot),
    ("view-search", views::search),
    ("view-token-hot", tokens::made),
    ("token-check", tokens::checked),
    ("pin", pin),
    ("pin-random", pin_random),
    ("pin-counted", pin_counted),
    ("pin-owned", pin_owned),
    ("pin-mut", pin_mut),
    ("write-64-hot", write_64_hot),
    ("write-64-random", write_64_random),
    ("write-4096-hot", write_4096_hot),
    ("append-64", append_64),
    ("space-read-64-hot", space_read_64_hot),
    ("space-read-64-random", space_read_64_random),
    ("space-read-64-huge", space_read_64_huge),
    ("space-view-u64-hot", tokens::view_of_space),
    ("space-write-64", space_write_64),
    ("space-add", space_add),
    ("space-pin", space_pin),
    ("mapped-read-64", mapped_read_64),
    ("mapped-private-read-64", mapped_private_read_64),
    ("mapped-write-64", mapped_write_64),
    ("miss-4096", miss_4096),
];

const PAGE: u64 = 4096;

/// How large files and areas are: 1024 pages, all of them in memory before the hits begin.
const BYTES: u64 = 1024 * PAGE;

/// How much a cache or a pool may hold. Appends must not reach the share that may be dirty; what is not used costs nothing.
const CAPACITY: u64 = 512 << 20;

/// Where hot accesses go: within a page, not at its begin.
const HOT: u64 = 5 * PAGE + 192;

/// Bytes that lie the same wherever the stack begins, which the length of the program's path would change: how many steps a copy
/// has may depend on it.
#[repr(align(64))]
struct Aligned<const N: usize>([u8; N]);

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => {
            for (name, _) in KINDS {
                println!("{name}");
            }
            Ok(())
        }
        [kind, count] => {
            let count = count.parse()?;
            let (_, perform) = KINDS
                .iter()
                .find(|(name, _)| *name == kind)
                .ok_or_else(|| format!("`{kind}` is no kind; --list names all"))?;
            counted(*perform, count)
        }
        _ => Err("usage: hit_instructions KIND COUNT | --list".into()),
    }
}

/// Performs hits. Callgrind counts this call only, so not the other threads of a cache.
#[inline(never)]
fn counted(perform: fn(u64) -> Result<(), Failure>, count: u64) -> Result<(), Failure> {
    // A call in tail position would be a jump.
    black_box(perform(count))
}

fn read_64_hot(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    let mut buf = Aligned([0; 64]);
    for _ in 0..count {
        file.read_at(black_box(&mut buf.0), black_box(HOT))?;
    }
    Ok(())
}

fn read_64_random(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    let mut buf = Aligned([0; 64]);
    for offset in random_offsets(count) {
        file.read_at(black_box(&mut buf.0), offset)?;
    }
    Ok(())
}

fn read_hot<const LEN: usize>(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    let mut buf = Aligned([0; LEN]);
    for _ in 0..count {
        file.read_at(black_box(&mut buf.0), black_box(5 * PAGE))?;
    }
    Ok(())
}

fn read_64_referenced(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    let mut buf = Aligned([0; 64]);
    for _ in 0..count {
        file.read_at_referenced(black_box(&mut buf.0), black_box(HOT))?;
    }
    Ok(())
}

fn read_8_hot(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    let mut buf = Aligned([0; 8]);
    for _ in 0..count {
        file.read_at(black_box(&mut buf.0), black_box(HOT))?;
    }
    Ok(())
}

/// Looks at pages where they are.
mod views {
    use pagewell::{Torn, View};

    use super::*;

    /// One integer at a place that the compiler does not know.
    pub(super) fn u64_hot(count: u64) -> Result<(), Failure> {
        let file = cached_file()?;
        for _ in 0..count {
            black_box(view_u64(&file, black_box(5), black_box(192))?);
        }
        Ok(())
    }

    /// In a function of its own, to be disassembled.
    #[inline(never)]
    fn view_u64(file: &File, page: u64, at: usize) -> Result<u64, pagewell::Error> {
        file.view(page, |v| v.u64_le(at))
    }

    /// 64 integers, one after the other: with the former, the cost of one more.
    pub(super) fn u64s_hot(count: u64) -> Result<(), Failure> {
        let file = cached_file()?;
        for _ in 0..count {
            black_box(view_u64s(&file, black_box(5), black_box(64))?);
        }
        Ok(())
    }

    #[inline(never)]
    fn view_u64s(file: &File, page: u64, nr: usize) -> Result<u64, pagewell::Error> {
        file.view(page, |v| {
            let mut sum = 0_u64;
            for at in 0..nr {
                sum = sum.wrapping_add(v.u64_le(at * 8)?);
            }
            Ok(sum)
        })
    }

    pub(super) fn copy_64_hot(count: u64) -> Result<(), Failure> {
        let file = cached_file()?;
        let mut buf = Aligned([0; 64]);
        for _ in 0..count {
            let buf = black_box(&mut buf.0);
            let at = black_box(192);
            file.view(black_box(5), |v| v.copy_to(at, buf))?;
        }
        Ok(())
    }

    /// A key of 8 bytes among 255 that are all alike, so that the search takes 8 steps.
    pub(super) fn search(count: u64) -> Result<(), Failure> {
        let file = cached_file()?;
        for _ in 0..count {
            let key = black_box([0xA6; 8]);
            black_box(file.view(black_box(5), |v| find(v, &key))?.is_err());
        }
        Ok(())
    }

    #[inline(never)]
    fn find(v: &View<'_>, key: &[u8; 8]) -> Result<Result<usize, usize>, Torn> {
        v.search(8, 16, 255, |v, at| v.compare(at, key))
    }
}

/// Tokens, and what came with them.
mod tokens {
    use pagewell::Token;

    use super::*;

    /// As one integer by a view, and a token with it.
    pub(super) fn made(count: u64) -> Result<(), Failure> {
        let file = cached_file()?;
        for _ in 0..count {
            black_box(view_u64_with_token(&file, black_box(5), black_box(192))?);
        }
        Ok(())
    }

    #[inline(never)]
    fn view_u64_with_token(
        file: &File,
        page: u64,
        at: usize,
    ) -> Result<(u64, Token), pagewell::Error> {
        file.view(page, |v| Ok((v.u64_le(at)?, v.token())))
    }

    pub(super) fn checked(count: u64) -> Result<(), Failure> {
        let file = cached_file()?;
        let token = file.view(5, |v| Ok(v.token()))?;
        for _ in 0..count {
            if !is_unchanged(&file, black_box(&token)) {
                return Err("a page that nobody changes".into());
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn is_unchanged(file: &File, token: &Token) -> bool {
        file.is_unchanged(token)
    }

    /// One integer of a page of a space.
    pub(super) fn view_of_space(count: u64) -> Result<(), Failure> {
        let (space, start) = private_space()?;
        let page = start + 5 * PAGE..start + 6 * PAGE;
        for _ in 0..count {
            let (page, at) = black_box((page.clone(), 192));
            black_box(space.view(page, |v| v.u64_le(at))?);
        }
        Ok(())
    }
}

fn pin(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    for _ in 0..count {
        black_box(&*file.pin(black_box(5))?);
    }
    Ok(())
}

/// Pins of pages without hazards: the guard holds a counted reference.
fn pin_random(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    for offset in random_offsets(count) {
        black_box(&*file.pin(offset / PAGE)?);
    }
    Ok(())
}

fn pin_counted(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    for _ in 0..count {
        black_box(&*file.pin_counted(black_box(5))?);
    }
    Ok(())
}

fn pin_owned(count: u64) -> Result<(), Failure> {
    let file = cached_file()?;
    for _ in 0..count {
        black_box(&*file.pin_owned(black_box(5))?);
    }
    Ok(())
}

fn pin_mut(count: u64) -> Result<(), Failure> {
    let file = written_file()?;
    for _ in 0..count {
        black_box(&mut *file.pin_mut(black_box(5))?)[192] = 1;
    }
    Ok(())
}

fn write_64_hot(count: u64) -> Result<(), Failure> {
    let file = written_file()?;
    let bytes = Aligned([1; 64]);
    for _ in 0..count {
        file.write_at(black_box(&bytes.0), black_box(HOT))?;
    }
    Ok(())
}

fn write_64_random(count: u64) -> Result<(), Failure> {
    let file = written_file()?;
    let bytes = Aligned([1; 64]);
    for offset in random_offsets(count) {
        file.write_at(black_box(&bytes.0), offset)?;
    }
    Ok(())
}

fn write_4096_hot(count: u64) -> Result<(), Failure> {
    let file = written_file()?;
    let page = Aligned([1; PAGE as usize]);
    for _ in 0..count {
        file.write_at(black_box(&page.0), black_box(5 * PAGE))?;
    }
    Ok(())
}

/// Every 64th append begins a page: its share of that is counted.
fn append_64(count: u64) -> Result<(), Failure> {
    let file = open_writable(Vec::new())?;
    let bytes = Aligned([1; 64]);
    for _ in 0..count {
        file.append(black_box(&bytes.0))?;
    }
    Ok(())
}

fn space_read_64_hot(count: u64) -> Result<(), Failure> {
    let (space, start) = private_space()?;
    read_space(&space, count, || black_box(start + HOT))
}

fn space_read_64_random(count: u64) -> Result<(), Failure> {
    let (space, start) = private_space()?;
    let mut offsets = random_offsets(count);
    read_space(&space, count, || start + offsets.next().unwrap_or_default())
}

/// As `space-read-64-random`, of pages of 2 MiB.
fn space_read_64_huge(count: u64) -> Result<(), Failure> {
    let (space, start) = space_of_pages(2 << 20)?;
    let mut offsets = random_offsets(count);
    read_space(&space, count, || start + offsets.next().unwrap_or_default())
}

fn space_write_64(count: u64) -> Result<(), Failure> {
    let (space, start) = private_space()?;
    write_space(&space, count, start)
}

fn space_add(count: u64) -> Result<(), Failure> {
    let (space, start) = private_space()?;
    for _ in 0..count {
        space.fetch_add(black_box(start + HOT), 1)?;
    }
    Ok(())
}

fn space_pin(count: u64) -> Result<(), Failure> {
    let (space, start) = private_space()?;
    for _ in 0..count {
        black_box(&*space.pin(black_box(start + HOT), 64)?);
    }
    Ok(())
}

fn mapped_read_64(count: u64) -> Result<(), Failure> {
    let (space, start) = mapped_file(Sharing::Shared)?;
    read_space(&space, count, || black_box(start + HOT))
}

fn mapped_private_read_64(count: u64) -> Result<(), Failure> {
    let (space, start) = mapped_file(Sharing::Private)?;
    read_space(&space, count, || black_box(start + HOT))
}

fn mapped_write_64(count: u64) -> Result<(), Failure> {
    let (space, start) = mapped_file(Sharing::Shared)?;
    write_space(&space, count, start)
}

fn read_space(space: &Space, count: u64, mut addr: impl FnMut() -> u64) -> Result<(), Failure> {
    let mut buf = Aligned([0; 64]);
    for _ in 0..count {
        space.read(addr(), black_box(&mut buf.0))?;
    }
    Ok(())
}

fn write_space(space: &Space, count: u64, start: u64) -> Result<(), Failure> {
    let bytes = Aligned([1; 64]);
    for _ in 0..count {
        space.write(black_box(start + HOT), black_box(&bytes.0))?;
    }
    Ok(())
}

/// So many offsets of 64 bytes in a file of [`BYTES`], the same in each run (xorshift64).
fn random_offsets(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % (BYTES / 64) * 64
    })
}

/// Reads of whole pages that are not cached, in a cache that is full: each evicts a page, and calls the system. The instructions of the
/// system's are not counted.
fn miss_4096(count: u64) -> Result<(), Failure> {
    const PAGES: u64 = 1 << 20;
    // Batches of evictions are as large as in any larger cache.
    const FRAMES: u64 = 5000;
    let holes = tempfile::NamedTempFile::new()?;
    holes.as_file().set_len(PAGES * PAGE)?;
    let cache = Cache::builder()
        .capacity(FRAMES * PAGE)
        .nodes(Nodes::Unbound(1))
        .huge_pages(HugePages::Never)
        .build()?;
    let file = cache.open(holes.path())?;
    let mut buf = Aligned([0; PAGE as usize]);
    // Not one after the other, which would be read ahead, but with neighbours in one leaf.
    let mut nr = 0;
    let mut read = || {
        nr += 7;
        file.read_at(black_box(&mut buf.0), nr % PAGES * PAGE)
    };
    for _ in 0..4 * FRAMES {
        read()?;
    }
    for _ in 0..count {
        read()?;
    }
    Ok(())
}

fn cache() -> Result<Cache, Failure> {
    Ok(Cache::builder()
        .capacity(CAPACITY)
        .nodes(Nodes::Unbound(1))
        .huge_pages(HugePages::Never)
        .build()?)
}

/// A file for reading, all of it cached.
fn cached_file() -> Result<File, Failure> {
    let backend = MemoryBackend::new(vec![0xA5; BYTES as usize]);
    let file = cache()?.open_backend(backend, "memory")?;
    read_all(&file)?;
    Ok(file)
}

/// A file for writing, all of it cached and dirty, so that a write makes nothing dirty that was not.
fn written_file() -> Result<File, Failure> {
    let file = open_writable(vec![0xA5; BYTES as usize])?;
    read_all(&file)?;
    for offset in (0..BYTES).step_by(PAGE as usize) {
        file.write_at(&[1; 64], offset)?;
    }
    Ok(file)
}

fn open_writable(bytes: Vec<u8>) -> Result<File, Failure> {
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    Ok(cache()?.open_backend_with(MemoryBackend::writable(bytes), "memory", &options)?)
}

/// Reads every page in; and once more, so that each is marked as referenced and the next read is a hit.
fn read_all(file: &File) -> Result<(), Failure> {
    let mut page = [0; PAGE as usize];
    for _ in 0..2 {
        for offset in (0..BYTES).step_by(PAGE as usize) {
            file.read_at(&mut page, offset)?;
        }
    }
    Ok(())
}

/// A space with memory of its own, all of it written to, and where that begins.
fn private_space() -> Result<(Space, u64), Failure> {
    space_of_pages(PAGE as usize)
}

/// A space with an area of pages of so many bytes, all of them written, and where it begins.
fn space_of_pages(page_bytes: usize) -> Result<(Space, u64), Failure> {
    let mut config = PoolConfig::new((CAPACITY / PAGE) as usize);
    config.nodes = Nodes::Unbound(1);
    config.huge_pages = HugePages::Never;
    let spaces: Spaces = Spaces::new(FramePool::new(&config)?);
    let space = spaces.space()?;
    let area = space.map_with(BYTES, &MapOptions::new().page_bytes(page_bytes))?;
    for addr in area.clone().step_by(PAGE as usize) {
        space.write(addr, &[0xA5; PAGE as usize])?;
    }
    Ok((space, area.start))
}

/// A space with a file mapped, all of it cached, and where that begins.
fn mapped_file(sharing: Sharing) -> Result<(Space, u64), Failure> {
    let cache = cache()?;
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let backend = MemoryBackend::writable(vec![0xA5; BYTES as usize]);
    let file = cache.open_backend_with(backend, "memory", &options)?;
    read_all(&file)?;
    let space = cache.space()?;
    let area = space.map_file(&file, 0..BYTES, sharing)?;
    let mut page = [0; PAGE as usize];
    for addr in area.clone().step_by(PAGE as usize) {
        space.read(addr, &mut page)?;
        space.read(addr, &mut page)?;
    }
    if sharing == Sharing::Shared {
        for addr in area.clone().step_by(PAGE as usize) {
            space.write(addr, &[1; 64])?;
        }
    }
    Ok((space, area.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_performs_hits() {
        for (name, perform) in KINDS {
            assert!(perform(100).is_ok(), "{name}");
        }
    }
}
