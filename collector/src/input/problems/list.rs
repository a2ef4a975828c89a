//! Lists of problems in every form: texts line by line, CSV, JSON, recordings, and the problems of datasets, tables and
//! shape sets.

use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_core::problem::{Columns, ProblemWords};
use diode_formats::FileKind;
use diode_workloads::catalogue;
use diode_workloads::named::Named;
use diode_workloads::served::Reader;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::input::problems::ServedArgs;
use crate::input::{datasets, tables};
use crate::output::{count, one_line};

/// The most bytes of a list.
const MAX_BYTES: u64 = 16 << 20;

/// More problems than one node could measure or anybody would read.
const MAX_PROBLEMS: usize = 200_000;

/// The most mistakes of a list that are named.
const MOST_MISTAKES: usize = 20;

/// What a message says that the file must hold.
const EXPECTED: &str =
    "a list of problems: one a line such as 16x4096x4096 fp16 nt, CSV with m, n and k, or JSON";

/// What applies to all problems of a list.
pub(crate) struct ListOptions<'a> {
    /// What applies where the list says nothing.
    pub(crate) usual: ProblemWords,
    pub(crate) served: &'a ServedArgs,
    /// The program whose layers a model's name stands for.
    pub(crate) reader: Reader,
    pub(crate) hardware: Option<&'a Hardware>,
}

impl ListOptions<'_> {
    /// The problems of a text, or of a model's name. `is_said` says that `usual` was said of this very text.
    pub(crate) fn read(&self, text: &str, is_said: bool) -> Result<Vec<Problem>, String> {
        let said = match ProblemWords::read(text) {
            Ok(said) => said,
            Err(error) => return self.model(text, &error.to_string()),
        };
        let said = if is_said { said.or(&self.usual) } else { said };
        self.problems(said).map_err(|error| error.to_string())
    }

    fn problems(&self, said: ProblemWords) -> Result<Vec<Problem>, diode_core::Invalid> {
        if said.tf32 {
            return Err(diode_core::Invalid::new("dtype", "tf32", "fp32, and --tf32 with the command"));
        }
        said.problems(&self.usual)
    }

    fn model(&self, text: &str, error: &str) -> Result<Vec<Problem>, String> {
        if let Some(named) = Named::find(text) {
            return self.served.problems(&named, self.reader, self.hardware);
        }
        if text.contains('/')
            || [".txt", ".csv", ".json", ".zst", ".parquet"].iter().any(|end| text.ends_with(end))
        {
            return Err(format!("{text:.200}: no such file"));
        }
        let near = match text.contains(char::is_alphabetic) {
            true => catalogue::similar(text),
            false => Vec::new(),
        };
        match near.is_empty() {
            true => Err(error.to_owned()),
            false => Err(format!("{error}; or a model such as {}", near.join(", "))),
        }
    }
}

/// Reads a list: a file, or standard input as `-`. A text or a model's name stands for its problems if there is no such
/// file. Problems may repeat.
pub(crate) fn read_list(path: &Path, options: &ListOptions<'_>) -> anyhow::Result<Vec<Problem>> {
    let is_stdin = path == Path::new("-");
    if let Some(text) = path.to_str().filter(|_| !is_stdin && !path.exists())
        && let Ok(problems) = options.read(text, true)
    {
        return Ok(problems);
    }
    let shown = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let problems = match is_stdin {
        true => {
            let mut bytes = Vec::new();
            io::stdin().take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| shown.clone())?;
            if bytes.len() as u64 > MAX_BYTES {
                bail!("{shown}: got more than {MAX_BYTES} bytes, expected {EXPECTED}");
            }
            match diode_formats::recognise(&bytes) {
                Some(FileKind::ShapeSet) => {
                    diode_compat::decode_shapes(&bytes).with_context(|| shown.clone())?.problems
                }
                Some(kind) if std::str::from_utf8(&bytes).is_err() => {
                    bail!("{shown}: got {kind}, expected {EXPECTED}; name the file in place of -")
                }
                _ => {
                    let text =
                        String::from_utf8(bytes).with_context(|| format!("{shown}: expected {EXPECTED}"))?;
                    of_text(&shown, &text, options)?
                }
            }
        }
        false => of_file(path, &shown, options)?,
    };
    if problems.is_empty() {
        bail!("{shown}: expected at least one problem, such as 16x4096x4096");
    }
    Ok(problems)
}

