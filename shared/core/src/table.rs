//! Tables: the best known configs of each problem on one hardware. Looking them up replaces
//! measuring.

mod config_fields;
pub mod inductor;
mod nearest;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Field, Invalid};
use crate::hardware::Hardware;
use crate::named_enum::named_enum;
use crate::stats::median;
use crate::table::config_fields::TableConfigFields;
use crate::table::nearest::Index;
use crate::{Config, Dataset, Method, Micros, Problem, ProblemFields, Solution, numbered};

pub use crate::table::nearest::{Candidate, Nearest, Neighbour, distance};

named_enum! {
    /// How a table is written.
    TableFormat("table format") {
        /// JSON with one object per problem, for people to read.
        Diode = "diode",
        /// The form of PyTorch Inductor's lookup table.
        Inductor = "inductor",
    }
}

/// A config of a table, with its time if it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableConfig {
    pub config: Config,
    pub time: Option<Micros>,
}

/// The best known configs of problems on one hardware, measured by one method.
///
/// The configs of a problem stand in order of preference. Each of them can compute its problem:
/// `EVEN_K` is only set where K is a multiple of the block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TableFile", into = "TableFile")]
pub struct Table {
    hardware: Hardware,
    method: Method,
    /// Each problem, and where its configs are in `configs`.
    problems: Vec<(Problem, Range<usize>)>,
    /// All configs. The configs of one problem are neighbours.
    configs: Vec<TableConfig>,
    index: Index,
}

impl Table {
    /// An empty table.
    pub fn new(hardware: Hardware, method: Method) -> Self {
        Self { hardware, method, problems: Vec::new(), configs: Vec::new(), index: Index::default() }
    }

    /// Adds a problem with its configs, the preferred one first.
    pub fn insert(&mut self, problem: Problem, configs: Vec<TableConfig>) -> Result<(), Invalid> {
        if configs.is_empty() {
            return Err(Invalid::new("configs", "none", "at least one; leave out the problem to forget it"));
        }
        let mut seen = HashSet::with_capacity(configs.len());
        for (number, TableConfig { config, time }) in (1..).zip(&configs) {
            let named = |error: Invalid| error.within(format_args!("config {number}"));
            config.validate().map_err(named)?;
            check_even_k(config, &problem).map_err(named)?;
            if let Some(time) = time.filter(|time| !(time.0.is_finite() && time.0 > 0.0)) {
                return Err(named(Invalid::new("time_us", time.0, "a time above 0, or none")));
            }
            if !seen.insert(config) {
                return Err(named(Invalid::new("config", config.label(), "each config once")));
            }
        }
        let range = self.configs.len()..self.configs.len() + configs.len();
        if !self.index.insert(&problem, range.clone())? {
            let place = self.problems.iter().position(|(known, _)| *known == problem);
            return Err(Invalid::new(
                "problem",
                format_args!("a second entry, the other is number {}", place.map_or(0, |place| place + 1)),
                "each problem once",
            ));
        }
        self.configs.extend(configs);
        self.problems.push((problem, range));
        Ok(())
    }

    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The method of the times.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The number of problems.
    pub fn len(&self) -> usize {
        self.problems.len()
    }

    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Every problem with its configs, in the order of the table.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Problem, &[TableConfig])> {
        self.problems.iter().map(|(problem, range)| (problem, &self.configs[range.clone()]))
    }

    /// The configs of exactly this problem, the preferred one first.
    pub fn lookup(&self, problem: &Problem) -> Option<&[TableConfig]> {
        self.index.get(problem).map(|range| &self.configs[range])
    }

    /// Whether a config is listed for a problem.
    pub fn contains(&self, problem: &Problem, config: &Config) -> bool {
        self.lookup(problem).is_some_and(|listed| listed.iter().any(|entry| entry.config == *config))
    }

    /// Which of `configs` the table lists for a problem, in the given order.
    ///
    /// `None` if the table does not have the problem or lists none of these configs. A filter should
    /// then keep all configs.
    pub fn filter(&self, problem: &Problem, configs: &[Config]) -> Option<Vec<Config>> {
        let listed: HashSet<&Config> = self.lookup(problem)?.iter().map(|entry| &entry.config).collect();
        let kept: Vec<Config> = configs.iter().filter(|config| listed.contains(config)).copied().collect();
        (!kept.is_empty()).then_some(kept)
    }

    /// The same table with only the first configs of every problem, at least one each.
    pub fn top(&self, configs: usize) -> Self {
        let mut short = Self::new(self.hardware.clone(), self.method);
        for (problem, all) in self.iter() {
            let kept = all[..configs.clamp(1, all.len())].to_vec();
            let inserted = short.insert(problem.clone(), kept);
            debug_assert!(inserted.is_ok(), "what was in a table can be in another");
        }
        short
    }
}

