use serde_json::json;

use super::*;
use crate::hardware::{Hardware, find};
use crate::table::TableConfig;
use crate::{
    Bias, Config, DType, Layout, Method, Op, OutputLayout, Problem, ProblemFields, RocmExtras, Tile,
};

fn plain(op: Op, b: u64) -> ProblemFields {
    ProblemFields::plain(op, b, 512, 1024, 256, DType::BFloat16)
}

fn h200() -> Hardware {
    find("NVIDIA H200").unwrap()
}

fn key_of(fields: ProblemFields) -> String {
    key(&Problem::new(fields).unwrap(), None, &Scalars::default())
}

#[test]
fn keys_equal_the_verified_ones() {
    let mm = Problem::new(plain(Op::Mm, 1)).unwrap();
    assert_eq!(
        key(&mm, None, &Scalars::default()),
        "((torch.bfloat16, [512, 256], [256, 1]), (torch.bfloat16, [256, 1024], [1024, 1]))+mm"
    );
    let device = device_name(&h200()).unwrap();
    assert_eq!(
        key(&mm, Some(&device), &Scalars::default()),
        "NVIDIA H200+((torch.bfloat16, [512, 256], [256, 1]), (torch.bfloat16, [256, 1024], [1024, 1]))+mm"
    );
    let addmm = Problem::new(ProblemFields { bias: Bias::Vector, ..plain(Op::Addmm, 1) }).unwrap();
    let scalars = Scalars { alpha: "2.0".parse().unwrap(), ..Scalars::default() };
    assert_eq!(
        key(&addmm, None, &scalars),
        "((torch.bfloat16, [512, 1024], [0, 1]), (torch.bfloat16, [512, 256], [256, 1]), \
         (torch.bfloat16, [256, 1024], [1024, 1]))+alpha=2.0&beta=1+addmm"
    );
}

#[test]
fn layouts_and_batches_show_in_the_strides() {
    assert_eq!(
        key_of(ProblemFields { b_layout: Layout::Column, ..plain(Op::Mm, 1) }),
        "((torch.bfloat16, [512, 256], [256, 1]), (torch.bfloat16, [256, 1024], [1, 256]))+mm"
    );
    assert_eq!(
        key_of(ProblemFields { a_layout: Layout::Column, ..plain(Op::Mm, 1) }),
        "((torch.bfloat16, [512, 256], [1, 512]), (torch.bfloat16, [256, 1024], [1024, 1]))+mm"
    );
    assert_eq!(
        key_of(ProblemFields { b_layout: Layout::Column, ..plain(Op::Bmm, 8) }),
        "((torch.bfloat16, [8, 512, 256], [131072, 256, 1]), \
         (torch.bfloat16, [8, 256, 1024], [262144, 1, 256]))+bmm"
    );
    assert_eq!(
        key_of(plain(Op::Addmm, 1)),
        "((torch.bfloat16, [512, 1024], [1024, 1]), (torch.bfloat16, [512, 256], [256, 1]), \
         (torch.bfloat16, [256, 1024], [1024, 1]))+alpha=1&beta=1+addmm"
    );
    assert_eq!(
        key_of(plain(Op::Baddbmm, 8)),
        "((torch.bfloat16, [8, 512, 1024], [524288, 1024, 1]), \
         (torch.bfloat16, [8, 512, 256], [131072, 256, 1]), \
         (torch.bfloat16, [8, 256, 1024], [262144, 1024, 1]))+alpha=1&beta=1+baddbmm"
    );
    assert!(
        key_of(ProblemFields { bias: Bias::Vector, ..plain(Op::Baddbmm, 8) })
            .starts_with("((torch.bfloat16, [8, 512, 1024], [0, 0, 1]), ")
    );
}

#[test]
fn devices_are_called_what_inductor_calls_them() {
    let mi300x = find("amd-mi300x").unwrap();
    let problem = Problem::new(plain(Op::Mm, 1)).unwrap();
    let key = key(&problem, Some(&device_name(&mi300x).unwrap()), &Scalars::default());
    assert!(key.starts_with("gfx942:sramecc+:xnack-+((torch"), "{key}");
    assert!(device_name(&Hardware::from_name("AMD Instinct MI999").unwrap()).is_err());
}

#[test]
fn scalars_are_numbers_as_python_prints_them() {
    for good in ["1", "2.0", "-0.5", "1e-05", "1e+16"] {
        assert_eq!(good.parse::<PythonNumber>().unwrap().to_string(), good);
    }
    for bad in ["", "inf", "nan", "1.0+x", "2,0", "1e999"] {
        assert!(bad.parse::<PythonNumber>().is_err(), "{bad}");
    }
}

fn exported(
    hardware: Hardware,
    fields: ProblemFields,
    configs: &[Config],
    options: &InductorOptions,
) -> InductorTable {
    let mut table = Table::new(hardware, Method::Unspecified);
    let configs = configs.iter().map(|&config| TableConfig { config, time: None }).collect();
    table.insert(Problem::new(fields).unwrap(), configs).unwrap();
    table.to_inductor(options).unwrap()
}

fn only(table: InductorTable) -> serde_json::Value {
    assert_eq!(table.len(), 1);
    serde_json::to_value(&table[0]).unwrap()
}

