//! Models that are served: how much of each has been measured, and the files that serving programs read.
//!
//! A list counts the problems of every model of the catalogue. A description chooses a config for each layer and batch
//! size: the measured one, or else the one that the published model predicts. Both are kept as long as neither the
//! hardware's timings nor its published model change.

mod describing;
mod listing;
pub(crate) mod workload_routes;
mod workload_store;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use diode_api::{ModelSummary, WorkloadCount};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, HardwareSlug};
use diode_model::Model;
use diode_workloads::catalogue;
use diode_workloads::layers::{LayersError, Serving};
use diode_workloads::model_config::Quantization;
use diode_workloads::named::Named;
use diode_workloads::served::{Reader, ServedLayer};
use quick_cache::sync::Cache;

use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::{ApiFault, ApiResult};
use crate::workloads::describing::Described;
pub(crate) use crate::workloads::describing::timed_tiles;

/// Makes the list of problems at the start, so that the first request need not wait for it.
pub(crate) fn get_ready() {
    listing::Listing::usual();
}

/// How many models are kept in memory. Each takes a few megabytes.
const KEPT_MODELS: usize = 4;

/// How many descriptions are kept. Each takes some 100 kB.
const KEPT_DESCRIPTIONS: usize = 128;

/// What is kept between requests.
#[derive(Clone)]
pub(crate) struct Workloads(Arc<Kept>);

struct Kept {
    models: Cache<Digest, Arc<Model>>,
    described: Cache<String, Arc<Described>>,
    /// The counts of each hardware, with what they were made of.
    counts: Mutex<HashMap<HardwareSlug, (String, Counts)>>,
}

/// The counts of each way of serving, in the order of the list.
type Counts = Arc<Vec<WorkloadCount>>;

impl Default for Workloads {
    fn default() -> Self {
        Self(Arc::new(Kept {
            models: Cache::new(KEPT_MODELS),
            described: Cache::new(KEPT_DESCRIPTIONS),
            counts: Mutex::default(),
        }))
    }
}

impl Workloads {
    async fn model(&self, app: &App, summary: &ModelSummary) -> ApiResult<Arc<Model>> {
        let read = async {
            let bytes = app.backend.blobs.get(BlobKind::Model, &summary.digest).await?;
            let model = tokio::task::spawn_blocking(move || Model::from_bytes(&bytes)).await?;
            model.map(Arc::new).map_err(ApiFault::internal)
        };
        self.0.models.get_or_insert_async(&summary.digest, read).await
    }

    /// The counts that were made of this.
    fn counts(&self, slug: &HardwareSlug, made_of: &str) -> Option<Counts> {
        let kept = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(slug).filter(|(of, _)| of == made_of).map(|(_, counts)| Arc::clone(counts))
    }

    fn keep_counts(&self, slug: &HardwareSlug, made_of: String, counts: &Counts) {
        let mut kept = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(slug.clone(), (made_of, Arc::clone(counts)));
    }
}

/// A way of serving a model, as a request names it.
#[derive(Debug)]
struct Way {
    named: Named,
    serving: Serving,
    reader: Reader,
}

/// What a request says. What it leaves out is as usual.
#[derive(Debug, Default, Clone, Copy)]
struct AskedWay {
    tensor_parallel: Option<u64>,
    expert_parallel: Option<u64>,
    quantization: Option<Quantization>,
    reader: Option<Reader>,
}

impl Way {
    fn read(name: &str, asked: AskedWay) -> ApiResult<Self> {
        let named = Named::find(name).ok_or_else(|| unknown(name))?;
        let reader = asked.reader.unwrap_or(Reader::Vllm);
        let own = named.form_for(reader).map_err(|form| {
            format!(
                "quantization: {} ships in {form}, which Diode does not tune; expected one of {}",
                named.name,
                Quantization::ALL.iter().map(|form| form.as_str()).collect::<Vec<_>>().join(", ")
            )
        });
        let quantization = asked.quantization.map_or(own, Ok).map_err(ApiFault::invalid)?;
        let serving = Serving {
            tensor_parallel: asked.tensor_parallel.unwrap_or(1),
            expert_parallel: asked.expert_parallel.unwrap_or(1),
            quantization,
        };
        Ok(Self { named, serving, reader })
    }

    fn layers(&self, hardware: &Hardware) -> ApiResult<Vec<ServedLayer>> {
        let layers = self.named.architecture.served_layers(&self.serving, self.reader, hardware);
        layers.map_err(|error| self.refused(&error))
    }

    fn problems(&self, hardware: &Hardware) -> ApiResult<Vec<Problem>> {
        let problems = self.named.architecture.problems(&self.serving, self.reader, hardware);
        problems.map_err(|error| self.refused(&error))
    }

    /// Says what cannot be served so.
    fn refused(&self, error: &LayersError) -> ApiFault {
        let Serving { tensor_parallel: tp, expert_parallel: ep, quantization } = self.serving;
        ApiFault::invalid(format!("{} with tp={tp}, ep={ep} in {quantization}: {error}", self.named.name))
    }
}

fn unknown(name: &str) -> ApiFault {
    let near = catalogue::similar(name);
    let near = if near.is_empty() { String::new() } else { format!(" such as {},", near.join(", ")) };
    ApiFault::not_found(format!(
        "model: got `{name:.200}`, expected one of the catalogue,{near} as /api/v1/workloads lists them"
    ))
}
