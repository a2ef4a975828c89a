//! The conditions of a filter.

use diode_api::ProblemFilter;
use diode_core::ids::HardwareSlug;

use crate::store::statement::Statement;

/// Adds the conditions to a statement that calls the entries `e`.
pub(super) fn push_filter(select: Statement, slug: &HardwareSlug, filter: &ProblemFilter) -> Statement {
    let mut select = select.push(" WHERE e.hardware = ").push_bind(slug.as_str());
    let texts = [
        (" AND e.op = ", filter.op.map(|v| v.to_string())),
        (" AND e.a_dtype = ", filter.dtype.map(|v| v.to_string())),
        (" AND e.b_layout = ", filter.b_layout.map(|v| v.to_string())),
        (" AND e.method = ", filter.method.map(|v| v.to_string())),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            select = select.push(condition).push_bind(text);
        }
    }
    let bounds = [
        (" AND e.m >= ", filter.min_m),
        (" AND e.m <= ", filter.max_m),
        (" AND e.n >= ", filter.min_n),
        (" AND e.n <= ", filter.max_n),
        (" AND e.k >= ", filter.min_k),
        (" AND e.k <= ", filter.max_k),
    ];
    for (condition, bound) in bounds {
        if let Some(bound) = bound {
            select = select.push(condition).push_bind(bound);
        }
    }
    select
}
