//! Asks for problems of the kinds for which a model picks badly.

use diode_api::{Ability, Purpose};
use diode_core::hardware::Hardware;
use diode_core::{Layout, Op, Problem};

use super::plan::{DTYPES, Kind, KnownProblems, Planner, weakest};
use super::{ORDER, USUAL_SECONDS};
use crate::store::{NewWork, ReadUpTo, Store, StoreResult};

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
    let ability = Ability {
        ops: Op::ALL.to_vec(),
        dtypes: DTYPES.to_vec(),
        layouts: Layout::ALL.to_vec(),
        unaligned: true,
        memory_bytes: MEMORY,
        variants: None,
    };
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
    use diode_core::hardware::find;
    use diode_core::{DType, ProblemFields};

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
