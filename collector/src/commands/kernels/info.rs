use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use diode_core::FailureReason;
use diode_formats::pack::{Kernel, Outcome, Pack};
use serde::Serialize;

use crate::kernels::problems_of;
use crate::output::{self, count};

/// Show what a pack holds, and check that all of it is undamaged
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  diode kernels info h200.pack\n  diode kernels info h200.pack --each")]
pub(super) struct Info {
    /// Pack to read
    pack: PathBuf,

    /// List each kernel, with its registers and its memory
    #[arg(long)]
    each: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    digest: &'a str,
    arch: &'a str,
    toolchain: &'a BTreeMap<String, String>,
    kernels: usize,
    /// How many of the kernels prepare or check a measurement, rather than being measured.
    around: usize,
    spilling: usize,
    variants: Vec<VariantReport>,
    failed: Vec<Failed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    each: Option<Vec<Each<'a>>>,
}

/// A kernel, and what it takes of a multiprocessor.
#[derive(Serialize)]
struct Each<'a> {
    kernel: &'a str,
    threads: u32,
    shared_memory: u32,
    /// Of each thread.
    registers: u32,
    /// Bytes of each thread. Spilled registers lie there.
    stack: u32,
}

fn each(pack: &Pack) -> Vec<Each<'_>> {
    let records = pack.records().iter();
    let each = records.filter_map(|record| match &record.outcome {
        Outcome::Built(kernel) => Some(Each {
            kernel: &record.key,
            threads: kernel.threads,
            shared_memory: kernel.shared,
            registers: kernel.registers,
            stack: kernel.stack,
        }),
        Outcome::Failed { .. } => None,
    });
    each.collect()
}

/// A table with a row for each kernel.
fn table(each: &[Each<'_>]) -> String {
    let rows = each.iter().map(|one| {
        let Each { kernel, threads, shared_memory, registers, stack } = one;
        format!("{threads:>7}  {shared_memory:>13}  {registers:>9}  {stack:>5}  {kernel}\n")
    });
    let head = "\nthreads  shared memory  registers  stack  kernel\n".to_owned();
    std::iter::once(head).chain(rows).collect()
}

/// A variant of the pack, and how many kernels it has.
#[derive(Serialize)]
struct VariantReport {
    variant: String,
    kernels: usize,
    failed: usize,
}

fn variants(pack: &Pack) -> Vec<VariantReport> {
    let mut found: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for record in pack.records() {
        let Some(variant) = problems_of(&record.key) else { continue };
        let failed = matches!(record.outcome, Outcome::Failed { .. });
        found.entry(variant).or_default()[usize::from(failed)] += 1;
    }
    found.into_iter().map(|(variant, [kernels, failed])| VariantReport { variant, kernels, failed }).collect()
}

#[derive(Serialize)]
struct Failed<'a> {
    kernel: &'a str,
    reason: FailureReason,
    message: &'a str,
}

impl Info {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut pack = Pack::open(&self.pack)?;
        pack.check()?;
        let built = |which: fn(&str, &Kernel) -> bool| {
            let records = pack.records().iter();
            records
                .filter(
                    |record| matches!(&record.outcome, Outcome::Built(kernel) if which(&record.key, kernel)),
                )
                .count()
        };
        let failed = pack.records().iter().filter_map(|record| match &record.outcome {
            Outcome::Built(_) => None,
            Outcome::Failed { reason, message } => {
                Some(Failed { kernel: &record.key, reason: *reason, message })
            }
        });
        let report = Report {
            digest: pack.digest().as_str(),
            arch: pack.arch(),
            toolchain: pack.toolchain(),
            kernels: built(|_, _| true),
            around: built(|key, _| problems_of(key).is_none()),
            spilling: built(|key, kernel| kernel.stack > 0 && problems_of(key).is_some()),
            variants: variants(&pack),
            failed: failed.collect(),
            each: self.each.then(|| each(&pack)),
        };
        if self.json {
            return output::json(&report);
        }
        let mut rows = vec![
            ("digest".to_owned(), report.digest.to_owned()),
            ("architecture".to_owned(), report.arch.to_owned()),
        ];
        rows.extend(report.toolchain.iter().map(|(name, value)| (name.clone(), value.clone())));
        rows.push((
            "kernels".to_owned(),
            format!(
                "{}, {} of them to prepare and check; {} spill registers",
                report.kernels, report.around, report.spilling
            ),
        ));
        rows.extend(report.variants.iter().map(|variant| {
            let VariantReport { variant, kernels, failed } = variant;
            let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
            (format!("  {}", count(*kernels, "kernel")), format!("{variant}{failed}"))
        }));
        rows.push(("failed".to_owned(), report.failed.len().to_string()));
        rows.extend(report.failed.iter().map(|failed| {
            (format!("  {}", failed.reason), format!("{}: {}", failed.kernel, failed.message))
        }));
        let text: String = rows.iter().map(|(name, value)| format!("{name:<15} {value}\n")).collect();
        output::text_out(&(text + &report.each.as_deref().map(table).unwrap_or_default()))
    }
}
