//! Which kernels an agent needs: all of the full space.

use std::collections::BTreeSet;

use diode_core::space::{Space, SpaceName};
use diode_core::{DType, Invalid, KernelVariant};

use super::plan::{Plan, forms, hardware_of};
use super::variant::Variant;

/// Of the variants with so many kernels each, those that have every kernel of the full space.
pub(crate) fn complete(
    arch: &str,
    counted: impl IntoIterator<Item = (KernelVariant, u64)>,
) -> Result<Vec<KernelVariant>, Invalid> {
    let counted: Vec<(KernelVariant, u64)> = counted.into_iter().collect();
    let hardware = hardware_of(arch)?;
    let plan = Plan::of_space(arch, Space::Named(SpaceName::Full));
    let dtypes: BTreeSet<DType> = counted.iter().map(|(variant, _)| variant.dtype).collect();
    let mut complete = Vec::new();
    for dtype in dtypes {
        let tiles = plan.tiles(&hardware, dtype)?.len();
        let of_type = counted.iter().filter(|(variant, _)| variant.dtype == dtype);
        complete.extend(of_type.filter_map(|(variant, kernels)| {
            let needed = tiles * forms(&Variant::from(*variant)).len();
            (*kernels >= needed as u64).then_some(*variant)
        }));
    }
    Ok(complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_without_some_tiles_is_not_complete() {
        let variant = |text: &str| text.parse::<KernelVariant>().unwrap();
        let aligned = variant("mm;bfloat16;row,row;bias=none;align=16,16,16");
        // Tiles that fit and others are compiled apart, but K has no even form.
        let odd = variant("mm;bfloat16;row,row;bias=none;align=none,none,none");
        let full = 2 * 1534;
        let counted = [(aligned, full), (odd, full)];
        assert_eq!(complete("sm_90", counted).unwrap(), [aligned, odd]);
        assert_eq!(complete("sm_90", [(aligned, full - 1), (odd, 100)]).unwrap(), []);
        assert!(complete("sm_1", []).is_err());
    }
}
