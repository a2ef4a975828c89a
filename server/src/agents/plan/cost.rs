use diode_core::Problem;
use diode_core::api::Breadth;
use diode_core::hardware::{Facts, Hardware, Vendor, roofline};

/// Seconds for each problem: making the inputs, checking results, sending them.
const PER_PROBLEM: f64 = 0.1;

/// Launches of a config on average: most get few.
const LAUNCHES: f64 = 4.0;

/// How many times the roofline a config takes on average.
const SLOWDOWN: f64 = 5.0;

/// Seconds that a launch takes besides, with the flush of the cache.
const PER_LAUNCH: f64 = 50e-6;

/// The rates of hardware that nobody has described: those of a small one, so that a lease is rather too short.
const UNKNOWN_FLOPS: f64 = 1e11;
const UNKNOWN_BYTES: f64 = 1e10;

/// Configs of a GPU's sample: 200 that a model expects to be fast, 100 drawn ones, and those of the default list.
const GPU_SAMPLE: f64 = 310.0;

/// How long a device is expected to take for a problem.
pub fn expected_seconds(hardware: &Hardware, problem: &Problem, breadth: Breadth) -> f64 {
    seconds(hardware, launch(hardware, problem), breadth)
}

/// How long a launch is expected to take on average.
pub(super) fn launch(hardware: &Hardware, problem: &Problem) -> f64 {
    best_case(hardware.facts.as_ref(), problem) * SLOWDOWN + PER_LAUNCH
}

/// How long a problem is expected to take whose launches take so long.
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

/// About how many configs there are; the exact number would take longer to find than it is worth.
fn configs(hardware: &Hardware, breadth: Breadth) -> f64 {
    let cores = hardware.facts.map_or(1, |facts| facts.sms);
    match (hardware.vendor, breadth) {
        // 64 blocks for each power of two of threads.
        (Vendor::Cpu, Breadth::Full) => 64.0 * f64::from(cores.ilog2().min(5) + 1),
        (Vendor::Cpu, Breadth::Sample) => (6.0 * f64::from(cores.ilog2().min(5) + 1)) + 100.0,
        (_, Breadth::Full) => 1534.0,
        (_, Breadth::Sample) => GPU_SAMPLE,
    }
}
