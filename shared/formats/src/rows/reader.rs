//! Building datasets from rows, in whatever order they come.

use std::collections::HashMap;
use std::str::FromStr;

use diode_core::hardware::{Hardware, Vendor};
use diode_core::ids::HardwareSlug;
use diode_core::space::config_for;
use diode_core::{
    AccType, Bias, Config, ConfigDictionary, ConfigFields, ConfigIndex, DType, Dataset, Failure,
    FailureReason, Invalid, Layout, Method, Millis, Nanos, Op, OutputLayout, Problem, ProblemFields,
    Provenance, RocmExtras, Solution, Template, Tile, TimeColumn,
};

use super::Cell;
use super::columns::{COLUMNS, SUBJECT, WIDTH, place};
use crate::limits::{
    MAX_CONFIGS, MAX_CONFIGS_PER_FILE, MAX_DATASETS, MAX_PROBLEMS_PER_FILE, MAX_TIMINGS_PER_FILE,
    MAX_TIMINGS_PER_PROBLEM,
};
use crate::source::{too_many, too_many_timings};

/// The place of a column, found when this is built.
macro_rules! at {
    ($name:literal) => {
        const { place($name) }
    };
}

/// Columns without which a row says nothing. The others have defaults.
const NEEDED: [&str; 6] = ["hardware", "op", "m", "n", "k", "a_dtype"];

/// Checks that a file has the columns that it needs.
pub(super) fn check_columns(has: impl Fn(usize) -> bool) -> Result<(), String> {
    for name in NEEDED {
        if !has(place(name)) {
            return Err(format!("no column `{name}`, expected at least {}", NEEDED.join(", ")));
        }
    }
    if !has(place("time_ms")) && !has(place("time_ns")) {
        return Err("neither a column `time_ms` nor `time_ns`".to_owned());
    }
    Ok(())
}

/// Takes rows and gives datasets.
#[derive(Default)]
pub(super) struct Rows {
    datasets: Vec<Dataset>,
    numbers: HashMap<(u64, HardwareSlug, String), usize>,
    open: Vec<Open>,
    solutions: HashMap<(usize, u64, Problem, Method), usize>,
    /// The cells of the row before that say whose timing it was, and where it went.
    last: Option<(Vec<Held>, usize)>,
    timings: usize,
    /// Of all datasets.
    configs: usize,
}

/// A solution that may still get rows.
struct Open {
    dataset: usize,
    problem: Problem,
    method: Method,
    configs: Vec<ConfigIndex>,
    millis: Vec<f64>,
    minimum_ns: Vec<Option<u64>>,
    spread_ns: Vec<Option<u64>>,
    repeats: Vec<Option<u32>>,
    failures: Vec<Failure>,
}

/// A cell that outlives its row.
#[derive(PartialEq)]
enum Held {
    Empty,
    Text(Box<str>),
    Number(u64),
    Flag(bool),
    Real(f64),
}

impl Held {
    fn new(cell: &Cell<'_>) -> Self {
        match *cell {
            Cell::Empty => Self::Empty,
            Cell::Text(text) => Self::Text(text.into()),
            Cell::Number(number) => Self::Number(number),
            Cell::Flag(flag) => Self::Flag(flag),
            Cell::Real(real) => Self::Real(real),
        }
    }

    fn holds(&self, cell: &Cell<'_>) -> bool {
        match (self, cell) {
            (Self::Empty, Cell::Empty) => true,
            (Self::Text(held), Cell::Text(text)) => **held == **text,
            (Self::Number(held), Cell::Number(number)) => held == number,
            (Self::Flag(held), Cell::Flag(flag)) => held == flag,
            (Self::Real(held), Cell::Real(real)) => held == real,
            _ => false,
        }
    }
}

