//! Problems for Python.

use std::hash::{Hash as _, Hasher as _};

use diode_core::error::Field;
use diode_core::hardware::{Hardware, catalogue, find};
use diode_core::problem::ProblemWords;
use diode_core::{
    Bias, DType, Groups, Invalid, KernelVariant, Layout, Op, Problem, ProblemFields, ProblemGroup, Scaling,
};
use pyo3::prelude::*;

use crate::config::count;
use crate::error::{Whole, refusal, whole, wrong_type, wrong_value};

/// One matrix multiplication: operator, sizes, dtypes, layouts.
///
/// >>> from torch_diode import Problem
/// >>> linear = Problem("addmm", 64, 1024, 512, "bf16", b_layout="column")
/// >>> linear.label, linear.flops
/// ('addmm 64×1024×512 bfloat16 nt', 67108864.0)
/// >>> Problem.parse("16x4096x14336 fp8 row").op
/// 'scaled_mm'
#[pyclass(name = "Problem", module = "torch_diode", frozen, eq, hash)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyProblem(pub(crate) Problem);

#[pymethods]
impl PyProblem {
    #[new]
    #[pyo3(signature = (op, m, n, k, dtype, *, b=1, b_dtype=None, out_dtype=None, a_layout="row", b_layout="row", bias=None, scaling="none", groups=None, top_k=None, rows=None, stage=None))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        op: &str,
        m: Whole,
        n: Whole,
        k: Whole,
        dtype: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = whole)] b: i128,
        b_dtype: Option<&Bound<'_, PyAny>>,
        out_dtype: Option<&Bound<'_, PyAny>>,
        a_layout: &str,
        b_layout: &str,
        bias: Option<&str>,
        scaling: &str,
        groups: Option<Whole>,
        top_k: Option<Whole>,
        rows: Option<&str>,
        stage: Option<&str>,
    ) -> PyResult<Self> {
        let a_dtype = read_dtype("dtype", dtype)?;
        let other = |name, given: Option<&Bound<'_, PyAny>>| {
            given.map_or(Ok(a_dtype), |given| read_dtype(name, given))
        };
        let (b_dtype, out_dtype) = (other("b_dtype", b_dtype)?, other("out_dtype", out_dtype)?);
        let fields = || -> Result<Problem, Invalid> {
            let op: Op = op.parse()?;
            let bias = match bias {
                Some(name) => name.parse()?,
                // The bias of `nn.Linear` is a vector.
                None if op.has_bias() => Bias::Vector,
                None => Bias::None,
            };
            Problem::new(ProblemFields {
                op,
                b: size(Field::B, Whole(b))?,
                m: size(Field::M, m)?,
                n: size(Field::N, n)?,
                k: size(Field::K, k)?,
                a_dtype,
                b_dtype,
                out_dtype,
                a_layout: a_layout.parse::<Layout>()?,
                b_layout: b_layout.parse::<Layout>()?,
                bias,
                out_layout: None,
                scaling: scaling.parse()?,
                groups: Groups::from_parts(
                    count(Field::Groups, groups)?,
                    count(Field::TopK, top_k)?,
                    stage.map(str::parse).transpose()?,
                    rows.map(str::parse).transpose()?,
                )?,
            })
        };
        fields().map(Self).map_err(wrong_value)
    }

    /// The problem of a text: `16x4096x4096`, `addmm 16x4096x4096 fp16 nt`, or a scaled or grouped one as `diode predict` takes it.
    ///
    /// `dtype` applies if the text names none.
    #[staticmethod]
    #[pyo3(signature = (text, dtype=None))]
    fn parse(text: &str, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let dtype = dtype.map_or(Ok(DType::BFloat16), |given| read_dtype("dtype", given))?;
        // The bias of `nn.Linear` is a vector.
        let usual = ProblemWords { dtype: Some(dtype), bias: Some(Bias::Vector), ..ProblemWords::default() };
        let read = ProblemWords::read(text).and_then(|said| match said.tf32 {
            true => Err(Invalid::new("problem", "`tf32`", "float32, with tf32=True for predict or choose")),
            false => said.problems(&usual),
        });
        let read = read.and_then(|several| {
            let expected = "one problem; name the stage, gate-up or down";
            <[Problem; 1]>::try_from(several)
                .map(|[one]| one)
                .map_err(|_| Invalid::new("problem", format_args!("`{text:.80}`"), expected))
        });
        read.map(Self).map_err(wrong_value)
    }

    /// The problem that `to_json` has written.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(Self).map_err(|error| wrong_value(format_args!("problem: {error}")))
    }

    #[getter]
    fn op(&self) -> &'static str {
        self.0.op.as_str()
    }

    #[getter]
    fn b(&self) -> u64 {
        self.0.b
    }

    #[getter]
    fn m(&self) -> u64 {
        self.0.m
    }

    #[getter]
    fn n(&self) -> u64 {
        self.0.n
    }

    #[getter]
    fn k(&self) -> u64 {
        self.0.k
    }

    /// The dtype of A.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.a_dtype.as_str()
    }

    #[getter]
    fn b_dtype(&self) -> &'static str {
        self.0.b_dtype.as_str()
    }

    #[getter]
    fn out_dtype(&self) -> &'static str {
        self.0.out_dtype.as_str()
    }

    #[getter]
    fn a_layout(&self) -> &'static str {
        self.0.a_layout.as_str()
    }

    #[getter]
    fn b_layout(&self) -> &'static str {
        self.0.b_layout.as_str()
    }

    #[getter]
    fn bias(&self) -> &'static str {
        self.0.bias.as_str()
    }

    /// Which elements share a scale: `none`, `tensor`, `row` or `block`.
    #[getter]
    fn scaling(&self) -> &'static str {
        self.0.scaling.as_str()
    }

    /// How many groups with weights of their own its rows belong to.
    #[getter]
    fn groups(&self) -> Option<u32> {
        self.0.groups.map(|groups| groups.count)
    }

    /// How many groups each token goes to.
    #[getter]
    fn top_k(&self) -> Option<u32> {
        self.0.groups.map(|groups| groups.top_k)
    }

    /// Which of the two multiplications of experts it is.
    #[getter]
    fn stage(&self) -> Option<&'static str> {
        self.0.groups.and_then(|groups| groups.stage).map(|stage| stage.as_str())
    }

    /// Why nobody can compute it, in one sentence. `None` if there are kernels for its operator and types.
    #[getter]
    fn obstacle(&self) -> Option<String> {
        KernelVariant::obstacle(&self.0)
    }

    /// The fields of the problem as `diode collect --problems` reads them, in JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(refusal)
    }

    /// The problem group. Confidence is stated per group.
    #[getter]
    fn group(&self) -> &'static str {
        ProblemGroup::for_problem(&self.0).as_str()
    }

    /// The number of operations. Multiplications and additions count as one each.
    #[getter]
    fn flops(&self) -> f64 {
        self.0.flops()
    }

    /// The problem as it is shown: `mm 4096×4096×4096 bfloat16 nt`.
    #[getter]
    fn label(&self) -> String {
        let letter = |layout| if layout == Layout::Row { 'n' } else { 't' };
        let (a, b) = (letter(self.0.a_layout), letter(self.0.b_layout));
        let scaling = match self.0.scaling {
            Scaling::None => String::new(),
            scaling => format!(" {scaling}"),
        };
        let groups = self
            .0
            .groups
            .map(|groups| format!(" groups {} top{}", groups.count, groups.top_k))
            .unwrap_or_default();
        format!("{} {} {} {a}{b}{scaling}{groups}", self.0.op, self.0.dims(), self.0.a_dtype)
    }

    fn __repr__(&self) -> String {
        let p = &self.0;
        let scaling = (p.scaling != Scaling::None).then(|| format!(", scaling={:?}", p.scaling.as_str()));
        let groups = p
            .groups
            .map(|it| format!(", groups={}, top_k={}, rows={:?}", it.count, it.top_k, it.rows.as_str()));
        let stage = self.stage().map(|stage| format!(", stage={stage:?}"));
        let more = [scaling, groups, stage].map(Option::unwrap_or_default).concat();
        format!(
            "Problem({:?}, m={}, n={}, k={}, dtype={:?}, b={}, b_dtype={:?}, out_dtype={:?}, a_layout={:?}, b_layout={:?}, bias={:?}{more})",
            p.op.as_str(),
            p.m,
            p.n,
            p.k,
            p.a_dtype.as_str(),
            p.b,
            p.b_dtype.as_str(),
            p.out_dtype.as_str(),
            p.a_layout.as_str(),
            p.b_layout.as_str(),
            p.bias.as_str()
        )
    }
}

