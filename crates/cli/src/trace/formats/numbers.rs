//! A number a line: libCacheSim's `txt`, and the traces of the LIRS paper, where lines of `*` separate parts.

use super::{LineReader, Stop};
use crate::trace::files::Files;
use crate::trace::request::{Op, Request, Span, number};

pub(in crate::trace) struct Numbers;

impl LineReader for Numbers {
    fn line(
        &mut self,
        line: &[u8],
        _: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        let word = line.trim_ascii_start();
        if word == b"*" {
            return Ok(());
        }
        requests.push(Request {
            file: 0,
            span: Span::blocks(number(word)?, 1)?,
            op: Op::Read,
            time: None,
        });
        Ok(())
    }
}