impl Rows {
    pub(super) fn add(&mut self, row: &[Cell<'_>; WIDTH]) -> Result<(), String> {
        self.timings += 1;
        if self.timings > MAX_TIMINGS_PER_FILE {
            return Err(too_many_timings(MAX_TIMINGS_PER_FILE));
        }
        let place = self.solution(row)?;
        let open = &mut self.open[place];
        if open.configs.len() + open.failures.len() == MAX_TIMINGS_PER_PROBLEM {
            return Err(format!("more than {MAX_TIMINGS_PER_PROBLEM} timings of one problem"));
        }
        let row = Row(row);
        let dictionary = &mut self.datasets[open.dataset].configs;
        let known = dictionary.len();
        let config = dictionary.intern(row.config(open.problem.op)?);
        if dictionary.len() > MAX_CONFIGS {
            return Err(format!("more than {MAX_CONFIGS} distinct configs"));
        }
        self.configs += dictionary.len() - known;
        if self.configs > MAX_CONFIGS_PER_FILE {
            return Err(too_many("configs", MAX_CONFIGS_PER_FILE));
        }
        match row.outcome()? {
            Ok(millis) => {
                open.configs.push(config);
                open.millis.push(millis);
                open.minimum_ns.push(row.number(at!("minimum_ns"))?);
                open.spread_ns.push(row.number(at!("spread_ns"))?);
                open.repeats.push(row.small(at!("repeats"))?);
            }
            Err(reason) => open.failures.push(Failure { config, reason }),
        }
        Ok(())
    }

    /// The solution that a row belongs to.
    fn solution(&mut self, row: &[Cell<'_>; WIDTH]) -> Result<usize, String> {
        let subject = &row[..SUBJECT];
        if let Some((held, place)) = &self.last
            && held.iter().zip(subject).all(|(held, cell)| held.holds(cell))
        {
            return Ok(*place);
        }
        let held = subject.iter().map(Held::new).collect();
        let row = Row(row);
        let dataset = self.dataset(row)?;
        let (problem, method) = (row.problem()?, row.parse(at!("method"))?.unwrap_or(Method::Unspecified));
        let number = row.number(at!("solution"))?.unwrap_or(0);
        let next = self.open.len();
        let place = *self.solutions.entry((dataset, number, problem.clone(), method)).or_insert(next);
        if place == next {
            if next == MAX_PROBLEMS_PER_FILE {
                return Err(too_many("problems", MAX_PROBLEMS_PER_FILE));
            }
            self.open.push(Open {
                dataset,
                problem,
                method,
                configs: Vec::new(),
                millis: Vec::new(),
                minimum_ns: Vec::new(),
                spread_ns: Vec::new(),
                repeats: Vec::new(),
                failures: Vec::new(),
            });
        }
        self.last = Some((held, place));
        Ok(place)
    }

    fn dataset(&mut self, row: Row<'_>) -> Result<usize, String> {
        let hardware = row.hardware()?;
        let number = row.number(at!("dataset"))?.unwrap_or(0);
        let next = self.datasets.len();
        let key = (number, hardware.slug.clone(), hardware.name.clone());
        let place = *self.numbers.entry(key).or_insert(next);
        if place == next {
            if next == MAX_DATASETS {
                return Err(format!("more than {MAX_DATASETS} datasets; split the file"));
            }
            self.datasets.push(Dataset {
                hardware,
                provenance: Provenance::default(),
                configs: ConfigDictionary::default(),
                solutions: Vec::new(),
            });
        }
        Ok(place)
    }

    /// The datasets, and the number that the file gave each.
    pub(super) fn finish(self) -> Result<Vec<(u64, Dataset)>, String> {
        let mut datasets = self.datasets;
        for open in self.open {
            let dataset = open.dataset;
            let solution = open.close()?;
            let refuse = |invalid| format!("problem {}: {invalid}", solution.problem.canonical());
            solution.validate(&datasets[dataset].configs).map_err(refuse)?;
            datasets[dataset].solutions.push(solution);
        }
        let mut numbers = vec![0; datasets.len()];
        for ((number, ..), place) in self.numbers {
            numbers[place] = number;
        }
        Ok(numbers.into_iter().zip(datasets).collect())
    }
}

impl Open {
    fn close(self) -> Result<Solution, String> {
        let problem = self.problem;
        let refuse = |cause: String| format!("problem {}: {cause}", problem.canonical());
        let minimum_ns = all_or_none("minimum_ns", self.minimum_ns).map_err(refuse)?;
        let spread_ns = all_or_none("spread_ns", self.spread_ns).map_err(refuse)?;
        let repeats = all_or_none("repeats", self.repeats).map_err(refuse)?;
        let times = TimeColumn::from_millis(self.millis).map_err(|invalid| refuse(invalid.to_string()))?;
        Ok(Solution {
            times,
            minimum_ns,
            spread_ns,
            repeats,
            method: self.method,
            configs: self.configs,
            failures: self.failures,
            problem,
        })
    }
}

fn all_or_none<T: Copy>(column: &str, values: Vec<Option<T>>) -> Result<Option<Vec<T>>, String> {
    if values.iter().all(Option::is_none) {
        return Ok(None);
    }
    let total = values.len();
    let values: Vec<T> = values.into_iter().flatten().collect();
    if values.len() < total {
        return Err(format!(
            "{column}: got {} values for {total} timings, expected all or none",
            values.len()
        ));
    }
    Ok(Some(values))
}

/// Reads typed fields out of cells, which CSV holds as text.
#[derive(Clone, Copy)]
struct Row<'a>(&'a [Cell<'a>; WIDTH]);

impl<'a> Row<'a> {
    fn cell(self, column: usize) -> Cell<'a> {
        match self.0[column] {
            Cell::Text(text) if text.trim().is_empty() => Cell::Empty,
            Cell::Text(text) => Cell::Text(text.trim()),
            cell => cell,
        }
    }

    fn text(self, column: usize) -> Result<Option<&'a str>, String> {
        match self.cell(column) {
            Cell::Empty => Ok(None),
            Cell::Text(text) => Ok(Some(text)),
            other => Err(unexpected(column, other, "a text")),
        }
    }

    fn number(self, column: usize) -> Result<Option<u64>, String> {
        let cell = self.cell(column);
        let number = match cell {
            Cell::Empty => return Ok(None),
            Cell::Number(number) => Some(number),
            Cell::Text(text) => text.parse().ok().or_else(|| whole(text.parse().ok()?)),
            Cell::Real(real) => whole(real),
            Cell::Flag(_) => None,
        };
        number.map(Some).ok_or_else(|| unexpected(column, cell, "a whole number"))
    }

    fn small(self, column: usize) -> Result<Option<u32>, String> {
        let small = |number| {
            u32::try_from(number)
                .map_err(|_| format!("{}: got {number}, expected at most {}", COLUMNS[column].name, u32::MAX))
        };
        self.number(column)?.map(small).transpose()
    }

    fn real(self, column: usize) -> Result<Option<f64>, String> {
        let cell = self.cell(column);
        let real = match cell {
            Cell::Empty => return Ok(None),
            Cell::Real(real) => Some(real),
            Cell::Number(number) => Some(number as f64),
            Cell::Text(text) => text.parse().ok(),
            Cell::Flag(_) => None,
        };
        real.map(Some).ok_or_else(|| unexpected(column, cell, "a number"))
    }

    fn flag(self, column: usize) -> Result<Option<bool>, String> {
        match self.cell(column) {
            Cell::Empty => Ok(None),
            Cell::Flag(flag) => Ok(Some(flag)),
            Cell::Text("true" | "True" | "TRUE" | "1") => Ok(Some(true)),
            Cell::Text("false" | "False" | "FALSE" | "0") => Ok(Some(false)),
            other => Err(unexpected(column, other, "true or false")),
        }
    }

    /// A text that is a name of the vocabulary.
    fn parse<T: FromStr<Err = Invalid>>(self, column: usize) -> Result<Option<T>, String> {
        self.text(column)?.map(str::parse).transpose().map_err(in_words)
    }

    fn hardware(self) -> Result<Hardware, String> {
        let slug = self.text(at!("hardware"))?.ok_or_else(|| missing(at!("hardware")))?;
        let name = self.text(at!("hardware_name"))?.unwrap_or(slug);
        let known = Hardware::from_name(name).map_err(in_words)?;
        let vendor = self.parse::<Vendor>(at!("vendor"))?.unwrap_or(known.vendor);
        if known.slug.as_str() == slug && known.vendor == vendor {
            return Ok(known);
        }
        let slug: HardwareSlug = slug.parse().map_err(|cause| format!("hardware: {cause}"))?;
        Ok(Hardware { slug, vendor, facts: None, ..known })
    }

    fn problem(self) -> Result<Problem, String> {
        let size = |column| self.number(column)?.ok_or_else(|| missing(column));
        let dtype = |column| self.text(column)?.map(DType::from_torch_name).transpose().map_err(in_words);
        let op: Op = self.parse(at!("op"))?.ok_or_else(|| missing(at!("op")))?;
        let a_dtype = dtype(at!("a_dtype"))?.ok_or_else(|| missing(at!("a_dtype")))?;
        let b = self.number(at!("b"))?.unwrap_or(1);
        let plain = ProblemFields::plain(op, b, size(at!("m"))?, size(at!("n"))?, size(at!("k"))?, a_dtype);
        let out_layout = match (self.three(at!("out_size"))?, self.three(at!("out_stride"))?) {
            (Some(size), Some(stride)) => Some(OutputLayout { size, stride }),
            (None, None) => None,
            _ => return Err("out_size and out_stride: got one of them, expected both or none".to_owned()),
        };
        Problem::new(ProblemFields {
            b_dtype: dtype(at!("b_dtype"))?.unwrap_or(a_dtype),
            out_dtype: dtype(at!("out_dtype"))?.unwrap_or(a_dtype),
            a_layout: self.parse::<Layout>(at!("a_layout"))?.unwrap_or(plain.a_layout),
            b_layout: self.parse::<Layout>(at!("b_layout"))?.unwrap_or(plain.b_layout),
            bias: self.parse::<Bias>(at!("bias"))?.unwrap_or(plain.bias),
            out_layout,
            ..plain
        })
        .map_err(in_words)
    }

    fn three(self, column: usize) -> Result<Option<[u64; 3]>, String> {
        let Some(text) = self.text(column)? else { return Ok(None) };
        let numbers: Option<Vec<u64>> = text.split('x').map(|number| number.parse().ok()).collect();
        let three = numbers.and_then(|numbers| <[u64; 3]>::try_from(numbers).ok());
        three.map(Some).ok_or_else(|| unexpected(column, Cell::Text(text), "three numbers such as 1x64x128"))
    }

    fn config(self, op: Op) -> Result<Config, String> {
        let usual = config_for(op, Tile::new(16, 16, 16, 1, 1)).template();
        let rocm = match (
            self.small(at!("matrix_instr_nonkdim"))?,
            self.small(at!("waves_per_eu"))?,
            self.small(at!("kpack"))?,
        ) {
            (Some(matrix_instr_nonkdim), Some(waves_per_eu), Some(kpack)) => {
                Some(RocmExtras { matrix_instr_nonkdim, waves_per_eu, kpack })
            }
            (None, None, None) => None,
            _ => {
                return Err(
                    "matrix_instr_nonkdim, waves_per_eu and kpack: got some, expected all or none".to_owned()
                );
            }
        };
        let fields = ConfigFields {
            template: self.parse::<Template>(at!("template"))?.unwrap_or(usual),
            block_m: self.small(at!("block_m"))?,
            block_n: self.small(at!("block_n"))?,
            block_k: self.small(at!("block_k"))?,
            group_m: self.small(at!("group_m"))?,
            num_stages: self.small(at!("num_stages"))?,
            num_warps: self.small(at!("num_warps"))?,
            even_k: self.flag(at!("even_k"))?,
            allow_tf32: self.flag(at!("allow_tf32"))?,
            use_fast_accum: self.flag(at!("use_fast_accum"))?,
            acc_type: self.parse::<AccType>(at!("acc_type"))?,
            rocm,
            k_split: self.small(at!("k_split"))?,
        };
        Config::try_from(fields).map_err(in_words)
    }

    /// The time in milliseconds, or why there is none.
    fn outcome(self) -> Result<Result<f64, FailureReason>, String> {
        let (nanos, millis) = (self.number(at!("time_ns"))?, self.real(at!("time_ms"))?);
        if let Some(reason) = self.parse(at!("failure"))? {
            return if nanos.is_none() && millis.is_none() {
                Ok(Err(reason))
            } else {
                Err("a time and a failure: got both, expected one of them".to_owned())
            };
        }
        let millis = match (nanos.map(|nanos| Nanos(nanos as f64).millis()), millis) {
            (Some(Millis(exact)), Some(millis)) if exact != millis => {
                return Err(format!("time_ms: got {millis}, expected {exact}, since time_ns says so"));
            }
            (Some(Millis(millis)), _) | (None, Some(millis)) => millis,
            (None, None) => return Err("no time and no failure, expected one of them".to_owned()),
        };
        if !millis.is_finite() {
            return Ok(Err(FailureReason::NotFinite));
        }
        // Checked here, where the row is known.
        TimeColumn::from_millis(vec![millis]).map_err(in_words)?;
        Ok(Ok(millis))
    }
}

fn whole(real: f64) -> Option<u64> {
    /// Up to here every whole number is a distinct f64.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    ((0.0..EXACT).contains(&real) && real.fract() == 0.0).then_some(real as u64)
}

fn missing(column: usize) -> String {
    format!("{}: got nothing, expected a value", COLUMNS[column].name)
}

fn unexpected(column: usize, given: Cell<'_>, expected: &str) -> String {
    let name = COLUMNS[column].name;
    match given {
        Cell::Text(text) => format!("{name}: got {text:.100?}, expected {expected}"),
        Cell::Number(number) => format!("{name}: got {number}, expected {expected}"),
        Cell::Real(real) => format!("{name}: got {real}, expected {expected}"),
        Cell::Flag(flag) => format!("{name}: got {flag}, expected {expected}"),
        Cell::Empty => format!("{name}: got nothing, expected {expected}"),
    }
}

fn in_words(invalid: Invalid) -> String {
    invalid.to_string()
}

/// Whether a column's name is one of ours, and its place.
pub(super) fn find_column(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| column.name == name)
}