/// A dtype by its name (`bf16`, `bfloat16`, `torch.bfloat16`), or torch's own.
pub(crate) fn read_dtype(argument: &str, given: &Bound<'_, PyAny>) -> PyResult<DType> {
    let of_torch = || given.get_type().name().is_ok_and(|name| name == "dtype");
    let name = match given.extract::<String>() {
        Ok(name) => name,
        Err(_) if of_torch() => given.str()?.to_string(),
        Err(_) => return Err(wrong_type(argument, given, "a name such as bf16, or a torch.dtype")),
    };
    DType::from_short_name(name.strip_prefix("torch.").unwrap_or(&name)).map_err(wrong_value)
}

/// A size as Python gives it.
fn size(field: Field, given: Whole) -> Result<u64, Invalid> {
    given.fit(field, format!("a size from 1 to {}", Problem::MAX_DIM))
}

/// The slugs of the hardware in the catalogue.
#[pyfunction]
pub(crate) fn known_hardware() -> Vec<String> {
    catalogue().map(|hardware| hardware.slug.to_string()).collect()
}

/// A kind of hardware.
///
/// >>> from torch_diode import Hardware
/// >>> hardware = Hardware("NVIDIA H200")
/// >>> hardware.slug, hardware.sms, hardware == Hardware.find("h200")
/// ('nvidia-h200', 132, True)
/// >>> print(Hardware.find("NVIDIA X9"))
/// None
#[pyclass(name = "Hardware", module = "torch_diode", frozen, eq)]
#[derive(Clone)]
pub(crate) struct PyHardware(pub(crate) Hardware);

