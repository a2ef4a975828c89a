//! Writes the tree of maps with serde, in torch-diode's order.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::io::Write;

use diode_core::{Config, Dataset, Millis, Op, Solution};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::nested::shape;
use crate::nested::{ConfigMap, Version};

/// A whole file. The keys of a map must differ. So all datasets with the same hardware name become
/// one entry, and so do all solutions of the same problem.
pub(super) struct Tree<'a>(pub(super) &'a [Dataset]);

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hardware = grouped(self.0.iter().map(|dataset| (dataset.hardware.name.as_str(), dataset)));
        let entries = hardware.into_iter().map(|(name, datasets)| (name.to_owned(), HardwareNode(datasets)));
        node(serializer, "hardware", &Index(entries.collect()))
    }
}

struct HardwareNode<'a>(Vec<&'a Dataset>);

impl Serialize for HardwareNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ops = grouped(self.0.iter().flat_map(|&dataset| {
            dataset.solutions.iter().map(move |solution| (solution.problem.op, (dataset, solution)))
        }));
        let entries = ops.into_iter().map(|(op, solutions)| (op.to_string(), OpNode(solutions)));
        node(serializer, "operation", &Index(entries.collect()))
    }
}

struct OpNode<'a>(Vec<(&'a Dataset, &'a Solution)>);

impl Serialize for OpNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let problems = grouped(self.0.iter().map(|&entry| (&entry.1.problem, entry)));
        let entries =
            problems.into_iter().map(|(problem, solutions)| (shape::key(problem), SolutionNode(solutions)));
        node(serializer, "solution", &Index(entries.collect()))
    }
}

struct SolutionNode<'a>(Vec<(&'a Dataset, &'a Solution)>);

impl Serialize for SolutionNode<'_> {
    /// The timings come first. Failures follow, with an infinite time.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut timings = Vec::new();
        for &(dataset, solution) in &self.0 {
            let mut add = |index, time| {
                timings.push(Timing { op: solution.problem.op, config: dataset.configs.get(index), time });
            };
            for (row, &index) in solution.configs.iter().enumerate() {
                add(index, solution.times.millis(row));
            }
            for failure in &solution.failures {
                add(failure.config, Millis(f64::INFINITY));
            }
        }
        node(serializer, "timed_configs", &timings)
    }
}

struct Timing<'a> {
    op: Op,
    config: &'a Config,
    time: Millis,
}

impl Serialize for Timing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tile = self.config.tile().ok_or_else(|| S::Error::custom("a config without a tile"))?;
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("config", &ConfigMap { op: self.op, tile })?;
        map.serialize_entry("time", &self.time.0)?;
        map.serialize_entry("version", &Version)?;
        map.end()
    }
}

/// An index: a map whose keys are data.
struct Index<N>(Vec<(String, N)>);

impl<N: Serialize> Serialize for Index<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A node: a map with one field that matters.
fn node<S: Serializer>(
    serializer: S,
    field: &'static str,
    value: &impl Serialize,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry(field, value)?;
    map.serialize_entry("version", &Version)?;
    map.end()
}

/// Groups entries by key. Groups and their entries stand in the order of first appearance.
fn grouped<K: Hash + Eq + Copy, V>(entries: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut places = HashMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in entries {
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[place].1.push(value);
    }
    groups
}

/// JSON exactly as Python's `json.dumps(…, indent=2)` writes it: serde_json's indented form with Python's floats, ASCII escapes
/// and `Infinity`.
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
mod python_json_tests {
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
        Serialize::serialize("é\u{7f}😀\n\"\\\u{1}", &mut json).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), r#""\u00e9\u007f\ud83d\ude00\n\"\\\u0001""#);
    }
}
