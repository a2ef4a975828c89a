//! Checks a kernel pack before it is published.

use std::fs::File;
use std::path::Path;

use diode_api::{PackSummary, PackVariant};
use diode_core::Invalid;
use diode_core::ids::AccountName;
use diode_formats::FormatError;
use diode_formats::pack::Pack;

use crate::store::Now;

/// Why a pack is not published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// The file is no pack, or is damaged.
    #[error(transparent)]
    Format(#[from] FormatError),

    /// The pack would be of no use to others.
    #[error(transparent)]
    Refused(#[from] Invalid),

    #[error("the pack cannot be read back: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads a whole pack, and returns what is in it.
pub(crate) fn examine(file: File, by: Option<AccountName>, now: Now) -> Result<PackSummary, PackError> {
    let bytes = file.metadata()?.len();
    let mut pack = Pack::read(file, Path::new("pack"))?;
    pack.check()?;
    let refuse = |given: &str, expected: &str| Err(Invalid::new("pack", given, expected).into());
    if pack.is_exact() {
        return refuse("kernels for the exact sizes of some problems", "kernels for all sizes");
    }
    let variants: Vec<PackVariant> =
        pack.variants().into_iter().map(|(variant, kernels)| PackVariant { variant, kernels }).collect();
    if variants.is_empty() {
        return refuse("no multiplication", "at least one");
    }
    let sha256 = pack.file_digest()?;
    let stated = |name: &str| pack.toolchain().get(name).cloned();
    Ok(PackSummary {
        digest: pack.digest().clone(),
        sha256,
        architecture: pack.arch().to_owned(),
        triton: stated("triton"),
        abi: stated("abi"),
        space: stated("space"),
        bytes,
        variants,
        published_at: now.rfc3339(),
        published_by: by,
        already_stored: false,
    })
}
