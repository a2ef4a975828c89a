//! What a file of tuned configs holds: a config for each of some batch sizes.

use std::fmt;

use diode_core::config::RocmExtras;
use diode_core::hardware::{Hardware, Vendor};
use diode_core::space::serving::is_swapped;
use diode_core::{Config, Invalid, Op, Problem, Scaling, Tile};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::file_names::Consumer;

/// The batch sizes that both projects' tuners measure.
pub const BATCH_SIZES: [u64; 18] =
    [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096];

/// The batch sizes that a file should have beside them, for large prefills.
pub const LARGE_BATCH_SIZES: [u64; 2] = [8192, 16_384];

/// A config for each of some batch sizes, in the file's order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    /// The version of Triton with which the file was tuned. SGLang refuses a file that says so.
    pub triton_version: Option<String>,
    /// Keys below 0. A server reads them as batch sizes that no batch has.
    pub negative: Vec<String>,
    entries: Vec<(u64, Option<Entry>)>,
}

/// The parameters of one launch under the projects' names, in the file's order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry(Vec<(String, Value)>);

impl Body {
    /// Adds a config for a batch size, or replaces the one that it has.
    pub fn insert(&mut self, batch: u64, entry: Entry) {
        match self.entries.iter_mut().find(|(known, _)| *known == batch) {
            Some((_, known)) => *known = Some(entry),
            None => self.entries.push((batch, Some(entry))),
        }
    }

    /// The batch sizes with their configs. A config is missing where the file leaves the choice to the server.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u64, Option<&Entry>)> {
        self.entries.iter().map(|(batch, entry)| (*batch, entry.as_ref()))
    }

    /// The batch size whose config the server takes: the nearest one, and the first in the file if two are equally
    /// near.
    pub fn nearest(&self, batch: u64) -> Option<(u64, Option<&Entry>)> {
        self.entries().min_by_key(|(known, _)| known.abs_diff(batch))
    }

    /// The file's text, as the tuners of both projects write it.
    pub fn to_text(&self) -> String {
        let mut text = Vec::new();
        let mut json = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
        self.serialize(&mut json).unwrap_or_else(|_| unreachable!("a vector takes all text"));
        text.push(b'\n');
        String::from_utf8(text).unwrap_or_else(|_| unreachable!("JSON is text"))
    }

    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let mut json = serde_json::Deserializer::from_str(text);
        let body = Self::deserialize(&mut json).and_then(|body| json.end().map(|()| body));
        body.map_err(|error| {
            Invalid::new(
                "file of tuned configs",
                error,
                "an object that has an object of parameters for each batch size",
            )
        })
    }
}

impl Entry {
    /// The entry of a tile.
    pub fn of(tile: &Tile) -> Self {
        let mut entry = Self::default();
        for (key, value) in [
            ("BLOCK_SIZE_M", tile.block_m),
            ("BLOCK_SIZE_N", tile.block_n),
            ("BLOCK_SIZE_K", tile.block_k),
            ("GROUP_SIZE_M", tile.group_m),
            ("num_warps", tile.num_warps),
            ("num_stages", tile.num_stages),
        ] {
            entry.set(key, value);
        }
        if let Some(rocm) = tile.rocm {
            entry.set("waves_per_eu", rocm.waves_per_eu);
            entry.set("matrix_instr_nonkdim", rocm.matrix_instr_nonkdim);
            entry.set("kpack", rocm.kpack);
        }
        entry
    }

    /// Sets a parameter, at the end if it is new.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// A parameter that is a number.
    pub fn number(&self, key: &str) -> Option<u32> {
        self.get(key)?.as_u64()?.try_into().ok()
    }

    /// The names of the parameters.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// The tile. Missing warps and stages are those that Triton takes.
    pub fn tile(&self, vendor: Vendor) -> Result<Tile, Invalid> {
        let number = |key: &'static str| {
            let given = self.get(key).map_or_else(|| "nothing".to_owned(), Value::to_string);
            self.number(key).ok_or_else(|| Invalid::new(key, given, "a number"))
        };
        let or = |key, usual| if self.get(key).is_some() { number(key) } else { Ok(usual) };
        let stages = if vendor == Vendor::Amd { 2 } else { 3 };
        let rocm = RocmExtras {
            matrix_instr_nonkdim: or("matrix_instr_nonkdim", 0)?,
            waves_per_eu: or("waves_per_eu", 0)?,
            kpack: or("kpack", 1)?,
        };
        let is_rocm =
            ["matrix_instr_nonkdim", "waves_per_eu", "kpack"].iter().any(|key| self.get(key).is_some());
        let tile = Tile {
            group_m: or("GROUP_SIZE_M", 1)?,
            rocm: is_rocm.then_some(rocm),
            ..Tile::new(
                number("BLOCK_SIZE_M")?,
                number("BLOCK_SIZE_N")?,
                number("BLOCK_SIZE_K")?,
                or("num_stages", stages)?,
                or("num_warps", 4)?,
            )
        };
        Config::Mm(tile).validate()?;
        Ok(tile)
    }

    /// The config that runs for a problem: vLLM lowers BLOCK_SIZE_K to a block of scales, and both swap operands where
    /// their experts' kernel does so by itself.
    pub fn config(
        &self,
        consumer: Consumer,
        hardware: &Hardware,
        problem: &Problem,
    ) -> Result<Config, Invalid> {
        /// The rows and columns of a block of scales that a problem can have.
        const BLOCK: u32 = 128;
        let mut tile = self.tile(hardware.vendor)?;
        let by_block = problem.scaling == Scaling::Block;
        if consumer == Consumer::Vllm && problem.op == Op::FusedMoe && by_block {
            tile.block_k = tile.block_k.min(BLOCK);
        }
        tile.swap_ab = is_swapped(hardware, problem, tile.block_m, tile.block_n);
        Ok(Config::Mm(tile.for_k(problem.k)))
    }
}