#[test]
fn entries_hold_every_parameter_and_no_other() {
    // These configs were measured without `EVEN_K` although K is even. Inductor would set it.
    let configs = [
        Config::Mm(Tile::new(128, 64, 32, 3, 4)),
        Config::PersistentTma(Tile::new(128, 128, 64, 4, 8)),
        Config::DecomposeK { k_split: 2 },
        Config::Library,
    ];
    let entries = only(exported(h200(), plain(Op::Mm, 1), &configs, &InductorOptions::default()));
    assert_eq!(
        entries,
        json!([
            {"template_id": "triton::mm", "EVEN_K": true, "USE_FAST_ACCUM": false, "ACC_TYPE": "tl.float32",
             "num_stages": 3, "num_warps": 4, "BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32,
             "hint_override": null, "GROUP_M": 8},
            {"template_id": "triton::mm_persistent_tma", "EVEN_K": true, "USE_FAST_ACCUM": false,
             "ACC_TYPE": "tl.float32", "num_stages": 4, "num_warps": 8, "BLOCK_M": 128, "BLOCK_N": 128,
             "BLOCK_K": 64, "hint_override": null, "GROUP_M": 8, "A_ROW_MAJOR": true, "B_ROW_MAJOR": true,
             "NUM_SMS": 132, "TMA_SIZE": 128, "TMA_EXPERIMENTAL_API": false, "tma_store": false,
             "transpose_discontiguous_tensor_descriptors_override": true},
            {"template_id": "decompose_k", "k_split": 2},
            {"template_id": "aten::mm"}
        ])
    );
}

#[test]
fn rocm_entries_have_its_settings_and_no_hint() {
    let rocm = RocmExtras { matrix_instr_nonkdim: 16, waves_per_eu: 2, kpack: 2 };
    let tile = Tile { rocm: Some(rocm), group_m: 4, ..Tile::new(128, 256, 32, 2, 4) };
    let table = exported(
        find("amd-mi300x").unwrap(),
        plain(Op::Mm, 1),
        &[Config::Mm(tile)],
        &InductorOptions::default(),
    );
    assert_eq!(
        only(table),
        json!([{"template_id": "triton::mm", "EVEN_K": true, "USE_FAST_ACCUM": false, "ACC_TYPE": "tl.float32",
                "num_stages": 2, "num_warps": 4, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 32, "GROUP_M": 4,
                "matrix_instr_nonkdim": 16, "waves_per_eu": 2, "kpack": 2}])
    );
}

#[test]
fn every_op_has_its_templates() {
    for (op, b, triton, library) in [
        (Op::Mm, 1, "triton::mm", "aten::mm"),
        (Op::Addmm, 1, "triton::mm", "aten::addmm"),
        (Op::Bmm, 4, "triton::bmm", "aten::bmm"),
        (Op::Baddbmm, 4, "triton::bmm", "aten::baddbmm"),
    ] {
        let configs = [Config::Mm(Tile::new(64, 64, 32, 3, 4)), Config::Library];
        let entries = only(exported(h200(), plain(op, b), &configs, &InductorOptions::default()));
        assert_eq!(
            (&entries[0]["template_id"], &entries[1]["template_id"]),
            (&triton.into(), &library.into())
        );
    }
}

#[test]
fn a_named_torch_pins_the_sources_of_its_templates() {
    let options = InductorOptions { torch: Some(TorchVersion::V2_11), ..InductorOptions::default() };
    let configs = [Config::Bmm(Tile::new(64, 64, 32, 3, 4)), Config::Library];
    let entries = only(exported(h200(), plain(Op::Bmm, 4), &configs, &options));
    assert_eq!(
        entries[0]["template_hash"],
        "1635ad519a2790c283e0cd308d03f44e1673a8289810f371093fbdcba6ec4f6a"
    );
    assert_eq!(entries[1], json!({"template_id": "aten::bmm"}));
}

#[test]
fn keys_name_the_device_unless_they_are_for_all() {
    let export = |device_agnostic| {
        let options = InductorOptions { device_agnostic, ..InductorOptions::default() };
        exported(h200(), plain(Op::Mm, 1), &[Config::Library], &options).keys().next().unwrap().clone()
    };
    assert!(export(false).starts_with("NVIDIA H200+(("));
    assert!(export(true).starts_with("((torch.bfloat16"));
}

#[test]
fn problems_that_share_a_key_share_the_first_ones_entries() {
    let mut table = Table::new(h200(), Method::Unspecified);
    let strided = OutputLayout { size: [1, 512, 1024], stride: [0, 2048, 1] };
    for (fields, m) in
        [(plain(Op::Mm, 1), 64), (ProblemFields { out_layout: Some(strided), ..plain(Op::Mm, 1) }, 128)]
    {
        let config = Config::Mm(Tile::new(m, 64, 32, 3, 4));
        table.insert(Problem::new(fields).unwrap(), vec![TableConfig { config, time: None }]).unwrap();
    }
    assert_eq!(only(table.to_inductor(&InductorOptions::default()).unwrap())[0]["BLOCK_M"], 64);
}

#[test]
fn what_inductor_does_not_look_up_is_left_out() {
    let mut table = Table::new(h200(), Method::Unspecified);
    let scaled = ProblemFields {
        scaling: crate::Scaling::Row,
        ..ProblemFields::plain(Op::ScaledMm, 1, 64, 64, 64, crate::DType::Float8E4M3)
    };
    let listed = || vec![TableConfig { config: Config::Mm(Tile::new(64, 64, 32, 3, 4)), time: None }];
    table.insert(Problem::new(scaled).unwrap(), listed()).unwrap();
    let refused = table.to_inductor(&InductorOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("got scaled_mm, expected one of mm addmm bmm baddbmm"), "{refused}");
    table.insert(Problem::new(plain(Op::Mm, 1)).unwrap(), listed()).unwrap();
    assert_eq!(
        (table.to_inductor(&InductorOptions::default()).unwrap().len(), table.beyond_inductor()),
        (1, 1)
    );
}

#[test]
fn a_cpu_has_no_lookup_table() {
    let table = Table::new(Hardware::from_name("Intel Xeon").unwrap(), Method::Unspecified);
    assert!(table.to_inductor(&InductorOptions::default()).is_err());
}
