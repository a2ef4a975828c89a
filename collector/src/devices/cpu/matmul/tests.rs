//! Compares the kernel with a naive product, for awkward sizes, types, layouts and tiles.

use diode_core::{Bias, DType, Layout, Op, OutputLayout, Problem, ProblemFields, Tile};

use super::*;

fn multiply(fields: ProblemFields, tile: Tile) -> (Inputs, Output) {
    let problem = Problem::new(fields).unwrap();
    supports(&problem).unwrap();
    let elements = (problem.b * problem.m * problem.n) as usize;
    let output = Output::new(problem.out_dtype, elements).unwrap();
    output.poison();
    let inputs = Inputs::generate(problem, 7).unwrap();
    let mut workspace = Workspace::new();
    workspace.prepare(&tile);
    launch(&inputs, &tile, &mut workspace, &output);
    (inputs, output)
}

#[test]
fn awkward_sizes_agree_with_the_reference() {
    for (m, n, k) in [(1, 1, 1), (17, 33, 70), (64, 64, 64), (5, 300, 3), (129, 1, 257), (31, 47, 1025)] {
        for (block_m, block_n, block_k) in [(16, 16, 16), (32, 64, 128), (1, 1, 1), (128, 16, 64)] {
            for threads in [1, 3_u32.next_power_of_two()] {
                let fields = ProblemFields::plain(Op::Mm, 1, m, n, k, DType::Float32);
                let tile = Tile { num_warps: threads, ..Tile::new(block_m, block_n, block_k, 1, 1) };
                let (inputs, output) = multiply(fields, tile);
                assert!(verify(&inputs, &output, 1), "{m}x{n}x{k} with {tile:?}");
            }
        }
    }
}

#[test]
fn every_dtype_layout_and_op_agrees_with_the_reference() {
    for dtype in [DType::Float32, DType::Float16, DType::BFloat16] {
        for a_layout in [Layout::Row, Layout::Column] {
            for b_layout in [Layout::Row, Layout::Column] {
                for (op, b) in [(Op::Mm, 1), (Op::Addmm, 1), (Op::Bmm, 3), (Op::Baddbmm, 3)] {
                    let mut fields = ProblemFields {
                        a_layout,
                        b_layout,
                        ..ProblemFields::plain(op, b, 37, 29, 53, dtype)
                    };
                    for bias in
                        if op.has_bias() { vec![Bias::Vector, Bias::Matrix] } else { vec![Bias::None] }
                    {
                        fields.bias = bias;
                        let (inputs, output) = multiply(fields.clone(), Tile::new(16, 16, 32, 1, 2));
                        assert!(verify(&inputs, &output, 1), "{fields:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_transposed_output_holds_the_same_elements() {
    let fields = ProblemFields::plain(Op::Baddbmm, 2, 37, 29, 53, DType::Float16);
    let tile = Tile::new(16, 32, 32, 1, 2);
    let (_, plain) = multiply(fields.clone(), tile);
    let transposed = ProblemFields { out_layout: Some(OutputLayout::dense(2, 29, 37)), ..fields };
    let (inputs, output) = multiply(transposed, tile);
    assert!(verify(&inputs, &output, 1));
    assert_eq!(output.get(37 * 29 + 5 * 37 + 3), plain.get(37 * 29 + 3 * 29 + 5));
}

#[test]
fn literal_products() {
    // [[1, 2], [3, 4]] · [[5, 6], [7, 8]] with A column-major and B row-major.
    let fields = ProblemFields {
        a_layout: Layout::Column,
        ..ProblemFields::plain(Op::Mm, 1, 2, 2, 2, DType::Float32)
    };
    let mut inputs = Inputs::generate(Problem::new(fields).unwrap(), 0).unwrap();
    inputs.a.elements = Elements::F32(vec![1.0, 3.0, 2.0, 4.0]);
    inputs.b.elements = Elements::F32(vec![5.0, 6.0, 7.0, 8.0]);
    let output = Output::new(DType::Float32, 4).unwrap();
    let tile = Tile::new(16, 16, 16, 1, 1);
    let mut workspace = Workspace::new();
    workspace.prepare(&tile);
    launch(&inputs, &tile, &mut workspace, &output);
    assert_eq!([0, 1, 2, 3].map(|i| output.get(i)), [19.0, 22.0, 43.0, 50.0]);
}

#[test]
fn a_wrong_element_is_found() {
    let fields = ProblemFields::plain(Op::Mm, 1, 16, 16, 64, DType::BFloat16);
    let (inputs, output) = multiply(fields, Tile::new(16, 16, 16, 1, 1));
    assert!(verify(&inputs, &output, 1));
    output.store(200, 1, &[output.get(200) + 1.0]);
    assert!(!verify(&inputs, &output, 1));
    output.poison();
    assert!(!verify(&inputs, &output, 1));
}

#[test]
fn unsupported_problems_say_why() {
    let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 8, 8, 8, DType::Int8)).unwrap();
    assert!(supports(&problem).unwrap_err().contains("int8"));
    let bytes =
        |op, dtype| bytes_needed(&Problem::new(ProblemFields::plain(op, 1, 10, 10, 10, dtype)).unwrap());
    assert_eq!(bytes(Op::Mm, DType::BFloat16), 600.0);
    assert_eq!(bytes(Op::Addmm, DType::Float32), 1600.0);
}
