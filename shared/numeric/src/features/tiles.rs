//! Eight tiles at once, as one vector per parameter.

use diode_core::Tile;
use wide::f32x8;

use super::LANES;

/// The parameters of up to eight tiles. Unused lanes repeat the last tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles {
    pub(super) block_m: f32x8,
    pub(super) block_n: f32x8,
    pub(super) block_k: f32x8,
    pub(super) stages: f32x8,
    pub(super) warps: f32x8,
    pub(super) group_m: f32x8,
    pub(super) tf32: f32x8,
    /// 1 for tiles with ROCm's extras, because they are compiled by other rules.
    pub(super) rocm: f32x8,
    pub(super) nonkdim: f32x8,
    pub(super) waves_per_eu: f32x8,
    pub(super) kpack: f32x8,
}

impl Tiles {
    /// Takes at least one tile. Tiles beyond [`LANES`] are left out.
    pub(super) fn new(tiles: &[&Tile]) -> Self {
        let lanes = |of: fn(&Tile) -> f32| {
            let mut values = [0.0; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                *value = of(tiles[lane.min(tiles.len() - 1)]);
            }
            f32x8::from(values)
        };
        Self {
            block_m: lanes(|t| t.block_m as f32),
            block_n: lanes(|t| t.block_n as f32),
            block_k: lanes(|t| t.block_k as f32),
            stages: lanes(|t| t.num_stages as f32),
            warps: lanes(|t| t.num_warps as f32),
            group_m: lanes(|t| t.group_m as f32),
            tf32: lanes(|t| f32::from(u8::from(t.allow_tf32))),
            rocm: lanes(|t| f32::from(u8::from(t.rocm.is_some()))),
            nonkdim: lanes(|t| t.rocm.map_or(0.0, |r| r.matrix_instr_nonkdim as f32)),
            waves_per_eu: lanes(|t| t.rocm.map_or(0.0, |r| r.waves_per_eu as f32)),
            kpack: lanes(|t| t.rocm.map_or(0.0, |r| r.kpack as f32)),
        }
    }
}
