use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A limited number of turns, of which one client cannot take all.
#[derive(Clone)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    /// How many turns one client may hold at a time.
    each: usize,
    clients: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

/// A turn, which counts as long as it is held.
pub(crate) struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Turns {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), each, clients: Arc::default() }
    }

    /// Waits for a turn for `client`. `None` if that takes too long.
    pub(crate) async fn turn(&self, client: &str, wait: Duration) -> Option<Turn> {
        let own = self.own(client);
        let both = async {
            // The client's own limit comes first, so that a client that waits for it takes no turn from
            // others.
            let own = own.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(Turn { _own: own, _all: all })
        };
        timeout(wait, both).await.ok()?
    }

    fn own(&self, client: &str) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = clients.get(client).and_then(Weak::upgrade) {
            return own;
        }
        // Only clients that hold or wait for a turn are kept.
        clients.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.each));
        clients.insert(client.to_owned(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_client_holds_some_and_others_the_rest() {
        let turns = Turns::new(3, 2);
        let (ada, bob) = ("ada", "bob");
        let soon = Duration::from_millis(20);
        let held = [turns.turn(ada, soon).await, turns.turn(ada, soon).await];
        assert!(held.iter().all(Option::is_some));
        assert!(turns.turn(ada, soon).await.is_none());
        let other = turns.turn(bob, soon).await;
        assert!(other.is_some());
        assert!(turns.turn(bob, soon).await.is_none(), "all are held");
        drop((held, other));
        assert!(turns.turn(ada, Duration::ZERO).await.is_some());
        turns.turn(bob, soon).await;
        assert_eq!(turns.clients.lock().unwrap().len(), 1, "who holds none is forgotten");
    }
}
