//! Reads the tree of maps from MessagePack, fast. Almost all bytes of a dataset are configs that
//! came before. They are recognised by comparing bytes.
//!
//! [`json_reader`](super::json_reader) reads the same tree and refuses the same mistakes.

use std::io::{self, Read};

use diode_core::{ConfigIndex, Dataset};
use serde::de::DeserializeSeed as _;

use super::builder::Builder;
use crate::FormatError;
use crate::error::{malformed, msgpack_cause};
use crate::input::Source;
use crate::limits::{MAX_CONFIG_BYTES, MAX_DEPTH, MAX_PROBLEM_KEY};
use crate::msgpack::{Token, Window};
use crate::nested::ConfigSeed;
use crate::nested::builder::Memo;

pub(super) fn read<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    let builder = Builder::new(source.max_timings());
    let mut reader = Reader { input: Window::new(source), builder, memo: Memo::new() };
    match reader.file() {
        Ok(()) => Ok(reader.builder.finish()),
        Err(error) => Err(malformed("MessagePack", reader.input.position(), reader.builder.place(), &error)),
    }
}

struct Reader<R> {
    input: Window<R>,
    builder: Builder,
    memo: Memo,
}

/// The bytes around the config and the time in a timing, as torch-diode writes them.
const BEFORE_CONFIG: &[u8] = b"\x83\xa6config";
const BEFORE_TIME: &[u8] = b"\xa4time\xcb";
const AFTER_TIME: &[u8] = b"\xa7version\x01";

impl<R: Read> Reader<R> {
    fn file(&mut self) -> io::Result<()> {
        self.node("hardware", Self::hardware)?;
        self.input.finish()
    }

