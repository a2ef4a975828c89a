//! Turns: how many uploads or streams the server serves at a time, divided fairly among clients.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

/// A client that has waited for this long makes a slow upload give way.
const GIVES_WAY_AFTER: Duration = Duration::from_millis(500);
/// An upload that sends at least this much in a second gives way to nobody: 2 megabits.
const FAIR_RATE: u64 = 256 * 1024;
/// No upload gives way so soon after its start.
const START: Duration = Duration::from_secs(2);

/// A limited number of turns, of which one client cannot take all. A turn that becomes free goes to the waiting
/// client that holds the fewest.
#[derive(Clone)]
pub(crate) struct Turns {
    all: usize,
    /// How many turns one client may hold at a time.
    each: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    held: Vec<Arc<Held>>,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
}

struct Held {
    client: String,
    since: Instant,
    received: AtomicU64,
    /// Whether everything has arrived.
    complete: AtomicBool,
    give_way: Notify,
}

struct Waiting {
    client: String,
    go: oneshot::Sender<Arc<Held>>,
}

/// A turn, which counts as long as it is held.
pub(crate) struct Turn {
    turns: Turns,
    held: Arc<Held>,
}

impl Turns {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self { all, each, state: Arc::default() }
    }

    /// Waits for a turn for `client`. `None` if that takes too long.
    pub(crate) async fn turn(&self, client: &str, wait: Duration) -> Option<Turn> {
        let (go, mut came) = oneshot::channel();
        {
            let mut state = self.state();
            state.waiting.push(Waiting { client: client.to_owned(), go });
            self.hand_out(&mut state);
        }
        let end = Instant::now() + wait;
        loop {
            let step = end.min(Instant::now() + GIVES_WAY_AFTER);
            match timeout_at(step, &mut came).await {
                Ok(held) => return Some(Turn { turns: self.clone(), held: held.ok()? }),
                Err(_) if step < end => self.state().make_room(client),
                // A turn may have come just now.
                Err(_) => {
                    came.close();
                    return Some(Turn { turns: self.clone(), held: came.try_recv().ok()? });
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_out(&self, state: &mut State) {
        state.waiting.retain(|waiting| !waiting.go.is_closed());
        while state.held.len() < self.all {
            let may = (0..state.waiting.len())
                .map(|at| (state.held_by(&state.waiting[at].client), at))
                .filter(|&(held, _)| held < self.each);
            let Some((_, next)) = may.min() else { return };
            let Waiting { client, go } = state.waiting.remove(next);
            let held = Arc::new(Held {
                client,
                since: Instant::now(),
                received: AtomicU64::new(0),
                complete: AtomicBool::new(false),
                give_way: Notify::new(),
            });
            // Who waited may have gone.
            if go.send(Arc::clone(&held)).is_ok() {
                state.held.push(held);
            }
        }
    }
}

impl State {
    fn held_by(&self, client: &str) -> usize {
        self.held.iter().filter(|held| held.client == client).count()
    }

    /// Makes one slow upload give way to `client`: the slowest of the client that holds the most turns.
    fn make_room(&self, client: &str) {
        let own = self.held_by(client);
        let slow = self.held.iter().filter(|held| held.client != client).filter_map(|held| {
            let (count, rate) = (self.held_by(&held.client), held.rate()?);
            (count > own && rate < FAIR_RATE).then_some((count, u64::MAX - rate, held))
        });
        if let Some((_, _, held)) = slow.max_by_key(|&(count, slowness, _)| (count, slowness)) {
            held.give_way.notify_one();
        }
    }
}

impl Held {
    /// Bytes per second; `None` while it is too early to tell and once everything has arrived.
    fn rate(&self) -> Option<u64> {
        let elapsed = self.since.elapsed();
        let counts = elapsed >= START && !self.complete.load(Ordering::Relaxed);
        counts.then(|| (self.received.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64()) as u64)
    }
}

impl Turn {
    /// Counts bytes that have arrived.
    pub(crate) fn received(&self, bytes: u64) {
        self.held.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Says that everything has arrived, so that the turn gives way to nobody.
    pub(crate) fn complete(&self) {
        self.held.complete.store(true, Ordering::Relaxed);
    }

    /// Waits until the turn must give way to another client.
    pub(crate) async fn gives_way(&self) {
        self.held.give_way.notified().await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.held.retain(|held| !Arc::ptr_eq(held, &self.held));
        self.turns.hand_out(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

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
        let state = turns.state();
        assert!(state.held.is_empty() && state.waiting.is_empty(), "who holds none is forgotten");
    }

    #[tokio::test]
    async fn a_free_turn_goes_to_whoever_holds_the_fewest() {
        let turns = Turns::new(2, 2);
        let soon = Duration::from_secs(20);
        let first = turns.turn("ada", soon).await.unwrap();
        let _second = turns.turn("ada", soon).await.unwrap();
        let again = tokio::spawn({
            let turns = turns.clone();
            async move { turns.turn("ada", soon).await }
        });
        while turns.state().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let newcomer = tokio::spawn({
            let turns = turns.clone();
            async move { turns.turn("bob", soon).await }
        });
        while turns.state().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(first);
        assert!(newcomer.await.unwrap().is_some());
        assert!(!again.is_finished());
        again.abort();
    }

    #[tokio::test]
    async fn the_slowest_of_the_largest_holder_gives_way() {
        let turns = Turns::new(3, 2);
        let take = async |client| turns.turn(client, Duration::ZERO).await.unwrap();
        let (steady, slow, honest) = (take("mallory").await, take("mallory").await, take("ada").await);
        tokio::time::sleep(START).await;
        steady.received(100_000);
        slow.received(34_000);
        honest.received(1_000);
        let mallory = async {
            tokio::select! { () = steady.gives_way() => "steady", () = slow.gives_way() => "slow", () = honest.gives_way() => "honest" }
        };
        let waiting = turns.turn("bob", Duration::from_secs(2));
        let (lost, _) = tokio::join!(mallory, waiting);
        assert_eq!(lost, "slow");
    }

    #[tokio::test]
    async fn nobody_gives_way_who_is_fast_or_has_sent_everything() {
        let turns = Turns::new(2, 2);
        let take = async |client| turns.turn(client, Duration::ZERO).await.unwrap();
        let (fast, sent) = (take("ada").await, take("ada").await);
        tokio::time::sleep(START).await;
        fast.received(FAIR_RATE * 100);
        sent.complete();
        assert!(turns.turn("bob", 3 * GIVES_WAY_AFTER).await.is_none());
        assert!(timeout(Duration::from_millis(10), fast.gives_way()).await.is_err());
        assert!(timeout(Duration::from_millis(10), sent.gives_way()).await.is_err());
    }
}
