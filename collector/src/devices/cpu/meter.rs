//! Measuring on the CPU, behind the [`Meter`] interface.

use std::process::Command;

use anyhow::Context as _;
use diode_core::{Config, FailureReason, Method, Problem};

use super::matmul;
use super::procedure::measure;
use super::process::CpuProcess;
use crate::devices::measured::MeasuredConfigs;
use crate::devices::meter::{Meter, Outcome, Quality};
use crate::node;

pub(crate) struct CpuMeter {
    process: CpuProcess,
    seed: u64,
}

impl CpuMeter {
    pub(crate) fn new(seed: u64) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the diode program itself")?;
        let process = CpuProcess::new(move || {
            let mut command = Command::new(&program);
            command.arg("measure-worker");
            Ok(command)
        });
        Ok(Self { process, seed })
    }
}

impl Meter for CpuMeter {
    fn method(&self) -> Method {
        Method::MEDIAN_WARM_WALL
    }

    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome> {
        if let Err(reason) = matmul::supports(problem) {
            return Ok(Outcome::Refused(reason));
        }
        let measured = if fits_in_memory(problem) {
            measure(&mut self.process, problem, configs, self.seed, abandon)?
        } else {
            Some(MeasuredConfigs::all_failed(configs, FailureReason::OutOfMemory))
        };
        Ok(measured.map_or(Outcome::Abandoned, |measured| Outcome::Measured {
            measured,
            quality: Quality::default(),
        }))
    }
}

/// Whether inputs and output fit in the free memory, with a fifth of it left to the system. True if
/// the system does not say how much is free.
fn fits_in_memory(problem: &Problem) -> bool {
    node::available_memory().is_none_or(|bytes| matmul::bytes_needed(problem) <= bytes as f64 * 0.8)
}
