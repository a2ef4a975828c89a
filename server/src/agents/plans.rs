use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diode_core::ids::HardwareSlug;
use tokio::sync::Mutex as AsyncMutex;

use super::plan::{KnownProblems, Planned, Planner};
use super::{ORDER, USUAL_SECONDS};
use crate::store::{KnownAgent, MeasuredUpTo, NewWork, ReadUpTo, Store, StoreResult};

/// How many problems are planned while an agent waits: enough for some leases.
const FIRST: usize = 256;

/// How many problems are planned at a time in the background. Planning a smaller portion takes as long.
const PORTION: usize = 2048;

/// If fewer problems wait for an agent, more are planned before the next agent asks. The number is large since making
/// a lease locks up to 64 problems: with few problems, agents that ask at once would wait for each other.
const AHEAD: u64 = 2048;

/// After this time the server reads again what was measured outside the plan, or everything if problems may have lost
/// their solutions.
const READ_ANEW: Duration = Duration::from_secs(60 * 60);

/// How many plans are kept in memory. Agents choose the name of their hardware, and each plan holds all known
/// problems.
const MAX_KEPT: usize = 64;

/// The plans that this process keeps. A plan that is not kept is begun anew when it is needed.
#[derive(Clone, Default)]
pub(crate) struct Plans(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    plans: HashMap<HardwareSlug, Plan>,
    /// How often any plan was asked for.
    asked: u64,
}

struct Plan {
    progress: Arc<AsyncMutex<Progress>>,
    /// The value of `asked` when this plan was last asked for.
    last: u64,
}

/// The state of the plan of a hardware.
#[derive(Default)]
struct Progress {
    known: KnownProblems,
    /// How far the known problems have been read from the database.
    read: ReadUpTo,
    /// When the reading began.
    began: Option<Instant>,
    /// The count of losses (`AgentStore::losses`) when the reading began.
    losses: u64,
}

/// The result of a step.
enum Step {
    /// Some more of the known problems were read; there are still more.
    Read,
    /// How many problems were planned. Another process may have planned the same problems.
    Planned(usize),
}

impl Plans {
    /// Plans what comes next, unless work for the agent appears while this call waits for the lock.
    pub(super) async fn go_on(&self, store: &Store, agent: &KnownAgent, seconds: f64) -> StoreResult<()> {
        let progress = self.of(agent.hardware());
        let mut progress = progress.lock().await;
        while store.planned_for(agent, seconds, 1).await? == 0 {
            if let Step::Planned(_) = step(store, agent, seconds, FIRST, &mut progress).await? {
                break;
            }
        }
        Ok(())
    }

    /// Plans in the background for a new agent, so that its first lease is ready when it asks.
    pub(crate) fn prepare(&self, store: &Arc<Store>, agent: &KnownAgent) {
        self.go_ahead(store, agent, USUAL_SECONDS);
    }

    /// Plans in the background, if little work waits for agents like this one.
    pub(super) fn go_ahead(&self, store: &Arc<Store>, agent: &KnownAgent, seconds: f64) {
        let (progress, store, agent) = (self.of(agent.hardware()), Arc::clone(store), agent.clone());
        tokio::spawn(async move {
            loop {
                // Whoever has the lock is planning already. The lock is released between two portions, for agents that
                // wait.
                let Ok(mut progress) = progress.try_lock() else { return };
                match portion(store.as_ref(), &agent, seconds, &mut progress).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        tracing::error!(hardware = %agent.hardware(), "nothing could be planned ahead: {error}");
                        return;
                    }
                }
                drop(progress);
                tokio::task::yield_now().await;
            }
        });
    }

    fn of(&self, hardware: &HardwareSlug) -> Arc<AsyncMutex<Progress>> {
        // A panic cannot leave the map half changed.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.of(hardware)
    }
}

impl Kept {
    fn of(&mut self, hardware: &HardwareSlug) -> Arc<AsyncMutex<Progress>> {
        self.asked += 1;
        if !self.plans.contains_key(hardware) {
            self.make_room();
        }
        let progress = Arc::default();
        let plan = self.plans.entry(hardware.clone()).or_insert(Plan { progress, last: 0 });
        plan.last = self.asked;
        Arc::clone(&plan.progress)
    }