/// Refuses a config that wrongly says that K is a multiple of its block. Such a kernel would read
/// past the end of rows.
fn check_even_k(config: &Config, problem: &Problem) -> Result<(), Invalid> {
    match config.tile() {
        Some(tile) if tile.even_k && !tile.for_k(problem.k).even_k => Err(Invalid::new(
            Field::EvenK,
            "true",
            format!("false, since K = {} is no multiple of block_k = {}", problem.k, tile.block_k),
        )),
        _ => Ok(()),
    }
}

impl Table {
    /// A table of the `top` best configs of every problem, or of all configs, in order of time.
    ///
    /// All datasets must be of one hardware. Methods are never mixed: without a `method`, the method with
    /// most timings is taken. A config's time is the median over the solutions that timed it. Problems
    /// without a time are left out.
    pub fn from_datasets(
        datasets: &[Dataset],
        method: Option<Method>,
        top: Option<usize>,
    ) -> Result<Self, Invalid> {
        let hardware = common_hardware(datasets)?;
        let method = choose_method(datasets, method)?;
        let mut timed: BTreeMap<&Problem, BTreeMap<Config, Vec<f64>>> = BTreeMap::new();
        for dataset in datasets {
            for solution in dataset.solutions.iter().filter(|solution| solution.method == method) {
                let times = timed.entry(&solution.problem).or_default();
                for (config, time) in medians(dataset, solution) {
                    times.entry(config).or_default().push(time);
                }
            }
        }
        let mut table = Self::new(hardware, method);
        for (problem, times) in timed {
            let times = times.into_iter();
            let times = times.filter_map(|(config, mut times)| Some((config, Micros(median(&mut times)?))));
            table.insert_best(problem.clone(), times, top)?;
        }
        Ok(table)
    }

    /// Adds a problem with the `top` best of these configs, or with all of them. Configs with a wrong
    /// `EVEN_K` are left out. A problem without any right config is not added.
    pub fn insert_best(
        &mut self,
        problem: Problem,
        times: impl IntoIterator<Item = (Config, Micros)>,
        top: Option<usize>,
    ) -> Result<(), Invalid> {
        let timed = |(config, time)| TableConfig { config, time: Some(time) };
        let usable = times.into_iter().filter(|(config, _)| check_even_k(config, &problem).is_ok());
        let mut configs: Vec<TableConfig> = usable.map(timed).collect();
        // The sort is stable, so configs with equal times stay in config order.
        configs.sort_by(|a, b| time(a).total_cmp(&time(b)));
        configs.truncate(top.unwrap_or(usize::MAX));
        if configs.is_empty() { Ok(()) } else { self.insert(problem, configs) }
    }
}

fn time(config: &TableConfig) -> f64 {
    config.time.map_or(f64::INFINITY, |time| time.0)
}

impl Table {
    /// A table of chosen configs without times, the preferred one first.
    ///
    /// A config that is listed twice counts once. Configs with a wrong `EVEN_K` are left out, and so are
    /// problems without any right config.
    pub fn from_choices(
        hardware: Hardware,
        choices: impl IntoIterator<Item = (Problem, Vec<Config>)>,
    ) -> Result<Self, Invalid> {
        let mut table = Self::new(hardware, Method::Unspecified);
        for (problem, configs) in choices {
            let mut kept = Vec::with_capacity(configs.len());
            let mut seen = HashSet::with_capacity(configs.len());
            for config in configs {
                if check_even_k(&config, &problem).is_ok() && seen.insert(config) {
                    kept.push(TableConfig { config, time: None });
                }
            }
            if !kept.is_empty() {
                table.insert(problem, kept)?;
            }
        }
        Ok(table)
    }
}

/// The hardware of all datasets, which must be the same. It is taken from a dataset that has its facts, if
/// there is one.
fn common_hardware(datasets: &[Dataset]) -> Result<Hardware, Invalid> {
    let slugs: BTreeSet<&str> = datasets.iter().map(|dataset| dataset.hardware.slug.as_str()).collect();
    if slugs.len() > 1 {
        let slugs = slugs.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Invalid::new("hardware", slugs, "datasets of one hardware"));
    }
    let described = datasets.iter().find(|dataset| dataset.hardware.facts.is_some());
    let dataset = described.or(datasets.first());
    let dataset = dataset.ok_or_else(|| Invalid::new("datasets", "none", "at least one"))?;
    Ok(dataset.hardware.clone())
}

/// The wanted method, or else the method with most timings.
fn choose_method(datasets: &[Dataset], wanted: Option<Method>) -> Result<Method, Invalid> {
    let mut counts: BTreeMap<Method, usize> = BTreeMap::new();
    for solution in datasets.iter().flat_map(|dataset| &dataset.solutions) {
        *counts.entry(solution.method).or_default() += solution.configs.len();
    }
    match wanted {
        Some(wanted) if !counts.contains_key(&wanted) => {
            let found = counts.keys().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
            Err(Invalid::new("method", format_args!("`{wanted}`"), format!("{found}, as there is")))
        }
        Some(wanted) => Ok(wanted),
        None => counts
            .into_iter()
            .max_by_key(|&(_, timings)| timings)
            .map(|(method, _)| method)
            .ok_or_else(|| Invalid::new("datasets", "no problem", "at least one")),
    }
}

