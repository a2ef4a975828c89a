//! Stores mails in the database, and sends the mails that wait there.

use std::sync::Arc;
use std::time::Duration;

use diode_core::ids::AccountId;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::transport::Transport;
use super::{EmailAddress, Failure, Letter};
use crate::accounts::{Policy, email_link, mailed_password_link};
use crate::backend::Backend;
use crate::metrics::Metrics;
use crate::settings::MailSettings;
use crate::store::{ClaimedMail, MailKind, Now, Store, StoreResult};

/// How many connections to the mail server are open at a time.
const SENDING_AT_ONCE: usize = 4;

/// How long a server that stops waits for mails that are being sent. Other servers send the mails that are left,
/// once the claims end.
const LAST_TRIES: Duration = Duration::from_secs(5);

/// How often sending a mail is tried. [`MailKind::tried_for`] says when a mail is given up.
#[derive(Debug, Clone, Copy)]
pub struct Tries {
    /// How long one try may take.
    pub timeout: Duration,
    /// The pause after the first failure. It doubles after each further failure.
    pub pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// How often to look for mails that are due or that other servers have left.
    pub look_every: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        let [timeout, pause, longest_pause, look_every] = [30, 10, 1800, 5].map(Duration::from_secs);
        Self { timeout, pause, longest_pause, look_every }
    }
}

impl Tries {
    /// The pause after a failed attempt. `attempt` counts from 1.
    fn pause_after(&self, attempt: u64) -> Duration {
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        self.pause.saturating_mul(2_u32.saturating_pow(doublings)).min(self.longest_pause)
    }
}

/// Accepts mails to be sent later.
#[derive(Clone)]
pub struct Mailer {
    transport: Arc<Transport>,
    store: Arc<Store>,
    policy: Arc<Policy>,
    tries: Tries,
    posted: Arc<Notify>,
    metrics: Metrics,
}

impl Mailer {
    /// Opens no connection, so that a server starts even while its mail server is away.
    pub fn new(
        settings: &MailSettings,
        policy: &Policy,
        tries: Tries,
        backend: &Backend,
    ) -> anyhow::Result<Self> {
        let host = policy.host().unwrap_or_else(|| "localhost".to_owned());
        Ok(Self {
            transport: Arc::new(Transport::new(settings, &host)?),
            store: backend.store.clone(),
            policy: Arc::new(policy.clone()),
            tries,
            posted: Arc::default(),
            metrics: backend.metrics.clone(),
        })
    }

    /// Stores a mail to be sent soon; `false` if too many wait already.
    pub async fn post(&self, kind: MailKind, account: &AccountId, to: &EmailAddress) -> StoreResult<bool> {
        let waits = self.store.add_mail(kind, account, to, Now::read()).await?;
        if waits {
            self.look();
        } else {
            tracing::error!("a mail to account {account} is not sent: too many wait already");
            self.metrics.mail("dropped");
        }
        Ok(waits)
    }

    /// Looks for waiting mails at once.
    pub fn look(&self) {
        self.posted.notify_one();
    }

    /// Sends waiting mails until `stopping` turns true or its sender is gone. Several servers may do this at once.
    pub async fn run(self, mut stopping: watch::Receiver<bool>) {
        let mut sending = JoinSet::new();
        loop {
            self.begin(&mut sending).await;
            let has_room = sending.len() < SENDING_AT_ONCE;
            tokio::select! {
                Some(_) = sending.join_next() => {}
                () = self.posted.notified(), if has_room => {}
                () = sleep(self.tries.look_every), if has_room => {}
                _ = stopping.wait_for(|stop| *stop) => break,
            }
        }
        // Mails that are still on their way afterwards are cut off.
        let _ = timeout(LAST_TRIES, async { while sending.join_next().await.is_some() {} }).await;
    }

    /// Begins to send the mails that are due.
    async fn begin(&self, sending: &mut JoinSet<()>) {
        while sending.len() < SENDING_AT_ONCE {
            match self.store.claim_mail(Now::read()).await {
                Ok(Some(mail)) => {
                    let mailer = self.clone();
                    sending.spawn(async move { mailer.deliver(&mail).await });
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::error!("it could not be seen whether mails wait: {error}");
                    return;
                }
            }
        }
    }

    async fn deliver(&self, mail: &ClaimedMail) {
        let ended = match self.send(mail).await {
            Ok(()) => {
                self.metrics.mail("sent");
                self.store.remove_mail(mail).await
            }
            Err(failure) => self.postpone_or_give_up(mail, &failure).await,
        };
        if let Err(error) = ended {
            tracing::error!(
                "what became of mail {} could not be stored, it is tried again: {error}",
                id(mail)
            );
        }
    }

    async fn postpone_or_give_up(&self, mail: &ClaimedMail, failure: &Failure) -> StoreResult<bool> {
        let (number, cause) = (id(mail), &failure.cause);
        let pause = self.tries.pause_after(mail.attempt);
        let next = Now::read().lease_end(pause);
        if failure.is_final || next >= mail.expires {
            tracing::error!("mail {number} to {} was not sent and is given up: {cause:#}", mail.name);
            self.metrics.mail("failed");
            return self.store.remove_mail(mail).await;
        }
        tracing::warn!(
            "mail {number} to {} was not sent, next try in {} s: {cause:#}",
            mail.name,
            pause.as_secs()
        );
        self.store.postpone_mail(mail, next).await
    }

    async fn send(&self, mail: &ClaimedMail) -> Result<(), Failure> {
        let later = |cause| Failure { cause, is_final: false };
        if Now::read().millis() >= mail.expires {
            return Err(Failure { cause: anyhow::anyhow!("it has waited too long"), is_final: true });
        }
        let letter = self.letter(mail).await.map_err(later)?;
        // Each try uses the same id, so that a mail server that already has the mail can recognise it.
        let written = self.transport.write(&letter, &id(mail));
        let written = written.map_err(|cause| Failure { cause, is_final: true })?;
        let seconds = self.tries.timeout.as_secs();
        let sent = timeout(self.tries.timeout, self.transport.send(&written)).await;
        sent.unwrap_or_else(|_| Err(later(anyhow::anyhow!("no end within {seconds} s"))))
    }

    /// Each try has a new link, because the database keeps no secret that could be sent again. An earlier link goes
    /// on working, since its mail may have arrived after all.
    async fn letter(&self, mail: &ClaimedMail) -> anyhow::Result<Letter> {
        let ClaimedMail { kind, account, name, to, .. } = mail.clone();
        let (store, policy, url) = (self.store.as_ref(), &self.policy, &self.policy.public_url);
        Ok(match kind {
            MailKind::NewPassword => {
                let link = mailed_password_link(store, policy, account, to.clone()).await?;
                Letter::new_password(to, &name, url, &link)
            }
            MailKind::Confirmation => {
                let link = email_link(store, policy, account, to.clone()).await?;
                Letter::confirmation(to, &name, url, &link)
            }
            MailKind::AddressTakenOff => Letter::address_taken_off(to, &name, url),
        })
    }
}

/// An id that no other mail of this server has, even after its database was replaced.
fn id(mail: &ClaimedMail) -> String {
    format!("{}.{}", mail.asked_at, mail.position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses =
            [1, 2, 3, 8, 9, 1000, u64::MAX].map(|attempt| Tries::default().pause_after(attempt).as_secs());
        assert_eq!(pauses, [10, 20, 40, 1280, 1800, 1800, 1800]);
    }
}
