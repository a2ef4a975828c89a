//! The state that every handler shares.

use std::sync::Arc;
use std::time::Duration;

use diode_workloads::published::Published;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::accounts::{Passwords, Policy, Provider};
use crate::agents::Plans;
use crate::backend::Backend;
use crate::boards::consensus::ConfigCaches;
use crate::boards::export_cache::Exports;
use crate::boards::pick_routes::KeptPicks;
use crate::http::Hosts;
use crate::limits::Refused;
use crate::metrics::Metrics;
use crate::page_cache::PageCache;
use crate::readiness::Readiness;
use crate::turns::{Turn, Turns};
use crate::workloads::Workloads;

/// How many uploads may arrive at a time. An upload that arrives takes a connection and a file, but no
/// memory.
pub(crate) const RECEIVING_AT_ONCE: usize = 64;

/// How long a client waits until its upload may arrive.
const WAIT_TO_RECEIVE: Duration = Duration::from_secs(15);

/// How many requests may rank problems at a time. Each keeps a core busy for some tenths of a second.
const PICKING_AT_ONCE: usize = 2;

/// How long a request waits until it may rank.
const WAIT_TO_PICK: Duration = Duration::from_secs(15);

/// How many event streams may be read at a time. Each keeps a connection as long as its job waits or runs.
pub(crate) const FOLLOWING_AT_ONCE: usize = 64;

#[derive(Clone)]
pub struct App {
    pub(crate) backend: Backend,
    pub(crate) hosts: Hosts,
    pub(crate) exports: Exports,
    pub(crate) pages: PageCache,
    pub(crate) config_caches: ConfigCaches,
    pub(crate) workloads: Workloads,
    pub(crate) first_picks: KeptPicks,
    pub(crate) refused: Refused,
    pub(crate) metrics: Metrics,
    receiving: Turns,
    picking: Arc<Semaphore>,
    following: Turns,
    pub(crate) passwords: Passwords,
    pub(crate) plans: Plans,
    pub(crate) readiness: Readiness,
    policy: Arc<Policy>,
    pub(crate) provider: Option<Arc<Provider>>,
    /// Releases of vLLM and SGLang whose files are compared.
    pub(crate) published: Arc<[Arc<Published>]>,
    stopping: watch::Receiver<bool>,
}

impl App {
    /// `stopping` turns true when long responses are to end.
    pub fn new(backend: Backend, policy: Policy, stopping: watch::Receiver<bool>) -> Self {
        // On a public server, one address gets a quarter of the turns at most. Elsewhere all clients may have
        // the same address.
        let is_public = policy.is_strict();
        let share_of = |all: usize| if is_public { all / 4 } else { all };
        Self {
            metrics: backend.metrics.clone(),
            backend,
            hosts: Hosts::default(),
            passwords: Passwords::default(),
            plans: Plans::default(),
            readiness: Readiness::default(),
            policy: Arc::new(policy),
            provider: None,
            published: Arc::default(),
            exports: Exports::default(),
            pages: PageCache::default(),
            config_caches: ConfigCaches::default(),
            workloads: Workloads::default(),
            first_picks: KeptPicks::default(),
            refused: Refused::default(),
            receiving: Turns::new(RECEIVING_AT_ONCE, share_of(RECEIVING_AT_ONCE)),
            picking: Arc::new(Semaphore::new(PICKING_AT_ONCE)),
            following: Turns::new(FOLLOWING_AT_ONCE, share_of(FOLLOWING_AT_ONCE)),
            stopping,
        }
    }

    /// The names under which browsers reach the server, in addition to the names of this machine.
    pub fn answering_to(self, hosts: Vec<String>) -> Self {
        Self { hosts: hosts.into(), ..self }
    }

    /// The provider by which people may sign in, in addition to passwords.
    pub fn with_provider(self, provider: Option<Provider>) -> Self {
        Self { provider: provider.map(Arc::new), ..self }
    }

    /// The releases of vLLM and SGLang whose files are compared.
    pub fn comparing(self, published: Vec<Published>) -> Self {
        Self { published: published.into_iter().map(Arc::new).collect(), ..self }
    }

    /// How long a check of whether the server can work stays valid.
    pub fn ready_for(self, lasts: Duration) -> Self {
        Self { readiness: Readiness::lasting(lasts), ..self }
    }

    /// Waits until another upload may arrive. The upload counts while its permit is held. `None` if that
    /// takes too long.
    pub(crate) async fn receiving(&self, client: &str) -> Option<Turn> {
        self.receiving.turn(client, WAIT_TO_RECEIVE).await
    }

    /// What this server requires of requests.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Waits until another request may rank problems. `None` if that takes too long.
    pub(crate) async fn picking(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.picking).acquire_owned();
        tokio::time::timeout(WAIT_TO_PICK, permit).await.ok()?.ok()
    }

    /// The right to read an event stream. The stream counts while the right is held. `None` if too many are
    /// being read.
    pub(crate) async fn following(&self, client: &str) -> Option<Turn> {
        self.following.turn(client, Duration::ZERO).await
    }

    /// Waits at most `wait`. Returns `true` at once when the server must stop.
    pub(crate) async fn stopping_within(&self, wait: Duration) -> bool {
        let mut stopping = self.stopping.clone();
        // A dropped sender also means that the server stops.
        tokio::time::timeout(wait, stopping.wait_for(|stop| *stop)).await.is_ok()
    }
}
