use diode_api::Breadth;
use diode_core::Problem;
use diode_core::hardware::{Facts, Hardware, Vendor, roofline};

/// Seconds that each problem takes besides its launches: to make the inputs, check the results and send them.
const PER_PROBLEM: f64 = 0.1;

/// Launches of a config on average. Most configs get few.
const LAUNCHES: f64 = 4.0;

/// The average time of a config, divided by the roofline.
const SLOWDOWN: f64 = 5.0;

/// Seconds that each launch takes in addition, including the flush of the cache.
const PER_LAUNCH: f64 = 50e-6;

/// The rates that are assumed for hardware without facts. They are the rates of a small device, so that a lease
/// is too short rather than too long.
const UNKNOWN_FLOPS: f64 = 1e11;
const UNKNOWN_BYTES: f64 = 1e10;

/// Configs in a GPU's sample: 200 that a model expects to be fast, 100 that are drawn at random, and the
/// default list.
const GPU_SAMPLE: f64 = 310.0;

/// How many seconds a device is expected to take for a problem.
pub fn expected_seconds(hardware: &Hardware, problem: &Problem, breadth: Breadth) -> f64 {
    seconds(hardware, launch(hardware, problem), breadth)
}

/// How many seconds one launch is expected to take on average.
pub(super) fn launch(hardware: &Hardware, problem: &Problem) -> f64 {
    best_case(hardware.facts.as_ref(), problem) * SLOWDOWN + PER_LAUNCH
}

/// How many seconds a problem is expected to take, if each launch takes `launch` seconds.
pub(super) fn seconds(hardware: &Hardware, launch: f64, breadth: Breadth) -> f64 {
    PER_PROBLEM + configs(hardware, breadth) * LAUNCHES * launch
}

fn best_case(facts: Option<&Facts>, problem: &Problem) -> f64 {
    let known = facts.and_then(|facts| roofline(facts, problem, false));
    known.map_or_else(
        || (problem.flops() / UNKNOWN_FLOPS).max(problem.bytes() / UNKNOWN_BYTES),
        |least| least.0 / 1e6,
    )
}

/// Roughly how many configs a device times. The exact number would take too long to find.
fn configs(hardware: &Hardware, breadth: Breadth) -> f64 {
    let cores = hardware.facts.map_or(1, |facts| facts.sms);
    match (hardware.vendor, breadth) {
        // 64 blocks for each number of threads, which is a power of two.
        (Vendor::Cpu, Breadth::Full) => 64.0 * f64::from(cores.ilog2().min(5) + 1),
        (Vendor::Cpu, Breadth::Sample) => (6.0 * f64::from(cores.ilog2().min(5) + 1)) + 100.0,
        (_, Breadth::Full) => 1534.0,
        (_, Breadth::Sample) => GPU_SAMPLE,
    }
}
