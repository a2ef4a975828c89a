//! Measures one problem: looks at every config, then rounds over the best. `timing_queue` takes the
//! times.

use std::time::Instant;

use super::driver::MemoryInfo;
use super::looks::CHUNK;
use super::management::Management;
use super::measured_problem::{MeasuredProblem, Report};
use super::operands::{SPARE_BYTES, bytes_needed};
use super::policy::GROUPED_BELOW_NS;
use super::prepared::PreparedProblem;
use super::protocol::{Cause, Measure, Message, Results};
use super::session::Session;
use super::session_error::SessionError;
use super::timing_queue::Spent;
use crate::kernels::variant::Variant;

/// Measures a problem, and reports its progress to `report`.
pub(super) fn measure<'a>(
    session: &'a mut Session,
    request: &Measure,
    report: &'a mut Report<'a>,
) -> Result<Message, SessionError> {
    let began = Instant::now();
    session.queue.begin_problem();
    let problem = &request.problem;
    let variant = match Variant::in_pack(problem, session.store.is_exact()) {
        Ok(variant) => variant,
        Err(reason) => return Ok(Message::Refused { reason }),
    };
    let mut results = Results::default();
    let candidates = match session.candidates(&variant, request, &mut results) {
        Ok(candidates) => candidates,
        Err(reason) => return Ok(Message::Refused { reason }),
    };
    let needed = bytes_needed(problem) + SPARE_BYTES;
    let memory = session.gpu.memory()?;
    if needed > memory.total {
        return Ok(Message::OutOfMemory);
    }
    if needed > memory.free {
        return Ok(Message::Refused { reason: no_room(needed, memory) });
    }
    let prepared = match PreparedProblem::new(session, request) {
        Ok(prepared) => prepared,
        // Another program has taken the GPU's memory meanwhile.
        Err(error) if error.cause() == Cause::Memory => {
            let reason = format!("the GPU has no memory left ({error}); --resume measures it when it has");
            return Ok(Message::Refused { reason });
        }
        Err(SessionError::Lacking(reason)) => return Ok(Message::Refused { reason }),
        Err(error) => return Err(error),
    };

    let mut measurement = MeasuredProblem::new(prepared, &candidates, results, report);
    measurement.first_look(if request.careful { 1 } else { CHUNK })?;
    let Some(best) = measurement.best() else { return Ok(Message::Measured(measurement.results)) };
    measurement.grouped = measurement.prepared.takes_turns() && best < GROUPED_BELOW_NS;
    if measurement.grouped {
        measurement.look_in_groups(best)?;
    }
    let near = measurement.thorough()?;
    let best = measurement.best().unwrap_or(best);
    let rest: Vec<(usize, u64)> =
        measurement.looks.iter().copied().filter(|(number, _)| !near.contains(number)).collect();
    measurement.look_again(&rest, best)?;

    let MeasuredProblem { mut results, prepared, .. } = measurement;
    results.timed.sort_unstable_by_key(|(number, _)| *number);
    results.failed.sort_unstable_by_key(|(number, _)| *number);
    let state = prepared.session.management.as_ref().map(Management::state).unwrap_or_default();
    results.sm_mhz = state.sm_mhz;
    results.celsius = state.celsius;
    results.power_capped = state.throttled.is_some_and(|throttled| throttled.by_power_cap);
    let Spent { busy_ns, late } = prepared.session.queue.spent;
    results.busy_ns = busy_ns;
    results.late = late;
    results.wall_ns = began.elapsed().as_nanos() as u64;
    Ok(Message::Measured(results))
}

/// The reason for refusing a problem that would fit on the GPU, but not beside what other programs
/// hold now.
fn no_room(needed: u64, memory: MemoryInfo) -> String {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    format!(
        "it needs {} of the GPU's memory with what is left to others, and {} of {} are free; where other \
         programs hold them, end those, and --resume measures it",
        gib(needed),
        gib(memory.free),
        gib(memory.total)
    )
}
