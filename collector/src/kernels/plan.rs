//! Plans which kernels a pack is to hold.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use diode_core::hardware::{Hardware, find};
use diode_core::kernel_variant::KernelKind;
use diode_core::space::{Space, SpaceName};
use diode_core::{
    Alignment, Bias, DType, Groups, Invalid, KernelVariant, Layout, Op, OperandAlignment, Problem,
    ProblemFields, Scaling, Stage, Tile,
};
use serde_json::Value;

use crate::kernels::support::{Support, alignments};
use crate::kernels::variant::{Form, SCRATCH_BYTES, Variant};

/// What the user wants a pack to cover.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) arch: String,
    pub(crate) ops: Vec<Op>,
    pub(crate) dtypes: Vec<DType>,
    /// The layouts of A and B.
    pub(crate) layouts: Vec<(Layout, Layout)>,
    /// The alignments that operands may have.
    pub(crate) alignments: Vec<Alignment>,
    pub(crate) biases: Vec<Bias>,
    /// How operands are scaled that have scales.
    pub(crate) scalings: Vec<Scaling>,
    /// Whether fp32 kernels that round their inputs to TF32 are wanted, too.
    pub(crate) tf32: bool,
    pub(crate) space: Space,
}

/// One kernel to compile.
pub(crate) struct PlannedKernel {
    pub(crate) key: String,
    pub(crate) request: Value,
    /// Whether it is a multiplication. Other kernels prepare or check a measurement.
    pub(crate) matmul: bool,
    /// Whether its copies must be wide, see [`Variant::expects_wide_copies`].
    pub(crate) wide: bool,
    /// How many bytes its arguments take. `None` if they are not checked.
    pub(crate) arguments: Option<Vec<u64>>,
    /// How many bytes of scratch memory a block may need.
    pub(crate) scratch: u64,
}

impl PlannedKernel {
    /// Whether the tensor memory accelerator feeds it. Only then it needs scratch memory.
    pub(crate) fn is_tma(&self) -> bool {
        self.scratch > 0
    }
}

impl Plan {
    /// A plan for the tiles of a space, and nothing else.
    pub(crate) fn of_space(arch: &str, space: Space) -> Self {
        Self {
            arch: arch.to_owned(),
            ops: Vec::new(),
            dtypes: Vec::new(),
            layouts: Vec::new(),
            alignments: Vec::new(),
            biases: Vec::new(),
            scalings: Vec::new(),
            tf32: false,
            space,
        }
    }

    /// Every kernel. Kernels of one variant follow one another.
    pub(crate) fn kernels(&self) -> Result<Vec<PlannedKernel>, Invalid> {
        let hardware = hardware_of(&self.arch)?;
        let mut planned = Vec::new();
        let dtypes: BTreeSet<DType> = self.dtypes.iter().copied().collect();
        for dtype in dtypes {
            check_arch(&self.arch, dtype)?;
            let variants = self.variants(dtype);
            planned.extend(self.support(&variants));
            let mut plain = None;
            for variant in &variants {
                let forms = if variant.kernel.is_plain() {
                    if plain.is_none() {
                        plain = Some(self.tiles(&hardware, dtype)?);
                    }
                    plain_forms(variant, plain.as_ref().into_iter().flatten())
                } else {
                    self.served_forms(&hardware, variant)?
                };
                planned.extend(forms.iter().map(|form| self.kernel(variant, form)));
            }
        }
        // Kernels that prepare measurements may serve several types.
        let mut seen = BTreeSet::new();
        planned.retain(|kernel| kernel.matmul || seen.insert(kernel.key.clone()));
        Ok(planned)
    }

    /// Only the kernels that some problems need. With `exact`, the problems' sizes are compiled in.
    pub(crate) fn kernels_for(
        &self,
        problems: &[Problem],
        exact: bool,
    ) -> anyhow::Result<Vec<PlannedKernel>> {
        let hardware = hardware_of(&self.arch)?;
        let mut variants = BTreeSet::new();
        let mut kernels = BTreeMap::new();
        for problem in problems {
            let ProblemFields { op, m, n, k, .. } = **problem;
            let variant = Variant::in_pack(problem, exact)
                .map_err(|reason| anyhow::anyhow!("{op} of M×N×K = {m}×{n}×{k}: {reason}"))?;
            check_arch(&self.arch, variant.dtype)?;
            variants.insert(variant);
            for config in self.space.configs(&hardware, problem)? {
                let Some(form) = variant.form(&config, problem) else { continue };
                let kernel = self.kernel(&variant, &form);
                kernels.insert(kernel.key.clone(), kernel);
            }
        }
        let mut planned = self.support(&variants);
        planned.extend(kernels.into_values());
        Ok(planned)
    }

