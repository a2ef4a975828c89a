//! What a training may learn, and by what models are judged.
//!
//! What the operator vouches for, what came first and what contributors confirm is learnt at the times that they agree on.
//! What one contributor alone has seen teaches only what fits: it may not beat what others have measured, nor lie far from
//! what the model in force predicts, and there may be little of it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, ProblemId};
use diode_core::stats::{median, quantile};
use diode_core::{
    Config, ConfigDictionary, DType, Dataset, Method, Op, Problem, Provenance, Scaling, Solution, TimeColumn,
};
use diode_model::{Model, Predictor};

use crate::boards::consensus::{CONFIRMS, Heard, Learnable, TOGETHER, learnable};
use crate::uploads::solutions::{DecodedSolution, Rebuilt, StoredSolution, StoredSolutions, rebuild};

/// What one contributor alone has seen may be this much faster or slower than predicted, beside the other times of the
/// problem. Models err less.
const FITS: f64 = 1.25;

/// With fewer times of a problem nothing tells how the whole problem lies beside its predictions. Then a time may be so
/// much shorter than predicted at most.
const FEW: usize = 3;
const MARGIN_ALONE: f64 = 1.05;

/// What one contributor alone has seen is slower than the best that others have measured by this factor at least.
const NO_WIN: f64 = 1.02;

/// From this many problems on, it is odd if this share of them is won, and all by about the same: half of the wins lie
/// within this range of logarithms.
const MANY: usize = 5;
const ODD_SHARE: f64 = 0.8;
const ODD_RANGE: f64 = 0.05;

/// Of one kind of problems, at most this share of what is known, but always so many: enough for a first model.
const MOST_ALONE: f64 = 0.25;
const ALWAYS_ALONE: usize = 50;

/// What a training learns, and more.
pub(super) struct Admitted {
    pub(super) dataset: Dataset,
    /// The problems by which models are judged: the operator, the hardware's first contributor or several have measured
    /// them.
    pub(super) judged: BTreeSet<Problem>,
    /// The contributors of what nobody else has confirmed and is learnt. Empty if everything is theirs.
    pub(super) alone: BTreeSet<Option<AccountId>>,
    /// The solutions that are learnt from.
    pub(super) solutions: BTreeSet<i64>,
    /// How many timings teach nothing until others confirm them.
    pub(super) refused: u64,
}

/// Of each kind, little is learnt from what one contributor alone has seen.
type Kind = (Op, DType, Scaling);

/// Everything that was measured of one problem by one method.
struct View {
    problem: Problem,
    method: Method,
    solutions: Vec<DecodedSolution>,
    said: Learnable,
    /// The first party is the operator or the hardware's first contributor, or others confirm it.
    is_known: bool,
}

impl View {
    fn kind(&self) -> Kind {
        (self.problem.op, self.problem.a_dtype, self.problem.scaling)
    }

    /// What one contributor alone has seen. In a view that is not known this is everything.
    fn claims(&self) -> Vec<&Heard> {
        let all = self.said.leading.iter().filter(|_| !self.is_known);
        all.chain(&self.said.alone).collect()
    }

    /// The best time that is known, in nanoseconds.
    fn best(&self) -> Option<f64> {
        let known = self.said.leading.iter().filter(|_| self.is_known);
        known.filter(|one| !one.config.is_library()).map(|one| one.time).min_by(f64::total_cmp)
    }
}

