//! Plans work ahead for agents, hands it out, and asks for problems of the kinds for which a model picks badly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use diode_api::{Ability, Lease, LeaseAnswer, LeasedProblem, Purpose};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, LeaseId};
use diode_core::{Problem, is_kept};
use tokio::sync::Mutex as AsyncMutex;

use crate::agents::plan::{Kind, KnownProblems, Planned, Planner, rank, weakest};
use crate::agents::{ORDER, USUAL_SECONDS};
use crate::store::{
    AGENT_LEASE, KnownAgent, LeaseOutcome, LeaseWish, LeasedWork, MeasuredUpTo, NewWork, Now, ReadUpTo,
    Store, StoreResult,
};

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

/// After how many seconds an agent without work asks again.
const ASK_AGAIN: u64 = 10;

/// Gives an agent work for about `seconds`. `id` is the id of the new lease.
pub(crate) async fn hand_out(
    store: &Arc<Store>,
    plans: &Plans,
    agent: &KnownAgent,
    seconds: f64,
    id: LeaseId,
    now: Now,
) -> StoreResult<LeaseAnswer> {
    let mut wish = LeaseWish { agent, id, seconds, may_plan: true };
    let mut taken = store.take_lease(&wish, now).await?;
    if taken == LeaseOutcome::PlanIsEmpty {
        plans.go_on(store.as_ref(), agent, seconds).await?;
        wish.may_plan = false;
        taken = store.take_lease(&wish, now).await?;
    }
    Ok(match taken {
        LeaseOutcome::Lease(leased) => {
            plans.go_ahead(store, agent, seconds);
            LeaseAnswer { lease: Some(described(leased)), ask_again: 0 }
        }
        LeaseOutcome::PlanIsEmpty | LeaseOutcome::Nothing => {
            LeaseAnswer { lease: None, ask_again: ASK_AGAIN }
        }
    })
}

/// Orders the work by the plan, and problems of the same rank by their time, the shortest first. So the first result
/// arrives soon, and an agent that is stopped has measured as many problems as possible.
fn described(mut leased: LeasedWork) -> Lease {
    leased.work.sort_by(|a, b| rank(a.purpose).cmp(&rank(b.purpose)).then(a.seconds.total_cmp(&b.seconds)));
    let work = leased.work.into_iter().map(|NewWork { problem, purpose, breadth, seconds }| {
        let kept = is_kept(&problem);
        LeasedProblem { why: why(&problem, purpose), problem, purpose, breadth, kept, seconds }
    });
    Lease { id: leased.id, expires_in: AGENT_LEASE.as_secs(), work: work.collect() }
}

pub(super) fn why(problem: &Problem, purpose: Purpose) -> String {
    let kind =
        Kind::of(problem).map_or_else(|| "no kind that the plan knows".to_owned(), |kind| kind.to_string());
    match purpose {
        Purpose::Hole => format!("nothing of its kind was measured yet: {kind}"),
        Purpose::Wanted => "somebody has asked for it".to_owned(),
        Purpose::Weak => format!("a model has picked badly for problems of its kind: {kind}"),
        Purpose::Again => {
            "it was measured under other drivers; this shows whether yours changes it".to_owned()
        }
        Purpose::Confirm => "another contributor has measured it; this confirms the result".to_owned(),
        Purpose::More => format!("little of its kind was measured: {kind}"),
    }
}

/// How many kinds get one more problem each after a training. One agent measures them in some minutes. If they were
/// not enough, the next training asks for more.
const MOST: usize = 64;

/// The most memory that operands may take. Agents with less memory skip the problems that do not fit.
const MEMORY: u64 = 8 << 30;

/// Asks for one more problem of each kind for which a model picks worst. `shares` are problems that the model had not
/// seen, with the share of the best speed that the model's first picks reach. Returns how many problems it asked for.
pub(crate) async fn ask_where_weak(
    store: &Store,
    hardware: &Hardware,
    shares: &[(Problem, f64)],
) -> StoreResult<u64> {
    let kinds = weakest(shares, MOST);
    if kinds.is_empty() {
        return Ok(0);
    }
    let (mut known, mut read) = (KnownProblems::default(), ReadUpTo::default());
    loop {
        let news = store.known_problems(&hardware.slug, &read).await?;
        news.problems.iter().for_each(|problem| known.add(problem));
        read = news.read;
        if news.is_all {
            break;
        }
    }
    let described = hardware.clone();
    let work = tokio::task::spawn_blocking(move || more_of(&described, &known, &kinds)).await?;
    store.add_work(&hardware.slug, &work).await
}

/// Plans for a device that can measure all kinds: the kinds come from measured problems, so such devices exist.
fn more_of(hardware: &Hardware, known: &KnownProblems, kinds: &[Kind]) -> Vec<NewWork> {
    let ability = Ability::of(hardware, MEMORY);
    let mut planner = Planner::new(hardware, &ability, USUAL_SECONDS, known, &ORDER);
    let planned = kinds.iter().filter_map(|kind| planner.next_of_kind(*kind));
    planned
        .map(|planned| NewWork {
            problem: planned.problem,
            purpose: Purpose::Weak,
            breadth: planned.breadth,
            seconds: planned.seconds,
        })
        .collect()
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

#[cfg(test)]
mod weak_tests {
    use diode_core::hardware::find;
    use diode_core::{DType, Op, ProblemFields};

    use super::*;

    #[test]
    fn each_weak_kind_gets_another_problem_that_is_not_known() {
        let problem =
            |m, k| Problem::new(ProblemFields::plain(Op::Mm, 1, m, 4096, k, DType::BFloat16)).unwrap();
        let measured = [problem(64, 4096), problem(4096, 64)];
        let kinds: Vec<Kind> = measured.iter().filter_map(Kind::of).collect();
        let mut known: KnownProblems = measured.iter().collect();
        let hardware = find("nvidia-h200").unwrap();
        for _ in 0..20 {
            let work = more_of(&hardware, &known, &kinds);
            assert!(work.iter().map(|new| Kind::of(&new.problem).unwrap()).eq(kinds.iter().copied()));
            assert!(work.iter().all(|new| new.purpose == Purpose::Weak && !measured.contains(&new.problem)));
            let before: Vec<Problem> = work.into_iter().map(|new| new.problem).collect();
            before.iter().for_each(|problem| known.add(problem));
            let again = more_of(&hardware, &known, &kinds);
            assert!(again.iter().all(|new| !before.contains(&new.problem)));
        }
    }
}