    /// The kernels that prepare and check measurements of some variants.
    fn support(&self, variants: &BTreeSet<Variant>) -> Vec<PlannedKernel> {
        let mut planned = Vec::new();
        let mut seen = BTreeSet::new();
        for support in variants.iter().flat_map(|variant| Support::all(variant)) {
            if seen.insert(support.key()) {
                planned.push(PlannedKernel {
                    key: support.key(),
                    request: support.request(&self.arch),
                    matmul: false,
                    wide: false,
                    arguments: None,
                    scratch: 0,
                });
            }
        }
        planned
    }

    fn kernel(&self, variant: &Variant, form: &Form) -> PlannedKernel {
        let cuda = self.arch.starts_with("sm_");
        let copies = form.tile.num_stages > 1 && cuda && !form.tma;
        PlannedKernel {
            key: variant.key(form),
            request: variant.request(form, &self.arch),
            matmul: true,
            wide: copies && variant.expects_wide_copies(&form.tile, &self.arch),
            arguments: Some(variant.argument_sizes()),
            scratch: if form.tma { SCRATCH_BYTES } else { 0 },
        }
    }

    /// The forms in which the tiles of the space are compiled for a variant of served models, for problems of any
    /// size.
    fn served_forms(&self, hardware: &Hardware, variant: &Variant) -> Result<BTreeSet<Form>, Invalid> {
        let mut forms = BTreeSet::new();
        for problem in representatives(variant) {
            for config in self.space.configs(hardware, &problem)? {
                let Some(form) = variant.form(&config, &problem) else { continue };
                if form.tma && !self.arch.starts_with("sm_9") {
                    continue;
                }
                // Launches take the width of a group as an argument.
                let tile = Tile { group_m: 1, allow_tf32: false, ..form.tile };
                let fixed = form.tma || variant.kernel == KernelKind::FusedMoe;
                let even = if fixed { vec![tile.even_k] } else { vec![false, true] };
                forms.extend(even.into_iter().map(|even_k| Form { tile: Tile { even_k, ..tile }, ..form }));
            }
        }
        Ok(forms)
    }

    fn variants(&self, dtype: DType) -> BTreeSet<Variant> {
        let allowed = alignments(dtype).iter().filter(|alignment| self.alignments.contains(alignment));
        let allowed: Vec<Alignment> = allowed.copied().collect();
        let mut variants: BTreeSet<Variant> =
            self.ops.iter().flat_map(|&op| self.served_variants(op, dtype)).collect();
        for op in self.ops.iter().filter(|op| op.is_plain() && KernelVariant::DTYPES.contains(&dtype)) {
            let Some(kernel) = KernelKind::of(*op) else { continue };
            let biases = self.biases.iter().filter(|bias| op.has_bias() == (**bias != Bias::None));
            for bias in biases {
                for &(a_layout, b_layout) in &self.layouts {
                    // A matrix has the alignment of the size that its rows run along.
                    for &m in &allowed {
                        for &n in &allowed {
                            for &k in &allowed {
                                let alignment = OperandAlignment {
                                    a: if a_layout == Layout::Row { k } else { m },
                                    b: if b_layout == Layout::Row { n } else { k },
                                    out: n,
                                };
                                let (bias, scaling) = (*bias, Scaling::None);
                                variants.insert(Variant::from(KernelVariant {
                                    kernel,
                                    dtype,
                                    a_layout,
                                    b_layout,
                                    bias,
                                    scaling,
                                    alignment,
                                }));
                            }
                        }
                    }
                }
            }
        }
        variants
    }

