//! Agents measure what the server asks for. [`plan`] says what comes next; here it is handed out.

mod coverage;
mod hand_out;
mod map;
pub mod plan;
mod plans;
mod refused;
mod weak;

pub(crate) use coverage::coverage;
pub(crate) use hand_out::hand_out;
pub(crate) use map::{map, next};
pub(crate) use plans::Plans;
pub(crate) use refused::note_refused_result;
pub(crate) use weak::ask_where_weak;

use std::sync::LazyLock;

use plan::Order;

/// The order of the plan of every hardware. The same for all, so that they are measured on the same problems.
static ORDER: LazyLock<Order> = LazyLock::new(|| Order::new(1));

/// Does once what the first lease would wait for.
pub(crate) fn get_ready() {
    LazyLock::force(&ORDER);
}

/// How long the leases are that agents ask for unless they are told otherwise. Longer problems have their turn when
/// an agent has the time for them.
const USUAL_SECONDS: f64 = 120.0;
