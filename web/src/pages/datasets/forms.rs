//! The files in which a server gives everything that was measured on a hardware.

use diode_core::Method;
use diode_core::api::{HardwareSummary, MAX_IN_OTHERS, MAX_IN_PARQUET};

/// A file.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) ending: &'static str,
    pub(crate) what: &'static str,
    /// torch-diode's formats name no method, so the server writes them only if no timing has one.
    is_torch_diodes: bool,
    /// The most timings of one file. More would need several files, which the page does not offer.
    most: u64,
}

const FORMS: [Form; 5] = [
    Form {
        ending: "msgpack.zst",
        what: "columnar MessagePack under zstd; holds everything",
        is_torch_diodes: false,
        most: u64::MAX,
    },
    Form {
        ending: "parquet",
        what: "a row for each timing, for DuckDB, pandas and Polars",
        is_torch_diodes: false,
        most: MAX_IN_PARQUET,
    },
    Form { ending: "csv", what: "the same rows as text", is_torch_diodes: false, most: MAX_IN_OTHERS },
    Form { ending: "msgpack", what: "torch-diode's MessagePack", is_torch_diodes: true, most: MAX_IN_OTHERS },
    Form { ending: "json", what: "torch-diode's JSON", is_torch_diodes: true, most: MAX_IN_OTHERS },
];

/// The files that the server can write for a hardware.
pub(crate) fn forms_of(summary: &HardwareSummary) -> impl Iterator<Item = Form> + use<> {
    let (timings, unspecified) =
        (summary.timings, summary.methods.iter().all(|method| *method == Method::Unspecified));
    FORMS.into_iter().filter(move |form| timings <= form.most && (unspecified || !form.is_torch_diodes))
}
