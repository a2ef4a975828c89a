//! The features of configs, and the configs that have features.

use diode_core::{Config, Tile};
pub use diode_numeric::features::*;

use crate::ModelError;

/// The tile of a config that has features. Only the plain and the batched Triton kernel have them.
/// Times of persistent kernels follow other rules, and the library and split-K kernels have no
/// tile.
pub fn featured_tile(config: &Config) -> Result<&Tile, ModelError> {
    match config {
        Config::Mm(tile) | Config::Bmm(tile) => Ok(tile),
        Config::PersistentTma(_) | Config::DecomposeK { .. } | Config::Library | Config::RoundingLibrary => {
            Err(ModelError::NoFeatures(config.template()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tiled_kernels_have_features() {
        assert!(featured_tile(&Config::Mm(Tile::new(64, 64, 32, 3, 4))).is_ok());
        let error = featured_tile(&Config::Library).unwrap_err();
        assert!(error.to_string().contains("got template aten"), "{error}");
    }
}
