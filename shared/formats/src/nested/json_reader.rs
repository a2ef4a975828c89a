//! Reads the tree of maps from JSON without holding it in memory. serde's seeds hand each part to a
//! [`Builder`].
//!
//! Two kinds of map alternate. A *node* has one known field, a version and perhaps unknown fields.
//! An *index* has names or problems as its keys.

use std::cell::RefCell;
use std::io::Read;
use std::{fmt, io};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::limits::{MAX_JSON_BLANKS, MAX_JSON_TEXT};
use crate::nested::builder::Builder;
use crate::nested::{ConfigSeed, Version};

/// Reads a whole dataset.
pub(super) fn root<'de>(builder: &RefCell<Builder>) -> impl DeserializeSeed<'de, Value = ()> {
    tree(
        builder,
        Node { field: "timed_configs", inner: List { of: "timed configs", part: Timing(builder) } },
        Builder::leave_problem,
    )
}

/// Reads a whole lookup table, which has configs in place of timings.
pub(super) fn table<'de>(builder: &RefCell<Builder>) -> impl DeserializeSeed<'de, Value = ()> {
    tree(
        builder,
        Node { field: "config", inner: List { of: "configs", part: Choice(builder) } },
        Builder::leave_choices,
    )
}

fn tree<'de, S: DeserializeSeed<'de, Value = ()> + Copy>(
    builder: &RefCell<Builder>,
    leaf: S,
    leave: fn(&mut Builder) -> Result<(), String>,
) -> impl DeserializeSeed<'de, Value = ()> {
    let problems = Index { builder, key: "a problem key", enter: Builder::enter_problem, leave, inner: leaf };
    let ops = Index {
        builder,
        key: "an operation",
        enter: Builder::enter_op,
        leave: Builder::leave_op,
        inner: Node { field: "solution", inner: problems },
    };
    let hardware = Index {
        builder,
        key: "a hardware name",
        enter: Builder::enter_hardware,
        leave: Builder::leave_hardware,
        inner: Node { field: "operation", inner: ops },
    };
    Node { field: "hardware", inner: hardware }
}

/// A node: a map with one field that matters.
#[derive(Clone, Copy)]
struct Node<S> {
    field: &'static str,
    inner: S,
}

impl<'de, S: DeserializeSeed<'de, Value = ()> + Copy> DeserializeSeed<'de> for Node<S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()> + Copy> Visitor<'de> for Node<S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map with the field `{}`", self.field)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut found, mut version) = (false, None);
        while let Some(key) = map.next_key_seed(Key([self.field, "version"]))? {
            match key {
                Some(0) if found => return Err(de::Error::duplicate_field(self.field)),
                Some(0) => {
                    map.next_value_seed(self.inner)?;
                    found = true;
                }
                Some(_) => set("version", &mut version, map.next_value::<Version>()?)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if found { Ok(()) } else { Err(de::Error::missing_field(self.field)) }
    }
}

/// An index: a map whose keys are data.
#[derive(Clone, Copy)]
struct Index<'b, S> {
    builder: &'b RefCell<Builder>,
    key: &'static str,
    enter: fn(&mut Builder, &str) -> Result<(), String>,
    leave: fn(&mut Builder) -> Result<(), String>,
    inner: S,
}

impl<'de, S: DeserializeSeed<'de, Value = ()> + Copy> DeserializeSeed<'de> for Index<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()> + Copy> Visitor<'de> for Index<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map from {}", self.key)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            (self.enter)(&mut self.builder.borrow_mut(), &key).map_err(de::Error::custom)?;
            map.next_value_seed(self.inner)?;
            (self.leave)(&mut self.builder.borrow_mut()).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

/// A list whose parts go to the builder one by one.
#[derive(Clone, Copy)]
struct List<S> {
    of: &'static str,
    part: S,
}

impl<'de, S: DeserializeSeed<'de, Value = ()> + Copy> DeserializeSeed<'de> for List<S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()> + Copy> Visitor<'de> for List<S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.of)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self.part)?.is_some() {}
        Ok(())
    }
}

/// One config of a lookup table for the current problem.
#[derive(Clone, Copy)]
struct Choice<'b>(&'b RefCell<Builder>);

impl<'de> DeserializeSeed<'de> for Choice<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let op = self.0.borrow().op().map_err(de::Error::custom)?;
        let config = ConfigSeed(op).deserialize(deserializer)?;
        let mut builder = self.0.borrow_mut();
        builder.intern(config).and_then(|index| builder.choice(index)).map_err(de::Error::custom)
    }
}

/// One config and its time.
#[derive(Clone, Copy)]
struct Timing<'b>(&'b RefCell<Builder>);

impl<'de> DeserializeSeed<'de> for Timing<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Timing<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with the fields `config` and `time`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let op = self.0.borrow().op().map_err(de::Error::custom)?;
        let (mut config, mut time, mut version) = (None, None, None);
        while let Some(key) = map.next_key_seed(Key(["config", "time", "version"]))? {
            match key {
                Some(0) => set("config", &mut config, map.next_value_seed(ConfigSeed(op))?)?,
                Some(1) => set("time", &mut time, map.next_value::<Time>()?)?,
                Some(_) => set("version", &mut version, map.next_value::<Version>()?)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let config = config.ok_or_else(|| de::Error::missing_field("config"))?;
        let Time(millis) = time.ok_or_else(|| de::Error::missing_field("time"))?;
        let mut builder = self.0.borrow_mut();
        builder.intern(config).and_then(|index| builder.timing(index, millis)).map_err(de::Error::custom)
    }
}

