//! Random histories of a file with hooks, on a device that loses what was not synced.
//!
//! The hooks change each byte by itself, and leave zeros alone ([`Shifted`]). So a page of which the device has kept a part is still one of which each byte is
//! old or new, or was never written. (With a checksum such a page is an error that names it, which is tried too.)

use std::sync::Arc;
use std::time::Duration;

use pagewell::io::VolatileDevice;
use pagewell::{ErrorKind, File, OpenOptions, OutgoingPage, PageHooks};
use pagewell_crash::plug::Plug;
use pagewell_testkit::rng::mix;
use pagewell_testkit::wait::bounded_by;
use pagewell_testkit::{Rng, Seed, content};

use crate::doubles::{Checked, TRAILER, cache, contents};
use crate::support::PAGE;

const MOST: usize = 24_000;

/// Turns each byte but zero into another one that is not zero.
struct Shifted;

/// By how much, at this place.
fn shift(page: u64, at: usize) -> u16 {
    1 + (mix(page ^ ((at as u64) << 32)) % 254) as u16
}

impl PageHooks for Shifted {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> std::io::Result<()> {
        for page in pages {
            let nr = page.page();
            for (at, byte) in page.bytes_mut().iter_mut().enumerate() {
                if *byte != 0 {
                    *byte = ((u16::from(*byte) - 1 + shift(nr, at)) % 255 + 1) as u8;
                }
            }
        }
        Ok(())
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        for (at, byte) in bytes.iter_mut().enumerate() {
            if *byte != 0 {
                *byte = ((u16::from(*byte) - 1 + 255 - shift(page, at)) % 255 + 1) as u8;
            }
        }
        Ok(())
    }
}

/// What the file had at the last sync that succeeded, and after each change since.
struct Versions(Vec<Vec<u8>>);

impl Versions {
    fn now(&self) -> Vec<u8> {
        self.0.last().unwrap().clone()
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut next = self.now();
        change(&mut next);
        self.0.push(next);
    }

    fn synced(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// Whether a loss of power may leave these bytes.
    fn check(&self, found: &[u8]) -> Result<(), String> {
        let lens: Vec<usize> = self.0.iter().map(Vec::len).collect();
        let (least, most) = (*lens.iter().min().unwrap(), *lens.iter().max().unwrap());
        // Whole pages on the way from one size to another, and no less than the file was.
        let is_between = found.len().is_multiple_of(PAGE)
            && (least..=most.next_multiple_of(PAGE)).contains(&found.len());
        if !lens.contains(&found.len()) && !is_between {
            return Err(format!("{} bytes, and it had {lens:?}", found.len()));
        }
        for (at, byte) in found.iter().enumerate() {
            let may = |version: &Vec<u8>| version.get(at).copied().unwrap_or(0) == *byte;
            if !self.0.iter().any(may) {
                return Err(format!("byte {at} of {} is {byte}", found.len()));
            }
        }
        Ok(())
    }
}

/// A program that starts: opens the file, and finds something.
struct Program {
    file: File,
    plug: Plug,
}

impl Program {
    fn start(device: &VolatileDevice, hooks: &Arc<impl PageHooks>, rng: &mut Rng) -> Self {
        let plug = Plug::default();
        let hooks = Arc::clone(hooks);
        let options = OpenOptions::new()
            .write()
            .writeback(pagewell::Writeback::Manual)
            .page_hooks(hooks);
        let backend = plug.on(device.open("file").unwrap());
        let cache = cache(64 + rng.below(40));
        let file = cache.open_backend_with(backend, "file", &options).unwrap();
        Self { file, plug }
    }

