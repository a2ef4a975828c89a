//! The fields of one row with their types. In CSV they are text, in Parquet they are typed.

use std::str::FromStr;

use diode_core::hardware::{Hardware, Vendor};
use diode_core::ids::HardwareSlug;
use diode_core::space::config_for;
use diode_core::{
    AccType, Bias, Config, ConfigFields, DType, FailureReason, Groups, Invalid, Layout, Millis, Nanos, Op,
    OutputLayout, Problem, ProblemFields, RocmExtras, Template, Tile, TimeColumn,
};

use super::Cell;
use crate::rows::{COLUMNS, WIDTH, at};

/// The cells of one row.
#[derive(Clone, Copy)]
pub(super) struct Row<'a>(pub(super) &'a [Cell<'a>; WIDTH]);

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

    pub(super) fn number(self, column: usize) -> Result<Option<u64>, String> {
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

    pub(super) fn small(self, column: usize) -> Result<Option<u32>, String> {
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

    /// Parses a name, such as an op or a layout.
    pub(super) fn parse<T: FromStr<Err = Invalid>>(self, column: usize) -> Result<Option<T>, String> {
        self.text(column)?.map(str::parse).transpose().map_err(in_words)
    }

    pub(super) fn hardware(self) -> Result<Hardware, String> {
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

    pub(super) fn problem(self) -> Result<Problem, String> {
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
            out_dtype: dtype(at!("out_dtype"))?.unwrap_or(plain.out_dtype),
            a_layout: self.parse::<Layout>(at!("a_layout"))?.unwrap_or(plain.a_layout),
            b_layout: self.parse::<Layout>(at!("b_layout"))?.unwrap_or(plain.b_layout),
            bias: self.parse::<Bias>(at!("bias"))?.unwrap_or(plain.bias),
            out_layout,
            scaling: self.parse(at!("scaling"))?.unwrap_or(plain.scaling),
            groups: Groups::from_parts(
                self.small(at!("groups"))?,
                self.small(at!("top_k"))?,
                self.parse(at!("stage"))?,
                self.parse(at!("rows"))?,
            )
            .map_err(in_words)?,
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

    pub(super) fn config(self, op: Op) -> Result<Config, String> {
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
            swap_ab: self.flag(at!("swap_ab"))?,
        };
        Config::try_from(fields).map_err(in_words)
    }

    /// The time in milliseconds, or the reason why there is none.
    pub(super) fn outcome(self) -> Result<Result<f64, FailureReason>, String> {
        let (nanos, millis) = (self.number(at!("time_ns"))?, self.real(at!("time_ms"))?);
        if let Some(reason) = self.parse(at!("failure"))? {
            return if nanos.is_none() && millis.is_none() {
                Ok(Err(reason))
            } else {
                Err("a time and a failure: got both, expected one of them".to_owned())
            };
        }
        let millis = match (nanos.map(|nanos| Nanos(nanos as f64).millis()), millis) {
            // Programs round differently when they compute one from the other.
            (Some(Millis(exact)), Some(millis)) if (exact - millis).abs() > 1e-9 * exact => {
                return Err(format!("time_ms: got {millis}, expected {exact}, since time_ns says so"));
            }
            (Some(Millis(millis)), _) | (None, Some(millis)) => millis,
            (None, None) => return Err("no time and no failure, expected one of them".to_owned()),
        };
        if !millis.is_finite() {
            return Ok(Err(FailureReason::NotFinite));
        }
        // The time is checked here, so that the error can name the row.
        TimeColumn::from_millis(vec![millis]).map_err(in_words)?;
        Ok(Ok(millis))
    }
}

fn whole(real: f64) -> Option<u64> {
    /// Every whole number up to here has an f64 of its own.
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
