//! Where temporary files are made.
//!
//! A folder that is missing, read-only or full does not stop a benchmark: the
//! next candidate is tried, and the user is told. The last candidate is memory.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use tempfile::TempPath;

use super::file::{DataFile, file_system};
use super::rng::Rng;
use crate::failure::Failure;
use crate::interrupt;
use crate::size::Bytes;

/// The places for temporary files that have not failed yet.
#[derive(Debug)]
pub(in crate::bench) struct Scratch {
    /// The next place to use is the last of these.
    places: Vec<Place>,
    /// What was tried in vain: place and reason.
    failed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    Folder(PathBuf),
    Memory,
}

/// Bytes written at a time.
const CHUNK: usize = 1 << 20;

impl Scratch {
    /// Uses `dir` if given, then the usual places.
    pub(in crate::bench) fn new(dir: Option<PathBuf>) -> Scratch {
        let usual = [
            env::temp_dir(),
            PathBuf::from("."),
            PathBuf::from("/var/tmp"),
            PathBuf::from("/dev/shm"),
        ];
        let mut places = Vec::new();
        for folder in dir.into_iter().chain(usual) {
            let place = Place::Folder(folder);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.push(Place::Memory);
        places.reverse();
        Scratch {
            places,
            failed: Vec::new(),
        }
    }

    /// Makes a file of `bytes` bytes, the first `filled` of them pseudo-random and
    /// the rest a hole. Tells `note` if it was not made where it should have been.
    pub(in crate::bench) fn make(
        &mut self,
        bytes: u64,
        filled: u64,
        seed: u64,
        note: impl FnMut(String),
    ) -> Result<DataFile, Failure> {
        self.make_by(Place::file, bytes, filled, seed, note)
    }

    /// Makes a file of pseudo-random bytes that has a name, so that the cache can write to it.
    pub(in crate::bench) fn make_named(
        &mut self,
        bytes: u64,
        seed: u64,
        note: impl FnMut(String),
    ) -> Result<DataFile, Failure> {
        self.make_by(Place::named_file, bytes, bytes, seed, note)
    }

    fn make_by(
        &mut self,
        make: impl Fn(&Place) -> io::Result<(File, Option<TempPath>)>,
        bytes: u64,
        filled: u64,
        seed: u64,
        mut note: impl FnMut(String),
    ) -> Result<DataFile, Failure> {
        let mut newly_failed = Vec::new();
        while let Some(place) = self.places.last() {
            let made =
                make(place).and_then(|(file, name)| Ok((fill(file, bytes, filled, seed)?, name)));
            match made {
                Ok((file, name)) => {
                    let label = place.describe(&file);
                    if !newly_failed.is_empty() {
                        note(format!(
                            "no room for a temporary file of {} in {}; made in {label}",
                            Bytes(bytes),
                            newly_failed.join(", in "),
                        ));
                    }
                    return Ok(DataFile::temporary(file, name, bytes, label));
                }
                Err(error) => {
                    interrupt::check()?;
                    let failed = format!("{} ({error})", place.name());
                    newly_failed.push(failed.clone());
                    self.failed.push(failed);
                    self.places.pop();
                }
            }
        }
        Err(Failure::Run(format!(
            "no room for a temporary file of {}; tried {}",
            Bytes(bytes),
            self.failed.join(", ")
        )))
    }
}

impl Place {
    fn file(&self) -> io::Result<(File, Option<TempPath>)> {
        let file = match self {
            Place::Folder(folder) => tempfile::tempfile_in(folder)?,
            Place::Memory => File::from(memfd_create("pagewell-bench", MemfdFlags::CLOEXEC)?),
        };
        Ok((file, None))
    }

    fn named_file(&self) -> io::Result<(File, Option<TempPath>)> {
        match self {
            Place::Folder(folder) => {
                let (file, name) = tempfile::Builder::new()
                    .prefix("pagewell-bench-")
                    .tempfile_in(folder)?
                    .into_parts();
                Ok((file, Some(name)))
            }
            // Memory files have no names.
            Place::Memory => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn name(&self) -> String {
        match self {
            Place::Folder(folder) => folder.display().to_string(),
            Place::Memory => "memory".to_owned(),
        }
    }

    fn describe(&self, file: &File) -> String {
        match (self, file_system(file)) {
            (Place::Folder(folder), Some(system)) => format!("{} ({system})", folder.display()),
            _ => self.name(),
        }
    }
}

/// Writes the file. Its bytes are on the device in the end, so that the operating
/// system does not write them during the benchmark.
fn fill(mut file: File, bytes: u64, filled: u64, seed: u64) -> io::Result<File> {
    let mut rng = Rng::new(seed);
    let mut left = filled.min(bytes);
    let mut chunk = vec![0; CHUNK.min(left as usize).next_multiple_of(8)];
    while left > 0 {
        if interrupt::is_requested() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        for word in chunk.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next().to_le_bytes());
        }
        let now = left.min(chunk.len() as u64);
        file.write_all(&chunk[..now as usize])?;
        left -= now;
    }
    if filled < bytes {
        file.set_len(bytes)?;
    }
    file.sync_data()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn in_folder(folder: &str) -> Scratch {
        Scratch::new(Some(PathBuf::from(folder)))
    }

    #[test]
    fn a_file_has_the_bytes_of_its_seed_and_can_be_opened_again() {
        let make = |seed| {
            let data = Scratch::new(None).make(100_003, 100_003, seed, |note| panic!("{note}"));
            let data = data.unwrap();
            assert_eq!(data.bytes, 100_003);
            fs::read(&data.path).unwrap()
        };
        assert_eq!(make(1).len(), 100_003);
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn a_name_leads_to_its_file_and_goes_with_it() {
        let data = Scratch::new(None).make_named(100_003, 1, |note| panic!("{note}"));
        let data = data.unwrap();
        let path = data.path.clone();
        let inode = data.file.metadata().unwrap().ino();
        let named = fs::symlink_metadata(&path).unwrap();
        assert_eq!((named.ino(), named.len()), (inode, 100_003));
        drop(data);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_not_filled_is_a_hole() {
        let data = Scratch::new(None)
            .make(64 << 20, 4096, 1, |note| panic!("{note}"))
            .unwrap();
        let metadata = data.file.metadata().unwrap();
        assert_eq!(metadata.len(), 64 << 20);
        assert!(metadata.blocks() * 512 < 1 << 20);
    }

    #[test]
    fn a_bad_folder_is_told_and_the_next_one_taken() {
        let mut scratch = in_folder("/nonexistent/folder");
        let mut notes = Vec::new();
        let data = scratch.make(10, 10, 1, |note| notes.push(note)).unwrap();
        assert!(!data.label.contains("nonexistent"));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("/nonexistent/folder"), "{notes:?}");
        // Said once.
        scratch.make(10, 10, 1, |note| panic!("{note}")).unwrap();
    }

    #[test]
    fn without_any_place_the_error_says_where_it_tried() {
        let mut scratch = in_folder("/nonexistent/folder");
        scratch
            .places
            .retain(|place| *place == Place::Folder("/nonexistent/folder".into()));
        let failure = scratch.make(10, 10, 1, |_| ()).unwrap_err();
        assert!(format!("{failure:?}").contains("tried /nonexistent/folder"));
    }
}
