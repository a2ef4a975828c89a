//! How long it takes to plan a day of a thousand agents: `cargo run --release -p diode-server --example plan_day`.
//!
//! All agents measure the same hardware without a pause. Each problem takes as long as the server expects.

use std::time::Instant;

use diode_api::Ability;
use diode_core::hardware::find;
use diode_server::agents::plan::{KnownProblems, Order, Planner};

const AGENTS: f64 = 1000.0;
const DAY_SECONDS: f64 = 24.0 * 60.0 * 60.0;
/// The longest that one problem may take, in seconds. A lease is as long.
const MOST_SECONDS: f64 = 120.0;

fn main() {
    let hardware = find("nvidia-h200").expect("the catalogue has it");
    let ability = Ability::of(&hardware, 100 << 30);
    let known = KnownProblems::default();
    let start = Instant::now();
    let (mut planned, mut seconds) = (0_u64, 0.0);
    for problem in Planner::new(&hardware, &ability, MOST_SECONDS, &known, &Order::new(1)) {
        planned += 1;
        seconds += problem.seconds;
        if seconds >= AGENTS * DAY_SECONDS {
            break;
        }
    }
    println!(
        "{planned} problems, {:.1} agent-hours of {:.0}, planned in {:.2} s",
        seconds / 3600.0,
        AGENTS * 24.0,
        start.elapsed().as_secs_f64()
    );
}
