//! torch-diode's networks: their inputs and outputs.

use diode_compat::{SavedTensor, SavedValues, Setting, TorchCheckpoint};
use diode_core::hardware::find;
use diode_core::ids::Digest;
use diode_core::{Config, DType, Heuristic, Method, Op, Problem, ProblemFields, Tile};

use diode_compat::AnyModel;
use diode_compat::features::{Feeding, thirty_six, twelve};
use diode_compat::{Architecture, Part, PredecessorMetadata, PredecessorModel};
use diode_model::{Model, Predictor, Training};

fn problem(m: u64, n: u64, k: u64, dtype: DType) -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, dtype)).expect("the sizes are valid")
}

fn assert_near(given: &[f32], expected: &[f64]) {
    assert_eq!(given.len(), expected.len());
    for (index, (&given, expected)) in given.iter().zip(expected).enumerate() {
        let error = (f64::from(given) - expected).abs();
        assert!(error <= 1e-6 * expected.abs().max(1.0), "column {index}: {given} for {expected}");
    }
}

/// The expected values come from torch-diode's own code.
#[test]
fn the_larger_set_is_what_torch_diode_computed() {
    let tile = Tile { allow_tf32: true, ..Tile::new(128, 16, 128, 3, 4) };
    let row = thirty_six(&problem(1376, 80, 216, DType::Float16), &tile);
    let of_problem = [
        1376.0,
        80.0,
        216.0,
        1.0,
        16.0,
        0.000849152,
        0.04755456,
        56.0024118,
        17.2,
        6.37037037,
        0.37037037,
        110080.0,
        297216.0,
        17280.0,
        23777280.0,
        7.22693586,
        4.38202667,
    ];
    assert_near(&row[..17], &of_problem);
    let of_config = [
        128.0, 16.0, 128.0, 8.0, 3.0, 4.0, 0.0, 1.0, 0.0, 2048.0, 16384.0, 2048.0, 262144.0, 128.0, 32.0,
        4.0, 4.85203028, 2.77258873, 4.85203028,
    ];
    assert_near(&row[17..], &of_config);
    // bfloat16 counts as 32 bits.
    let row = thirty_six(&problem(2552, 10616, 7616, DType::BFloat16), &tile);
    assert_near(&row[4..8], &[32.0, 0.509_518_08, 412.665_831, 809.914_01]);
}

/// A golden case of v1: sizes, type and config, the scaled columns, and the outputs for right
/// features and for the plug-in's. torch computed the numbers.
type Golden = ([u64; 3], DType, [u32; 5], [f64; 12], f64, f64);

const GOLDEN: [Golden; 6] = [
    (
        [1024, 1024, 1024],
        DType::Float16,
        [128, 128, 64, 3, 8],
        [
            -0.1221004, -0.5642659, -0.2092000, -0.4589933, -1.2167453, -0.8820055, 0.0245201, 0.2177145,
            0.7003180, 0.7042013, 0.3376875, 1.3638853,
        ],
        -4.134618,
        1040.5951,
    ),
    (
        [4096, 4096, 4096],
        DType::Float16,
        [128, 256, 64, 3, 8],
        [
            -0.1221004, 0.0335493, 0.6279061, 0.1844568, 0.0453415, 0.5061360, 1.1395428, 0.2177145,
            0.7003180, 1.4425973, 0.3376875, 1.3638853,
        ],
        -1.236505,
        3659.9937,
    ),
    (
        [2552, 10616, 7616],
        DType::Float16,
        [256, 128, 32, 3, 8],
        [
            -0.1221004, -0.1704812, 1.2029781, 0.4723421, 0.4680130, 0.8731104, 1.2770182, -0.5328305,
            1.4388887, 0.7042013, 0.3376875, 1.3638853,
        ],
        -0.105622,
        6208.9610,
    ),
    (
        [32, 32, 32],
        DType::Float16,
        [32, 32, 16, 1, 2],
        [
            -0.1221004, -2.0588041, -2.3019653, -2.0676184, -4.3719624, -4.3523592, -2.7630368, -1.2833754,
            -0.7768235, -0.7725907, -1.5744093, -1.0110381,
        ],
        -5.205812,
        78.9619,
    ),
    (
        [1024, 1024, 1024],
        DType::Float32,
        [64, 64, 32, 4, 4],
        [
            8.2062368, -0.5642659, -0.2092000, -0.4589933, -0.9012236, -0.8820055, -0.5329913, -0.5328305,
            -0.0382527, -0.0341947, 0.8383883, 0.1764236,
        ],
        -2.486535,
        761.8462,
    ),
    (
        [1, 4096, 4096],
        DType::Float16,
        [16, 128, 64, 4, 4],
        [
            -0.1221004, -3.5533422, 0.6279061, 0.1844568, -0.4545263, -2.2701470, -4.6673517, 0.2177145,
            -1.5153942, 0.7042013, 0.8383883, 0.1764236,
        ],
        -2.811668,
        3067.5425,
    ),
];