impl Serialize for Body {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(version) = &self.triton_version {
            map.serialize_entry("triton_version", version)?;
        }
        self.entries.iter().try_for_each(|(batch, entry)| map.serialize_entry(batch, entry))?;
        map.end()
    }
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of batch sizes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
        let mut body = Body::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "triton_version" {
                body.triton_version = Some(map.next_value()?);
                continue;
            }
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if key.strip_prefix('-').is_some_and(is_number) {
                map.next_value::<IgnoredAny>()?;
                body.negative.push(key);
                continue;
            }
            let batch: u64 = key.parse().ok().filter(|_| is_number(&key)).ok_or_else(|| {
                A::Error::custom(format_args!(
                    "the key `{key:.100}` is no batch size; the server fails on it"
                ))
            })?;
            if body.entries.iter().any(|(known, _)| *known == batch) {
                return Err(A::Error::custom(format_args!("batch size {batch} stands twice")));
            }
            let entry = map.next_value_seed(EntrySeed(batch))?;
            body.entries.push((batch, entry));
        }
        Ok(body)
    }
}

/// Reads the entry of this batch size.
struct EntrySeed(u64);

impl<'de> DeserializeSeed<'de> for EntrySeed {
    type Value = Option<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Entry>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed {
    type Value = Option<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of parameters for batch size {}", self.0)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<Entry>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Entry>, A::Error> {
        let mut entry = Entry::default();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            entry.set(&key, value);
        }
        Ok(Some(entry))
    }
}

#[cfg(test)]
mod tests {
    use diode_core::DType;
    use diode_core::hardware::find;
    use diode_core::problem::problems_in;

    use super::*;

    fn body(batches: &[u64]) -> Body {
        let mut body = Body::default();
        for &batch in batches {
            body.insert(batch, Entry::of(&Tile::new(16, 64, 128, 4, 4)));
        }
        body
    }

    #[test]
    fn a_file_is_written_as_the_tuners_write_it() {
        let mut body = body(&[1]);
        body.triton_version = Some("3.8.0".to_owned());
        let text = body.to_text();
        let expected = r#"{
    "triton_version": "3.8.0",
    "1": {
        "BLOCK_SIZE_M": 16,
        "BLOCK_SIZE_N": 64,
        "BLOCK_SIZE_K": 128,
        "GROUP_SIZE_M": 8,
        "num_warps": 4,
        "num_stages": 4
    }
}
"#;
        assert_eq!(text, expected);
        assert_eq!(Body::parse(&text).unwrap(), body);
        assert_eq!(Body::default().to_text(), "{}\n");
        let sparse = "{\n    \"1\": null,\n    \"2\": {}\n}\n";
        assert_eq!(Body::parse(sparse).unwrap().to_text(), sparse);
    }

    #[test]
    fn the_nearest_batch_size_is_taken_and_the_first_of_two() {
        let body = body(&[64, 16, 32]);
        let nearest = |batch| body.nearest(batch).unwrap().0;
        assert_eq!([0, 16, 24, 25, 48, 49, 1 << 40].map(nearest), [16, 16, 16, 32, 64, 64, 64]);
        assert_eq!(Body::default().nearest(1), None);
    }

    #[test]
    fn a_bad_file_says_what_is_wrong_and_where() {
        for (text, said) in [
            ("", "EOF while parsing a value at line 1"),
            ("[]", "expected an object of batch sizes at line 1"),
            ("{\"1\": {\"BLOCK_SIZE_M\": 16", "EOF while parsing an object at line 1"),
            ("{\"1\": 16}", "expected an object of parameters for batch size 1"),
            ("{\"one\": {}}", "the key `one` is no batch size"),
            ("{\"1\": {}, \"1\": {}}", "batch size 1 stands twice"),
            ("{} {}", "trailing characters"),
        ] {
            let error = Body::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_tile_has_what_triton_takes_where_the_file_is_silent() {
        let body =
            Body::parse(r#"{"1": {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64}}"#).unwrap();
        let (_, Some(entry)) = body.nearest(1).unwrap() else { panic!("an entry") };
        let tile = Tile { group_m: 1, ..Tile::new(16, 32, 64, 3, 4) };
        assert_eq!(entry.tile(Vendor::Nvidia).unwrap(), tile);
        assert_eq!(entry.tile(Vendor::Amd).unwrap().num_stages, 2);
        let mut odd = entry.clone();
        odd.set("BLOCK_SIZE_M", 48);
        assert!(
            odd.tile(Vendor::Nvidia).unwrap_err().to_string().contains("got 48, expected a power of two")
        );
        odd.set("BLOCK_SIZE_M", "48");
        assert_eq!(
            odd.tile(Vendor::Nvidia).unwrap_err().to_string(),
            "BLOCK_SIZE_M: got \"48\", expected a number"
        );
    }

    #[test]
    fn what_runs_is_the_entry_as_the_kernel_takes_it() {
        let hardware = find("nvidia-h200").unwrap();
        let problems = problems_in("moe 128x768x2048 top8 16 tokens fp8 block", DType::BFloat16);
        let problem = problems.unwrap().remove(0);
        let entry = Entry::of(&Tile::new(16, 128, 256, 4, 4));
        let label = |consumer| entry.config(consumer, &hardware, &problem).unwrap().label();
        assert_eq!(label(Consumer::Vllm), "16×128×128 s4 w4 swap");
        assert_eq!(label(Consumer::Sglang), "16×128×256 s4 w4 swap");
    }
}
