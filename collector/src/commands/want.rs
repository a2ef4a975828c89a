use clap::Args;
use diode_api::{Ability, AskedWorkload, Wanted, WantedWorkload};
use diode_core::Problem;
use diode_core::hardware::{Hardware, find};
use diode_core::ids::HardwareSlug;
use diode_workloads::named::Named;
use diode_workloads::served::Reader;

use crate::failure::Usage;
use crate::input::models::this_gpu;
use crate::input::problems::{ProblemArgs, distinct};
use crate::input::{self, served};
use crate::output::count;
use crate::server::ServerArgs;

/// Ask a server's agents to measure problems
///
/// They come before what the plan has more of, those first that most people ask for. What is measured already stays as it
/// is. A model's name, or its config.json, asks for all its multiplications, as vLLM runs them.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode want 16x4096x4096 --hardware nvidia-h100 --server https://diode.example.org\n  \
                  diode want Qwen3-235B-A22B --tp 4 --quantization fp8-block --hardware nvidia-h100"
)]
pub(crate) struct Want {
    /// Hardware to measure on, such as nvidia-h100 [default: this node's GPU]
    #[arg(long, value_name = "NAME")]
    hardware: Option<String>,

    #[command(flatten)]
    asked: ProblemArgs,

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
            let named = served::named(model)?;
            if served::config_path(model).is_some() {
                let hardware = known.map_err(|name| {
                    Usage::new(format!(
                        "--hardware: got `{name:.100}`, expected a GPU of the catalogue such as nvidia-h200, since a config.json's problems depend on it"
                    ))
                })?;
                return self.config(&named, &hardware);
            }
            let slug = match known {
                Ok(hardware) => hardware.slug,
                Err(name) => name.parse::<HardwareSlug>().map_err(Usage::new)?,
            };
            return self.model(model, &named, &slug);
        }
        let (problems, _) = distinct(self.asked.problems(known.as_ref().ok(), Reader::Vllm)?);
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
        self.ask_for(&problems, &slug)?;
        say!(
            "{} asked for on {slug}; while the plan lasts, a quarter of each agent's time is for what is asked for",
            count(problems.len(), "problem")
        );
        Ok(())
    }

    fn ask_for(&self, problems: &[Problem], slug: &HardwareSlug) -> anyhow::Result<()> {
        let client = self.server.client()?;
        for some in problems.chunks(Wanted::MAX) {
            let wanted = Wanted { problems: some.to_vec() };
            client.post_wish(&format!("/hardware/{slug}/wanted"), &wanted)?;
        }
        Ok(())
    }

    /// Asks for the problems of a config.json, which the server doesn't know.
    fn config(&self, named: &Named, hardware: &Hardware) -> anyhow::Result<()> {
        let mut problems =
            self.asked.served.problems(named, Reader::Vllm, Some(hardware)).map_err(Usage::new)?;
        let all = problems.len();
        problems.retain(|problem| Ability::obstacle(hardware, problem).is_none());
        Usage::refuse_if(
            problems.is_empty(),
            format_args!("{}: no kernel computes its {all} problems on {}", named.name, hardware.name),
        )?;
        self.ask_for(&problems, &hardware.slug)?;
        say!("{} of {all} problems of {} asked for on {}", problems.len(), named.name, hardware.slug);
        say_unable(all - problems.len());
        Ok(())
    }

    /// Asks for the problems of a model that the server knows.
    fn model(&self, name: &str, named: &Named, slug: &HardwareSlug) -> anyhow::Result<()> {
        let asked = &self.asked.served;
        let wanted = WantedWorkload {
            tensor_parallel: asked.tp,
            expert_parallel: asked.ep,
            quantization: asked.form(named)?.map(|form| form.to_string()),
            consumer: None,
        };
        // A slash is part of a checkpoint's name.
        let path = format!("/workloads/{}/{slug}/wanted", name.trim().replace('/', "%2F"));
        let AskedWorkload { problems, measured, asked, unable } =
            self.server.client()?.post(&path, &wanted)?;
        say!("{asked} of {problems} problems of {name} asked for on {slug}, {measured} are measured already");
        say_unable(unable as usize);
        Ok(())
    }
}

fn say_unable(unable: usize) {
    if unable > 0 {
        say!("{unable} are not asked for: no kernel computes them, or the GPU does not multiply their type");
    }
}