fn golden((sizes, dtype, config, ..): &Golden) -> (Problem, Tile) {
    let [m, n, k] = *sizes;
    let [block_m, block_n, block_k, stages, warps] = *config;
    (problem(m, n, k, *dtype), Tile::new(block_m, block_n, block_k, stages, warps))
}

#[test]
fn the_smaller_set_is_brought_to_the_scale_v1_was_trained_on() {
    for case in &GOLDEN {
        let (problem, tile) = golden(case);
        for (given, expected) in twelve(&problem, &tile, Feeding::Right).into_iter().zip(case.3) {
            assert!((f64::from(given) - expected).abs() < 1e-6, "{given} for {expected}");
        }
    }
    let bfloat16 = problem(64, 64, 64, DType::BFloat16);
    assert_eq!(twelve(&bfloat16, &Tile::new(16, 16, 16, 1, 4), Feeding::AsThePlugIn)[0], 32.0);
}

#[test]
fn v1_puts_out_what_it_did_in_torch() {
    let Some(folder) = std::env::var_os("DIODE_COMPAT_DIR") else {
        println!("not asked to run: DIODE_COMPAT_DIR names no folder");
        return;
    };
    let path = std::path::Path::new(&folder).join("v1_model.pt");
    let right = PredecessorModel::from_checkpoint(diode_compat::read_checkpoint(&path).unwrap()).unwrap();
    let raw = right.as_the_plug_in_fed_it().unwrap();
    assert_eq!(right.parameters(), 335_617);
    for case in &GOLDEN {
        let (problem, tile) = golden(case);
        let output =
            |model: &PredecessorModel| model.predict_ln_ms(&problem, &[Config::Mm(tile)]).unwrap()[0];
        assert!((output(&right) - case.4).abs() < 1e-4, "{} for {}", output(&right), case.4);
        // A 32-bit float holds no more digits of such large numbers.
        assert!(
            (output(&raw) - case.5).abs() < 1e-4 * (case.5 / 100.0).max(1.0),
            "{} for {}",
            output(&raw),
            case.5
        );
    }
}

/// A network with weights from a simple rule. The expected outputs were computed in Python by the
/// same rule.
fn made_up(architecture: &Architecture) -> TorchCheckpoint {
    let mut checkpoint = TorchCheckpoint::default();
    let mut add = |name: String, shape: Vec<usize>, more: f64| {
        let value = |i: usize| (((i * 37 + name.len() * 11) % 101) as f64 / 101.0 - 0.5 + more) as f32;
        let values = SavedValues::Float32((0..shape.iter().product()).map(value).collect());
        checkpoint.tensors.insert(name, SavedTensor { shape, values });
    };
    for part in architecture.parts() {
        match part {
            Part::Dense { name, inputs, outputs } => {
                add(format!("{name}.weight"), vec![outputs, inputs], 0.0);
                add(format!("{name}.bias"), vec![outputs], 0.0);
            }
            Part::Norm { name, width } => {
                for (column, more) in
                    [("weight", 0.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 0.75)]
                {
                    add(format!("{name}.{column}"), vec![width], more);
                }
            }
            Part::Relu | Part::Dropout | Part::Keep | Part::AddKept => {}
        }
    }
    let whole = |number: usize| Setting::Whole(number as i64);
    let settings = match architecture {
        Architecture::Base { widths } => {
            vec![("hidden_dims", Setting::Wholes(widths.iter().map(|&width| width as i64).collect()))]
        }
        Architecture::Deep { width, blocks } => {
            vec![("hidden_dim", whole(*width)), ("num_layers", whole(*blocks))]
        }
        Architecture::V1 { .. } => Vec::new(),
    };
    let dims = [("problem_feature_dim", whole(17)), ("config_feature_dim", whole(19))];
    let all = settings.into_iter().chain(dims);
    checkpoint.settings = all.map(|(key, value)| (key.to_owned(), value)).collect();
    checkpoint
}

/// The problem 3×5×8 in float16, and a config of 16×32×64 with TF32, 3 stages and 4 warps.
fn asked() -> (Problem, Config) {
    let tile = Tile { allow_tf32: true, ..Tile::new(16, 32, 64, 3, 4) };
    (problem(3, 5, 8, DType::Float16), Config::Mm(tile))
}