fn of_file(path: &Path, shown: &str, options: &ListOptions<'_>) -> anyhow::Result<Vec<Problem>> {
    match diode_formats::recognise(&diode_formats::read_head(path)?) {
        Some(FileKind::Timings) => {
            let sets = datasets::read(&[path.to_owned()])?;
            let problems = sets.into_iter().flat_map(|set| set.solutions).map(|solution| solution.problem);
            return Ok(problems.collect());
        }
        Some(FileKind::Table | FileKind::LookupTable) => {
            let tables = tables::read_tables(path)?;
            return Ok(tables
                .iter()
                .flat_map(|table| table.iter().map(|(problem, _)| problem.clone()))
                .collect());
        }
        Some(FileKind::ShapeSet) => return Ok(diode_compat::read_shapes(path)?.problems),
        _ => {}
    }
    of_text(shown, &diode_formats::read_text(path, MAX_BYTES, EXPECTED)?, options)
}

fn of_text(shown: &str, text: &str, options: &ListOptions<'_>) -> anyhow::Result<Vec<Problem>> {
    // Spreadsheets begin a file with a byte-order mark.
    let text = text.trim_start_matches('\u{feff}');
    let mut found = Found { options, problems: Vec::new(), wrong: Vec::new(), mistakes: 0 };
    // A line such as `[512, 4096] @ [4096, 14336]` is a problem.
    let is_operands =
        text.lines().next().is_some_and(|line| line.contains("] @ [") || line.contains("].T @ ["));
    if text.trim_start().starts_with(['[', '{']) && !is_operands {
        found.read_json(text).with_context(|| format!("{shown}: expected {EXPECTED}"))?;
    } else {
        found.read_lines(shown, text);
    }
    found.finish(shown)
}

/// The problems of a list, and what is wrong with others.
struct Found<'a> {
    options: &'a ListOptions<'a>,
    problems: Vec<Problem>,
    wrong: Vec<String>,
    mistakes: usize,
}

impl Found<'_> {
    fn add(&mut self, place: fmt::Arguments<'_>, read: Result<Vec<Problem>, Vec<String>>) {
        match read {
            Ok(problems) => self.problems.extend(problems),
            Err(wrong) => {
                self.mistakes += wrong.len();
                let room = MOST_MISTAKES.saturating_sub(self.wrong.len());
                self.wrong.extend(wrong.into_iter().take(room).map(|error| format!("{place}: {error}")));
            }
        }
    }

    /// One mistake is the error. Of several, each has a line.
    fn finish(self, shown: &str) -> anyhow::Result<Vec<Problem>> {
        match self.wrong.as_slice() {
            [] if self.problems.len() > MAX_PROBLEMS => {
                bail!("{shown}: got more than {MAX_PROBLEMS} problems; split the list")
            }
            [] => Ok(self.problems),
            [one] => bail!("{shown}: {one}"),
            several => {
                several.iter().for_each(|one| tell!(Warning, {}, "{shown}: {one}"));
                let more = self.mistakes - several.len();
                let and_more = if more > 0 {
                    format!(", the first {MOST_MISTAKES} of them above")
                } else {
                    String::new()
                };
                bail!("{shown}: {}{and_more}", count(self.mistakes, "mistake"))
            }
        }
    }

    /// Reads a problem a line, or CSV. What follows `#` says nothing.
    fn read_lines(&mut self, shown: &str, text: &str) {
        let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty()).peekable();
        let columns = lines.peek().and_then(|(_, line)| Columns::read(line));
        if let Some(columns) = &columns {
            let others: Vec<&str> = columns.others().collect();
            if !others.is_empty() {
                say!("note: {shown}: ignored columns: {}", one_line(&others.join(", ")));
            }
        }
        for (number, line) in lines.skip(usize::from(columns.is_some())) {
            let number: usize = number;
            let read = match &columns {
                None => self.options.read(line, false).map_err(|error| vec![error]),
                Some(columns) => match columns.said(line) {
                    Ok(said) => self.options.problems(said).map_err(|error| vec![error.to_string()]),
                    Err(wrong) => Err(wrong.iter().map(ToString::to_string).collect()),
                },
            };
            self.add(format_args!("line {number}"), read);
            if self.problems.len() > MAX_PROBLEMS {
                return;
            }
        }
    }

    /// Reads a list, an object with `problems` and what applies to all of them, or one problem.
    fn read_json(&mut self, text: &str) -> Result<(), serde_json::Error> {
        if text.trim_start().starts_with('[') {
            let mut json = serde_json::Deserializer::from_str(text);
            json.deserialize_seq(&mut *self)?;
            return json.end();
        }
        let mut fields = serde_json::from_str::<Fields>(text)?.0;
        if fields.iter().any(|(key, _)| key == "hidden_size") {
            let named = Named::from_config("config.json", text).map_err(|error| error.to_string());
            let ListOptions { served, reader, hardware, .. } = *self.options;
            let read = named.and_then(|named| served.problems(&named, reader, hardware));
            self.add(format_args!("model"), read.map_err(|error| vec![error]));
            return Ok(());
        }
        let listed = fields.iter().position(|(key, _)| key == "problems").map(|place| fields.remove(place).1);
        match listed {
            None => {
                let read = self.row(Row::Fields(fields));
                self.add(format_args!("problem 1"), read);
            }
            Some(Value::Array(rows)) => {
                let usual = match said_by(fields) {
                    Ok(said) => said.or(&self.options.usual),
                    Err(wrong) => {
                        self.add(format_args!("what applies to all"), Err(wrong));
                        return Ok(());
                    }
                };
                let options = ListOptions { usual, ..*self.options };
                let mut inner =
                    Found { options: &options, problems: Vec::new(), wrong: Vec::new(), mistakes: 0 };
                for (number, row) in (1_usize..).zip(rows) {
                    let read = inner.row(Row::deserialize(row)?);
                    inner.add(format_args!("problem {number}"), read);
                }
                self.problems = inner.problems;
                (self.wrong, self.mistakes) = (inner.wrong, inner.mistakes);
            }
            Some(_) => return Err(Error::custom("`problems` is no list")),
        }
        Ok(())
    }

    fn row(&self, row: Row) -> Result<Vec<Problem>, Vec<String>> {
        let in_words = |error: diode_core::Invalid| vec![error.to_string()];
        match row {
            Row::Text(text) => self.options.read(&text, false).map_err(|error| vec![error]),
            Row::Fields(fields) => self.options.problems(said_by(fields)?).map_err(in_words),
            Row::Other(given) => Err(vec![format!(
                "got {given:.80}, expected a text such as 16x4096x4096, or an object such as {{\"m\": 16, \"n\": 4096, \"k\": 4096}}"
            )]),
        }
    }
}

