//! Lines of bounded length.

use std::io::{self, BufRead, Read};

/// The longest line, in bytes: strace with `-s` writes long ones.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// What comes next.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Next<'a> {
    /// A line, without its end and the white space there.
    Line(&'a [u8]),
    /// A line that is longer than any should be; it is skipped.
    TooLong,
    End,
}

/// Reads line by line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn next(&mut self, from: &mut impl BufRead) -> io::Result<Next<'_>> {
        self.line.clear();
        let most = MOST_BYTES as u64 + 1;
        from.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            return Ok(Next::End);
        }
        if self.line.len() > MOST_BYTES && self.line.last() != Some(&b'\n') {
            from.skip_until(b'\n')?;
            self.line = Vec::new();
            return Ok(Next::TooLong);
        }
        Ok(Next::Line(self.line.trim_ascii_end()))
    }
}
