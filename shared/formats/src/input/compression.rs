//! Input that may be compressed with zstd.

use std::io::{self, BufRead, BufReader, Read};

use crate::limits::{FREE_UNPACKED, MAX_EXPANSION, MAX_UNPACKED, MAX_WINDOW_LOG};

/// Unpacks what is read through it. The browser has no C library, so its decoder is in Rust.
#[cfg(not(target_family = "wasm"))]
pub(crate) type ZstdDecoder<R> = zstd::stream::read::Decoder<'static, R>;
#[cfg(target_family = "wasm")]
pub(crate) type ZstdDecoder<R> = super::zstd_in_rust::Decoder<R>;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether some bytes begin like data that zstd has compressed.
pub(crate) fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&ZSTD_MAGIC)
}

pub(crate) fn zstd_decoder<R: BufRead>(input: R) -> io::Result<ZstdDecoder<R>> {
    let mut decoder = ZstdDecoder::with_buffer(input)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

/// The most bytes to which a compressed file of this size may unpack.
pub(crate) fn zstd_limit(compressed: u64) -> u64 {
    MAX_UNPACKED.min(FREE_UNPACKED.saturating_add(MAX_EXPANSION.saturating_mul(compressed)))
}

/// Whether every decoder of zstd finds the same errors in some bytes. This is sure if the bytes are not
/// compressed, or if their compression is undamaged up to the last byte.
pub fn is_sound(bytes: &[u8]) -> bool {
    let unpacked = |frame: ZstdDecoder<_>| {
        io::copy(&mut frame.take(zstd_limit(bytes.len() as u64)), &mut io::sink()).map(drop)
    };
    let breaks_off = |error: io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    !is_zstd(bytes) || zstd_decoder(bytes).and_then(unpacked).map_or_else(breaks_off, |()| true)
}

/// An input that is unpacked if it is compressed.
pub(crate) enum Unpacked<R: BufRead> {
    Plain(R),
    Zstd(BufReader<ZstdDecoder<R>>),
}

impl<R: BufRead> Unpacked<R> {
    /// Unpacks an input that begins like compressed data.
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
