//! Makes datasets fit torch-diode's format, which cannot tell some problems and configs apart.

use diode_core::hardware::Hardware;
use diode_core::{
    Bias, Config, ConfigIndex, Dataset, Failure, FailureReason, Layout, Method, Op, Problem, ProblemFields,
    RocmExtras, Solution, Tile, TimeColumn,
};
use diode_formats::{Format, Reduced, decode, encode, held, losses, reduce};

use crate::samples::{golden, problem, solution};

fn with(change: impl Fn(&mut ProblemFields), plain: Problem) -> Problem {
    let mut fields = plain.into_fields();
    change(&mut fields);
    Problem::new(fields).unwrap()
}

fn linear() -> Problem {
    with(|fields| fields.b_layout = Layout::Column, problem(Op::Mm, 64, 128, 32))
}

/// A dataset of one config with these solutions.
fn dataset(solutions: Vec<Solution>) -> Dataset {
    Dataset { solutions, ..golden() }
}

/// The problems and times that are left after writing and reading torch-diode's format, and the sentences
/// about what was left out.
fn kept(datasets: &[Dataset]) -> (Vec<(Problem, TimeColumn)>, Vec<String>) {
    let Reduced { datasets, left_out } = reduce(Format::PredecessorJson, datasets);
    let read = decode(&encode(Format::PredecessorJson, &datasets).unwrap()).unwrap().datasets;
    let solutions = |datasets: &[Dataset]| -> Vec<(Problem, TimeColumn)> {
        let solutions = datasets.iter().flat_map(|dataset| &dataset.solutions);
        solutions.map(|solution| (solution.problem.clone(), solution.times.clone())).collect()
    };
    assert_eq!(solutions(&read), solutions(&datasets), "what is read is what was made to fit");
    (solutions(&read), left_out)
}

#[test]
fn the_row_major_problem_wins_over_those_that_it_would_be_mixed_with() {
    let plain = problem(Op::Mm, 64, 128, 32);
    let other = problem(Op::Mm, 65, 128, 32);
    let transposed = with(|fields| fields.a_layout = Layout::Column, plain.clone());
    let data = dataset(vec![
        solution(linear(), &[0], &[0.5]),
        solution(plain.clone(), &[0, 0], &[0.25, 0.125]),
        solution(transposed, &[0], &[1.0]),
        solution(other.clone(), &[0], &[2.0]),
    ]);
    assert!(encode(Format::PredecessorJson, std::slice::from_ref(&data)).is_err(), "not without being asked");
    let (solutions, said) = kept(&[data]);
    let times = |millis: &[f64]| TimeColumn::from_millis(millis.to_vec()).unwrap();
    assert_eq!(solutions, [(plain, times(&[0.25, 0.125])), (other, times(&[2.0]))]);
    assert_eq!(
        said,
        [
            "2 problems left out, because only their layout or bias differs from another's, whose timings are kept"
        ]
    );
}

#[test]
fn where_none_is_row_major_the_first_wins_also_over_other_datasets_of_its_hardware() {
    let both = with(|fields| fields.a_layout = Layout::Column, linear());
    let first = dataset(vec![solution(linear(), &[0], &[0.5])]);
    let second = dataset(vec![solution(both.clone(), &[0], &[0.25])]);
    let (solutions, said) = kept(&[first.clone(), second.clone()]);
    assert_eq!(solutions.len(), 1);
    assert_eq!(solutions[0].1, TimeColumn::Nanos(vec![500_000]));
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("1 problem left out"), "{said:?}");

    let elsewhere = Dataset { hardware: Hardware::from_name("NVIDIA H200").unwrap(), ..second };
    let (solutions, said) = kept(&[first, elsewhere]);
    assert_eq!((solutions.len(), said.len()), (2, 0), "other hardware is another entry");
}

#[test]
fn a_vector_bias_gives_way_to_a_matrix() {
    let matrix = problem(Op::Addmm, 64, 128, 32);
    let vector = with(|fields| fields.bias = Bias::Vector, matrix.clone());
    assert_eq!(held(Format::PredecessorMsgpack, &vector), matrix);
    assert_eq!(held(Format::Columnar, &vector), vector);
    let data = dataset(vec![solution(vector, &[0], &[0.5]), solution(matrix.clone(), &[0], &[0.25])]);
    let (solutions, said) = kept(&[data]);
    assert_eq!(solutions.iter().map(|(problem, _)| problem).collect::<Vec<_>>(), [&matrix]);
    assert_eq!(said.len(), 1);
}

#[test]
fn times_taken_in_two_ways_are_not_mixed() {
    let plain = problem(Op::Mm, 64, 128, 32);
    let measured = |method, millis: f64| Solution { method, ..solution(plain.clone(), &[0], &[millis]) };
    let data = dataset(vec![
        measured(Method::MEDIAN_COLD_EVENT, 0.5),
        measured(Method::MEDIAN_WARM_WALL, 0.25),
        measured(Method::MEDIAN_COLD_EVENT, 0.75),
    ]);
    let Reduced { datasets, left_out } = reduce(Format::PredecessorJson, &[data]);
    let times: Vec<&TimeColumn> = datasets[0].solutions.iter().map(|solution| &solution.times).collect();
    assert_eq!(times, [&TimeColumn::Nanos(vec![500_000]), &TimeColumn::Nanos(vec![750_000])]);
    assert!(left_out[0].starts_with("1 measurement left out"), "{left_out:?}");
}

#[test]
fn of_configs_that_differ_in_rocms_parameters_the_fastest_stands_for_all() {
    let variant = |waves_per_eu| {
        let rocm = Some(RocmExtras { matrix_instr_nonkdim: 16, waves_per_eu, kpack: 2 });
        Config::Mm(Tile { rocm, ..Tile::new(64, 32, 16, 2, 4) })
    };
    let other = Config::Mm(Tile { rocm: None, ..Tile::new(64, 64, 16, 2, 4) });
    let failed = |config| Failure { config: ConfigIndex(config), reason: FailureReason::Compile };
    let data = Dataset {
        hardware: Hardware::from_name("AMD Instinct MI300X").unwrap(),
        configs: [variant(0), variant(2), variant(4), other].into_iter().collect(),
        solutions: vec![
            Solution {
                failures: vec![failed(2)],
                ..solution(problem(Op::Mm, 64, 128, 32), &[0, 1, 3, 1], &[0.5, 0.25, 1.0, 0.75])
            },
            Solution { failures: vec![failed(0), failed(1)], ..solution(problem(Op::Mm, 8, 8, 8), &[], &[]) },
        ],
        ..golden()
    };
    let Reduced { datasets, left_out } = reduce(Format::PredecessorJson, &[data]);
    let [timed, untimed] = &datasets[0].solutions[..] else { panic!("two problems") };
    assert_eq!(timed.times, TimeColumn::Nanos(vec![250_000, 1_000_000, 750_000]), "repeats of one stay");
    assert_eq!((timed.failures.len(), untimed.failures.len()), (0, 1));
    assert_eq!(
        left_out,
        ["3 timings left out, because only ROCm's parameters differ from those of a faster config"]
    );
}

#[test]
fn hardware_that_its_name_does_not_lead_to_is_not_renamed_silently() {
    let mut data = golden();
    data.hardware.slug = "nvidia-h200".parse().unwrap();
    let said = losses(Format::PredecessorJson, &[data]).unwrap();
    assert_eq!(said, "hardware whose name leads to another slug (1 problem)");
    assert_eq!(losses(Format::PredecessorJson, &[golden()]), None);
}