#[test]
fn base_and_deep_have_torch_diodes_layers() {
    let (problem, config) = asked();
    let cases = [
        (Architecture::Base { widths: vec![5, 3] }, 470.309_573_112_019_1),
        (Architecture::deep(4, 2), -44.452_101_047_537_07),
    ];
    for (architecture, expected) in cases {
        let model = PredecessorModel::from_checkpoint(made_up(&architecture)).unwrap();
        assert_eq!(*model.architecture(), architecture);
        let output = model.predict_ln_ms(&problem, &[config]).unwrap()[0];
        assert!((output / expected - 1.0).abs() < 1e-5, "{output} for {expected}");
    }
    let parameters =
        |architecture| PredecessorModel::from_checkpoint(made_up(&architecture)).unwrap().parameters();
    assert_eq!(parameters(Architecture::base()), 316_033);
    assert_eq!(parameters(Architecture::deep(128, 10)), 340_481);
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let refusal = |change: &dyn Fn(&mut TorchCheckpoint)| {
        let mut checkpoint = made_up(&Architecture::deep(4, 2));
        change(&mut checkpoint);
        PredecessorModel::from_checkpoint(checkpoint).unwrap_err().to_string()
    };
    let setting = |key: &str, value: i64| {
        let key = key.to_owned();
        refusal(&move |checkpoint: &mut TorchCheckpoint| {
            checkpoint.settings.insert(key.clone(), Setting::Whole(value));
        })
    };
    assert!(setting("num_layers", 3).contains("`hidden_layers.2.block.0.weight`: got nothing"));
    assert!(setting("num_layers", 1).contains("tensors"));
    assert!(setting("num_layers", 1_000_000).contains("at most 64"));
    assert!(setting("hidden_dim", -4).contains("got -4"));
    assert!(setting("hidden_dim", 5).contains("`input_layer.0.weight`: got shape [4, 36]"));
    assert!(setting("config_feature_dim", 6).contains("got 6, expected 19"));
    let broken = refusal(&|checkpoint| {
        let SavedTensor { values: SavedValues::Float32(values), .. } =
            checkpoint.tensors.get_mut("output_layer.weight").unwrap()
        else {
            panic!("weights are floats")
        };
        values[2] = f32::NAN;
    });
    assert!(broken.contains("`output_layer.weight`: got NaN, expected only finite"), "{broken}");
    let kindless = refusal(&|checkpoint| drop(checkpoint.settings.remove("hidden_dim")));
    assert!(kindless.contains("hidden_dims (base)"), "{kindless}");
}

#[test]
fn a_network_trained_here_has_a_file_of_its_own() {
    let architecture = Architecture::Base { widths: vec![5, 3] };
    let metadata = PredecessorMetadata {
        heuristic: Heuristic::Matmul,
        hardware: find("nvidia-h200").unwrap(),
        ops: vec![Op::Mm],
        dtypes: vec![DType::Float16],
        feature_set: architecture.features().name().to_owned(),
        architecture: architecture.clone(),
        training: Training {
            data_digest: Digest::of(b"data"),
            problems: 3,
            timings: 4602,
            method: Method::MEDIAN_COLD_EVENT,
            related: Vec::new(),
            seed: 42,
            created_at: "2026-01-01T00:00:00Z".to_owned(),
            tool: "diode 0.1.0".to_owned(),
            without_kept: false,
            losses: Vec::new(),
            sizes: Vec::new(),
        },
        evaluation: None,
    };
    let mut checkpoint = made_up(&architecture);
    checkpoint.settings.clear();
    let build = |mean: f32, std: f32| {
        PredecessorModel::trained(metadata.clone(), checkpoint.clone(), vec![mean; 36], vec![std; 36])
    };
    let model = build(0.0, 100_000.0).unwrap();
    let bytes = model.to_bytes().unwrap();
    let AnyModel::Predecessor(read) = AnyModel::from_bytes(&bytes).unwrap() else {
        panic!("a predecessor model")
    };
    assert_eq!(*read, model);
    let (problem, config) = asked();
    let (once, again) =
        (model.predict_ln_us(&problem, &[config]).unwrap(), read.predict_ln_us(&problem, &[config]).unwrap());
    assert_eq!(once, again);
    assert_eq!(read.hardware().unwrap().slug.as_str(), "nvidia-h200");
    assert!(build(0.0, 0.0).unwrap_err().to_string().contains("36 finite means"));
    assert!(Model::from_bytes(&bytes).is_err());
    for length in (0..bytes.len()).step_by(97) {
        assert!(AnyModel::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
    }
}
