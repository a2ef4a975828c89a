//! The form's fields as signals, and a shape as parameters of the address. A change of the address changes the signals,
//! and a change of a signal changes the address.

use std::time::Duration;

use diode_core::{Bias, DType, Epilogue, Field, Invalid, Layout, Op, Problem, ProblemFields};
use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_location, use_navigate, use_query_map};

use crate::pages::predict::shape_words::{batched, size};
use crate::query::address;

/// The types that the form offers. The address may name others.
pub(crate) const DTYPES: [DType; 3] = [DType::BFloat16, DType::Float16, DType::Float32];

/// The address changes this long after the last key press, because browsers limit how often it may change.
const SETTLED: Duration = Duration::from_millis(250);

/// Every field of the form, as text.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    pub(super) op: RwSignal<String>,
    pub(super) b: RwSignal<String>,
    pub(super) m: RwSignal<String>,
    pub(super) n: RwSignal<String>,
    pub(super) k: RwSignal<String>,
    pub(super) dtype: RwSignal<String>,
    pub(super) a_layout: RwSignal<String>,
    pub(super) b_layout: RwSignal<String>,
    pub(super) bias: RwSignal<String>,
    /// Not empty if float32 may be rounded to TF32.
    pub(super) tf32: RwSignal<String>,
    pub(super) epilogue: RwSignal<String>,
    pub(super) hardware: RwSignal<String>,
    pub(super) model: RwSignal<String>,
}

/// The parameters, in the order of the address.
fn keys() -> impl Iterator<Item = Key> {
    let [tf32, hardware, model] = ["tf32", "hardware", "model"].map(Key::optional);
    SHAPE.into_iter().chain([tf32, EPILOGUE, hardware, model])
}

