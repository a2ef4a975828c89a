//! Models that are served: how much of each has been measured, and the files that serving programs read.
//!
//! A list counts the problems of every model of the catalogue. A description chooses a config for each layer and batch
//! size: the measured one, or else the one that the published model predicts. Both are kept as long as neither the
//! hardware's timings nor its published model change.

mod describing;
mod listing;
mod way;
pub(crate) mod workload_routes;
mod workload_store;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use diode_api::{ModelSummary, WorkloadCount};
use diode_core::ids::{Digest, HardwareSlug};
use diode_model::Model;
use quick_cache::sync::Cache;

use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::{ApiFault, ApiResult};
use crate::workloads::describing::Described;

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
