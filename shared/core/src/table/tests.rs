use serde_json::{Value, json};

use super::*;
use crate::hardware::find;
use crate::{
    ConfigDictionary, DType, Dataset, Layout, Op, ProblemFields, Provenance, Solution, Tile, TimeColumn,
};

fn problem(m: u64, n: u64, k: u64) -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap()
}

fn tile(block_m: u32, block_n: u32) -> Config {
    Config::Mm(Tile::new(block_m, block_n, 32, 3, 4))
}

fn h200() -> Hardware {
    find("nvidia-h200").unwrap()
}

fn solution(
    configs: &mut ConfigDictionary,
    problem: Problem,
    method: Method,
    times: Timings<'_>,
) -> Solution {
    Solution {
        problem,
        method,
        configs: times.iter().map(|&(config, _)| configs.intern(config)).collect(),
        times: TimeColumn::from_nanos(times.iter().map(|&(_, nanos)| nanos).collect()).unwrap(),
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: Vec::new(),
    }
}

/// Configs with their times in nanoseconds.
type Timings<'a> = &'a [(Config, u64)];

fn dataset(solutions: &[(Problem, Method, Timings<'_>)]) -> Dataset {
    let mut configs = ConfigDictionary::default();
    let solutions = solutions
        .iter()
        .map(|(problem, method, times)| solution(&mut configs, problem.clone(), *method, times))
        .collect();
    Dataset { hardware: h200(), provenance: Provenance::default(), configs, solutions }
}

fn listed(table: &Table, problem: &Problem) -> Vec<(Config, f64)> {
    table.lookup(problem).unwrap().iter().map(|c| (c.config, c.time.unwrap().0)).collect()
}

/// Three configs on one problem and one on another.
fn small() -> Table {
    let many: Timings<'_> = &[(tile(64, 64), 9_000), (tile(128, 128), 7_000), (tile(32, 32), 8_000)];
    let one: Timings<'_> = &[(tile(16, 16), 5_000)];
    let data = dataset(&[
        (problem(512, 512, 500), Method::Unspecified, many),
        (problem(64, 64, 64), Method::Unspecified, one),
    ]);
    Table::from_datasets(&[data], None, None).unwrap()
}

#[test]
fn the_best_configs_come_first() {
    let table = small();
    assert_eq!(table.len(), 2);
    let expected = [(tile(128, 128), 7.0), (tile(32, 32), 8.0), (tile(64, 64), 9.0)];
    assert_eq!(listed(&table, &problem(512, 512, 500)), expected);
    assert_eq!(table.lookup(&problem(512, 512, 501)), None);
    assert_eq!(listed(&table.top(2), &problem(512, 512, 500)), expected[..2]);
}

#[test]
fn solutions_agree_on_the_median_and_methods_are_not_mixed() {
    let p = problem(512, 512, 512);
    let (a, b) = (tile(64, 64), tile(128, 128));
    let cold = Method::MEDIAN_COLD_EVENT;
    // Repeats of a config in one solution count as one time.
    let first: Timings<'_> = &[(a, 10_000), (b, 12_000), (b, 14_000), (b, 40_000)];
    let second: Timings<'_> = &[(a, 30_000), (b, 16_000)];
    let other: Timings<'_> = &[(a, 1_000)];
    let data = [
        dataset(&[(p.clone(), Method::Unspecified, first), (p.clone(), cold, other)]),
        dataset(&[(p.clone(), Method::Unspecified, second)]),
    ];
    let table = Table::from_datasets(&data, None, None).unwrap();
    assert_eq!(table.method(), Method::Unspecified);
    assert_eq!(listed(&table, &p), [(b, 15.0), (a, 20.0)]);
    assert_eq!(listed(&Table::from_datasets(&data, Some(cold), None).unwrap(), &p), [(a, 1.0)]);
    let error = Table::from_datasets(&data, Some(Method::MEDIAN_WARM_WALL), None).unwrap_err();
    assert!(error.to_string().contains("unspecified or median-cold-event"), "{error}");
}

#[test]
fn datasets_of_two_kinds_of_hardware_are_refused() {
    let p = problem(64, 64, 64);
    let times: Timings<'_> = &[(tile(16, 16), 5_000)];
    let one = dataset(&[(p, Method::Unspecified, times)]);
    let other = Dataset { hardware: find("nvidia-h100").unwrap(), ..one.clone() };
    let error = Table::from_datasets(&[one, other], None, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "hardware: got nvidia-h100, nvidia-h200, expected datasets of one hardware"
    );
    assert!(Table::from_datasets(&[], None, None).is_err());
}

#[test]
fn a_wrong_claim_of_even_k_is_not_passed_on() {
    let wrong = Config::Mm(Tile { even_k: true, ..Tile::new(64, 64, 32, 3, 4) });
    let times: Timings<'_> = &[(wrong, 1_000), (tile(64, 64), 2_000)];
    let p = problem(512, 512, 500);
    let table =
        Table::from_datasets(&[dataset(&[(p.clone(), Method::Unspecified, times)])], None, None).unwrap();
    assert_eq!(listed(&table, &p), [(tile(64, 64), 2.0)]);
}

#[test]
fn membership_filters_lists() {
    let table = small();
    let p = problem(512, 512, 500);
    assert!(table.contains(&p, &tile(64, 64)));
    assert!(!table.contains(&p, &tile(16, 16)));
    assert!(!table.contains(&problem(1, 1, 1), &tile(64, 64)));
    let asked = [tile(64, 64), tile(16, 16), tile(128, 128)];
    assert_eq!(table.filter(&p, &asked), Some(vec![tile(64, 64), tile(128, 128)]));
    assert_eq!(table.filter(&p, &asked[1..2]), None, "nothing would be left");
    assert_eq!(table.filter(&problem(1, 1, 1), &asked), None, "nothing is known");
}

#[test]
fn json_is_stable_and_readable() {
    let table = small();
    let text = serde_json::to_string_pretty(&table).unwrap();
    let back: Table = serde_json::from_str(&text).unwrap();
    assert_eq!(back, table);
    assert_eq!(serde_json::to_string_pretty(&back).unwrap(), text);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["format"], "diode-table/1");
    assert_eq!(value["entries"][0]["problem"]["m"], 64);
    assert_eq!(
        value["entries"][0]["configs"][0],
        json!({"template": "triton::mm", "block_m": 16, "block_n": 16, "block_k": 32, "group_m": 8,
               "num_stages": 3, "num_warps": 4, "even_k": false, "allow_tf32": false,
               "use_fast_accum": false, "acc_type": "tl.float32", "time_us": 5.0})
    );
}

#[test]
fn choices_count_once_and_only_where_they_can_run() {
    let p = problem(512, 512, 500);
    let wrong = Config::Mm(Tile { even_k: true, ..Tile::new(64, 64, 32, 3, 4) });
    let choices = [
        (p.clone(), vec![tile(32, 32), wrong, tile(16, 16), tile(32, 32)]),
        (problem(64, 64, 33), vec![wrong]),
    ];
    let table = Table::from_choices(h200(), choices).unwrap();
    assert_eq!((table.len(), table.method()), (1, Method::Unspecified));
    let expected = [tile(32, 32), tile(16, 16)].map(|config| TableConfig { config, time: None });
    assert_eq!(table.lookup(&p).unwrap(), expected);
    let twice = [(p.clone(), vec![tile(32, 32)]), (p, vec![tile(16, 16)])];
    assert!(Table::from_choices(h200(), twice).unwrap_err().to_string().contains("each problem once"));
}

fn edited(edit: impl Fn(&mut Value)) -> Result<Table, serde_json::Error> {
    let mut value = serde_json::to_value(small()).unwrap();
    edit(&mut value);
    serde_json::from_value(value)
}

#[test]
fn edits_by_hand_take_effect() {
    let short = json!({"template": "triton::mm", "block_m": 64, "block_n": 128, "block_k": 4,
                       "num_stages": 4, "num_warps": 8});
    let table = edited(|t| {
        t["entries"][1]["configs"].as_array_mut().unwrap().insert(0, short.clone());
        t["entries"][0]["configs"][0] = json!({"template": "aten"});
    })
    .unwrap();
    let first = table.lookup(&problem(512, 512, 500)).unwrap()[0];
    assert_eq!(first.config, Config::Mm(Tile::new(64, 128, 4, 4, 8).for_k(500)), "K decides EVEN_K");
    assert_eq!(first.time, None);
    assert!(first.config.tile().unwrap().even_k);
    assert_eq!(table.lookup(&problem(64, 64, 64)).unwrap()[0].config, Config::Library);
}

#[test]
fn mistakes_are_named_with_their_entry() {
    let entry = "entry 2 (mm B=1 M=512 N=512 K=500): ";
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 14] = [
        (
            |t| t["format"] = "diode-table/9".into(),
            "table format: got `diode-table/9`, expected diode-table/1",
        ),
        (|t| t["entries"][1]["configs"][2]["block_m"] = 48.into(), "config 3: block_m: got 48"),
        (
            |t| t["entries"][1]["configs"][2]["even_k"] = true.into(),
            "config 3: even_k: got true, expected false",
        ),
        (|t| t["entries"][1]["configs"][0]["num_warps"] = Value::Null, "config 1: num_warps: got null"),
        (|t| t["entries"][1]["configs"][0]["time_us"] = (-1.0).into(), "config 1: time_us: got -1"),
        (|t| t["entries"][1]["configs"] = json!([]), "configs: got none"),
        (
            |t| t["entries"][1]["configs"][1] = t["entries"][1]["configs"][0].clone(),
            "config 2: config: got 128×128",
        ),
        (
            |t| t["entries"][1]["problem"] = t["entries"][0]["problem"].clone(),
            "entry 2 (mm B=1 M=64 N=64 K=64): problem: got a second entry, the other is number 1",
        ),
        (|t| t["entries"][1]["problem"]["bias"] = "vector".into(), "bias: got `vector`"),
        (
            |t| t["entries"][1]["configs"][0]["template"] = "aten".into(),
            "config 1: block_m: got 128, expected none, since the template is aten",
        ),
        (|t| t["entries"][1]["configs"][0]["blok_m"] = 64.into(), "config 1: unknown field `blok_m`"),
        (|t| t["entries"][1]["configs"][2]["block_m"] = "64".into(), "config 3: invalid type: string \"64\""),
        (|t| t["entries"][1]["problem"]["m"] = "64".into(), "entry 2: problem: invalid type: string \"64\""),
        (
            |t| t["entries"][1]["problems"] = json!([]),
            "unknown field `problems`, expected `problem` or `configs`",
        ),
    ];
    for (edit, words) in cases {
        let error = edited(edit).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
        let of_the_entry = words.starts_with("config") || words.starts_with("bias");
        assert!(!of_the_entry || error.contains(entry), "{error}");
    }
}