    /// The variants of an op on scaled or grouped operands of a type. There are none for other ops.
    fn served_variants(&self, op: Op, dtype: DType) -> Vec<Variant> {
        let scalings: &[Scaling] =
            if KernelVariant::SCALED_DTYPES.contains(&dtype) { &self.scalings } else { &[Scaling::None] };
        if op.is_plain() || !self.alignments.contains(&Alignment::Bytes16) {
            return Vec::new();
        }
        let problem = |&scaling| served_problem(op, dtype, scaling, [128; 3], Groups::routed(8, 2));
        scalings
            .iter()
            .filter_map(problem)
            .filter_map(|problem| Variant::for_problem(&problem).ok())
            .collect()
    }

    /// The tiles of the space for plain problems of any size. The variant decides on `EVEN_K` later.
    pub(super) fn tiles(&self, hardware: &Hardware, dtype: DType) -> Result<BTreeSet<Tile>, Invalid> {
        // Spaces shrink tiles to the next power of two of each size. So powers of two up to the largest block give
        // every tile.
        let sizes: &[u64] = match self.space {
            Space::Named(SpaceName::Full) | Space::List(_) => &[1024],
            Space::Named(_) => &[16, 32, 64, 128, 256, 1024],
        };
        let mut tiles = BTreeSet::new();
        for (&m, &n, &k) in
            sizes.iter().flat_map(|m| sizes.iter().flat_map(move |n| sizes.iter().map(move |k| (m, n, k))))
        {
            let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, dtype))?;
            for config in self.space.configs(hardware, &problem)? {
                let Some(tile) = config.tile() else { continue };
                let precisions =
                    if dtype == DType::Float32 && self.tf32 { &[false, true][..] } else { &[false] };
                tiles.extend(precisions.iter().map(|&allow_tf32| Tile {
                    even_k: false,
                    allow_tf32,
                    ..*tile
                }));
            }
        }
        Ok(tiles)
    }
}

/// The forms in which tiles are compiled for a variant of plain multiplications: with and without a rest of K,
/// fitting or not, as far as that matters.
fn plain_forms<'a>(variant: &Variant, tiles: impl Iterator<Item = &'a Tile>) -> BTreeSet<Form> {
    let both = &[false, true][..];
    let even = if variant.allows_even_k() { both } else { &[false] };
    let fits = if variant.fit_matters() { both } else { &[false] };
    let of_tile = |&tile: &Tile| {
        even.iter().flat_map(move |&even_k| {
            fits.iter().map(move |&fits| Form { tile: Tile { even_k, ..tile }, tma: false, fits })
        })
    };
    tiles.flat_map(of_tile).collect()
}

/// A problem of a served model. `None` if the op has no such operands.
fn served_problem(
    op: Op,
    dtype: DType,
    scaling: Scaling,
    [m, n, k]: [u64; 3],
    groups: Groups,
) -> Option<Problem> {
    let stage = (op == Op::FusedMoe).then_some(Stage::GateUp);
    let groups = op.is_grouped().then_some(Groups { stage, ..groups });
    let fields = ProblemFields { scaling, groups, ..ProblemFields::plain(op, 1, m, n, k, dtype) };
    Problem::new(fields).ok()
}

/// Problems that together try every tile of a space: from one row to many, with short and long K, and with few
/// and many groups.
fn representatives(variant: &KernelVariant) -> Vec<Problem> {
    let mut problems = Vec::new();
    let groups = [Groups::routed(8, 2), Groups::routed(128, 8)];
    for groups in groups.into_iter().take(if variant.op().is_grouped() { 2 } else { 1 }) {
        for rows in (0..=14).map(|power| 1_u64 << power) {
            // Rows of grouped operands come in as many as groups that a token has.
            let m = if variant.op().is_grouped() { rows * u64::from(groups.top_k) } else { rows };
            for (n, k) in [(1024, 4096), (8192, 4096), (4096, 16_384), (1024, 512)] {
                problems.extend(served_problem(
                    variant.op(),
                    variant.dtype,
                    variant.scaling,
                    [m, n, k],
                    groups,
                ));
            }
        }
    }
    problems
}

