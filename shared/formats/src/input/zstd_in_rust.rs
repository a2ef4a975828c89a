//! zstd without C, for the browser.
//!
//! It returns the same bytes as the decoder in C, even for a frame that breaks off. The two may notice damage
//! in a frame at different places ([`is_sound`](crate::input::is_sound)).

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{DecodeBlockContentError, FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// An empty last block and a checksum of 0. They end a frame that has broken off.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

pub(crate) struct Decoder<R> {
    input: Watched<R>,
    frame: Box<FrameDecoder>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    BetweenFrames,
    WithinFrame,
    /// The input has ended within a frame. What was decoded before can still be read.
    BrokenOff,
}

impl<R: BufRead> Decoder<R> {
    pub(crate) fn with_buffer(input: R) -> io::Result<Self> {
        let input = Watched { input, asked_for_more: false };
        Ok(Self { input, frame: Box::default(), state: State::BetweenFrames })
    }

    /// Limits how far back the data may refer, in bytes. `log` is the base-2 logarithm of this limit.
    pub(crate) fn window_log_max(&mut self, log: u32) -> io::Result<()> {
        self.frame.set_max_window_size(1 << log);
        Ok(())
    }

    /// Begins the next frame that holds data. Returns false if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.input.fill_buf()?.is_empty() {
            match self.frame.init(&mut self.input) {
                Ok(()) => {
                    self.state = State::WithinFrame;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.input.by_ref().take(length), &mut io::sink())? < length {
                        return Err(broken_off());
                    }
                }
                Err(_) if self.input.asked_for_more => return Err(broken_off()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    fn decode_block(&mut self) -> io::Result<()> {
        let decoded = self.frame.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1));
        match decoded {
            Ok(_) => Ok(()),
            // The decoder in C would return a part of a block that breaks off. This decoder cannot.
            Err(FrameDecoderError::FailedToReadBlockBody(DecodeBlockContentError::ReadError { .. })) => {
                Err(io::Error::other("an uncompressed block breaks off"))
            }
            Err(_) if self.input.asked_for_more => {
                self.state = State::BrokenOff;
                // The decoder keeps the last bytes back until the frame ends.
                let ended = self.frame.decode_blocks(&LAST_BLOCK[..], BlockDecodingStrategy::UptoBlocks(1));
                ended.map(drop).map_err(io::Error::other)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Ends a frame after all of it was read.
    fn end(&mut self) -> io::Result<()> {
        let stated = self.frame.get_checksum_from_data();
        if stated.is_some() && stated != self.frame.get_calculated_checksum() {
            return Err(io::Error::other("Restored data doesn't match checksum"));
        }
        self.state = State::BetweenFrames;
        Ok(())
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.frame.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.state {
                State::BetweenFrames => {
                    if !self.begin()? {
                        return Ok(0);
                    }
                }
                State::WithinFrame if self.frame.is_finished() => self.end()?,
                State::WithinFrame => self.decode_block()?,
                State::BrokenOff => return Err(broken_off()),
            }
        }
    }
}

fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete frame")
}

/// An input that notes whether a read went past its end.
struct Watched<R> {
    input: R,
    asked_for_more: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.asked_for_more |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use diode_core::hardware::Hardware;
    use diode_core::{
        Config, ConfigDictionary, ConfigIndex, DType, Dataset, Method, Op, Problem, ProblemFields,
        Provenance, Solution, Tile, TimeColumn,
    };

    use super::*;
    use crate::Format;
    use crate::input::zstd_decoder;
    use crate::limits::MAX_WINDOW_LOG;

    /// The bytes that were decoded, and the error after them.
    type Outcome = (Vec<u8>, Option<(io::ErrorKind, String)>);

    /// Reads a frame as the formats do.
    fn outcome(frame: impl Read) -> Outcome {
        let mut input = BufReader::with_capacity(1 << 16, frame);
        let (mut plain, mut piece) = (Vec::new(), [0; 1000]);
        loop {
            match input.read(&mut piece) {
                Ok(0) => return (plain, None),
                Ok(count) => plain.extend_from_slice(&piece[..count]),
                Err(error) => return (plain, Some((error.kind(), error.to_string()))),
            }
        }
    }

    fn in_c(bytes: &[u8]) -> Outcome {
        outcome(zstd_decoder(bytes).unwrap())
    }

    fn in_rust(bytes: &[u8]) -> Outcome {
        let mut decoder = Decoder::with_buffer(bytes).unwrap();
        decoder.window_log_max(MAX_WINDOW_LOG).unwrap();
        outcome(decoder)
    }

    /// Numbers that hardly compress, the same in every run.
    fn noise() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |&state| {
            let state = state ^ (state << 13);
            let state = state ^ (state >> 7);
            Some(state ^ (state << 17))
        })
    }

    /// A columnar file that takes several blocks.
    fn columnar() -> Vec<u8> {
        let configs: ConfigDictionary = (1..=1000)
            .map(|group| Config::Mm(Tile { group_m: group, ..Tile::new(64, 64, 32, 3, 4) }))
            .collect();
        let mut noise = noise();
        let mut solution = |m| Solution {
            problem: Problem::new(ProblemFields::plain(Op::Mm, 1, m, 64, 64, DType::BFloat16)).unwrap(),
            method: Method::Unspecified,
            configs: (0..1000).map(ConfigIndex).collect(),
            times: TimeColumn::from_nanos(noise.by_ref().take(1000).map(|n| 9_000 + n % 500_000).collect())
                .unwrap(),
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        };
        let dataset = Dataset {
            hardware: Hardware::from_name("NVIDIA H200").unwrap(),
            provenance: Provenance::default(),
            solutions: (1..=100).map(&mut solution).collect(),
            configs,
        };
        crate::encode(Format::Columnar, &[dataset]).unwrap()
    }

    #[test]
    fn both_decoders_give_the_same() {
        let file = columnar();
        let (plain, error) = in_c(&file);
        assert!(plain.len() > 2 * 128 * 1024 && error.is_none(), "several blocks of 128 KiB");
        let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let with_size = zstd::bulk::compress(&plain, 19).unwrap();
        let raw: Vec<u8> = noise().take(40_000).flat_map(u64::to_le_bytes).collect();
        for frames in [
            file.clone(),
            [&file[..], &file].concat(),
            [&skippable[..], &file, &skippable].concat(),
            with_size.clone(),
            zstd::bulk::compress(b"", 3).unwrap(),
            zstd::bulk::compress(&[7; 300_000], 3).unwrap(),
            zstd::bulk::compress(&raw, 3).unwrap(),
        ] {
            let outcome = in_rust(&frames);
            assert!(outcome.1.is_none(), "{:?}", outcome.1);
            assert!(outcome == in_c(&frames));
        }
        for frames in [file, with_size, [&skippable[..], &skippable].concat()] {
            for length in
                (1..frames.len()).step_by(frames.len().div_ceil(100)).chain(frames.len() - 5..frames.len())
            {
                assert!(in_rust(&frames[..length]) == in_c(&frames[..length]), "{length} bytes");
            }
        }
    }

    #[test]
    fn damage_is_noticed() {
        let file = columnar();
        let (plain, _) = in_c(&file);
        for at in (0..file.len()).step_by(file.len() / 100) {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            let (found, error) = in_rust(&damaged);
            assert!(error.is_some() || found == plain, "byte {at}");
        }
        assert!(in_rust(&[&file[..], b"\n"].concat()).1.is_some());
    }

    #[test]
    fn a_window_that_is_too_large_is_refused_at_once() {
        for (log, is_read) in [(MAX_WINDOW_LOG, true), (MAX_WINDOW_LOG + 1, false)] {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.set_parameter(zstd::zstd_safe::CParameter::WindowLog(log)).unwrap();
            encoder.write_all(b"little").unwrap();
            encoder.flush().unwrap();
            let frame = encoder.finish().unwrap();
            assert_eq!((in_c(&frame).1.is_none(), in_rust(&frame).1.is_none()), (is_read, is_read), "{log}");
        }
    }
}
