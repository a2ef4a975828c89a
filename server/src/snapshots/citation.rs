//! How to refer to a snapshot.

use diode_api::bibtex::{AUTHOR, Cited};
use diode_api::{Citation, SnapshotSummary};

/// The citation of a snapshot, on the server at `public_url`.
pub(crate) fn cite(snapshot: &SnapshotSummary, public_url: &str) -> Citation {
    let SnapshotSummary { name, digest, hardware_name, created_at, licence, .. } = snapshot;
    let url = format!("{public_url}/api/v1/snapshots/{name}");
    let year = created_at.get(..4).unwrap_or_default();
    let version = name.version;
    let title = format!("Timings of matrix multiplication kernels on {hardware_name}, version {version}");
    let about = format!("{} problems, {} timings, SHA-256 {digest}", snapshot.problems, snapshot.timings);
    let text = format!("{AUTHOR} ({year}). {title} [data set; {about}]. {licence}. {url}");
    let bibtex = Cited {
        key: &format!("diode:{}:{version}", name.hardware),
        title: &title,
        made_at: created_at,
        url: &url,
        note: &format!("{about}, {licence}"),
    }
    .bibtex();
    Citation { url, text, bibtex }
}

#[cfg(test)]
mod tests {
    use diode_api::SnapshotState;
    use diode_core::ids::Digest;

    use super::*;

    fn summary(hardware_name: &str) -> SnapshotSummary {
        SnapshotSummary {
            name: "nvidia-h200@3".parse().unwrap(),
            digest: Digest::of(b"manifest"),
            hardware_name: hardware_name.to_owned(),
            created_at: "2026-11-23T08:00:00Z".to_owned(),
            licence: "MIT OR Apache-2.0".to_owned(),
            problems: 209,
            timings: 320_606,
            failures: 0,
            contributors: 2,
            uploads: 5,
            bytes: 1,
            state: SnapshotState::Whole,
            reason: String::new(),
            withdrawn_uploads: 0,
        }
    }

    #[test]
    fn a_citation_names_version_date_digest_and_address() {
        let cited = cite(&summary("NVIDIA H200"), "https://d.example");
        let digest = Digest::of(b"manifest");
        assert_eq!(cited.url, "https://d.example/api/v1/snapshots/nvidia-h200@3");
        assert_eq!(
            cited.text,
            format!(
                "The Diode contributors (2026). Timings of matrix multiplication kernels on NVIDIA H200, version 3 [data \
                 set; 209 problems, 320606 timings, SHA-256 {digest}]. MIT OR Apache-2.0. \
                 https://d.example/api/v1/snapshots/nvidia-h200@3"
            )
        );
        let expected = format!(
            "@misc{{diode:nvidia-h200:3,\n  author = {{{{The Diode contributors}}}},\n  title = {{{{Timings of matrix \
             multiplication kernels on NVIDIA H200, version 3}}}},\n  year = {{2026}},\n  month = nov,\n  url = \
             {{https://d.example/api/v1/snapshots/nvidia-h200@3}},\n  note = {{209 problems, 320606 timings, SHA-256 \
             {digest}, MIT OR Apache-2.0}}\n}}\n"
        );
        assert_eq!(cited.bibtex, expected);
    }

    #[test]
    fn a_name_cannot_end_its_field() {
        let cited = cite(&summary("X} , note = {\\input{/etc/passwd} 50% & $1_0"), "https://d.example");
        let title = "on X\\textbraceright{} , note = \\textbraceleft{}\\textbackslash{}input\\textbraceleft{}/etc/passwd\\textbraceright{} 50\\% \\& \\$1\\_0, version";
        assert!(cited.bibtex.contains(title), "{}", cited.bibtex);
    }
}