/// Chooses. Takes long, so it must not run on an async thread.
pub(super) fn admit(hardware: Hardware, stored: StoredSolutions, in_force: Option<&Model>) -> Admitted {
    let numbers: BTreeSet<i64> = stored.solutions.iter().map(|solution| solution.number).collect();
    let first = stored.solutions.iter().min_by_key(|solution| (!solution.vouched, solution.number));
    let home = first.map(|solution| (solution.vouched, solution.contributor.clone()));
    let is_homes = |vouched: bool, by: &Option<AccountId>| home == Some((vouched, by.clone()));
    let is_one_party = {
        let all = |is_so: &dyn Fn(&StoredSolution) -> bool| stored.solutions.iter().all(is_so);
        all(&|one| one.vouched) || all(&|one| is_homes(one.vouched, &one.contributor))
    };
    let since = first.and_then(|solution| solution.since);
    if is_one_party {
        let judged = stored.problems.values().cloned().collect();
        let Rebuilt { dataset, .. } = rebuild(hardware, stored);
        return Admitted { dataset, judged, alone: BTreeSet::new(), solutions: numbers, refused: 0 };
    }
    // Accounts that appeared together count as one, unless the hardware's first contributor is among them.
    let vouched = home.as_ref().is_some_and(|(vouched, _)| *vouched);
    let joins = |own: Option<i64>| match (own, since) {
        _ if vouched => true,
        (Some(own), Some(first)) => (own - first).abs() > TOGETHER,
        _ => true,
    };
    let mut grouped: BTreeMap<(ProblemId, Method), Vec<DecodedSolution>> = BTreeMap::new();
    for solution in stored.decode().solutions {
        grouped.entry((solution.problem.clone(), solution.method)).or_default().push(solution);
    }
    let views: Vec<View> = grouped
        .into_iter()
        .filter_map(|((id, method), solutions)| {
            let said = learnable(&solutions, joins);
            let is_home = if vouched { said.first.0 } else { is_homes(said.first.0, &said.first.1) };
            let is_known = is_home || said.confirmed;
            Some(View { problem: stored.problems.get(&id)?.clone(), method, solutions, said, is_known })
        })
        .collect();
    let odd = odd_contributors(&views);
    let mut known: BTreeMap<Kind, usize> = BTreeMap::new();
    for view in views.iter().filter(|view| view.is_known) {
        *known.entry(view.kind()).or_default() += 1;
    }
    let mut unknown: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut admitted = Admitted {
        dataset: Dataset {
            hardware,
            provenance: Provenance::default(),
            configs: ConfigDictionary::default(),
            solutions: Vec::new(),
        },
        judged: BTreeSet::new(),
        alone: BTreeSet::new(),
        solutions: BTreeSet::new(),
        refused: 0,
    };
    for view in views {
        let claims = view.claims();
        let mut learnt: Vec<&Heard> = Vec::new();
        if view.is_known {
            admitted.judged.insert(view.problem.clone());
            learnt.extend(&view.said.leading);
        }
        let mut fitting: Vec<&Heard> = fitting(&view, &claims, in_force);
        fitting.retain(|claim| !odd.contains(&claim.by));
        if !view.is_known && !fitting.is_empty() {
            let there = unknown.entry(view.kind()).or_default();
            let share = MOST_ALONE * known.get(&view.kind()).copied().unwrap_or(0) as f64;
            if *there >= ALWAYS_ALONE.max(share as usize) {
                fitting.clear();
            } else {
                *there += 1;
            }
        }
        admitted.refused += (claims.len() - fitting.len()) as u64;
        admitted.alone.extend(fitting.iter().map(|claim| claim.by.clone()));
        learnt.extend(fitting);
        if !learnt.is_empty() {
            admitted.learn(&view, &learnt);
        }
    }
    admitted
}

impl Admitted {
    fn learn(&mut self, view: &View, learnt: &[&Heard]) {
        let times: BTreeMap<Config, f64> = learnt.iter().map(|one| (one.config, one.time)).collect();
        let is_learnt = |(config, time): (Config, diode_core::Nanos)| {
            times.get(&config).is_some_and(|learnt| (time.0 / learnt).ln().abs() <= CONFIRMS.ln())
        };
        let from = view.solutions.iter().filter(|one| one.counts && one.timed().any(is_learnt));
        self.solutions.extend(from.map(|one| one.number));
        let configs = &mut self.dataset.configs;
        if let [only] = view.solutions.as_slice()
            && only.timed().len() == times.len()
        {
            self.dataset.solutions.push(only.clone().into_solution(view.problem.clone(), configs));
            return;
        }
        let nanos = times.values().map(|time| time.round().max(1.0) as u64).collect();
        // A time that no column can hold is never stored, so none is lost here.
        let Ok(column) = TimeColumn::from_nanos(nanos) else { return };
        self.dataset.solutions.push(Solution {
            problem: view.problem.clone(),
            method: view.method,
            configs: times.keys().map(|config| configs.intern(*config)).collect(),
            times: column,
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        });
    }
}

