use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use diode_core::ids::LeaseId;

use super::service::{Identity, Service, Trouble};

/// Renews a lease in the background until this value is dropped.
pub(super) struct Renewal<'a> {
    lost: &'a AtomicBool,
    /// Dropping this sender ends the thread.
    _alive: Sender<()>,
}

impl<'a> Renewal<'a> {
    pub(super) fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        (service, agent, lease): (&'env Service, &'env Identity, &'env LeaseId),
        expires_in: u64,
        lost: &'a AtomicBool,
    ) -> Self
    where
        'a: 'scope,
    {
        // Two renewals in a row may fail before the lease ends.
        let every = Duration::from_secs((expires_in / 3).max(1));
        let (alive, ended) = channel();
        scope.spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // If the server is away, the lease goes on. What is measured meanwhile is sent later.
                if let Err(Trouble::Ended | Trouble::Unknown) = service.renew(agent, lease) {
                    lost.store(true, Ordering::Relaxed);
                    return;
                }
            }
        });
        Self { lost, _alive: alive }
    }

    /// Whether the server has taken the lease back. It may give the rest to another agent.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}