    /// Drops the plans that nobody has asked for for the longest time. A plan in use is not dropped.
    fn make_room(&mut self) {
        while self.plans.len() >= MAX_KEPT {
            let idle = self.plans.iter().filter(|(_, plan)| Arc::strong_count(&plan.progress) == 1);
            let Some(oldest) = idle.min_by_key(|(_, plan)| plan.last).map(|(slug, _)| slug.clone()) else {
                return;
            };
            self.plans.remove(&oldest);
        }
    }
}

/// Plans some problems ahead; `false` if enough problems wait, or there are no more.
async fn portion(
    store: &Store,
    agent: &KnownAgent,
    seconds: f64,
    progress: &mut Progress,
) -> StoreResult<bool> {
    let waiting = store.planned_for(agent, seconds, AHEAD).await?;
    if waiting >= AHEAD {
        return Ok(false);
    }
    if progress.began.is_some_and(|began| began.elapsed() >= READ_ANEW) {
        progress.began = None;
    }
    // A small portion comes first, for agents that may ask meanwhile.
    let number = if waiting == 0 { FIRST } else { PORTION };
    let step = step(store, agent, seconds, number, progress).await?;
    Ok(!matches!(step, Step::Planned(0)))
}

/// Reads some more of what is known, or plans `number` problems. Other processes may plan the same problems meanwhile.
async fn step(
    store: &Store,
    agent: &KnownAgent,
    seconds: f64,
    number: usize,
    progress: &mut Progress,
) -> StoreResult<Step> {
    // `progress` is empty during the step: if the step is cancelled, the next step reads everything anew.
    let mut now = std::mem::take(progress);
    let slug = agent.hardware();
    if now.began.is_none() {
        now = begun(store, slug, now).await?;
    }
    let news = store.known_problems(slug, &now.read).await?;
    now.read = news.read;
    let registration = agent.registration.clone();
    let (work, now) = tokio::task::spawn_blocking(move || {
        let mut now = now;
        let known = &mut now.known;
        news.problems.iter().for_each(|problem| known.add(problem));
        if !news.is_all {
            return (None, now);
        }
        let planner = Planner::new(&registration.hardware, &registration.ability, seconds, known, &ORDER);
        let work: Vec<NewWork> = planner.take(number).map(new_work).collect();
        // Includes problems that others have just added or measured. Otherwise they would be planned again and again.
        work.iter().for_each(|new| known.add(&new.problem));
        (Some(work), now)
    })
    .await?;
    let step = match work {
        None => Step::Read,
        Some(work) => {
            let added = store.add_work(slug, &work).await?;
            tracing::debug!(hardware = %slug, "{added} problems planned");
            Step::Planned(work.len())
        }
    };
    *progress = now;
    Ok(step)
}

/// Begins a reading. The known problems stay known, unless problems may have lost their solutions.
async fn begun(store: &Store, slug: &HardwareSlug, before: Progress) -> StoreResult<Progress> {
    let losses = store.losses(slug).await?;
    let mut now = if losses == before.losses { before } else { Progress { losses, ..Progress::default() } };
    now.read.measured = MeasuredUpTo::Nothing;
    now.began = Some(Instant::now());
    Ok(now)
}

fn new_work(planned: Planned) -> NewWork {
    let Planned { problem, purpose, breadth, seconds } = planned;
    NewWork { problem, purpose, breadth, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_of_made_up_hardware_are_forgotten_and_those_in_use_are_not() {
        let plans = Plans::default();
        let of = |number: usize| plans.of(&format!("nvidia-h{number}").parse().unwrap());
        let in_use = of(0);
        let often = Arc::downgrade(&of(1));
        for number in 2..1000 {
            of(number);
            of(1);
        }
        assert_eq!(plans.0.lock().unwrap().plans.len(), MAX_KEPT);
        assert!(Arc::ptr_eq(&in_use, &of(0)) && often.strong_count() == 1);
        // If all plans are in use, more than [`MAX_KEPT`] are kept.
        let all: Vec<_> = (1..200).map(of).collect();
        assert_eq!(plans.0.lock().unwrap().plans.len(), all.len() + 1);
        drop(all);
        of(5000);
        assert_eq!(plans.0.lock().unwrap().plans.len(), MAX_KEPT);
    }
}