impl<'de> Visitor<'de> for &mut Found<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of problems")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let mut number = 0_usize;
        while let Some(row) = rows.next_element::<Row>()? {
            number += 1;
            if number > MAX_PROBLEMS {
                return Err(Error::custom(format_args!("more than {MAX_PROBLEMS} problems")));
            }
            let read = self.row(row);
            self.add(format_args!("problem {number}"), read);
        }
        Ok(())
    }
}

/// What the fields of an object say of a problem, or all that is wrong with them. An answer of `diode predict --json` stands
/// for its problem.
fn said_by(mut fields: Vec<(String, Value)>) -> Result<ProblemWords, Vec<String>> {
    if let Some(place) = fields.iter().position(|(key, value)| key == "problem" && value.is_object())
        && let Value::Object(problem) = fields.swap_remove(place).1
    {
        fields = problem.into_iter().collect();
    }
    let (mut said, mut wrong, mut seen) = (ProblemWords::default(), Vec::new(), Vec::new());
    for (key, value) in fields {
        if seen.contains(&key) {
            wrong.push(format!("{key:.40}: got it twice, expected it once"));
            continue;
        }
        let set = |said: &mut ProblemWords, name: &str, value: &Value| match value {
            Value::Null => None,
            Value::String(text) => said.set(name, text).err(),
            Value::Number(number) => said.set(name, &number.to_string()).err(),
            other => Some(diode_core::Invalid::new(name, format_args!("{other:.40}"), "a text or a number")),
        };
        match (key.as_str(), &value) {
            ("groups", Value::Object(parts)) => {
                for (part, value) in parts {
                    let name = if part == "count" { "groups" } else { part };
                    wrong.extend(set(&mut said, name, value).map(|error| error.to_string()));
                }
            }
            ("out_layout", Value::Object(_)) => match serde_json::from_value(value.clone()) {
                Ok(layout) => said.out_layout = Some(layout),
                Err(error) => wrong.push(format!("out_layout: {error}")),
            },
            (name, value) => wrong.extend(set(&mut said, name, value).map(|error| error.to_string())),
        }
        seen.push(key);
    }
    if wrong.is_empty() { Ok(said) } else { Err(wrong) }
}

/// A problem in JSON.
enum Row {
    Text(String),
    Fields(Vec<(String, Value)>),
    Other(String),
}

struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Row::deserialize(deserializer)? {
            Row::Fields(fields) => Ok(Self(fields)),
            Row::Text(_) | Row::Other(_) => Err(Error::custom("no object")),
        }
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RowVisitor)
    }
}

/// Keeps keys that stand twice, and nothing of what no problem has.
struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = Row;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a problem")
    }

    fn visit_str<E>(self, text: &str) -> Result<Row, E> {
        Ok(Row::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Row::Fields(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Row, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Row::Other("a list".to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Row, E> {
        Ok(Row::Other(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Row, E> {
        Ok(Row::Other(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Row, E> {
        Ok(Row::Other(number.to_string()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Row, E> {
        Ok(Row::Other(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Row, E> {
        Ok(Row::Other("null".to_owned()))
    }
}
