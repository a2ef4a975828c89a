//! The keys of Inductor's lookup table. A key is Python's text for the tensors that a kernel reads.

use std::fmt::Write as _;

use crate::error::Invalid;
use crate::hardware::{Hardware, Vendor};
use crate::ids::HardwareSlug;
use crate::{Bias, DType, Layout, Problem};

/// A number as Python prints it. Python's `2.0` and `2` are equal, but their texts make different
/// keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonNumber(String);

impl std::str::FromStr for PythonNumber {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e'));
        match text.parse::<f64>() {
            Ok(number) if plain && number.is_finite() => Ok(Self(text.to_owned())),
            _ => Err(Invalid::new(
                "number",
                format_args!("`{text}`"),
                "one as Python prints it: 1, 2.0 or 1e-05",
            )),
        }
    }
}

impl std::fmt::Display for PythonNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// The factors of the product and the bias in `addmm` and `baddbmm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalars {
    pub alpha: PythonNumber,
    pub beta: PythonNumber,
}

impl Default for Scalars {
    /// torch's defaults, which are whole numbers.
    fn default() -> Self {
        let one = || PythonNumber("1".to_owned());
        Self { alpha: one(), beta: one() }
    }
}

/// Inductor's name for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceName(String);

/// Inductor's name for some hardware. On NVIDIA GPUs it is the driver's name. On AMD GPUs it is the
/// architecture, since Inductor does not see the marketing name.
pub fn device_name(hardware: &Hardware) -> Result<DeviceName, Invalid> {
    match hardware.vendor {
        Vendor::Nvidia => Ok(DeviceName(hardware.name.clone())),
        Vendor::Amd if is_mi300x(&hardware.slug) => Ok(DeviceName("gfx942:sramecc+:xnack-".to_owned())),
        Vendor::Amd | Vendor::Cpu => Err(Invalid::new(
            "hardware",
            &hardware.slug,
            "one whose name in Inductor is known; use device-agnostic keys",
        )),
    }
}

fn is_mi300x(slug: &HardwareSlug) -> bool {
    slug.as_str() == "amd-mi300x"
}

/// The key of a problem, for one device or for all devices.
pub fn key(problem: &Problem, device: Option<&DeviceName>, scalars: &Scalars) -> String {
    let mut key = device.map_or_else(String::new, |DeviceName(name)| format!("{name}+"));
    let nodes: Vec<String> = nodes(problem).iter().map(Node::python).collect();
    // Writing to a String cannot fail.
    let _ = write!(key, "({})+", nodes.join(", "));
    if problem.op.has_bias() {
        let _ = write!(key, "alpha={}&beta={}+", scalars.alpha, scalars.beta);
    }
    key + problem.op.as_str()
}

/// A tensor that a kernel reads.
struct Node {
    dtype: DType,
    sizes: Vec<u64>,
    strides: Vec<u64>,
}

impl Node {
    /// A dense matrix, or a batch of them.
    fn dense(dtype: DType, batch: Option<u64>, rows: u64, columns: u64, layout: Layout) -> Self {
        let (row, column) = match layout {
            Layout::Row => (columns, 1),
            Layout::Column => (1, rows),
        };
        Self {
            dtype,
            sizes: batch.into_iter().chain([rows, columns]).collect(),
            strides: batch.map(|_| rows * columns).into_iter().chain([row, column]).collect(),
        }
    }

    /// The bias, expanded to the shape of the output.
    fn bias(problem: &Problem, batch: Option<u64>) -> Option<Self> {
        let matrix = Self::dense(problem.out_dtype, batch, problem.m, problem.n, Layout::Row);
        match problem.bias {
            Bias::None => None,
            Bias::Matrix => Some(matrix),
            Bias::Vector => {
                let strides = batch.map(|_| 0).into_iter().chain([0, 1]).collect();
                Some(Self { strides, ..matrix })
            }
        }
    }

    fn python(&self) -> String {
        // Rust prints lists of numbers as Python does.
        format!("(torch.{}, {:?}, {:?})", self.dtype, self.sizes, self.strides)
    }
}

/// What a kernel reads, in Inductor's order: the bias, A, B.
fn nodes(problem: &Problem) -> Vec<Node> {
    let batch = problem.op.is_batched().then_some(problem.b);
    let a = Node::dense(problem.a_dtype, batch, problem.m, problem.k, problem.a_layout);
    let b = Node::dense(problem.b_dtype, batch, problem.k, problem.n, problem.b_layout);
    Node::bias(problem, batch).into_iter().chain([a, b]).collect()
}