impl PartialEq for PyHardware {
    /// Whether they are the same kind of hardware, however they were spelled.
    fn eq(&self, other: &Self) -> bool {
        (&self.0.slug, self.0.facts) == (&other.0.slug, other.0.facts)
    }
}

#[pymethods]
impl PyHardware {
    /// The hardware with this device name or slug. If the catalogue does not have it, no facts are known.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        let by_slug = find(name).filter(|known| known.slug.as_str() == name.to_lowercase());
        by_slug.map_or_else(|| Hardware::from_name(name), Ok).map(Self).map_err(wrong_value)
    }

    /// The hardware in the catalogue with this device name or slug. `None` if the catalogue does not have
    /// it.
    #[staticmethod]
    fn find(name: &str) -> Option<Self> {
        find(name).map(Self)
    }

    /// The hardware that `to_json` has written.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let named = |error: &dyn std::fmt::Display| wrong_value(format_args!("hardware: {error}"));
        let hardware: Hardware = serde_json::from_str(text).map_err(|error| named(&error))?;
        hardware.validate().map_err(|error| named(&error))?;
        Ok(Self(hardware))
    }

    /// Its name and facts, in JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(refusal)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.0.slug.as_str().hash(&mut hasher);
        hasher.finish()
    }

    #[getter]
    fn slug(&self) -> &str {
        self.0.slug.as_str()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn vendor(&self) -> &'static str {
        self.0.vendor.as_str()
    }

    #[getter]
    fn sms(&self) -> Option<u32> {
        self.0.facts.map(|facts| facts.sms)
    }

    /// How many bytes of shared memory one block may use.
    #[getter]
    fn shared_memory(&self) -> Option<u32> {
        self.0.facts.map(|facts| facts.smem_per_block)
    }

    fn __repr__(&self) -> String {
        let name = &self.0.name;
        let again = Self::new(name).is_ok_and(|again| again == *self);
        if again {
            format!("Hardware({name:?})")
        } else {
            format!("<Hardware {name:?} with facts of its own>")
        }
    }
}
