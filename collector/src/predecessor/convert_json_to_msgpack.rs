use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use diode_formats::Format;

use crate::failure::one_line;
use crate::output::{self, files};

/// Convert torch-diode's JSON datasets to its MessagePack
///
/// `convert` does the same for one file of any format. A file that cannot be
/// converted does not keep the others from it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode convert-json-to-msgpack --input-files a.json b.json --output-dir packed"
)]
pub(crate) struct ConvertJsonToMsgpack {
    /// Datasets to convert
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    input_files: Vec<PathBuf>,

    /// Folder to write to; created if needed [default: beside each file]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// Replace files that exist
    #[arg(long)]
    overwrite: bool,
}

impl ConvertJsonToMsgpack {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(folder) = &self.output_dir {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mut failed = 0;
        let mut written = HashSet::new();
        for input in &self.input_files {
            let output = self.output(input);
            if !written.insert(output.clone()) {
                let output = output.display();
                say!("not converted: {}: {output} was written for another input", input.display());
                failed += 1;
                continue;
            }
            match self.convert(input, output) {
                Ok(written) => output::text_out(&format!("{} → {}\n", input.display(), written.display()))?,
                Err(error) => {
                    say!("not converted: {}", one_line(&error));
                    failed += 1;
                }
            }
        }
        if failed > 0 {
            bail!("{failed} of {} not converted", output::count(self.input_files.len(), "file"));
        }
        Ok(())
    }

    fn output(&self, input: &Path) -> PathBuf {
        let name = input.with_extension("msgpack");
        match (&self.output_dir, name.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => name,
        }
    }

    fn convert(&self, input: &Path, written: PathBuf) -> anyhow::Result<PathBuf> {
        if files::is_there(&written) && !self.overwrite {
            bail!("{} exists; add --overwrite to replace it", written.display());
        }
        let decoded = diode_formats::read_file(input)?;
        if decoded.format != Format::PredecessorJson {
            bail!("{}: got {}, expected JSON; use `diode convert`", input.display(), decoded.format);
        }
        let bytes = diode_formats::encode(Format::PredecessorMsgpack, &decoded.datasets)
            .with_context(|| input.display().to_string())?;
        files::write(&written, &bytes)?;
        Ok(written)
    }
}
