//! Which kernels of a pack an agent can use. Agents time the full space.

use std::collections::BTreeSet;

use diode_core::space::{Space, SpaceName};
use diode_core::{DType, Invalid, KernelVariant};

use super::plan::{Plan, forms, hardware_of};
use super::variant::Variant;

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