/// One time in µs for each config of a solution.
fn medians(dataset: &Dataset, solution: &Solution) -> BTreeMap<Config, f64> {
    let mut repeats: BTreeMap<Config, Vec<f64>> = BTreeMap::new();
    for (index, time) in solution.configs.iter().zip(solution.times.iter_nanos()) {
        repeats.entry(*dataset.configs.get(*index)).or_default().push(time.micros().0);
    }
    repeats.into_iter().filter_map(|(config, mut times)| Some((config, median(&mut times)?))).collect()
}

/// The format's name and version. A change that older programs would misread needs a new version.
const FORMAT: &str = "diode-table/1";

/// A table before validation. Unknown fields are refused: otherwise a misspelt name would have no
/// effect, and nobody would notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    format: String,
    hardware: Hardware,
    method: Method,
    #[serde(deserialize_with = "entries")]
    entries: Vec<EntryFields>,
}

impl From<Table> for TableFile {
    fn from(table: Table) -> Self {
        let entries = table.iter().map(|(problem, configs)| EntryFields {
            problem: problem.clone().into(),
            configs: configs.iter().copied().map(TableConfigFields::from).collect(),
        });
        let entries = entries.collect();
        Self { format: FORMAT.to_owned(), hardware: table.hardware, method: table.method, entries }
    }
}

impl TryFrom<TableFile> for Table {
    type Error = Invalid;

    fn try_from(file: TableFile) -> Result<Self, Invalid> {
        if file.format != FORMAT {
            return Err(Invalid::new("table format", format_args!("`{}`", file.format), FORMAT));
        }
        file.hardware.validate()?;
        let mut table = Self::new(file.hardware, file.method);
        for (number, entry) in (1..).zip(file.entries) {
            let place = format!("entry {number}{}", key(&entry.problem));
            table.insert_fields(entry).map_err(|error| error.within(place))?;
        }
        Ok(table)
    }
}

impl Table {
    fn insert_fields(&mut self, entry: EntryFields) -> Result<(), Invalid> {
        let problem = Problem::new(entry.problem)?;
        let mut configs = Vec::with_capacity(entry.configs.len());
        for (number, fields) in (1..).zip(entry.configs) {
            let config = fields.config(problem.k);
            configs.push(config.map_err(|error| error.within(format_args!("config {number}")))?);
        }
        self.insert(problem, configs)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct EntryFields {
    problem: ProblemFields,
    configs: Vec<TableConfigFields>,
}

/// How an error message names the problem of an entry.
fn key(problem: &ProblemFields) -> String {
    let ProblemFields { op, b, m, n, k, .. } = problem;
    format!(" ({op} B={b} M={m} N={n} K={k})")
}

/// Reads the entries of a file.
fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<EntryFields>, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<EntryFields>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            loop {
                // The problem is noted as soon as it is read, so that errors in the configs can
                // name it.
                let key = RefCell::new(String::new());
                match list.next_element_seed(EntrySeed(&key)) {
                    Ok(Some(entry)) => entries.push(entry),
                    Ok(None) => return Ok(entries),
                    Err(error) => {
                        let (number, key) = (entries.len() + 1, key.borrow());
                        return Err(A::Error::custom(format_args!("entry {number}{key}: {error}")));
                    }
                }
            }
        }
    }

    deserializer.deserialize_seq(Entries)
}

/// Reads one entry, and notes its problem as soon as the problem is read.
struct EntrySeed<'a>(&'a RefCell<String>);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum EntryField {
    Problem,
    Configs,
}

struct Configs(Vec<TableConfigFields>);

impl<'de> Deserialize<'de> for Configs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        numbered(deserializer, "config").map(Self)
    }
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = EntryFields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<EntryFields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = EntryFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `problem` and `configs`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EntryFields, A::Error> {
        let (mut problem, mut configs) = (None, None);
        while let Some(field) = map.next_key()? {
            let again = match field {
                EntryField::Problem => {
                    let read: ProblemFields = map
                        .next_value()
                        .map_err(|error| A::Error::custom(format_args!("problem: {error}")))?;
                    *self.0.borrow_mut() = key(&read);
                    problem.replace(read).map(|_| "problem")
                }
                EntryField::Configs => configs.replace(map.next_value::<Configs>()?.0).map(|_| "configs"),
            };
            if let Some(field) = again {
                return Err(A::Error::duplicate_field(field));
            }
        }
        Ok(EntryFields {
            problem: problem.ok_or_else(|| A::Error::missing_field("problem"))?,
            configs: configs.ok_or_else(|| A::Error::missing_field("configs"))?,
        })
    }
}
