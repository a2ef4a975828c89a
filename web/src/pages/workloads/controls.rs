//! How a model is served: its GPUs, its weights, and what reads the files. All of it is in the page's address.

use diode_api::ModelSummary;
use diode_core::hardware::find;
use diode_core::ids::HardwareSlug;
use diode_worker::workloads::Way;
use leptos::prelude::*;

use crate::components::{Chips, Choice, Select, named};
use crate::format;
use crate::pages::workloads::{published, usual};
use crate::query::{History, parameter, parameter_or, use_set_parameters};

/// The choices of the reader.
#[derive(Clone, Copy)]
pub(super) struct Controls {
    pub(super) hardware: Memo<String>,
    pub(super) tensor_parallel: Memo<String>,
    pub(super) expert_parallel: Memo<String>,
    pub(super) quantization: Memo<String>,
    pub(super) reader: Memo<String>,
    pub(super) tokens: Memo<String>,
}

impl Controls {
    pub(super) fn of_address(models: &[ModelSummary]) -> Self {
        let best = usual(models).map(|model| model.hardware.to_string()).unwrap_or_default();
        let one = || "1".to_owned();
        Self {
            hardware: parameter_or("gpu", best),
            tensor_parallel: parameter_or("tp", one()),
            expert_parallel: parameter_or("ep", one()),
            quantization: parameter("quantization"),
            reader: parameter_or("for", "vllm".to_owned()),
            tokens: parameter_or("tokens", "64".to_owned()),
        }
    }

    /// How the model is served, or which part of the address is wrong. Tracked.
    pub(super) fn way(self, model: String) -> Result<Way, String> {
        let number = |key: &str, given: Memo<String>| {
            let given = given.get();
            let number = given.parse::<u64>().ok().filter(|number| (1..=1024).contains(number));
            number.ok_or_else(|| format!("{key}: got `{given:.40}`, expected a number of GPUs"))
        };
        let quantization = self.quantization.get();
        let quantization = match quantization.as_str() {
            "" => None,
            name => Some(name.parse().map_err(|error| format!("{error}"))?),
        };
        Ok(Way {
            model,
            tensor_parallel: number("tp", self.tensor_parallel)?,
            expert_parallel: number("ep", self.expert_parallel)?,
            quantization,
            reader: self.reader.with(|name| name.parse()).map_err(|error| format!("{error}"))?,
        })
    }
}

/// The name of a hardware in the catalogue, or else its slug.
fn name_of(slug: &HardwareSlug) -> String {
    find(slug.as_str()).map_or_else(|| slug.to_string(), |known| format::gpu(&known.name).to_owned())
}

/// The form of the choices. `own` is the form of the weights if the reader chooses none.
#[component]
pub(super) fn ControlsForm(
    controls: Controls,
    models: std::sync::Arc<Vec<ModelSummary>>,
    #[prop(into)] own: Signal<String>,
    #[prop(into)] has_experts: Signal<bool>,
) -> impl IntoView {
    let set = use_set_parameters();
    let choose = move |key: &'static str| {
        let set = set.clone();
        Callback::new(move |value: String| set(&[(key, value)], History::Push))
    };
    let hardware: Vec<Choice> =
        published(&models).map(|model| (model.hardware.to_string(), name_of(&model.hardware))).collect();
    let counts = || named(&[("1", "1"), ("2", "2"), ("4", "4"), ("8", "8"), ("16", "16")]);
    let weights = named(&[
        ("bf16", "bf16"),
        ("fp8-block", "fp8, 128×128 blocks"),
        ("fp8-channel", "fp8 by channel"),
        ("fp8-tensor", "fp8 by tensor"),
    ]);
    let readers = named(&[("vllm", "vLLM"), ("sglang", "SGLang"), ("inductor", "torch.compile")]);
    let form = Signal::derive(move || {
        let asked = controls.quantization.get();
        if asked.is_empty() { own.get() } else { asked }
    });
    let (spread, choose_spread) = (controls.expert_parallel, choose("ep"));
    view! {
        <form class="ways" aria-label="How it is served" on:submit=|event| event.prevent_default()>
            <Chips label="Files for" choices=readers current=controls.reader choose=choose("for") />
            <Select label="GPU" choices=hardware current=controls.hardware choose=choose("gpu") />
            <Chips label="GPUs, tensor parallel" choices=counts() current=controls.tensor_parallel choose=choose("tp") />
            {move || has_experts.get().then(|| view! {
                <Chips label="GPUs, expert parallel" choices=counts() current=spread choose=choose_spread />
            })}
            <Chips label="Weights" choices=weights current=form choose=choose("quantization") />
        </form>
    }
}
