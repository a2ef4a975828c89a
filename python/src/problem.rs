//! Problems for Python.

use diode_core::hardware::{Hardware, find};
use diode_core::{Bias, DType, Groups, Invalid, Layout, Op, Problem, ProblemFields, ProblemGroup, Scaling};
use pyo3::prelude::*;

use crate::error::refusal;

/// One matrix multiplication: operator, sizes, dtypes, layouts.
#[pyclass(name = "Problem", module = "torch_diode", frozen, eq, hash)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyProblem(pub(crate) Problem);

#[pymethods]
impl PyProblem {
    #[new]
    #[pyo3(signature = (op, m, n, k, dtype, *, b=1, b_dtype=None, out_dtype=None, a_layout="row", b_layout="row", bias=None, scaling="none", groups=None, top_k=None, rows=None))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        op: &str,
        m: u64,
        n: u64,
        k: u64,
        dtype: &str,
        b: u64,
        b_dtype: Option<&str>,
        out_dtype: Option<&str>,
        a_layout: &str,
        b_layout: &str,
        bias: Option<&str>,
        scaling: &str,
        groups: Option<u32>,
        top_k: Option<u32>,
        rows: Option<&str>,
    ) -> PyResult<Self> {
        let fields = || -> Result<Problem, Invalid> {
            let op: Op = op.parse()?;
            let a_dtype = parse_dtype(dtype)?;
            let other = |name: Option<&str>| name.map_or(Ok(a_dtype), parse_dtype);
            let bias = match bias {
                Some(name) => name.parse()?,
                // The bias of `nn.Linear` is a vector.
                None if op.has_bias() => Bias::Vector,
                None => Bias::None,
            };
            Problem::new(ProblemFields {
                op,
                b,
                m,
                n,
                k,
                a_dtype,
                b_dtype: other(b_dtype)?,
                out_dtype: other(out_dtype)?,
                a_layout: a_layout.parse::<Layout>()?,
                b_layout: b_layout.parse::<Layout>()?,
                bias,
                out_layout: None,
                scaling: scaling.parse()?,
                groups: Groups::from_parts(groups, top_k, None, rows.map(str::parse).transpose()?)?,
            })
        };
        fields().map(Self).map_err(refusal)
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
        let more = scaling.unwrap_or_default() + &groups.unwrap_or_default();
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

/// Parses a dtype, either as Python prints it (`torch.bfloat16`) or its bare name.
fn parse_dtype(name: &str) -> Result<DType, Invalid> {
    DType::from_torch_name(name.strip_prefix("torch.").unwrap_or(name))
}

/// A kind of hardware.
#[pyclass(name = "Hardware", module = "torch_diode", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyHardware(pub(crate) Hardware);

#[pymethods]
impl PyHardware {
    /// The hardware in the catalogue with this device name or slug. `None` if the catalogue does not have
    /// it.
    #[staticmethod]
    fn find(name: &str) -> Option<Self> {
        find(name).map(Self)
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
        format!("Hardware({:?})", self.0.slug.as_str())
    }
}
