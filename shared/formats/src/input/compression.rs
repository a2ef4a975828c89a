//! Input that may be compressed with zstd.

use std::io::{self, BufRead, BufReader, Read};

use zstd::stream::read::Decoder;

use crate::limits::{FREE_UNPACKED, MAX_EXPANSION, MAX_UNPACKED, MAX_WINDOW_LOG};

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether some bytes are compressed.
pub(crate) fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&ZSTD_MAGIC)
}

pub(crate) fn zstd_decoder<R: BufRead>(input: R) -> io::Result<Decoder<'static, R>> {
    let mut decoder = Decoder::with_buffer(input)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

/// How many bytes a compressed file of a size may unpack to.
pub(crate) fn zstd_limit(compressed: u64) -> u64 {
    MAX_UNPACKED.min(FREE_UNPACKED.saturating_add(MAX_EXPANSION.saturating_mul(compressed)))
}

/// An input without its compression, if it has any.
pub(crate) enum Unpacked<R: BufRead> {
    Plain(R),
    Zstd(BufReader<Decoder<'static, R>>),
}

impl<R: BufRead> Unpacked<R> {
    /// An input that begins as compressed data does.
    pub(crate) fn zstd(input: R) -> io::Result<Self> {
        Ok(Self::Zstd(BufReader::with_capacity(1 << 16, zstd_decoder(input)?)))
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Zstd(frame) => frame.read(buffer),
        }
    }
}
