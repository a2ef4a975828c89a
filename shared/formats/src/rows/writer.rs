//! Turns datasets into rows.

use diode_core::{Config, ConfigFields, Dataset, OutputLayout, Scaling, Solution, TimeColumn};

use super::Cell;
use super::{SUBJECT, WIDTH, place};

/// How many columns a config has. They follow the subject.
const CONFIG: usize = place("time_ns") - SUBJECT;

/// For each problem, calls `row` with every timing, then with every failure, and then calls `end`.
pub(super) fn rows<E>(
    datasets: &[Dataset],
    mut row: impl FnMut(&[Cell<'_>; WIDTH]) -> Result<(), E>,
    mut end: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    for (number, dataset) in (0..).zip(datasets) {
        for (solution_number, solution) in (0..).zip(&dataset.solutions) {
            let texts = Texts::of(solution);
            let mut cells = [Cell::Empty; WIDTH];
            cells[..SUBJECT].copy_from_slice(&subject(number, dataset, solution_number, solution, &texts));
            for (at, &index) in solution.configs.iter().enumerate() {
                let minimum = solution.minimum_ns.as_ref().map(|minimum| minimum[at]);
                let spread = solution.spread_ns.as_ref().map(|spread| spread[at]);
                let repeats = solution.repeats.as_ref().map(|repeats| u64::from(repeats[at]));
                cells[SUBJECT..SUBJECT + CONFIG].copy_from_slice(&config(dataset.configs.get(index)));
                cells[SUBJECT + CONFIG..].copy_from_slice(&[
                    number_or_empty(whole_nanos(&solution.times, at)),
                    Cell::Real(solution.times.millis(at).0),
                    number_or_empty(minimum),
                    number_or_empty(spread),
                    number_or_empty(repeats),
                    Cell::Empty,
                ]);
                row(&cells)?;
            }
            for failure in &solution.failures {
                cells[SUBJECT..SUBJECT + CONFIG]
                    .copy_from_slice(&config(dataset.configs.get(failure.config)));
                let reason = Cell::Text(failure.reason.as_str());
                cells[SUBJECT + CONFIG..].copy_from_slice(&[
                    Cell::Empty,
                    Cell::Empty,
                    Cell::Empty,
                    Cell::Empty,
                    Cell::Empty,
                    reason,
                ]);
                row(&cells)?;
            }
            end()?;
        }
    }
    Ok(())
}

/// The texts of a solution that have to be formatted, kept for all of its rows.
struct Texts {
    method: String,
    out: Option<(String, String)>,
}

impl Texts {
    fn of(solution: &Solution) -> Self {
        let three = |[a, b, c]: [u64; 3]| format!("{a}x{b}x{c}");
        let out =
            solution.problem.out_layout.map(|OutputLayout { size, stride }| (three(size), three(stride)));
        Self { method: solution.method.to_string(), out }
    }
}

fn subject<'a>(
    number: u64,
    dataset: &'a Dataset,
    solution_number: u64,
    solution: &'a Solution,
    texts: &'a Texts,
) -> [Cell<'a>; SUBJECT] {
    let (hardware, p) = (&dataset.hardware, &solution.problem);
    let (size, stride) = match &texts.out {
        Some((size, stride)) => (Cell::Text(size), Cell::Text(stride)),
        None => (Cell::Empty, Cell::Empty),
    };
    [
        Cell::Number(number),
        Cell::Number(solution_number),
        Cell::Text(hardware.slug.as_str()),
        Cell::Text(&hardware.name),
        Cell::Text(hardware.vendor.as_str()),
        Cell::Text(p.op.as_str()),
        Cell::Number(p.b),
        Cell::Number(p.m),
        Cell::Number(p.n),
        Cell::Number(p.k),
        Cell::Text(p.a_dtype.as_str()),
        Cell::Text(p.b_dtype.as_str()),
        Cell::Text(p.out_dtype.as_str()),
        Cell::Text(p.a_layout.as_str()),
        Cell::Text(p.b_layout.as_str()),
        Cell::Text(p.bias.as_str()),
        size,
        stride,
        if p.scaling == Scaling::None { Cell::Empty } else { Cell::Text(p.scaling.as_str()) },
        number_or_empty(p.groups.map(|groups| groups.count.into())),
        number_or_empty(p.groups.map(|groups| groups.top_k.into())),
        p.groups.and_then(|groups| groups.stage).map_or(Cell::Empty, |stage| Cell::Text(stage.as_str())),
        p.groups.map_or(Cell::Empty, |groups| Cell::Text(groups.rows.as_str())),
        Cell::Text(&texts.method),
    ]
}

fn config(config: &Config) -> [Cell<'static>; CONFIG] {
    let tile = config.tile();
    let number = |value: Option<u32>| number_or_empty(value.map(u64::from));
    let flag = |value: Option<bool>| value.map_or(Cell::Empty, Cell::Flag);
    let rocm = tile.and_then(|tile| tile.rocm);
    let k_split = match config {
        Config::DecomposeK { k_split } => Some(*k_split),
        _ => None,
    };
    [
        Cell::Text(config.template().as_str()),
        number(tile.map(|t| t.block_m)),
        number(tile.map(|t| t.block_n)),
        number(tile.map(|t| t.block_k)),
        number(tile.map(|t| t.group_m)),
        number(tile.map(|t| t.num_stages)),
        number(tile.map(|t| t.num_warps)),
        flag(tile.map(|t| t.even_k)),
        flag(ConfigFields::from(*config).allow_tf32),
        flag(tile.map(|t| t.use_fast_accum)),
        tile.map_or(Cell::Empty, |t| Cell::Text(t.acc_type.as_str())),
        number(rocm.map(|r| r.matrix_instr_nonkdim)),
        number(rocm.map(|r| r.waves_per_eu)),
        number(rocm.map(|r| r.kpack)),
        number(k_split),
        flag(tile.filter(|tile| tile.swap_ab).map(|_| true)),
    ]
}

fn number_or_empty(value: Option<u64>) -> Cell<'static> {
    value.map_or(Cell::Empty, Cell::Number)
}

/// The time in nanoseconds, if it is a whole number of them.
pub(super) fn whole_nanos(times: &TimeColumn, row: usize) -> Option<u64> {
    match times {
        TimeColumn::Nanos(nanos) => Some(nanos[row]),
        TimeColumn::Millis(_) => times.millis(row).whole_nanos(),
    }
}