/// Refuses types that the GPUs of an architecture do not multiply.
fn check_arch(arch: &str, dtype: DType) -> Result<(), Invalid> {
    let refuse = |given: DType, expected: &str| Err(Invalid::new("dtype", given, expected.to_owned()));
    match (arch, dtype) {
        ("sm_80", dtype) if dtype.is_fp8() => {
            refuse(dtype, "a type that sm_80 (A100) multiplies, which has no fp8")
        }
        ("gfx942", DType::Float8E4M3) => refuse(dtype, "float8_e4m3fnuz, the fp8 of gfx942 (MI300X)"),
        (nvidia, DType::Float8E4M3Fnuz) if nvidia.starts_with("sm_") => {
            refuse(dtype, "float8_e4m3fn, the fp8 of NVIDIA's GPUs")
        }
        _ => Ok(()),
    }
}

/// The hardware whose limits apply to packs of an architecture.
pub(crate) fn hardware_of(arch: &str) -> Result<Hardware, Invalid> {
    let name = match arch {
        "sm_80" => "NVIDIA A100",
        "sm_90" => "NVIDIA H200",
        "gfx942" => "AMD Instinct MI300X",
        _ => "",
    };
    find(name).ok_or_else(|| {
        Invalid::new("arch", format_args!("`{arch}`"), "sm_80 (A100), sm_90 (H100, H200) or gfx942 (MI300X)")
    })
}

/// A variant that a pack holds with enough kernels for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) variant: KernelVariant,
    /// Whether every tile is there in every form, so that every problem of the variant can be measured. If not,
    /// there are at least as many kernels as tiles. These may be one form of each tile, enough for the problems
    /// that the pack was built for.
    pub(crate) complete: bool,
}