impl Fields {
    /// Fields with the values of the address. They follow the address when a link or the back button
    /// changes it, and write what the reader types into it.
    pub(super) fn from_address() -> Self {
        let [op, b, m, n, k, dtype, a_layout, b_layout, bias] =
            SHAPE.map(|key| RwSignal::new(key.default.to_owned()));
        let [tf32, hardware, model] = [(); 3].map(|()| RwSignal::new(String::new()));
        let epilogue = RwSignal::new(EPILOGUE.default.to_owned());
        let fields =
            Self { op, b, m, n, k, dtype, a_layout, b_layout, bias, tf32, epilogue, hardware, model };
        let map = use_query_map();
        let read = move || {
            map.with(|map| {
                for (key, signal) in keys().zip(fields.signals()) {
                    let value = map.get_str(key.name).unwrap_or(key.default);
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
            // In the first run, the fields have just been read from the address.
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

    fn signals(self) -> [RwSignal<String>; 13] {
        [
            self.op,
            self.b,
            self.m,
            self.n,
            self.k,
            self.dtype,
            self.a_layout,
            self.b_layout,
            self.bias,
            self.tf32,
            self.epilogue,
            self.hardware,
            self.model,
        ]
    }

    /// Sets the fields to what a text says about a shape. Other fields stay as they are. A batch also
    /// changes the op to a batched one, unless the text names the op.
    pub(super) fn take(self, said: &[(&'static str, String)]) {
        let value = |key: &str| said.iter().find(|(own, _)| *own == key).map(|(_, value)| value.clone());
        if value("b").is_some() {
            self.op.update(|op| *op = batched(op.parse().unwrap_or(Op::Mm)).to_string());
        }
        for (key, signal) in keys().zip(self.signals()) {
            if let Some(value) = value(key.name) {
                signal.set(value);
            }
        }
    }

    /// The problem that the fields describe. The error has the same words as on the server and the command
    /// line.
    pub(super) fn problem(self) -> Result<Problem, Invalid> {
        let values = self.signals().map(|signal| signal.get());
        let [op, b, m, n, k, dtype, a_layout, b_layout, bias, ..] = values.each_ref().map(String::as_str);
        problem_of([op, b, m, n, k, dtype, a_layout, b_layout, bias])
    }

    /// The epilogue, or why its name is invalid.
    pub(super) fn epilogue(self) -> Result<Epilogue, Invalid> {
        self.epilogue.with(|name| name.parse())
    }
}

/// The address for the values of the fields.
fn written(path: &str, values: [String; 13]) -> String {
    let said = keys().zip(values).filter(|(key, value)| key.is_said(value));
    address(path, said.map(|(key, value)| (key.name, value)))
}

/// A parameter of the address.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// The value that applies if the address leaves the parameter out.
    pub(crate) default: &'static str,
    /// Whether the address names the parameter even if it has the default value.
    always: bool,
}

const fn key(name: &'static str, default: &'static str, always: bool) -> Key {
    Key { name, default, always }
}

/// The parameters that describe a shape, in the order of the address.
pub(crate) const SHAPE: [Key; 9] = [
    key("op", "mm", true),
    key("b", "1", true),
    key("m", "4096", true),
    key("n", "4096", true),
    key("k", "4096", true),
    key("dtype", "bfloat16", true),
    key("a_layout", "row", false),
    key("b_layout", "row", true),
    key("bias", "matrix", false),
];

/// The epilogue, which stands after the shape.
const EPILOGUE: Key = key("epilogue", Epilogue::None.as_str(), false);

impl Key {
    /// A parameter that the address names only if it has a value.
    pub(super) const fn optional(name: &'static str) -> Self {
        key(name, "", false)
    }

    /// Whether the address names the parameter. An emptied size must stay in the address as empty: if it were
    /// left out, it would have its default again.
    pub(super) fn is_said(&self, value: &str) -> bool {
        self.always || value != self.default
    }
}

/// The problem that values of [`SHAPE`] describe. The error has the same words as on the server and the command
/// line.
pub(crate) fn problem_of(values: [&str; 9]) -> Result<Problem, Invalid> {
    let [op, b, m, n, k, dtype, a_layout, b_layout, bias] = values;
    let op: Op = op.parse()?;
    let dtype: DType = dtype.parse()?;
    let (a_layout, b_layout) = (a_layout.parse()?, b_layout.parse()?);
    let bias = if op.has_bias() { bias.parse()? } else { Bias::None };
    let b = if op.is_batched() { size(Field::B, b)? } else { 1 };
    let (m, n, k) = (size(Field::M, m)?, size(Field::N, n)?, size(Field::K, k)?);
    let plain = ProblemFields::plain(op, b, m, n, k, dtype);
    Problem::new(ProblemFields { a_layout, b_layout, bias, ..plain })
}

/// Whether Predict's form can describe a problem completely.
pub(crate) fn has_a_form(problem: &Problem) -> bool {
    let p = problem;
    p.a_dtype == p.b_dtype && p.a_dtype == p.out_dtype && p.out_layout.is_none()
}

/// The values of [`SHAPE`] for a problem. Parameters that the address leaves out are empty.
pub(crate) fn shape_of(problem: &Problem) -> [(&'static str, String); 9] {
    let p = problem;
    let bias = if p.op.has_bias() { p.bias.to_string() } else { String::new() };
    let values = [
        p.op.to_string(),
        p.b.to_string(),
        p.m.to_string(),
        p.n.to_string(),
        p.k.to_string(),
        p.a_dtype.to_string(),
        p.a_layout.to_string(),
        p.b_layout.to_string(),
        bias,
    ];
    let mut pairs = SHAPE.map(|key| (key.name, String::new()));
    for ((pair, key), value) in pairs.iter_mut().zip(SHAPE).zip(values) {
        if key.is_said(&value) {
            pair.1 = value;
        }
    }
    pairs
}

/// The flags of `diode predict` for a problem.
pub(crate) fn flags(problem: &Problem) -> String {
    let p = problem;
    let mut flags = format!("--op {}", p.op);
    if p.op.is_batched() {
        flags += &format!(" --b {}", p.b);
    }
    flags += &format!(" --m {} --n {} --k {} --dtype {}", p.m, p.n, p.k, p.a_dtype);
    for (name, layout) in [("a", p.a_layout), ("b", p.b_layout)] {
        if layout != Layout::Row {
            flags += &format!(" --{name}-layout {layout}");
        }
    }
    if p.op.has_bias() {
        flags += &format!(" --bias {}", p.bias);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_order_and_emptied_sizes() {
        let values = ["mm", "1", "", "64", "32", "float16", "row", "row", "matrix", "", "gelu", "", "a1"];
        let values = values.map(str::to_owned);
        let text = "/predict?op=mm&b=1&m=&n=64&k=32&dtype=float16&b_layout=row&epilogue=gelu&model=a1";
        assert_eq!(written("/predict", values), text);
    }
}

#[cfg(test)]
mod address_tests {
    use super::*;
    use crate::query::link;

    #[test]
    fn nothing_of_a_shape_is_lost() {
        let plain = ProblemFields::plain(Op::Addmm, 1, 64, 128, 32, DType::Float16);
        let linear = ProblemFields { bias: Bias::Vector, b_layout: Layout::Column, ..plain.clone() };
        let linear = Problem::new(linear).unwrap();
        assert_eq!(
            link("/predict", shape_of(&linear)),
            "/predict?op=addmm&b=1&m=64&n=128&k=32&dtype=float16&b_layout=column&bias=vector"
        );
        assert_eq!(
            flags(&linear),
            "--op addmm --m 64 --n 128 --k 32 --dtype float16 --b-layout column --bias vector"
        );
        let plain = Problem::new(ProblemFields { a_layout: Layout::Column, ..plain }).unwrap();
        assert_eq!(
            link("/predict", shape_of(&plain)),
            "/predict?op=addmm&b=1&m=64&n=128&k=32&dtype=float16&a_layout=column&b_layout=row"
        );
        assert!(has_a_form(&plain));
        for problem in [linear, plain] {
            let values = shape_of(&problem);
            let values = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|place: usize| match values[place].1.as_str() {
                "" => SHAPE[place].default,
                value => value,
            });
            assert_eq!(problem_of(values), Ok(problem));
        }
    }
}
