//! Writes JSON exactly as Python's `json.dumps(…, indent=2)` does, byte for byte.

use std::io::{self, Write};

use serde_json::ser::{Formatter, PrettyFormatter};

/// serde_json's indented form with three changes: Python's floats, ASCII escapes and `Infinity`.
pub(super) struct PythonJson(PrettyFormatter<'static>);

impl PythonJson {
    pub(super) fn new() -> Self {
        Self(PrettyFormatter::with_indent(b"  "))
    }
}

impl Formatter for PythonJson {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(python_repr(value).as_bytes())
    }

    /// serde_json calls this for numbers that are not finite. In a dataset, only infinite times are such
    /// numbers, and nothing else is null.
    fn write_null<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"Infinity")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        let mut units = [0; 2];
        for c in text.chars() {
            if matches!(c, ' '..='~') {
                writer.write_all(&[c as u8])?;
            } else {
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

/// A finite float as Python's `repr` writes it: the shortest digits that give the same number.
/// Numbers below 1e-4 and from 1e16 on have an exponent.
fn python_repr(value: f64) -> String {
    // Rust's own shortest form, such as `1.25e-5`.
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_pythons() {
        for (value, repr) in [
            (0.01, "0.01"),
            (0.0123, "0.0123"),
            (1.0, "1.0"),
            (0.040_159_999_999_999_994, "0.040159999999999994"),
            (1e-5, "1e-05"),
            (1.25e-5, "1.25e-05"),
            (0.0001, "0.0001"),
            (123_456.75, "123456.75"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e22, "1.5e+22"),
            (5e-324, "5e-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        ] {
            assert_eq!(python_repr(value), repr);
        }
    }

    #[test]
    fn text_is_ascii() {
        let mut out = Vec::new();
        let mut json = serde_json::Serializer::with_formatter(&mut out, PythonJson::new());
        serde::Serialize::serialize("é\u{7f}😀\n\"\\\u{1}", &mut json).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), r#""\u00e9\u007f\ud83d\ude00\n\"\\\u0001""#);
    }
}
