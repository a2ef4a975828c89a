use clap::Args;
use diode_api::Wanted;
use diode_core::Scaling;
use diode_core::hardware::find;
use diode_core::ids::HardwareSlug;

use crate::failure::Usage;
use crate::input;
use crate::input::models::this_gpu;
use crate::input::problems::AskedArgs;
use crate::output::count;
use crate::server::ServerArgs;

/// Ask a server's agents to measure problems
///
/// They come before what the plan has more of. What is measured already stays as it is.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode want 16x4096x4096 --hardware nvidia-h100 --server https://diode.example.org"
)]
pub(crate) struct Want {
    #[command(flatten)]
    asked: AskedArgs,

    /// Hardware to measure on, such as nvidia-h100 [default: this node's GPU]
    #[arg(long, value_name = "NAME")]
    hardware: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

impl Want {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let problems = self.asked.problems()?;
        input::check_computable(&problems)?;
        let known = match &self.hardware {
            Some(name) => find(name).ok_or(name),
            None => Ok(this_gpu()?),
        };
        if let Ok(hardware) = &known
            && let Some(problem) = problems.iter().find(|problem| {
                problem.scaling != Scaling::None
                    && hardware.facts.is_some()
                    && !hardware.scales(problem.a_dtype)
            })
        {
            let (op, dims, dtype) = (problem.op, problem.dims(), problem.a_dtype);
            return Err(
                Usage::new(format!("{op} {dims}: {} does not multiply {dtype}", hardware.name)).into()
            );
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
}
