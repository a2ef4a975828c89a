//! The files in which a server gives everything that was measured on a hardware.

use diode_api::{HardwareSummary, MAX_IN_OTHERS, MAX_IN_PARQUET};
use diode_core::Method;

/// A file.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) ending: &'static str,
    pub(crate) what: &'static str,
    /// torch-diode's formats name no method, so the server writes them only if no timing has one.
    is_torch_diodes: bool,
    /// The most timings of one file. More would need several files, which the page does not offer.
    most: u64,
    /// About how many bytes a timing takes. In three datasets of an H100 and an H200, columnar files took 3 to 5, Parquet
    /// files 6 to 11.
    bytes_per_timing: u64,
}

const FORMS: [Form; 5] = [
    Form {
        ending: "msgpack.zst",
        what: "columnar MessagePack under zstd; holds everything",
        is_torch_diodes: false,
        most: u64::MAX,
        bytes_per_timing: 4,
    },
    Form {
        ending: "parquet",
        what: "a row for each timing, for DuckDB, pandas and Polars",
        is_torch_diodes: false,
        most: MAX_IN_PARQUET,
        bytes_per_timing: 10,
    },
    Form {
        ending: "csv",
        what: "the same rows as text",
        is_torch_diodes: false,
        most: MAX_IN_OTHERS,
        bytes_per_timing: 200,
    },
    Form {
        ending: "msgpack",
        what: "torch-diode's MessagePack",
        is_torch_diodes: true,
        most: MAX_IN_OTHERS,
        bytes_per_timing: 180,
    },
    Form {
        ending: "json",
        what: "torch-diode's JSON",
        is_torch_diodes: true,
        most: MAX_IN_OTHERS,
        bytes_per_timing: 640,
    },
];

impl Form {
    /// The size of a file with so many timings, about.
    pub(crate) fn bytes(&self, timings: u64) -> u64 {
        self.bytes_per_timing * timings
    }
}

/// The files that the server can write for a hardware.
pub(crate) fn forms_of(summary: &HardwareSummary) -> impl Iterator<Item = Form> + use<> {
    let (timings, unspecified) =
        (summary.timings, summary.methods.iter().all(|method| *method == Method::Unspecified));
    FORMS.into_iter().filter(move |form| timings <= form.most && (unspecified || !form.is_torch_diodes))
}
