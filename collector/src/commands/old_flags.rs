//! Flags of torch-diode's toolkit that several commands still take.

use clap::Args;

/// torch-diode handed this to `torch.compile`; Diode times kernels itself.
#[derive(Debug, Args)]
pub(super) struct SearchMode {
    #[arg(long, hide = true, value_parser = parse_search_mode)]
    search_mode: Option<()>,
}

/// Only the modes that time every config say what Diode does.
fn parse_search_mode(text: &str) -> Result<(), String> {
    if text.starts_with("max-autotune") {
        return Ok(());
    }
    Err("expected max-autotune: every config of the space is timed, without torch.compile; \
         choose fewer configs with --space default"
        .to_owned())
}