    /// Ends without a chance to save anything.
    fn die(self) {
        self.plug.pull();
        drop(self.file);
    }
}

/// Does something to the file; an error if the power is off.
fn step(file: &File, versions: &mut Versions, rng: &mut Rng) -> Result<(), pagewell::Error> {
    let now = versions.now();
    let at = match rng.below(3) {
        0 => rng.index(MOST),
        1 => (now.len() + 20).saturating_sub(rng.index(40)),
        _ => (rng.index(6) * PAGE + rng.index(5)).saturating_sub(2),
    };
    let most = if rng.one_in(3) { 9000 } else { 60 };
    let bytes = content(rng.next_u64(), 1 + rng.index(most));
    match rng.below(12) {
        0..=2 => {
            versions.change(|now| {
                now.resize(now.len().max(at + bytes.len()), 0);
                now[at..at + bytes.len()].copy_from_slice(&bytes);
            });
            let nr = file.write_at(&bytes, at as u64)?;
            if nr < bytes.len() {
                // A part of it: whole pages, and the next call tells of the rest.
                let mut part = now.clone();
                part.resize(part.len().max(at + nr), 0);
                part[at..at + nr].copy_from_slice(&bytes[..nr]);
                versions.0.push(part);
            }
        }
        3 | 4 => {
            versions.change(|now| now.extend(&bytes));
            file.append(&bytes)?;
        }
        5 | 6 => {
            versions.change(|now| now.resize(at, 0));
            file.set_size(at as u64)?;
        }
        7 | 10 => _ = file.flush(0..u64::MAX)?,
        8 => _ = file.flush(at as u64..at as u64 + 9000)?,
        9 => file.invalidate(0..u64::MAX),
        _ => {
            file.sync_data()?;
            versions.synced();
        }
    }
    if file.size() > 2 * MOST as u64 {
        versions.change(|now| now.clear());
        file.set_size(0)?;
    }
    Ok(())
}

/// A device with an empty file.
fn device(seed: u64) -> VolatileDevice {
    let device = VolatileDevice::new(seed);
    drop(device.create("file").unwrap());
    device.sync_dir().unwrap();
    device
}

fn history(rng: &mut Rng) -> Result<(), String> {
    let mut device = device(rng.next_u64());
    let hooks = Arc::new(Shifted);
    let mut versions = Versions(vec![Vec::new()]);
    for _ in 0..6 {
        let program = Program::start(&device, &hooks, rng);
        let found = contents(&program.file);
        versions.check(&found)?;
        // What was found may not be durable yet, though the device says so: it was read from it after a start.
        versions = Versions(vec![found]);
        device.power_off_after(rng.below(40));
        if rng.one_in(4) {
            device.fail_next_sync(1);
        }
        for _ in 0..200 {
            match step(&program.file, &mut versions, rng) {
                Ok(()) => {}
                // The sync that was made to fail, or the end.
                Err(error) if error.kind() == ErrorKind::Io => {
                    if device.open("file").is_err() {
                        break;
                    }
                    // What was asked for may be done, or not.
                    let found = contents(&program.file);
                    versions.check(&found)?;
                    versions.0.push(found);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        device = device.crash(rng.next_u64());
        program.die();
    }
    Ok(())
}

#[test]
fn what_was_synced_survives_and_nothing_else_appears() {
    let seed = Seed::of_run();
    bounded_by(Duration::from_secs(150), "histories", move || {
        for part in 0..200 {
            let mut rng = seed.part(part);
            if let Err(why) = history(&mut rng) {
                panic!("part {part}: {why}");
            }
        }
    });
}

/// As the histories, on a device whose syncs do nothing: it must be noticed.
#[test]
fn histories_notice_a_sync_that_does_nothing() {
    let hooks = Arc::new(Shifted);
    let seed = Seed::of_run();
    let is_noticed = (0..50).any(|part| {
        let mut rng = seed.part(part);
        let device = device(rng.next_u64()).with_sync_stubbed_out();
        let program = Program::start(&device, &hooks, &mut rng);
        program.file.append(&content(1, 5000)).unwrap();
        program.file.sync_data().unwrap();
        let versions = Versions(vec![contents(&program.file)]);
        let after = device.crash(rng.next_u64());
        program.die();
        let program = Program::start(&after, &hooks, &mut rng);
        let found = contents(&program.file);
        program.die();
        versions.check(&found).is_err()
    });
    assert!(is_noticed);
}

/// The bytes that tell the size were those of a page that was cut off. If the storage keeps the growth and not the cut, they must not be a part of a page.
#[test]
fn a_page_that_was_cut_off_is_there_as_a_whole_or_not_at_all() {
    let seed = Seed::of_run();
    let (mut nr_old, mut nr_holes) = (0, 0);
    for part in 0..300 {
        let mut rng = seed.part(part);
        let device = device(rng.next_u64());
        let hooks = Arc::new(Checked::default());
        let program = Program::start(&device, &hooks, &mut rng);
        for page in 0..4 {
            let bytes = [1; PAGE - TRAILER];
            program.file.write_at(&bytes, page * PAGE as u64).unwrap();
        }
        program.file.set_size(4 * PAGE as u64).unwrap();
        program.file.sync_data().unwrap();
        device.power_off_after(rng.below(9));
        let change = || {
            program.file.set_size(PAGE as u64 + 900)?;
            program.file.set_size(3 * PAGE as u64 + 5)?;
            program.file.set_size(6 * PAGE as u64)?;
            program.file.flush(0..u64::MAX)
        };
        let _ = change();
        let after = device.crash(rng.next_u64());
        program.die();
        let program = Program::start(&after, &hooks, &mut rng);
        for page in 2..program.file.size().div_ceil(PAGE as u64) {
            // Nobody has written these since they were durable.
            let pin = program.file.pin(page).unwrap();
            let first = pin[0];
            assert!(
                pin[..pin.len().min(PAGE - TRAILER)]
                    .iter()
                    .all(|byte| *byte == first)
            );
            nr_old += u64::from(first == 1);
            nr_holes += u64::from(first == 0);
        }
        program.die();
    }
    assert!(nr_old != 0 && nr_holes != 0);
}

/// With a checksum a page of which the device has kept a part is an error that names it; it was written since the last sync. No page gives wrong bytes.
#[test]
fn a_page_that_the_device_has_kept_in_part_is_an_error_and_never_wrong_bytes() {
    const NR: u64 = 8;
    let seed = Seed::of_run();
    let (mut nr_corrupt, mut nr_old, mut nr_new) = (0, 0, 0);
    for part in 0..60 {
        let mut rng = seed.part(part);
        let device = device(rng.next_u64());
        let hooks = Arc::new(Checked::default());
        let program = Program::start(&device, &hooks, &mut rng);
        for page in 0..NR {
            let bytes = [1; PAGE - TRAILER];
            program.file.write_at(&bytes, page * PAGE as u64).unwrap();
        }
        program.file.set_size(NR * PAGE as u64).unwrap();
        program.file.sync_data().unwrap();
        let written: Vec<u64> = (0..NR).filter(|_| rng.one_in(2)).collect();
        for page in &written {
            let bytes = [2; PAGE - TRAILER];
            program.file.write_at(&bytes, page * PAGE as u64).unwrap();
        }
        program.file.flush(0..u64::MAX).unwrap();
        let after = device.crash(rng.next_u64());
        program.die();
        let program = Program::start(&after, &hooks, &mut rng);
        assert_eq!(program.file.size(), NR * PAGE as u64);
        for page in 0..NR {
            let is_written = written.contains(&page);
            match program.file.pin(page) {
                Ok(pin) => {
                    let version = pin[0];
                    assert!(pin[..PAGE - TRAILER].iter().all(|byte| *byte == version));
                    assert!(version == 1 || (version == 2 && is_written));
                    nr_old += u64::from(version == 1);
                    nr_new += u64::from(version == 2);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    assert!(is_written);
                    nr_corrupt += 1;
                }
            }
        }
        program.die();
    }
    assert!(nr_corrupt != 0 && nr_old != 0 && nr_new != 0);
}
