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

    /// Notes that the outbox has a new result.
    pub(super) fn added(&self) {
        // If the thread has failed, it receives nothing any more, and `finish` tells why.
        let _ = self.added.send(());
    }

    /// Whether the thread has ended because of a failure. To send more would not help.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the thread has tried to send what was added. While the server is away, results
    /// stay in the outbox.
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
        // One attempt to send is enough for all that was added meanwhile.
        while news.try_recv().is_ok() {}
        match outbox.send(service, agent)? {
            // If the server is away, the result is sent with the next one.
            Ok(()) | Err(Trouble::Away(..) | Trouble::Unknown | Trouble::Ended) => {}
            Err(trouble) => return Err(trouble.into()),
        }
    }
    Ok(())
}
