//! A request, and what makes a line a bad one.

/// What a program has asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Request {
    /// Which of the trace's files; 0 if it names none.
    pub(crate) file: u32,
    pub(crate) span: Span,
    pub(crate) op: Op,
    /// Nanoseconds since a moment that is the same for the whole trace; None if the trace does not tell.
    pub(crate) time: Option<u64>,
}

/// Where a request is. It is never empty, its end fits in 63 bits, and it is not longer than [`Span::MOST_BYTES`] or
/// [`Span::MOST_BLOCKS`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Span {
    /// Bytes of the file.
    Bytes { offset: u64, len: u64 },
    /// Blocks, each of which is a page, whatever the size of a page.
    Blocks { first: u64, count: u64 },
}

/// Whether bytes are read or written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Op {
    Read,
    Write,
}

/// Why a line is a bad one, in words that go on after "line 7: ".
pub(crate) type Bad = &'static str;

impl Span {
    /// The longest request of bytes: Linux transfers less than 2 GiB in a call.
    pub(crate) const MOST_BYTES: u64 = 4 << 30;
    /// The longest request of blocks.
    pub(crate) const MOST_BLOCKS: u64 = 1 << 20;

    /// `len` bytes from `offset`.
    pub(super) fn bytes(offset: u64, len: u64) -> Result<Span, Bad> {
        match offset.checked_add(len) {
            _ if len == 0 => Err("a request of no bytes"),
            _ if len > Span::MOST_BYTES => Err("a request of more than 4 GiB"),
            Some(end) if end <= i64::MAX as u64 => Ok(Span::Bytes { offset, len }),
            _ => Err("a request that ends past the last offset of any file"),
        }
    }

    /// `count` blocks from `first`.
    pub(super) fn blocks(first: u64, count: u64) -> Result<Span, Bad> {
        match first.checked_add(count - u64::from(count > 0)) {
            _ if count == 0 => Err("a request of no blocks"),
            _ if count > Span::MOST_BLOCKS => Err("a request of more than 1048576 blocks"),
            Some(_) => Ok(Span::Blocks { first, count }),
            None => Err("a request that ends past the last block"),
        }
    }
}

/// A number without a sign.
pub(super) fn number(word: &[u8]) -> Result<u64, Bad> {
    let digits = match word {
        [b'-', digits @ ..] if is_digits(digits) => {
            return match digits.iter().all(|&digit| digit == b'0') {
                true => Ok(0),
                false => Err("a negative number"),
            };
        }
        digits => digits,
    };
    if !is_digits(digits) {
        return Err("a word where a number should be");
    }
    digits
        .iter()
        .try_fold(0_u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .ok_or("a number that does not fit in 64 bits")
}

/// Seconds with up to nine decimals, as nanoseconds.
pub(super) fn seconds(word: &[u8]) -> Result<u64, Bad> {
    let point = word.iter().position(|&byte| byte == b'.');
    let (whole, part) = match point {
        Some(at) => (&word[..at], &word[at + 1..]),
        None => (word, &[][..]),
    };
    let part = &part[..part.len().min(9)];
    let mut nanoseconds = if part.is_empty() { 0 } else { number(part)? };
    for _ in part.len()..9 {
        nanoseconds *= 10;
    }
    number(whole)?
        .checked_mul(1_000_000_000)
        .and_then(|whole| whole.checked_add(nanoseconds))
        .ok_or("a time that does not fit in 64 bits")
}

/// The words of a line, between spaces and tabs.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty())
}

fn is_digits(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}