    fn hardware(&mut self) -> io::Result<()> {
        for _ in 0..self.map("a map from hardware names")? {
            let name = self.text("a hardware name")?;
            self.builder.enter_hardware(&name).map_err(io::Error::other)?;
            self.node("operation", Self::ops)?;
            self.builder.leave_hardware().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn ops(&mut self) -> io::Result<()> {
        for _ in 0..self.map("a map from operations")? {
            let name = self.text("an operation")?;
            self.builder.enter_op(&name).map_err(io::Error::other)?;
            // The op or the dataset has changed, so the same bytes may mean another config.
            self.memo = Memo::new();
            self.node("solution", Self::problems)?;
            self.builder.leave_op().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn problems(&mut self) -> io::Result<()> {
        for _ in 0..self.map("a map from problem keys")? {
            let key = self.text("a problem key")?;
            self.builder.enter_problem(&key).map_err(io::Error::other)?;
            self.memo.restart();
            self.node("timed_configs", Self::timings)?;
            self.builder.leave_problem().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn timings(&mut self) -> io::Result<()> {
        let count = match self.input.token()? {
            Token::List(count) => count,
            other => return Err(expected("a list of timed configs", other)),
        };
        for _ in 0..count {
            if !self.usual_timing()? {
                self.timing()?;
            }
        }
        Ok(())
    }

    /// Takes a timing if it has the expected config and the form that torch-diode writes. Otherwise
    /// takes nothing and returns false.
    #[inline]
    fn usual_timing(&mut self) -> io::Result<bool> {
        let (config, index) = self.memo.expected();
        if config.is_empty() {
            return Ok(false);
        }
        let length = BEFORE_CONFIG.len() + config.len() + BEFORE_TIME.len() + 8 + AFTER_TIME.len();
        let bytes = self.input.ahead(length)?;
        let millis = bytes
            .strip_prefix(BEFORE_CONFIG)
            .and_then(|rest| rest.strip_prefix(config))
            .and_then(|rest| rest.strip_prefix(BEFORE_TIME))
            .and_then(<[u8]>::split_first_chunk)
            .filter(|(_, rest)| rest.starts_with(AFTER_TIME))
            .map(|(bits, _)| f64::from_be_bytes(*bits));
        let Some(millis) = millis else { return Ok(false) };
        self.input.take(length);
        self.memo.advance();
        self.builder.timing(index, millis).map_err(io::Error::other)?;
        Ok(true)
    }

    fn timing(&mut self) -> io::Result<()> {
        let (mut config, mut time, mut version) = (None, None, None);
        for _ in 0..self.map("a map with the fields `config` and `time`")? {
            match self.key(["config", "time", "version"])? {
                Some(0) => set("config", &mut config, self.config()?)?,
                Some(1) => set("time", &mut time, self.time()?)?,
                Some(_) => set("version", &mut version, self.version()?)?,
                None => self.input.skip()?,
            }
        }
        let config = config.ok_or_else(|| missing("config"))?;
        let millis = time.ok_or_else(|| missing("time"))?;
        self.builder.timing(config, millis).map_err(io::Error::other)
    }

    fn config(&mut self) -> io::Result<ConfigIndex> {
        let bytes = self.input.value("a config", MAX_CONFIG_BYTES)?;
        let length = bytes.len();
        let index = match self.memo.find(bytes) {
            Some(index) => index,
            None => {
                let op = self.builder.op().map_err(io::Error::other)?;
                let mut msgpack = rmp_serde::Deserializer::from_read_ref(bytes);
                msgpack.set_max_depth(MAX_DEPTH);
                let config = ConfigSeed(op)
                    .deserialize(&mut msgpack)
                    .map_err(|error| io::Error::other(msgpack_cause(error)))?;
                let index = self.builder.intern(config).map_err(io::Error::other)?;
                self.memo.learn(bytes.into(), index);
                index
            }
        };
        self.input.take(length);
        Ok(index)
    }

    /// A time in milliseconds. Nil stands for a number that is not finite.
    fn time(&mut self) -> io::Result<f64> {
        match self.input.token()? {
            Token::Float(millis) => Ok(millis),
            Token::Unsigned(millis) => Ok(millis as f64),
            Token::Negative(millis) => Ok(millis as f64),
            Token::Nil => Ok(f64::NAN),
            other => Err(expected("a time as a number of milliseconds", other)),
        }
    }

    /// Takes a version. torch-diode itself never reads it.
    fn version(&mut self) -> io::Result<()> {
        match self.input.token()? {
            Token::Unsigned(_) => Ok(()),
            other => Err(expected("a version number", other)),
        }
    }

    /// Reads a node: a map with one field that matters.
    fn node(&mut self, field: &'static str, read: fn(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let (mut found, mut version) = (None, None);
        let count = match self.input.token()? {
            Token::Map(count) => count,
            other => return Err(expected(&format!("a map with the field `{field}`"), other)),
        };
        for _ in 0..count {
            match self.key([field, "version"])? {
                Some(0) if found.is_some() => return Err(duplicate(field)),
                Some(0) => found = Some(read(self)?),
                Some(_) => set("version", &mut version, self.version()?)?,
                None => self.input.skip()?,
            }
        }
        found.ok_or_else(|| missing(field))
    }

    fn map(&mut self, what: &str) -> io::Result<u64> {
        match self.input.token()? {
            Token::Map(count) => Ok(count),
            other => Err(expected(what, other)),
        }
    }

    /// Reads a key. Returns its place among these names, or `None` for another key.
    fn key<const N: usize>(&mut self, names: [&str; N]) -> io::Result<Option<usize>> {
        let key = self.bounded_text("a field name")?;
        Ok(names.iter().position(|&name| name == key))
    }

    fn text(&mut self, what: &str) -> io::Result<String> {
        self.bounded_text(what).map(str::to_owned)
    }

    /// Takes a key of bounded length. The keys of problems are the longest.
    fn bounded_text(&mut self, what: &str) -> io::Result<&str> {
        let length = match self.input.token()? {
            Token::Text(length) => length,
            other => return Err(expected(what, other)),
        };
        match usize::try_from(length) {
            Ok(length) if length <= MAX_PROBLEM_KEY => self.input.text(length),
            _ => {
                Err(io::Error::other(format!("{what} of {length} bytes, expected at most {MAX_PROBLEM_KEY}")))
            }
        }
    }
}

fn set<T>(field: &str, slot: &mut Option<T>, value: T) -> io::Result<()> {
    if slot.replace(value).is_some() { Err(duplicate(field)) } else { Ok(()) }
}

fn expected(what: &str, given: Token) -> io::Error {
    io::Error::other(format!("got {given}, expected {what}"))
}

fn missing(field: &str) -> io::Error {
    io::Error::other(format!("missing field `{field}`"))
}

fn duplicate(field: &str) -> io::Error {
    io::Error::other(format!("duplicate field `{field}`"))
}
