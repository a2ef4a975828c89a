//! Finds a shape among the measured problems, or the problems nearest to it.

use std::sync::Arc;

use diode_core::api::HardwareSummary;
use diode_core::{DType, Field, Invalid, Op, Problem, ProblemFields};
use leptos::prelude::*;

use crate::components::NearestProblems;
use crate::pages::predict::size;
use crate::query::{History, parameter, use_set_parameters};

/// The parameter of the page's address.
const KEY: &str = "shape";

#[component]
pub(super) fn ShapeSearch(summary: Arc<HardwareSummary>) -> impl IntoView {
    let text = parameter(KEY);
    let set = use_set_parameters();
    let hardware = summary.hardware.clone();
    let dtypes = summary.dtypes.clone();
    let (op, dtype) = (parameter("op"), parameter("dtype"));
    let found = Memo::new(move |_| {
        let text = text.get();
        (!text.trim().is_empty())
            .then(|| shape(&text, op.get().parse().ok(), dtype.get().parse().ok(), &dtypes))
    });
    let problem = Signal::derive(move || found.get().and_then(Result::ok));
    let fault = Memo::new(move |_| found.get().and_then(Result::err));
    view! {
        <div class="field search">
            <label for="shape-search">"Find a shape"</label>
            <input
                type="search"
                id="shape-search"
                placeholder="M×N×K, such as 4096x4096x4096"
                aria-describedby="shape-fault"
                aria-invalid=move || if fault.with(Option::is_some) { "true" } else { "false" }
                prop:value=move || text.get()
                on:change=move |event| set(&[(KEY, event_target_value(&event).trim().to_owned())], History::Push)
            />
            <p class="error-text" id="shape-fault" role="alert">{move || fault.get().map(|fault| fault.to_string())}</p>
        </div>
        <NearestProblems hardware problem />
    }
}

/// Reads three sizes, or four with a batch. The op and the type come from the filters, or else are the most
/// usual ones.
fn shape(text: &str, op: Option<Op>, dtype: Option<DType>, measured: &[DType]) -> Result<Problem, Invalid> {
    let parts: Vec<&str> = text.split(['x', 'X', '×', '*']).collect();
    let (b, [m, n, k]) = match parts[..] {
        [m, n, k] => (None, [m, n, k]),
        [b, m, n, k] => (Some(b), [m, n, k]),
        _ => {
            return Err(Invalid::new(
                "shape",
                format_args!("`{text}`"),
                "M×N×K or B×M×N×K, such as 4096x4096x4096",
            ));
        }
    };
    let b = b.map(|b| size(Field::B, b)).transpose()?;
    let op = match (op, b) {
        (Some(op), None) if !op.is_batched() => op,
        (Some(op), Some(_)) if op.is_batched() => op,
        (_, None) => Op::Mm,
        (_, Some(_)) => Op::Bmm,
    };
    let usual = Some(DType::BFloat16).filter(|usual| measured.contains(usual));
    let dtype = dtype.or(usual).or(measured.first().copied()).unwrap_or(DType::BFloat16);
    let (m, n, k) = (size(Field::M, m)?, size(Field::N, n)?, size(Field::K, k)?);
    Problem::new(ProblemFields::plain(op, b.unwrap_or(1), m, n, k, dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_with_the_filters_op_and_type() {
        let read = |text, op| shape(text, op, None, &[DType::Float16, DType::BFloat16]);
        let problem = read("16x4096×1024", Some(Op::Addmm)).unwrap();
        assert_eq!(
            (problem.op, problem.dims().as_str(), problem.a_dtype),
            (Op::Addmm, "16×4096×1024", DType::BFloat16)
        );
        assert_eq!(read("8*16*32*64", Some(Op::Addmm)).unwrap().op, Op::Bmm);
        for (text, word) in [("4096", "M×N×K"), ("1x2", "M×N×K"), ("1x2xk", "K"), ("0x2x3", "M")] {
            let fault = read(text, None).unwrap_err().to_string();
            assert!(fault.contains(word), "{text}: {fault}");
        }
    }
}