/// For each claim, the logarithm of its time / the predicted time. `None` where the model says nothing.
fn residuals(view: &View, claims: &[&Heard], in_force: Option<&Model>) -> Vec<Option<f64>> {
    let nothing = || vec![None; claims.len()];
    let Some(model) = in_force else { return nothing() };
    let of_method = Predictor::for_method(model, view.method);
    let model: &dyn Predictor = of_method.as_deref().unwrap_or(model);
    // What the library's time should be beside others, no model can say.
    let tiles: Vec<Config> =
        claims.iter().map(|claim| claim.config).filter(|config| !config.is_library()).collect();
    let Ok(predicted) = model.predict_ln_us(&view.problem, &tiles) else { return nothing() };
    let mut predicted = predicted.into_iter();
    let residual = |claim: &&Heard| {
        let ln_us = if claim.config.is_library() { None } else { predicted.next() };
        ln_us.map(|ln_us| (claim.time / 1e3).ln() - ln_us).filter(|residual| residual.is_finite())
    };
    claims.iter().map(residual).collect()
}

/// The claims that fit what is known and what is predicted.
fn fitting<'a>(view: &View, claims: &[&'a Heard], in_force: Option<&Model>) -> Vec<&'a Heard> {
    if claims.is_empty() {
        return Vec::new();
    }
    let best = view.best();
    let residuals = residuals(view, claims, in_force);
    // How the whole problem lies beside its predictions says nothing of one config.
    let beside: Vec<&Heard> =
        if view.is_known { view.said.leading.iter().collect() } else { claims.to_vec() };
    let beside: Vec<f64> = self::residuals(view, &beside, in_force).into_iter().flatten().collect();
    let is_alone = beside.len() < FEW;
    let offset = if is_alone { 0.0 } else { median(&mut beside.clone()).unwrap_or(0.0) };
    let is_fitting = |claim: &Heard, residual: &Option<f64>| {
        // Where others have measured the problem, the library is known or waits for them.
        let wins = best.is_some_and(|best| claim.time < NO_WIN * best || claim.config.is_library());
        let fastest = if is_alone { MARGIN_ALONE.ln() } else { FITS.ln() };
        !wins && residual.is_none_or(|residual| (-fastest..=FITS.ln()).contains(&(residual - offset)))
    };
    let fitting = claims.iter().zip(&residuals).filter(|(claim, residual)| is_fitting(claim, residual));
    fitting.map(|(claim, _)| *claim).collect()
}

/// The contributors whose claims win nearly everywhere where others have measured, and by about the same. Nothing of
/// theirs is learnt.
fn odd_contributors(views: &[View]) -> BTreeSet<Option<AccountId>> {
    let mut wins: BTreeMap<&Option<AccountId>, Vec<f64>> = BTreeMap::new();
    for view in views.iter().filter(|view| view.is_known) {
        let Some(best) = view.best() else { continue };
        let mut best_of: BTreeMap<&Option<AccountId>, f64> = BTreeMap::new();
        for claim in view.said.alone.iter().filter(|claim| !claim.config.is_library()) {
            let own = best_of.entry(&claim.by).or_insert(claim.time);
            *own = own.min(claim.time);
        }
        for (by, own) in best_of {
            wins.entry(by).or_default().push((own / best).ln());
        }
    }
    let is_odd = |wins: &mut Vec<f64>| {
        wins.sort_unstable_by(f64::total_cmp);
        let won = wins.partition_point(|win| *win < 0.0) as f64;
        let range = quantile(wins, 0.75).zip(quantile(wins, 0.25)).map_or(0.0, |(high, low)| high - low);
        wins.len() >= MANY && won >= ODD_SHARE * wins.len() as f64 && range <= ODD_RANGE
    };
    let odd = wins.into_iter().filter_map(|(by, mut wins)| is_odd(&mut wins).then(|| by.clone()));
    odd.collect()
}
