//! The state that every handler shares.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::accounts::{Passwords, Policy, Provider};
use crate::agents::Plans;
use crate::backend::Backend;
use crate::consensus::ConfigCaches;
use crate::exports::Exports;
use crate::http::Hosts;
use crate::limits::{Refused, Turn, Turns};
use crate::mail::Mailer;
use crate::metrics::Metrics;
use crate::page_cache::PageCache;
use crate::readiness::Readiness;

/// Uploads that may arrive at a time. While one arrives it takes a connection and a file, no memory.
const RECEIVING_AT_ONCE: usize = 64;

/// How long a client waits for its upload to be among them.
const WAIT_TO_RECEIVE: Duration = Duration::from_secs(15);

/// Requests whose problems are ranked at a time: each keeps a core busy for some tenths of a second.
const PICKING_AT_ONCE: usize = 2;

/// How long a request waits to be among them.
const WAIT_TO_PICK: Duration = Duration::from_secs(15);

/// Event streams that are read at a time. Each keeps a connection as long as its job waits or runs.
const FOLLOWING_AT_ONCE: usize = 64;

#[derive(Clone)]
pub struct App {
    pub(crate) backend: Backend,
    pub(crate) hosts: Hosts,
    pub(crate) exports: Exports,
    pub(crate) pages: PageCache,
    pub(crate) config_caches: ConfigCaches,
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
    pub(crate) mailer: Option<Mailer>,
    stopping: watch::Receiver<bool>,
}

impl App {
    /// `stopping` turns true when long responses are to end.
    pub fn new(backend: Backend, policy: Policy, stopping: watch::Receiver<bool>) -> Self {
        // Where everybody has the one address, nobody is told apart.
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
            mailer: None,
            exports: Exports::default(),
            pages: PageCache::default(),
            config_caches: ConfigCaches::default(),
            refused: Refused::default(),
            receiving: Turns::new(RECEIVING_AT_ONCE, share_of(RECEIVING_AT_ONCE)),
            picking: Arc::new(Semaphore::new(PICKING_AT_ONCE)),
            following: Turns::new(FOLLOWING_AT_ONCE, share_of(FOLLOWING_AT_ONCE)),
            stopping,
        }
    }

    /// Names under which browsers reach the server, besides those of this machine itself.
    pub fn answering_to(self, hosts: Vec<String>) -> Self {
        Self { hosts: hosts.into(), ..self }
    }

    /// By whom people may sign in, beside their passwords.
    pub fn with_provider(self, provider: Option<Provider>) -> Self {
        Self { provider: provider.map(Arc::new), ..self }
    }

    /// By what mails are sent, if they are.
    pub fn with_mailer(self, mailer: Option<Mailer>) -> Self {
        Self { mailer, ..self }
    }

    /// How long it holds whether the server can do its work, once that was found out.
    pub fn ready_for(self, lasts: Duration) -> Self {
        Self { readiness: Readiness::lasting(lasts), ..self }
    }

    /// Waits until another upload may arrive. It counts as long as the permit is held. `None` if that
    /// takes too long.
    pub(crate) async fn receiving(&self, client: &str) -> Option<Turn> {
        self.receiving.turn(client, WAIT_TO_RECEIVE).await
    }

    /// What this server requires of requests.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Waits until another request's problems may be ranked. `None` if that takes too long.
    pub(crate) async fn picking(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.picking).acquire_owned();
        tokio::time::timeout(WAIT_TO_PICK, permit).await.ok()?.ok()
    }

    /// The right to read an event stream, which counts as long as it is held. `None` if too many are read.
    pub(crate) async fn following(&self, client: &str) -> Option<Turn> {
        self.following.turn(client, Duration::ZERO).await
    }

    /// Waits; `true` as soon as the server is to stop.
    pub(crate) async fn stopping_within(&self, wait: Duration) -> bool {
        let mut stopping = self.stopping.clone();
        // A dropped sender also means that the server stops.
        tokio::time::timeout(wait, stopping.wait_for(|stop| *stop)).await.is_ok()
    }
}
