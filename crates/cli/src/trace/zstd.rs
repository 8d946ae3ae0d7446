//! Unpacking zstd: a stream of frames, one after the other, of which some may have to be skipped.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How much is unpacked at a time.
const PIECE: usize = 256 << 10;

/// The bytes of all frames of a stream.
pub(super) struct Frames<R> {
    packed: R,
    decoder: FrameDecoder,
    /// Whether a frame has begun that is not read to its end.
    is_within: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(packed: R) -> Self {
        Self {
            packed,
            decoder: FrameDecoder::new(),
            is_within: false,
        }
    }

    /// Begins the next frame that has bytes; false if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => {
                    self.is_within = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.packed.by_ref().take(u64::from(length));
                    if io::copy(&mut skipped, &mut io::sink())? < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(false)
    }

    /// Why unpacking fails: the stream is cut off, or it is none.
    fn failed(&mut self, error: FrameDecoderError) -> io::Error {
        let kind = match self.packed.fill_buf() {
            Ok([]) => io::ErrorKind::UnexpectedEof,
            Ok(_) => io::ErrorKind::InvalidData,
            Err(error) => return error,
        };
        io::Error::new(kind, error)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_within && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBytes(PIECE);
                if let Err(error) = self.decoder.decode_blocks(&mut self.packed, strategy) {
                    return Err(self.failed(error));
                }
            }
            let nr = Read::read(&mut self.decoder, buf)?;
            if nr != 0 {
                return Ok(nr);
            }
            self.is_within = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn packed(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn unpack(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        Frames::new(bytes).read_to_end(&mut unpacked)?;
        Ok(unpacked)
    }

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let long: Vec<u8> = (0..1 << 20_u32).map(|nr| (nr / 7 % 251) as u8).collect();
        let mut all = packed(b"first");
        // A frame to be skipped: its number, its length, its bytes.
        all.extend([0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        all.extend(packed(&long));
        all.extend(packed(b""));
        all.extend(packed(b"last"));
        let expected = [b"first", &*long, b"last"].concat();
        assert!(unpack(&all).unwrap() == expected);
        assert_eq!(unpack(b"").unwrap(), b"");
    }

    #[test]
    fn what_is_cut_off_or_no_frame_is_an_error() {
        let bytes: Vec<u8> = (0..100_000_u32)
            .map(|nr| (nr.wrapping_mul(nr) >> 5) as u8)
            .collect();
        let whole = packed(&bytes);
        for len in [1, 5, 10, 1000, whole.len() / 2, whole.len() - 1] {
            let error = unpack(&whole[..len]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{len} bytes");
        }
        assert!(unpack(b"no frame at all").is_err());
        assert!(unpack(&[0x50, 0x2A, 0x4D, 0x18, 9, 0, 0, 0, 1]).is_err());
    }
}
