//! Byte counts as people write them: `4096`, `64K`, `256MiB`, `1g`.
//!
//! Suffixes count in powers of 1024, with or without `B` or `iB`, in any case.

use std::fmt;

/// Reads a byte count; the error says what would be understood.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(digits_end);
    let shift = match suffix.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("expected a number of bytes such as 4096, 64K or 256MiB".to_owned()),
    };
    if digits.is_empty() {
        return Err("expected a number of bytes such as 4096, 64K or 256MiB".to_owned());
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| "the number of bytes does not fit in 64 bits".to_owned())
}

/// A byte count to show: `64 B`, `4 KiB`, `256 MiB`, `1.5 GiB`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let text = match UNITS.iter().find(|(_, shift)| self.0 >> shift > 0) {
            None => format!("{} B", self.0),
            Some((unit, shift)) if self.0.is_multiple_of(1 << shift) => {
                format!("{} {unit}", self.0 >> shift)
            }
            Some((unit, shift)) => {
                format!("{:.1} {unit}", self.0 as f64 / (1_u64 << shift) as f64)
            }
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_suffixes_are_understood() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("256 MiB", 268_435_456),
            ("1g", 1 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "K",
            "-1",
            "1.5G",
            "12Q",
            "0x10",
            "99999999999999999999",
            "16777216T",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (5000, "4.9 KiB"),
            (256 << 20, "256 MiB"),
            (3 << 29, "1.5 GiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
