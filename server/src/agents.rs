//! Agents measure what the server asks for. [`plan`] decides what comes next; this module hands it out.

pub(crate) mod agent_routes;
pub(crate) mod agent_store;
mod coverage;
pub(crate) mod lease_store;
pub mod plan;
mod planning;
pub(crate) mod work_store;

pub(crate) use coverage::{coverage, map, next, shown};
pub(crate) use planning::{Plans, ask_where_weak, hand_out};

use std::sync::LazyLock;

use plan::Order;

/// The order of the plan. All hardware has the same order, so that it is measured on the same problems.
static ORDER: LazyLock<Order> = LazyLock::new(|| Order::new(1));

/// Computes the order at the start, so that the first lease need not wait for it.
pub(crate) fn get_ready() {
    LazyLock::force(&ORDER);
}

/// The usual length of a lease, in seconds. Longer problems are planned when an agent asks for a longer lease.
const USUAL_SECONDS: f64 = 120.0;