/// Keeps the variants that have enough kernels to measure some problem as agents do. `counted` says how many
/// kernels each has.
pub(crate) fn held(
    arch: &str,
    counted: impl IntoIterator<Item = (KernelVariant, u64)>,
) -> Result<Vec<Held>, Invalid> {
    let hardware = hardware_of(arch)?;
    let plan = Plan::of_space(arch, Space::Named(SpaceName::Full));
    let mut plain: BTreeMap<DType, BTreeSet<Tile>> = BTreeMap::new();
    let mut all = Vec::new();
    for (variant, kernels) in counted {
        let forms = if variant.kernel.is_plain() {
            let tiles = match plain.entry(variant.dtype) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(plan.tiles(&hardware, variant.dtype)?),
            };
            plain_forms(&Variant::from(variant), tiles.iter())
        } else {
            plan.served_forms(&hardware, &Variant::from(variant))?
        };
        let tiles: BTreeSet<Tile> = forms.iter().map(|form| Tile { even_k: false, ..form.tile }).collect();
        if !forms.is_empty() && kernels >= tiles.len() as u64 {
            all.push(Held { variant, complete: kernels >= forms.len() as u64 });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            arch: "sm_90".to_owned(),
            ops: vec![Op::Mm],
            dtypes: vec![DType::BFloat16],
            layouts: vec![(Layout::Row, Layout::Row)],
            alignments: vec![Alignment::Bytes16],
            biases: vec![Bias::None, Bias::Vector, Bias::Matrix],
            scalings: Scaling::ALL.to_vec(),
            tf32: false,
            space: Space::Named(SpaceName::Full),
        }
    }

    fn kernels(plan: &Plan) -> usize {
        let planned = plan.kernels().unwrap();
        let keys: BTreeSet<&str> = planned.iter().map(|kernel| kernel.key.as_str()).collect();
        assert_eq!(keys.len(), planned.len(), "no kernel twice");
        planned.len()
    }

    #[test]
    fn a_pack_has_every_tile_with_and_without_a_rest_of_k() {
        assert_eq!(kernels(&plan()), 2 * 1534 + 4);
        let both = vec![(Layout::Row, Layout::Row), (Layout::Row, Layout::Column)];
        assert_eq!(kernels(&Plan { layouts: both, ..plan() }), 4 * 1534 + 4);
        assert_eq!(kernels(&Plan { ops: vec![Op::Mm, Op::Addmm], ..plan() }), 6 * 1534 + 4);
    }

    #[test]
    fn rows_along_k_that_are_not_aligned_have_a_rest() {
        let all = vec![Alignment::Bytes16, Alignment::Bytes4, Alignment::None];
        // A runs along K, B and the output along N: nine pairs of alignments. The three with K aligned have a second
        // form, in which the tile divides K. The three that leave N undivided have a second form, in which the tile
        // fits. One pair is of both groups and has four forms.
        assert_eq!(kernels(&Plan { alignments: all.clone(), ..plan() }), (9 + 3 + 3 + 1) * 1534 + 4);
        let linear = vec![(Layout::Row, Layout::Column)];
        assert_eq!(kernels(&Plan { alignments: all, layouts: linear, ..plan() }), (9 + 3) * 1534 + 4);
    }

    #[test]
    fn every_config_of_a_problem_has_its_kernel() {
        let plan = Plan {
            space: Space::Named(SpaceName::Default),
            alignments: vec![Alignment::Bytes16, Alignment::None],
            ..plan()
        };
        let keys: BTreeSet<String> = plan.kernels().unwrap().into_iter().map(|kernel| kernel.key).collect();
        let hardware = hardware_of("sm_90").unwrap();
        for (m, n, k) in [(1, 4096, 4096), (17, 33, 71), (100, 72, 24), (4096, 8, 128)] {
            let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap();
            let variant = Variant::for_problem(&problem).unwrap();
            for config in plan.space.configs(&hardware, &problem).unwrap() {
                let key = variant.key(&variant.form(&config, &problem).unwrap());
                assert!(keys.contains(&key), "{m}×{n}×{k}: {key}");
            }
        }
    }

    #[test]
    fn a_list_of_problems_needs_only_its_own_kernels() {
        let problem =
            |m, n, k| Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap();
        // In two problems every tile divides K, in the third none does.
        let problems = [problem(512, 512, 4096), problem(512, 4096, 4096), problem(512, 512, 4104)];
        let planned = plan().kernels_for(&problems, false).unwrap();
        let keys: BTreeSet<&str> = planned.iter().map(|kernel| kernel.key.as_str()).collect();
        assert_eq!((keys.len(), planned.len()), (2 * 1534 + 4, 2 * 1534 + 4));
        // Tiles wider than 64 columns do not fit into 65. With the second problem, the other tiles are needed in the
        // form that fits, too.
        let narrow = plan().kernels_for(&[problem(512, 65, 4096)], false).unwrap();
        assert_eq!(narrow.len(), 1534 + 4);
        let fit = narrow.iter().filter(|kernel| kernel.key.ends_with("fits=true")).count();
        assert!((1..1534).contains(&fit), "{fit}");
        let both = plan().kernels_for(&[problem(512, 65, 4096), problem(512, 1025, 4096)], false).unwrap();
        assert_eq!(both.len(), 1534 + (1534 - fit) + 4);
        // A kernel with compiled-in sizes serves one problem only.
        let exact = plan().kernels_for(&problems, true).unwrap();
        assert_eq!(exact.len(), 3 * 1534 + 4);
        assert!(exact.iter().filter(|kernel| kernel.matmul).all(|kernel| kernel.key.contains(";sizes=512x")));
    }

    #[test]
    fn an_unknown_architecture_is_refused_by_name() {
        let error = Plan { arch: "sm_1".to_owned(), ..plan() }.kernels().err().unwrap().to_string();
        assert!(error.starts_with("arch: got `sm_1`, expected sm_80"), "{error}");
    }

    #[test]
    fn a_variant_without_some_tiles_is_not_complete() {
        let variant = |text: &str| text.parse::<KernelVariant>().unwrap();
        let aligned = variant("mm;bfloat16;row,row;bias=none;align=16,16,16");
        // Tiles have two forms here, too: they fit or do not. No form is for a K that the tile divides.
        let odd = variant("mm;bfloat16;row,row;bias=none;align=none,none,none");
        let (full, held_as) = (2 * 1534, |variant, complete| Held { variant, complete });
        let whole = [held_as(aligned, true), held_as(odd, true)];
        assert_eq!(held("sm_90", [(aligned, full), (odd, full)]).unwrap(), whole);
        // One form of every tile is enough for some problems. Fewer tiles are enough for none.
        let part = held("sm_90", [(aligned, full - 1), (odd, 1533)]).unwrap();
        assert_eq!(part, [held_as(aligned, false)]);
        assert!(held("sm_1", []).is_err());
    }
}
