//! The traces of the ARC paper: `first-block number-of-blocks ignored request`.

use super::{LineReader, Stop};
use crate::trace::files::Files;
use crate::trace::request::{Op, Request, Span, number, words};

pub(in crate::trace) struct Arc;

impl LineReader for Arc {
    fn line(
        &mut self,
        line: &[u8],
        _: &mut Files,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        let mut words = words(line);
        let mut next = || words.next().ok_or("fewer than four numbers");
        let (first, count) = (number(next()?)?, number(next()?)?);
        number(next()?)?;
        number(next()?)?;
        if words.next().is_some() {
            return Err(Stop::Bad("more than four numbers"));
        }
        requests.push(Request {
            file: 0,
            span: Span::blocks(first, count)?,
            op: Op::Read,
            time: None,
        });
        Ok(())
    }
}
