use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::bail;

use super::outbox::Outbox;
use super::service::{Identity, Service, Trouble};
use crate::output::log;

/// Sends results in the background, so that the device goes on to the next problem.
pub(super) struct Sending<'scope> {
    added: Sender<()>,
    thread: ScopedJoinHandle<'scope, anyhow::Result<()>>,
}

impl<'scope> Sending<'scope> {
    pub(super) fn start<'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        (service, agent): (&'env Service, &'env Identity),
        outbox: &Arc<Outbox>,
        device: &str,
    ) -> Self {
        let (added, news) = channel();
        let (outbox, device) = (Arc::clone(outbox), device.to_owned());
        let thread = scope.spawn(move || {
            log::on_device(&device);
            send_all(&news, (service, agent), &outbox)
        });
        Self { added, thread }
    }

    /// There is something new in the outbox.
    pub(super) fn added(&self) {
        // Where nobody listens, sending has failed: `finish` tells why.
        let _ = self.added.send(());
    }

    /// Sending more does not help.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until what was added is sent, or stays in the outbox because the server is away.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        drop(self.added);
        match self.thread.join() {
            Ok(sent) => sent,
            Err(_) => bail!("the thread that sends results ended unexpectedly"),
        }
    }
}

fn send_all(
    news: &Receiver<()>,
    (service, agent): (&Service, &Identity),
    outbox: &Outbox,
) -> anyhow::Result<()> {
    while news.recv().is_ok() {
        // One attempt is enough for all that was added meanwhile.
        while news.try_recv().is_ok() {}
        match outbox.send(service, agent)? {
            // If the server is away, the result waits for the next one.
            Ok(()) | Err(Trouble::Away(..) | Trouble::Unknown | Trouble::Ended) => {}
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Ok(())
}
