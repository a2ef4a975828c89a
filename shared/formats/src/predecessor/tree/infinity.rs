//! Python writes `Infinity`, `-Infinity` and `NaN` into JSON, which does not have them.

use std::io::{self, Read};

use crate::limits::{MAX_JSON_BLANKS, MAX_JSON_TEXT};

/// Passes JSON through, and replaces these three words by `null`, except within strings.
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
mod tests {
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
