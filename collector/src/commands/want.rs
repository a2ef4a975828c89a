use clap::Args;
use diode_api::{Ability, AskedWorkload, Wanted, WantedWorkload};
use diode_core::hardware::find;
use diode_core::ids::HardwareSlug;
use diode_workloads::catalogue;
use diode_workloads::model_config::Quantization;

use crate::failure::Usage;
use crate::input;
use crate::input::arguments::size;
use crate::input::models::this_gpu;
use crate::input::problems::AskedArgs;
use crate::output::count;
use crate::server::ServerArgs;

/// Ask a server's agents to measure problems
///
/// They come before what the plan has more of, those first that most people ask for. What is measured already stays as it
/// is. A model's name asks for all its multiplications, as vLLM runs them.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode want 16x4096x4096 --hardware nvidia-h100 --server https://diode.example.org\n  \
                  diode want Qwen3-235B-A22B --tp 4 --quantization fp8-block --hardware nvidia-h100"
)]
pub(crate) struct Want {
    #[command(flatten)]
    asked: AskedArgs,

    /// With a model: GPUs among which every layer is split (tensor parallelism) [default: 1]
    #[arg(long, value_name = "N", value_parser = size)]
    tp: Option<u64>,

    /// With a model: GPUs among which experts are spread (expert parallelism) [default: 1]
    #[arg(long, value_name = "N", value_parser = size)]
    ep: Option<u64>,

    /// With a model: form of the weights, bf16, fp8-block, fp8-channel, fp8-tensor, or fp8 for the model's own fp8 [default:
    /// the model's own]
    #[arg(long, value_name = "FORM")]
    quantization: Option<String>,

    /// Hardware to measure on, such as nvidia-h100 [default: this node's GPU]
    #[arg(long, value_name = "NAME")]
    hardware: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

impl Want {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let known = match &self.hardware {
            Some(name) => find(name).ok_or(name),
            None => Ok(this_gpu()?),
        };
        if let Some(model) = self.asked.model() {
            let slug = match known {
                Ok(hardware) => hardware.slug,
                Err(name) => name.parse::<HardwareSlug>().map_err(Usage::new)?,
            };
            return self.model(model, &slug);
        }
        Usage::refuse_if(
            self.tp.is_some() || self.ep.is_some() || self.quantization.is_some(),
            "--tp, --ep and --quantization: got sizes with them, expected a model such as Qwen3-235B-A22B",
        )?;
        let problems = self.asked.problems()?;
        input::check_computable(&problems)?;
        if let Ok(hardware) = &known
            && let Some(why) = problems.iter().find_map(|problem| Ability::obstacle(hardware, problem))
        {
            return Err(Usage::new(why).into());
        }
        let slug = match known {
            Ok(hardware) => hardware.slug,
            Err(name) => name.parse::<HardwareSlug>().map_err(Usage::new)?,
        };
        let client = self.server.client()?;
        for some in problems.chunks(Wanted::MAX) {
            let wanted = Wanted { problems: some.to_vec() };
            client.post_wish(&format!("/hardware/{slug}/wanted"), &wanted)?;
        }
        say!(
            "{} asked for on {slug}; while the plan lasts, a quarter of each agent's time is for what is asked for",
            count(problems.len(), "problem")
        );
        Ok(())
    }

    /// Asks for the problems of a model.
    fn model(&self, name: &str, slug: &HardwareSlug) -> anyhow::Result<()> {
        let quantization = match self.quantization.as_deref() {
            Some("fp8") => {
                let own = catalogue::find(name).and_then(catalogue::Model::fp8);
                Some(own.unwrap_or(Quantization::Fp8Tensor))
            }
            Some(form) => Some(form.parse().map_err(Usage::new)?),
            None => None,
        };
        let wanted = WantedWorkload {
            tensor_parallel: self.tp,
            expert_parallel: self.ep,
            quantization: quantization.map(|form| form.to_string()),
            consumer: None,
        };
        // A slash is part of a checkpoint's name.
        let path = format!("/workloads/{}/{slug}/wanted", name.trim().replace('/', "%2F"));
        let AskedWorkload { problems, measured, asked, unable } =
            self.server.client()?.post(&path, &wanted)?;
        say!("{asked} of {problems} problems of {name} asked for on {slug}, {measured} are measured already");
        if unable > 0 {
            say!(
                "{unable} are not asked for: no kernel computes them, or the GPU does not multiply their type"
            );
        }
        Ok(())
    }
}