#[test]
fn distance_is_none_between_problems_that_run_different_kernels() {
    let with = |change: &dyn Fn(&mut ProblemFields)| {
        let mut fields = problem(512, 512, 512).into_fields();
        change(&mut fields);
        distance(&problem(512, 512, 512), &Problem::new(fields).unwrap())
    };
    assert_eq!(with(&|_| {}), Some(0.0));
    assert_eq!(with(&|f| f.m = 1024), Some(1.0));
    assert_eq!(with(&|f| f.k = 2048), Some(1.0), "two octaves of K count half");
    assert_eq!(with(&|f| f.b_layout = Layout::Column), Some(1.0));
    assert_eq!(with(&|f| f.op = Op::Bmm), None);
    let dtype = |dtype| {
        with(&|f| {
            (f.a_dtype, f.b_dtype, f.out_dtype) = (dtype, dtype, dtype);
        })
    };
    assert_eq!(dtype(DType::Float16), Some(0.0));
    assert_eq!(dtype(DType::Float32), None);
    // K = 516 is no multiple of 16, and its rows allow only 4-byte loads.
    assert!(with(&|f| f.k = 516).unwrap() > 2.0);
}

#[test]
fn the_nearest_problems_advise_configs_that_fit_the_asked_one() {
    let best: Timings<'_> = &[
        (Config::Mm(Tile { even_k: true, ..Tile::new(128, 128, 64, 3, 8) }), 10_000),
        (Config::Mm(Tile { even_k: true, ..Tile::new(64, 64, 64, 3, 4) }), 30_000),
        (Config::DecomposeK { k_split: 2 }, 11_000),
    ];
    let data = dataset(&[
        (problem(4096, 4096, 4096), Method::Unspecified, best),
        (problem(2048, 4096, 4096), Method::Unspecified, best),
    ]);
    let table = Table::from_datasets(&[data], None, None).unwrap();
    let advice = table.nearest(&problem(4096, 4096, 4080), 5).unwrap();
    assert_eq!(advice.neighbours[0].problem, problem(4096, 4096, 4096));
    assert_eq!(advice.neighbours.len(), 2);
    // K = 4080 is no multiple of 64, and K is too small to be split.
    let configs: Vec<Config> = advice.candidates.iter().map(|c| c.config).collect();
    assert_eq!(configs, [Config::Mm(Tile::new(128, 128, 64, 3, 8)), Config::Mm(Tile::new(64, 64, 64, 3, 4))]);
    assert!(advice.candidates[0].expected_loss.abs() < 0.05);
    assert!(advice.candidates[1].expected_loss > 0.9);

    let exact = table.nearest(&problem(4096, 4096, 4096), 1).unwrap();
    assert_eq!((exact.neighbours.len(), exact.neighbours[0].distance), (1, 0.0));
    assert!(exact.candidates[0].config.tile().unwrap().even_k);

    let batched = ProblemFields::plain(Op::Bmm, 2, 4096, 4096, 4096, DType::BFloat16);
    assert_eq!(table.nearest(&Problem::new(batched).unwrap(), 1), None);
}

