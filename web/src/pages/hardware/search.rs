//! Finds a shape among the measured problems, or the problems nearest to it.

use std::sync::Arc;

use diode_api::HardwareSummary;
use diode_core::{DType, Op, Problem};
use leptos::prelude::*;

use crate::components::NearestProblems;
use crate::pages::list::shape_of_kind;
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
                placeholder="M×N×K, such as 4096x4096x4096 fp16"
                aria-describedby="shape-fault"
                aria-invalid=move || if fault.with(Option::is_some) { "true" } else { "false" }
                prop:value=move || text.get()
                on:change=move |event| set(&[(KEY, event_target_value(&event).trim().to_owned())], History::Push)
            />
            <p class="error-text" id="shape-fault" role="alert">{move || fault.get()}</p>
        </div>
        <NearestProblems hardware problem />
    }
}

/// Reads a shape in the notation of all pages: `4096x4096x4096`, `8x512x512x64 fp16`. An op or a type that the text
/// does not name comes from the filters, or else is the most usual one.
fn shape(text: &str, op: Option<Op>, dtype: Option<DType>, measured: &[DType]) -> Result<Problem, String> {
    let usual = Some(DType::BFloat16).filter(|usual| measured.contains(usual));
    let dtype = dtype.or(usual).or(measured.first().copied()).unwrap_or(DType::BFloat16);
    shape_of_kind(text, op.unwrap_or(Op::Mm), dtype)
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
        assert_eq!(read("8*16*32*64", None).unwrap().op, Op::Bmm);
        assert_eq!(read("8*16*32*64", Some(Op::Addmm)).unwrap().op, Op::Baddbmm);
        assert_eq!(read("16x32x64", Some(Op::Bmm)).unwrap().op, Op::Mm);
        let named = read("1x28672x4096 fp16 addmm", None).unwrap();
        assert_eq!((named.op, named.a_dtype), (Op::Addmm, DType::Float16));
        assert_eq!(read("4096, 4096, 1024", None).unwrap().dims(), "4096×4096×1024");
        for (text, word) in [("4096", "got 1 size,"), ("1x2", "M×N×K"), ("1x2xk", "1x2xk"), ("0x2x3", "M")]
        {
            let fault = read(text, None).unwrap_err();
            assert!(fault.contains(word), "{text}: {fault}");
        }
    }
}
