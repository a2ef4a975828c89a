//! Sends letters in the background.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::transport::{Transport, Written};
use super::{Failure, Letter};
use crate::metrics::Metrics;
use crate::settings::MailSettings;

/// Letters that wait at most, while the mail server is away: a few kilobytes each.
const WAITING_AT_ONCE: usize = 256;

/// Connections to the mail server at a time.
const SENDING_AT_ONCE: usize = 4;

/// How long a letter is tried.
#[derive(Debug, Clone, Copy)]
pub struct Tries {
    /// How long one try may take.
    pub timeout: Duration,
    /// How long to wait after each failure but the last. All of it ends long before the links in letters do.
    pub pauses: [Duration; 3],
}

impl Default for Tries {
    fn default() -> Self {
        let pauses = [10, 60, 300].map(Duration::from_secs);
        Self { timeout: Duration::from_secs(30), pauses }
    }
}

/// Where letters are handed in.
#[derive(Clone)]
pub struct Mailer {
    transport: Arc<Transport>,
    tries: Tries,
    waiting: Arc<Semaphore>,
    sending: Arc<Semaphore>,
    metrics: Metrics,
}

impl Mailer {
    /// Connects nowhere yet: a server starts also while its mail server is away. `host` is the server's name.
    pub fn new(settings: &MailSettings, host: &str, tries: Tries, metrics: &Metrics) -> anyhow::Result<Self> {
        Ok(Self {
            transport: Arc::new(Transport::new(settings, host)?),
            tries,
            waiting: Arc::new(Semaphore::new(WAITING_AT_ONCE)),
            sending: Arc::new(Semaphore::new(SENDING_AT_ONCE)),
            metrics: metrics.clone(),
        })
    }

    /// Sends a letter some time; `false` if too many wait already.
    pub fn post(&self, letter: &Letter) -> bool {
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            tracing::error!("a mail (`{}`) is not sent: {WAITING_AT_ONCE} wait already", letter.subject);
            self.metrics.mail("dropped");
            return false;
        };
        let (mailer, letter) = (self.clone(), letter.clone());
        tokio::spawn(async move { mailer.deliver(&letter, place).await });
        true
    }

    async fn deliver(&self, letter: &Letter, _place: OwnedSemaphorePermit) {
        // Once, so that a mail server that has taken it already can know it again.
        let outcome = match self.transport.write(letter) {
            Ok(written) => self.send(letter, &written).await,
            Err(cause) => Err(cause),
        };
        match outcome {
            Ok(()) => self.metrics.mail("sent"),
            Err(cause) => {
                tracing::error!("a mail (`{}`) was not sent and is given up: {cause:#}", letter.subject);
                self.metrics.mail("failed");
            }
        }
    }

    async fn send(&self, letter: &Letter, written: &Written) -> anyhow::Result<()> {
        let mut pauses = self.tries.pauses.into_iter();
        loop {
            let Failure { cause, is_final } = match self.try_once(written).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            let Some(pause) = pauses.next().filter(|_| !is_final) else { return Err(cause) };
            let seconds = pause.as_secs();
            tracing::warn!("a mail (`{}`) was not sent, next try in {seconds} s: {cause:#}", letter.subject);
            sleep(pause).await;
        }
    }

    async fn try_once(&self, written: &Written) -> Result<(), Failure> {
        // The semaphore is never closed.
        let _turn = self.sending.acquire().await;
        timeout(self.tries.timeout, self.transport.send(written)).await.unwrap_or_else(|_| {
            let cause = anyhow::anyhow!("no end within {} s", self.tries.timeout.as_secs());
            Err(Failure { cause, is_final: false })
        })
    }
}