#[test]
fn no_loss_is_expected_to_be_less_than_none() {
    // At M = 65 the block is about half full, at M = 128 completely. No loss is below 0.
    let timed = |config, nanos| TableConfig { config, time: Some(Micros(nanos)) };
    let mut table = Table::new(h200(), Method::Unspecified);
    table.insert(problem(65, 512, 512), vec![timed(tile(128, 64), 10.0), timed(tile(16, 64), 11.0)]).unwrap();
    let advice = table.nearest(&problem(128, 512, 512), 2).unwrap();
    let losses: Vec<f64> = advice.candidates.iter().map(|c| c.expected_loss).collect();
    assert_eq!(advice.candidates[0].config.label(), "128×64×32 s3 w4");
    assert!(losses[0] == 0.0 && losses[1] > 0.05, "{losses:?}");
}

#[test]
fn a_config_that_cannot_be_launched_is_not_advised() {
    let deep = Config::Mm(Tile::new(128, 128, 128, 5, 8));
    let mut table = Table::new(h200(), Method::Unspecified);
    table.insert(problem(512, 512, 512), vec![TableConfig { config: deep, time: None }]).unwrap();
    assert_eq!(table.nearest(&problem(512, 512, 1024), 1), None);
}

#[test]
fn what_was_put_in_by_hand_is_as_good_as_its_place() {
    let configs =
        [(tile(32, 32), None), (tile(64, 64), Some(10.0)), (tile(128, 64), None), (tile(16, 16), Some(20.0))];
    let mut table = Table::new(h200(), Method::Unspecified);
    let configs = configs.map(|(config, time)| TableConfig { config, time: time.map(Micros) }).into();
    table.insert(problem(512, 512, 512), configs).unwrap();
    let advice = table.nearest(&problem(512, 512, 512), 9).unwrap();
    let losses: Vec<f64> = advice.candidates.iter().map(|c| c.expected_loss).collect();
    assert_eq!(losses[..3].iter().filter(|loss| loss.abs() < 1e-9).count(), 3);
    assert!((losses[3] - std::f64::consts::LN_2).abs() < 1e-9);
}