fn set<T, E: de::Error>(field: &'static str, slot: &mut Option<T>, value: T) -> Result<(), E> {
    if slot.replace(value).is_some() { Err(E::duplicate_field(field)) } else { Ok(()) }
}

/// A time in milliseconds. `null` stands for a number that is not finite.
struct Time(f64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN)))
    }
}

/// Reads a key. Returns its place among these names, or `None` for another key.
struct Key<const N: usize>([&'static str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Key<N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<const N: usize> Visitor<'_> for Key<N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|&name| name == key))
    }
}

/// Passes JSON through, and replaces `Infinity`, `-Infinity` and `NaN`, which Python writes although JSON lacks them,
/// by `null`, except within strings.
pub(super) struct BareWords<R> {
    inner: R,
    input: Box<[u8]>,
    output: Vec<u8>,
    output_read: usize,
    state: State,
    /// The bytes of the current string so far.
    text: usize,
    /// The blanks since the last byte that was no blank.
    blanks: usize,
}

#[derive(Clone, Copy)]
enum State {
    Value,
    String,
    Escape,
    /// After a `-`, which is kept back until the next byte.
    Minus,
    /// Within a word. These bytes must follow.
    Word(&'static [u8]),
}

/// Replaces an unknown word. No JSON value begins like this, so the parser refuses it.
const NOT_A_WORD: u8 = b'?';

impl<R: Read> BareWords<R> {
    pub(super) fn new(inner: R) -> Self {
        let input = vec![0; 1 << 14].into_boxed_slice();
        Self { inner, input, output: Vec::new(), output_read: 0, state: State::Value, text: 0, blanks: 0 }
    }

    fn push(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Minus, b'I') => State::Word(b"nfinity"),
            (State::Value, b'N') => State::Word(b"aN"),
            (State::Value, b'I') => State::Word(b"nfinity"),
            (State::Value, b'-') => State::Minus,
            (State::Word([next, rest @ ..]), byte) if *next == byte => {
                if rest.is_empty() {
                    self.output.extend(b"null");
                    State::Value
                } else {
                    State::Word(rest)
                }
            }
            (State::Word(_), _) => {
                self.output.extend([NOT_A_WORD, byte]);
                State::Value
            }
            (State::Minus, _) => {
                self.output.extend([b'-', byte]);
                State::Value
            }
            (state, byte) => {
                self.output.push(byte);
                self.text = if matches!(state, State::Value) { 0 } else { self.text + 1 };
                let blank = matches!((state, byte), (State::Value, b' ' | b'\t' | b'\r' | b'\n'));
                self.blanks = if blank { self.blanks + 1 } else { 0 };
                match (state, byte) {
                    (State::Value, b'"') => State::String,
                    (State::String, b'"') | (State::Value, _) => State::Value,
                    (State::String, b'\\') => State::Escape,
                    _ => State::String,
                }
            }
        };
    }

    fn refill(&mut self) -> io::Result<()> {
        self.output.clear();
        self.output_read = 0;
        // A word may be split between two pieces, so a piece can yield no output.
        while self.output.is_empty() {
            let mut input = std::mem::take(&mut self.input);
            let count = self.inner.read(&mut input);
            if let Ok(count) = count {
                input[..count].iter().for_each(|&byte| self.push(byte));
            }
            self.input = input;
            // A piece is small, so a text is at most a little longer than the limit here.
            if self.text > MAX_JSON_TEXT {
                return Err(io::Error::other(format!("a text of more than {MAX_JSON_TEXT} bytes")));
            }
            if self.blanks > MAX_JSON_BLANKS {
                return Err(io::Error::other(format!("more than {MAX_JSON_BLANKS} blanks in a row")));
            }
            if count? == 0 {
                if !matches!(self.state, State::Value | State::String | State::Escape) {
                    self.state = State::Value;
                    self.output.push(NOT_A_WORD);
                }
                break;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for BareWords<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.output_read == self.output.len() {
            self.refill()?;
        }
        let ready = &self.output[self.output_read..];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.output_read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod infinity_tests {
    use super::*;

    /// Returns one byte at a time, so that every word is split.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(buffer.len()).min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn words_outside_strings_become_null() {
        for (given, expected) in [
            (r#"[Infinity, -Infinity, NaN, -1]"#, "[null, null, null, -1]"),
            (r#"{"NaN": "Infinity \" NaN"}"#, r#"{"NaN": "Infinity \" NaN"}"#),
            ("[Nan]", "[?n]"),
            ("-", "?"),
            ("Inf", "?"),
        ] {
            for whole in [true, false] {
                let mut text = String::new();
                if whole {
                    BareWords::new(given.as_bytes()).read_to_string(&mut text).unwrap();
                } else {
                    BareWords::new(Trickle(given.as_bytes())).read_to_string(&mut text).unwrap();
                }
                assert_eq!(text, expected, "{given}");
            }
        }
    }
    #[test]
    fn blanks_do_not_go_on_for_ever() {
        let read = |blanks: usize| {
            let given = ["[", &" \n".repeat(blanks / 2), "1]"].concat();
            BareWords::new(given.as_bytes()).read_to_string(&mut String::new())
        };
        assert!(read(MAX_JSON_BLANKS).is_ok());
        let error = read(MAX_JSON_BLANKS + (1 << 16)).unwrap_err().to_string();
        assert_eq!(error, format!("more than {MAX_JSON_BLANKS} blanks in a row"));
    }
}
