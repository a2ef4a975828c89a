//! Plans which kernels a pack is to hold.

use std::collections::{BTreeMap, BTreeSet};

use diode_core::hardware::{Hardware, find};
use diode_core::space::{Space, SpaceName};
use diode_core::{
    Alignment, Bias, DType, Invalid, KernelVariant, Layout, Op, OperandAlignment, Problem, ProblemFields,
    Tile,
};
use serde_json::Value;

use crate::kernels::support::{Support, alignments};
use crate::kernels::variant::{Variant, tile_of};

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
            planned.extend(self.support(dtype));
            let tiles = self.tiles(&hardware, dtype)?;
            for variant in self.variants(dtype) {
                planned.extend(self.kernels_of(&variant, &tiles));
            }
        }
        Ok(planned)
    }

    /// Only the kernels that some problems need. With `exact`, the problems' sizes are compiled in.
    pub(crate) fn kernels_for(
        &self,
        problems: &[Problem],
        exact: bool,
    ) -> anyhow::Result<Vec<PlannedKernel>> {
        let hardware = hardware_of(&self.arch)?;
        let dtypes: BTreeSet<DType> = problems.iter().map(|problem| problem.a_dtype).collect();
        let mut planned: Vec<PlannedKernel> =
            dtypes.into_iter().flat_map(|dtype| self.support(dtype)).collect();
        let mut kernels = BTreeMap::new();
        for problem in problems {
            let ProblemFields { op, m, n, k, .. } = **problem;
            let variant = Variant::in_pack(problem, exact)
                .map_err(|reason| anyhow::anyhow!("{op} of M×N×K = {m}×{n}×{k}: {reason}"))?;
            for config in self.space.configs(&hardware, problem)? {
                let Some(tile) = tile_of(&config) else { continue };
                let kernel = self.kernel(&variant, tile, variant.fits(tile, problem));
                kernels.insert(kernel.key.clone(), kernel);
            }
        }
        planned.extend(kernels.into_values());
        Ok(planned)
    }

    fn support(&self, dtype: DType) -> impl Iterator<Item = PlannedKernel> {
        Support::all(dtype).into_iter().map(|support| PlannedKernel {
            key: support.key(),
            request: support.request(&self.arch),
            matmul: false,
            wide: false,
        })
    }

    fn kernels_of(&self, variant: &Variant, tiles: &BTreeSet<Tile>) -> impl Iterator<Item = PlannedKernel> {
        forms(variant)
            .into_iter()
            .flat_map(move |(even_k, fits)| tiles.iter().map(move |&tile| (Tile { even_k, ..tile }, fits)))
            .map(|(tile, fits)| self.kernel(variant, &tile, fits))
    }

    fn kernel(&self, variant: &Variant, tile: &Tile, fits: bool) -> PlannedKernel {
        let cuda = self.arch.starts_with("sm_");
        PlannedKernel {
            key: variant.key(tile, fits),
            request: variant.request(tile, fits, &self.arch),
            matmul: true,
            wide: variant.expects_wide_copies(tile, &self.arch) && tile.num_stages > 1 && cuda,
        }
    }

    fn variants(&self, dtype: DType) -> BTreeSet<Variant> {
        let allowed = alignments(dtype).iter().filter(|alignment| self.alignments.contains(alignment));
        let allowed: Vec<Alignment> = allowed.copied().collect();
        let mut variants = BTreeSet::new();
        for op in &self.ops {
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
                                let (batched, bias) = (op.is_batched(), *bias);
                                let general =
                                    KernelVariant { batched, dtype, a_layout, b_layout, bias, alignment };
                                variants.insert(Variant::from(general));
                            }
                        }
                    }
                }
            }
        }
        variants
    }

    /// The tiles of the space for problems of any size. The variant decides on `EVEN_K` later.
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
                let Some(tile) = tile_of(&config) else { continue };
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

/// The forms in which each tile of a variant is compiled: whether the tile divides K, and whether it fits.
pub(super) fn forms(variant: &Variant) -> Vec<(bool, bool)> {
    let both = &[false, true][..];
    let even = if variant.allows_even_k() { both } else { &[false] };
    let fits = if variant.fit_matters() { both } else { &[false] };
    even.iter().flat_map(|&even_k| fits.iter().map(move |&fits| (even_k, fits))).collect()
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
    let counted: Vec<(KernelVariant, u64)> = counted.into_iter().collect();
    let hardware = hardware_of(arch)?;
    let plan = Plan::of_space(arch, Space::Named(SpaceName::Full));
    let dtypes: BTreeSet<DType> = counted.iter().map(|(variant, _)| variant.dtype).collect();
    let mut all = Vec::new();
    for dtype in dtypes {
        let tiles = plan.tiles(&hardware, dtype)?.len() as u64;
        let of_type = counted.iter().filter(|(variant, kernels)| variant.dtype == dtype && *kernels >= tiles);
        all.extend(of_type.map(|&(variant, kernels)| {
            let forms = forms(&Variant::from(variant)).len() as u64;
            Held { variant, complete: kernels >= tiles * forms }
        }));
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
                let tile = tile_of(&config).unwrap();
                let key = variant.key(tile, variant.fits(tile, &problem));
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
