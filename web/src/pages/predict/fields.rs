//! The form's fields as signals. They follow the page's address, and the address follows them.

use std::time::Duration;

use diode_core::{DType, Field, Invalid, Layout, Op, Problem, ProblemFields};
use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_location, use_navigate, use_query_map};

use crate::query::address;

/// The types that the form offers; the address may name others.
pub(crate) const DTYPES: [DType; 3] = [DType::BFloat16, DType::Float16, DType::Float32];

/// The address follows this long after the last key: browsers limit how often
/// it may change.
const SETTLED: Duration = Duration::from_millis(250);

/// The parameters in the order of the address, and their values where it leaves
/// them out.
const DEFAULTS: [(&str, &str); 9] = [
    ("op", "mm"),
    ("b", "1"),
    ("m", "4096"),
    ("n", "4096"),
    ("k", "4096"),
    ("dtype", "bfloat16"),
    ("b_layout", "row"),
    ("hardware", ""),
    ("model", ""),
];

/// Every field of the form, as text.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    pub(super) op: RwSignal<String>,
    pub(super) b: RwSignal<String>,
    pub(super) m: RwSignal<String>,
    pub(super) n: RwSignal<String>,
    pub(super) k: RwSignal<String>,
    pub(super) dtype: RwSignal<String>,
    pub(super) b_layout: RwSignal<String>,
    pub(super) hardware: RwSignal<String>,
    pub(super) model: RwSignal<String>,
}

impl Fields {
    /// Fields with the values of the address. They change when a link or the back
    /// button changes it, and write what is typed back to it.
    pub(super) fn from_address() -> Self {
        let [op, b, m, n, k, dtype, b_layout, hardware, model] =
            DEFAULTS.map(|(_, default)| RwSignal::new(default.to_owned()));
        let fields = Self { op, b, m, n, k, dtype, b_layout, hardware, model };
        let map = use_query_map();
        let read = move || {
            map.with(|map| {
                for ((key, default), signal) in DEFAULTS.into_iter().zip(fields.signals()) {
                    let value = map.get_str(key).unwrap_or(default);
                    if signal.with_untracked(|current| current != value) {
                        signal.set(value.to_owned());
                    }
                }
            });
        };
        untrack(read);
        Effect::new(move |_| read());
        fields.write_back();
        fields
    }

    fn write_back(self) {
        let navigate = use_navigate();
        let path = use_location().pathname;
        let own_path = path.get_untracked();
        let pending = StoredValue::new(None::<TimeoutHandle>);
        let cancel = move || {
            if let Some(Some(handle)) = pending.try_update_value(Option::take) {
                handle.clear();
            }
        };
        on_cleanup(cancel);
        Effect::new(move |ran: Option<()>| {
            let values = self.signals().map(|signal| signal.get());
            // The first run sees the values of the address itself.
            if ran.is_none() {
                return;
            }
            cancel();
            let (navigate, own_path) = (navigate.clone(), own_path.clone());
            let write = move || {
                if path.get_untracked() == own_path {
                    let options = NavigateOptions {
                        resolve: false,
                        scroll: false,
                        replace: true,
                        ..Default::default()
                    };
                    navigate(&written(&own_path, values), options);
                }
            };
            pending.set_value(set_timeout_with_handle(write, SETTLED).ok());
        });
    }

    fn signals(self) -> [RwSignal<String>; 9] {
        [self.op, self.b, self.m, self.n, self.k, self.dtype, self.b_layout, self.hardware, self.model]
    }

    /// The problem the fields describe, or what is wrong with them in the words
    /// that the server and the command line use.
    pub(super) fn problem(self) -> Result<Problem, Invalid> {
        let op: Op = self.op.get().parse()?;
        let dtype: DType = self.dtype.get().parse()?;
        let layout: Layout = self.b_layout.get().parse()?;
        let b = if op.is_batched() { size(Field::B, &self.b.get())? } else { 1 };
        let (m, n, k) =
            (size(Field::M, &self.m.get())?, size(Field::N, &self.n.get())?, size(Field::K, &self.k.get())?);
        Problem::new(ProblemFields { b_layout: layout, ..ProblemFields::plain(op, b, m, n, k, dtype) })
    }
}

/// The address for what is typed. A size that was emptied stays empty there:
/// left out, it would be the default again.
fn written(path: &str, values: [String; 9]) -> String {
    let pairs = DEFAULTS.into_iter().zip(values);
    let said = pairs.filter(|((_, default), value)| !(default.is_empty() && value.is_empty()));
    address(path, said.map(|((key, _), value)| (key, value)))
}

/// Reads a size. A text that is no number is refused in the same words as a
/// number out of range.
pub(crate) fn size(field: Field, text: &str) -> Result<u64, Invalid> {
    let text = text.trim();
    let size = text.parse().ok().filter(|size| (1..=Problem::MAX_DIM).contains(size));
    size.ok_or_else(|| {
        let given = if text.is_empty() { "nothing" } else { text };
        Invalid::new(field, given, format!("a size from 1 to {}", Problem::MAX_DIM))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_refused_in_the_words_of_the_vocabulary() {
        let plain = |m| ProblemFields::plain(Op::Mm, 1, m, 64, 64, DType::BFloat16);
        let zero = Problem::new(plain(0)).unwrap_err().to_string();
        assert_eq!(size(Field::M, "x").unwrap_err().to_string(), zero.replace("got 0", "got x"));
        assert_eq!(size(Field::M, " ").unwrap_err().to_string(), zero.replace("got 0", "got nothing"));
        assert_eq!(size(Field::M, "0").unwrap_err().to_string(), zero);
        assert_eq!(size(Field::M, " 4096 "), Ok(4096));
    }

    #[test]
    fn addresses_keep_their_order_and_emptied_sizes() {
        let values = ["mm", "1", "", "64", "32", "float16", "row", "", "a1"].map(str::to_owned);
        let text = "/predict?op=mm&b=1&m=&n=64&k=32&dtype=float16&b_layout=row&model=a1";
        assert_eq!(written("/predict", values), text);
    }
}
