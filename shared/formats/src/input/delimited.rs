//! Reads text with columns, record by record: CSV as in RFC 4180, with any delimiter.

use std::io::{self, BufRead, BufReader, Read};

use crate::FormatError;
use crate::limits::MAX_RECORD;

/// A field that begins with a quote may contain line breaks.
const QUOTE: u8 = b'"';

/// Reads records and holds one of them at a time.
pub struct Delimited<R> {
    input: BufReader<R>,
    delimiter: u8,
    /// The line where the current record begins, counted from 1.
    line: u64,
    lines_read: u64,
    raw: Vec<u8>,
    fields: Vec<String>,
}

impl<R: Read> Delimited<R> {
    pub fn new(input: R, delimiter: u8) -> Self {
        Self {
            input: BufReader::with_capacity(1 << 16, input),
            delimiter,
            line: 0,
            lines_read: 0,
            raw: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// The fields of the next record, or `None` at the end. Empty lines are skipped.
    pub fn record(&mut self) -> Result<Option<&[String]>, FormatError> {
        loop {
            if !self.read_raw()? {
                return Ok(None);
            }
            if !self.raw.is_empty() {
                break;
            }
        }
        let count = self.split()?;
        Ok(Some(&self.fields[..count]))
    }

    /// An error at the last record that was read.
    pub fn refuse(&self, cause: impl std::fmt::Display) -> FormatError {
        self.malformed("invalid", cause)
    }

    fn malformed(&self, state: &'static str, cause: impl std::fmt::Display) -> FormatError {
        FormatError::Malformed {
            state,
            encoding: "CSV",
            at: format!("line {}", self.line.max(1)),
            place: String::new(),
            cause: cause.to_string(),
        }
    }

    /// Reads lines until every quote is closed. Returns false at the end of the data.
    fn read_raw(&mut self) -> Result<bool, FormatError> {
        self.raw.clear();
        self.line = self.lines_read + 1;
        let mut searched = 0;
        let mut quotes = 0;
        loop {
            let room = (MAX_RECORD + 1).saturating_sub(self.raw.len());
            let read = self.input.by_ref().take(room as u64).read_until(b'\n', &mut self.raw);
            if read.map_err(|error| self.unreadable(&error))? == 0 {
                if searched == 0 {
                    return Ok(false);
                }
                return Err(self.malformed("truncated", "a quoted field that never ends"));
            }
            if self.raw.len() > MAX_RECORD {
                return Err(self.refuse(format_args!("more than {MAX_RECORD} bytes in one record")));
            }
            self.lines_read += 1;
            quotes += self.raw[searched..].iter().filter(|&&byte| byte == QUOTE).count();
            searched = self.raw.len();
            if quotes % 2 == 0 {
                break;
            }
        }
        while self.raw.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            self.raw.pop();
        }
        Ok(true)
    }

    fn unreadable(&self, error: &io::Error) -> FormatError {
        let truncated = error.kind() == io::ErrorKind::UnexpectedEof;
        self.malformed(if truncated { "truncated" } else { "invalid" }, error)
    }

    /// Splits the raw record and returns its number of fields. The next record reuses the strings.
    fn split(&mut self) -> Result<usize, FormatError> {
        let text = match std::str::from_utf8(&self.raw) {
            Ok(text) => text,
            Err(_) => return Err(self.refuse("bytes that are not UTF-8 text")),
        };
        let mut count = 0;
        let mut rest = text;
        loop {
            if self.fields.len() == count {
                self.fields.push(String::new());
            }
            let field = &mut self.fields[count];
            field.clear();
            count += 1;
            let after = match rest.strip_prefix('"') {
                Some(quoted) => match unquote(quoted, field) {
                    Some(after) => after,
                    None => return Err(self.refuse("a quoted field that never ends")),
                },
                None => {
                    let end = rest.bytes().position(|byte| byte == self.delimiter).unwrap_or(rest.len());
                    field.push_str(&rest[..end]);
                    &rest[end..]
                }
            };
            match after.as_bytes().first() {
                None => return Ok(count),
                Some(&byte) if byte == self.delimiter => rest = &after[1..],
                Some(_) => return Err(self.refuse("text after the closing quote of a field")),
            }
        }
    }
}

/// Takes a quoted field. `rest` begins after the opening quote; returns what follows the closing
/// quote.
fn unquote<'a>(mut rest: &'a str, field: &mut String) -> Option<&'a str> {
    loop {
        let (part, after) = rest.split_once('"')?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Some(after),
        }
    }
}

/// The places of the named columns in the header record.
pub fn locate<const N: usize>(header: &[String], names: [&str; N]) -> Result<[Option<usize>; N], String> {
    let mut places = [None; N];
    for (place, name) in places.iter_mut().zip(names) {
        let mut found = header.iter().enumerate().filter(|(_, column)| column.trim() == name);
        *place = found.next().map(|(index, _)| index);
        if found.next().is_some() {
            return Err(format!("duplicate column `{name}`"));
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
        let mut reader = Delimited::new(text.as_bytes(), b',');
        let mut records = Vec::new();
        while let Some(record) = reader.record().map_err(|error| error.to_string())? {
            records.push(record.to_vec());
        }
        Ok(records)
    }

    #[test]
    fn quotes_and_lines_are_understood() {
        let read = records("a,\"b,\"\"c\"\"\n d\",\r\n\n1,,\"\"").unwrap();
        assert_eq!(read, [["a", "b,\"c\"\n d", ""], ["1", "", ""]]);
        assert_eq!(records("").unwrap(), Vec::<Vec<String>>::new());
    }

    #[test]
    fn what_is_no_csv_is_named_with_its_line() {
        assert_eq!(records("a\n\"b").unwrap_err(), "truncated CSV at line 2: a quoted field that never ends");
        assert!(records("a\n\"b\"c").unwrap_err().contains("line 2: text after the closing quote"));
        assert!(records(&"x".repeat(MAX_RECORD + 1)).unwrap_err().contains("in one record"));
        let header = ["M".to_owned(), "M".to_owned()];
        assert_eq!(locate(&header, ["M"]).unwrap_err(), "duplicate column `M`");
    }
}
