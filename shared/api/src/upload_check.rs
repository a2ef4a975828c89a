//! The checks of an upload that need nothing but the upload. A server makes them before it stores anything.
//! The dashboard and the command line make them before they send anything.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{MAX_UPLOAD_BYTES, MAX_UPLOAD_PROBLEMS, SetApart, SetApartReason};
use diode_core::hardware::Facts;
use diode_core::physics::{self, Bounds};
use diode_core::{Dataset, Invalid, Solution};

/// What a server would store of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The hardware's name, as the file states it.
    pub name: String,
    /// The counts exclude what is set apart.
    pub problems: u64,
    pub timings: u64,
    pub failures: u64,
    /// What is set apart, by reason.
    pub set_apart: Vec<SetApart>,
}

/// Why a file of more than [`MAX_UPLOAD_BYTES`] is refused.
pub fn too_large() -> String {
    format!(
        "upload: more than {} MiB; split it, or write it as .msgpack.zst (diode convert IN OUT.msgpack.zst)",
        MAX_UPLOAD_BYTES / 1024 / 1024
    )
}

/// Refuses datasets with more problems than one upload may have.
pub fn check_problems(datasets: &[Dataset]) -> Result<(), Invalid> {
    let problems: usize = datasets.iter().map(|dataset| dataset.solutions.len()).sum();
    if problems > MAX_UPLOAD_PROBLEMS {
        let expected = format!("at most {MAX_UPLOAD_PROBLEMS} in a file; send several");
        return Err(Invalid::new("problems", problems, expected));
    }
    Ok(())
}

/// What the checks of an upload's datasets have found so far.
#[derive(Default)]
pub struct UploadCheck {
    first_fault: Option<Invalid>,
    keeps_any: bool,
}

impl UploadCheck {
    /// Checks a dataset. Calls `keep` with each solution that can be stored, without what is set apart.
    /// `facts` are facts of the hardware that somebody vouches for. Without them, the facts in the file bound its times.
    pub fn dataset<'d>(
        &mut self,
        dataset: &'d Dataset,
        facts: Option<&Facts>,
        mut keep: impl FnMut(Cow<'d, Solution>),
    ) -> Result<Contents, Invalid> {
        dataset.hardware.validate()?;
        for config in dataset.configs.iter() {
            config.validate()?;
        }
        let stated = || dataset.hardware.facts.as_ref().map_or(Bounds::Unknown, Bounds::Stated);
        let bounds = facts.map_or_else(stated, Bounds::Vouched);
        let mut set_apart = BTreeMap::new();
        let (mut problems, mut timings, mut failures) = (0, 0, 0);
        for solution in &dataset.solutions {
            solution.validate(&dataset.configs)?;
            if solution.configs.is_empty() && solution.failures.is_empty() {
                return Err(Invalid::new(
                    format!("timings of {} {}", solution.problem.op, solution.problem.dims()),
                    "none",
                    "at least one timing or failure; leave problems out that were not measured",
                ));
            }
            let Some(kept) = self.kept(bounds, solution, dataset, &mut set_apart) else { continue };
            problems += 1;
            timings += kept.configs.len() as u64;
            failures += kept.failures.len() as u64;
            keep(kept);
        }
        self.keeps_any |= problems > 0;
        let set_apart = set_apart.into_values().collect();
        Ok(Contents { name: dataset.hardware.name.clone(), problems, timings, failures, set_apart })
    }

    /// Refuses an upload if nothing of it can be stored.
    pub fn end(self) -> Result<(), Invalid> {
        if self.keeps_any {
            return Ok(());
        }
        Err(self.first_fault.unwrap_or_else(|| {
            Invalid::new("upload", "no timings at all", "a dataset with at least one measured problem")
        }))
    }

    /// The solution without what is set apart; `None` if nothing is left.
    fn kept<'d>(
        &mut self,
        bounds: Bounds<'_>,
        solution: &'d Solution,
        dataset: &Dataset,
        set_apart: &mut BTreeMap<SetApartReason, SetApart>,
    ) -> Option<Cow<'d, Solution>> {
        let faults = physics::faults(bounds, solution, &dataset.configs);
        if faults.is_empty() {
            return Some(Cow::Borrowed(solution));
        }
        let rows: Vec<usize> = (0..solution.configs.len()).filter(|row| !faults.contains_key(row)).collect();
        for (reason, error) in faults.into_values() {
            let example = || SetApart { reason, timings: 0, example: error.to_string() };
            set_apart.entry(reason).or_insert_with(example).timings += 1;
            self.first_fault.get_or_insert(error);
        }
        // If no time can be true, the failures are worth nothing either.
        (!rows.is_empty()).then(|| Cow::Owned(solution.select(&rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::hardware::find;
    use diode_core::{Config, ConfigDictionary, DType, Method, Op, Problem, ProblemFields, Provenance, Tile};
    use diode_core::{ConfigIndex, TimeColumn};

    /// Two problems of 4096³ with these times.
    fn dataset(nanos: [&[u64]; 2]) -> Dataset {
        let solution = |nanos: &[u64]| Solution {
            problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16))
                .unwrap(),
            method: Method::Unspecified,
            configs: vec![ConfigIndex(0); nanos.len()],
            times: TimeColumn::from_nanos(nanos.to_vec()).unwrap(),
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        };
        let configs: ConfigDictionary = [Config::Mm(Tile::new(128, 128, 64, 3, 8))].into_iter().collect();
        Dataset {
            hardware: find("nvidia-h200").unwrap(),
            provenance: Provenance::default(),
            solutions: nanos.map(solution).into(),
            configs,
        }
    }

    fn check(dataset: &Dataset) -> Result<(Contents, usize), Invalid> {
        let (mut check, mut kept) = (UploadCheck::default(), 0);
        let contents = check.dataset(dataset, dataset.hardware.facts.as_ref(), |_| kept += 1)?;
        check.end().map(|()| (contents, kept))
    }

    #[test]
    fn what_can_be_true_is_kept_and_the_rest_is_counted() {
        let (contents, kept) = check(&dataset([&[200_000, 1000, 2000], &[3000]])).unwrap();
        assert_eq!((contents.problems, contents.timings, kept), (1, 1, 1));
        let [apart] = &contents.set_apart[..] else { panic!("{contents:?}") };
        assert_eq!((apart.reason, apart.timings), (SetApartReason::BelowFloor, 3));
        assert!(apart.example.contains("got 1.000 µs"), "{}", apart.example);
    }

    #[test]
    fn an_upload_of_which_nothing_is_left_is_refused() {
        let error = check(&dataset([&[1000], &[2000]])).unwrap_err().to_string();
        assert!(error.contains("got 1.000 µs"), "{error}");
        let error = check(&dataset([&[200_000], &[]])).unwrap_err().to_string();
        assert!(error.starts_with("timings of mm 4096×4096×4096: got none"), "{error}");
        let empty = Dataset { solutions: Vec::new(), ..dataset([&[], &[]]) };
        assert!(check(&empty).unwrap_err().to_string().contains("no timings at all"));
    }

    #[test]
    fn the_number_of_problems_is_bounded() {
        let one = dataset([&[200_000], &[200_000]]);
        let many = |count| Dataset { solutions: vec![one.solutions[0].clone(); count], ..one.clone() };
        assert!(check_problems(&[many(MAX_UPLOAD_PROBLEMS - 2), one.clone()]).is_ok());
        let error = check_problems(&[many(MAX_UPLOAD_PROBLEMS - 1), one.clone()]).unwrap_err().to_string();
        assert_eq!(error, "problems: got 16385, expected at most 16384 in a file; send several");
    }
}
