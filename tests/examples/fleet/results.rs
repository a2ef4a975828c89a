use diode_api::{Breadth, LeasedProblem};
use diode_core::hardware::Hardware;
use diode_core::ids::LeaseId;
use diode_core::simulated::SimulatedDevice;
use diode_core::space::{Space, SpaceName};
use diode_core::{ConfigDictionary, Dataset, Method, Provenance, Solution, TimeColumn};
use diode_formats::{Format, encode};

/// Agents time about this many configs on most problems: the best by a model, the default configs and some
/// others.
const SAMPLE: usize = 300;

const REPEATS: usize = 5;

/// The file that an agent sends for one problem.
pub(crate) fn encoded(
    hardware: &Hardware,
    device: &SimulatedDevice,
    work: &LeasedProblem,
    lease: &LeaseId,
) -> anyhow::Result<Vec<u8>> {
    let mut list = Space::Named(SpaceName::Full).configs(hardware, &work.problem)?;
    if work.breadth == Breadth::Sample {
        list.truncate(SAMPLE);
    }
    let sorted = |config| {
        let mut repeats: Vec<u64> = device.repeats(&work.problem, config).take(REPEATS).collect();
        repeats.sort_unstable();
        repeats
    };
    let times: Vec<Vec<u64>> = list.iter().map(sorted).collect();
    let mut configs = ConfigDictionary::default();
    let solution = Solution {
        problem: work.problem.clone(),
        method: Method::MEDIAN_COLD_EVENT,
        configs: list.into_iter().map(|config| configs.intern(config)).collect(),
        times: TimeColumn::from_nanos(times.iter().map(|repeats| repeats[REPEATS / 2]).collect())?,
        minimum_ns: Some(times.iter().map(|repeats| repeats[0]).collect()),
        spread_ns: Some(times.iter().map(|repeats| repeats[3] - repeats[1]).collect()),
        repeats: Some(vec![REPEATS as u32; times.len()]),
        failures: Vec::new(),
    };
    let mut provenance = Provenance::default();
    provenance.node.insert("lease".to_owned(), lease.to_string());
    let dataset = Dataset { hardware: hardware.clone(), provenance, configs, solutions: vec![solution] };
    Ok(encode(Format::Columnar, &[dataset])?)
}
