//! A way of serving a model, as a request names it.

use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_workloads::catalogue::{self, Model, find, similar};
use diode_workloads::layers::{LayersError, Serving};
use diode_workloads::model_config::{Architecture, Quantization, Shipped};
use diode_workloads::served::{Reader, ServedLayer};

use crate::http::{ApiFault, ApiResult};

#[derive(Debug)]
pub(super) struct Way {
    pub(super) model: &'static Model,
    architecture: Architecture,
    pub(super) serving: Serving,
    pub(super) reader: Reader,
}

/// What a request says. What it leaves out is as usual.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct AskedWay {
    pub(super) tensor_parallel: Option<u64>,
    pub(super) expert_parallel: Option<u64>,
    pub(super) quantization: Option<Quantization>,
    pub(super) reader: Option<Reader>,
}

impl Way {
    pub(super) fn read(name: &str, asked: AskedWay) -> ApiResult<Self> {
        let model = find(name).ok_or_else(|| unknown(name))?;
        let architecture = model.architecture().map_err(ApiFault::internal)?;
        let reader = asked.reader.unwrap_or(Reader::Vllm);
        let own = if catalogue::names_fp8(name) { model.fp8() } else { model.ships.first().copied() };
        let own = own.map_or_else(|| architecture.shipped.clone(), Shipped::As);
        let quantization = match (asked.quantization, own) {
            (Some(asked), _) => asked,
            (None, _) if reader == Reader::Inductor => Quantization::Bf16,
            (None, Shipped::As(own)) => own,
            (None, Shipped::Otherwise(form)) => {
                return Err(ApiFault::invalid(format!(
                    "quantization: {} ships in {form}, whose kernels read no tuned configs; expected one of {}",
                    model.name,
                    Quantization::ALL.iter().map(|form| form.as_str()).collect::<Vec<_>>().join(", ")
                )));
            }
        };
        let serving = Serving {
            tensor_parallel: asked.tensor_parallel.unwrap_or(1),
            expert_parallel: asked.expert_parallel.unwrap_or(1),
            quantization,
        };
        Ok(Self { model, architecture, serving, reader })
    }

    pub(super) fn layers(&self, hardware: &Hardware) -> ApiResult<Vec<ServedLayer>> {
        let layers = self.architecture.served_layers(&self.serving, self.reader, hardware);
        layers.map_err(|error| self.refused(&error))
    }

    pub(super) fn problems(&self, hardware: &Hardware) -> ApiResult<Vec<Problem>> {
        let problems = self.architecture.problems(&self.serving, self.reader, hardware);
        problems.map_err(|error| self.refused(&error))
    }

    /// Says what cannot be served so.
    pub(super) fn refused(&self, error: &LayersError) -> ApiFault {
        let Serving { tensor_parallel: tp, expert_parallel: ep, quantization } = self.serving;
        ApiFault::invalid(format!("{} with tp={tp}, ep={ep} in {quantization}: {error}", self.model.name))
    }
}

fn unknown(name: &str) -> ApiFault {
    let near = similar(name);
    let near = if near.is_empty() { String::new() } else { format!(" such as {},", near.join(", ")) };
    ApiFault::not_found(format!(
        "model: got `{name:.200}`, expected one of the catalogue,{near} as /api/v1/workloads lists them"
    ))
}
