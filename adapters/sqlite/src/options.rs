//! Parameters of a URI: `file:data.db?vfs=pagewell&pw_cache=256M&pw_direct=auto&pw_page=4096`.

use pagewell::io::Direct;

pub(crate) const PREFIX: &str = "pw_";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Capacity of the process's cache in bytes (`pw_cache`).
    pub(crate) cache: Option<u64>,
    /// Policy for direct I/O of the database (`pw_direct`).
    pub(crate) direct: Option<Direct>,
    /// Size of the database's pages in the cache, in bytes (`pw_page`).
    pub(crate) page: Option<usize>,
}

impl Options {
    /// Sets the parameter `name` from the text `value`. The error states why either is invalid.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |must: &str| Err(format!("{name}={value}: must be {must}"));
        match name {
            "pw_cache" => match bytes(value) {
                Some(bytes) => self.cache = Some(bytes),
                None => return wrong("a number of bytes, as 268435456, 262144K, 256M or 1G"),
            },
            "pw_direct" => {
                self.direct = Some(match value {
                    "never" => Direct::Never,
                    "auto" => Direct::Auto,
                    "always" => Direct::Always,
                    _ => return wrong("never, auto or always"),
                });
            }
            "pw_page" => match bytes(value) {
                Some(bytes @ (4096 | 8192 | 16_384 | 32_768 | 65_536)) => {
                    self.page = Some(bytes as usize);
                }
                _ => return wrong("4K, 8K, 16K, 32K or 64K"),
            },
            _ => return Err(format!("{name}: unknown option")),
        }
        Ok(())
    }
}

/// Parses a number of bytes. The suffixes K, M and G are powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_a_unit_or_none() {
        for (text, answer) in [
            ("4096", Some(4096)),
            ("4k", Some(4096)),
            ("16M", Some(16 << 20)),
            ("2G", Some(2 << 30)),
            ("0", Some(0)),
            ("", None),
            ("K", None),
            ("-1", None),
            ("+1", None),
            ("1.5M", None),
            ("1MB", None),
            ("18446744073709551616", None),
            ("18446744073709551615K", None),
            ("1é", None),
        ] {
            assert_eq!(bytes(text), answer, "{text}");
        }
    }

    #[test]
    fn each_option_takes_its_values_and_says_which_they_are() {
        let mut options = Options::default();
        options.take("pw_cache", "16M").unwrap();
        options.take("pw_direct", "auto").unwrap();
        options.take("pw_page", "16K").unwrap();
        let all = Options {
            cache: Some(16 << 20),
            direct: Some(Direct::Auto),
            page: Some(16_384),
        };
        assert_eq!(options, all);
        for (name, value, says) in [
            ("pw_cache", "lots", "a number of bytes"),
            ("pw_direct", "1", "never, auto or always"),
            ("pw_page", "5000", "4K, 8K"),
            ("pw_pages", "4096", "unknown option"),
        ] {
            let text = options.take(name, value).unwrap_err();
            assert!(text.contains(says) && text.contains(name), "{text}");
        }
        assert_eq!(options, all, "invalid parameters change nothing");
    }
}
