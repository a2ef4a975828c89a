//! The form's fields as signals, and a shape as parameters of the address. A change of the address changes the signals,
//! and a change of a signal changes the address.

use std::time::Duration;

use diode_core::problem::size;
use diode_core::{
    Bias, DType, Epilogue, Field, Groups, Invalid, Layout, Op, Problem, ProblemFields, Rows, Scaling,
};
use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_location, use_navigate, use_query_map};

use crate::query::address;

/// The types that the form offers for unscaled operands. The address may name others.
pub(crate) const DTYPES: [DType; 3] = [DType::BFloat16, DType::Float16, DType::Float32];

/// The types of scaled operands.
pub(crate) const NARROW: [DType; 2] = [DType::Float8E4M3, DType::Int8];

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
    pub(super) scaling: RwSignal<String>,
    pub(super) groups: RwSignal<String>,
    pub(super) top_k: RwSignal<String>,
    pub(super) stage: RwSignal<String>,
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
        let [op, b, m, n, k, dtype, a_layout, b_layout, bias, scaling, groups, top_k, stage] =
            SHAPE.map(|key| RwSignal::new(key.default.to_owned()));
        let [tf32, hardware, model] = [(); 3].map(|()| RwSignal::new(String::new()));
        let epilogue = RwSignal::new(EPILOGUE.default.to_owned());
        let fields = Self {
            op,
            b,
            m,
            n,
            k,
            dtype,
            a_layout,
            b_layout,
            bias,
            scaling,
            groups,
            top_k,
            stage,
            tf32,
            epilogue,
            hardware,
            model,
        };
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
        Effect::new(move |_| {
            if let Ok(op) = fields.op.with(|op| op.parse()) {
                fields.suit(op);
            }
        });
        fields.write_back();
        fields
    }

    /// Sets the type, scales and groups to usual ones where those of the form do not suit an op.
    fn suit(self, op: Op) {
        let set = |signal: RwSignal<String>, suits: &dyn Fn(&str) -> bool, usual: &str| {
            if !signal.with_untracked(|text| suits(text)) {
                signal.set(usual.to_owned());
            }
        };
        let is_narrow =
            |text: &str| text.parse().is_ok_and(|dtype: DType| dtype.is_fp8() || dtype == DType::Int8);
        match (op.may_scale(), op == Op::FusedMoe) {
            (true, false) => {
                set(self.dtype, &is_narrow, NARROW[0].as_str());
                set(self.scaling, &|text| text != Scaling::None.as_str(), Scaling::Row.as_str());
            }
            (false, _) => {
                set(self.scaling, &|text| text == Scaling::None.as_str(), Scaling::None.as_str());
                set(self.dtype, &|text| op.is_plain() || !is_narrow(text), DTYPES[0].as_str());
            }
            // Experts may be scaled or not.
            (true, true) => {}
        }
        for (signal, usual) in [(self.groups, "128"), (self.top_k, "8")] {
            set(signal, &|text| text.is_empty() != op.is_grouped(), if op.is_grouped() { usual } else { "" });
        }
        let is_fused = op == Op::FusedMoe;
        set(self.stage, &|text| text.is_empty() != is_fused, if is_fused { "gate-up" } else { "" });
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

    fn signals(self) -> [RwSignal<String>; 17] {
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
            self.scaling,
            self.groups,
            self.top_k,
            self.stage,
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
            self.op.update(|op| *op = op.parse().unwrap_or(Op::Mm).batched().to_string());
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
        let shape: [&str; SHAPE.len()] = std::array::from_fn(|place| values[place].as_str());
        problem_of(shape)
    }

    /// The epilogue, or why its name is invalid.
    pub(super) fn epilogue(self) -> Result<Epilogue, Invalid> {
        self.epilogue.with(|name| name.parse())
    }
}

/// The address for the values of the fields.
fn written(path: &str, values: [String; 17]) -> String {
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
pub(crate) const SHAPE: [Key; 13] = [
    key("op", "mm", true),
    key("b", "1", true),
    key("m", "4096", true),
    key("n", "4096", true),
    key("k", "4096", true),
    key("dtype", "bfloat16", true),
    key("a_layout", "row", false),
    key("b_layout", "row", true),
    key("bias", "matrix", false),
    key("scaling", Scaling::None.as_str(), false),
    Key::optional("groups"),
    Key::optional("top_k"),
    Key::optional("stage"),
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
pub(crate) fn problem_of(values: [&str; SHAPE.len()]) -> Result<Problem, Invalid> {
    let [op, b, m, n, k, dtype, a_layout, b_layout, bias, scaling, groups, top_k, stage] = values;
    let op: Op = op.parse()?;
    let dtype: DType = dtype.parse()?;
    let bias = if op.has_bias() { bias.parse()? } else { Bias::None };
    let b = if op.is_batched() { size(Field::B, b)? } else { 1 };
    let (m, n, k) = (size(Field::M, m)?, size(Field::N, n)?, size(Field::K, k)?);
    let plain = ProblemFields::plain(op, b, m, n, k, dtype);
    if op.is_plain() {
        let (a_layout, b_layout) = (a_layout.parse()?, b_layout.parse()?);
        return Problem::new(ProblemFields { a_layout, b_layout, bias, ..plain });
    }
    // The other ops know one layout, which the form does not ask for.
    let scaling = if op.may_scale() { scaling.parse()? } else { Scaling::None };
    let groups = match op.is_grouped() {
        true => Some(Groups {
            stage: if op == Op::FusedMoe { Some(stage.parse()?) } else { None },
            ..Groups::routed(small(Field::Groups, groups)?, small(Field::TopK, top_k)?)
        }),
        false => None,
    };
    Problem::new(ProblemFields { scaling, groups, ..plain })
}

/// Reads a number of groups.
fn small(field: Field, text: &str) -> Result<u32, Invalid> {
    size(field, text)?
        .try_into()
        .map_err(|_| Invalid::new(field, text, format!("a number from 1 to {}", Groups::MAX)))
}

/// Whether Predict's form can describe a problem completely.
pub(crate) fn has_a_form(problem: &Problem) -> bool {
    let p = problem;
    let usual = ProblemFields::plain(p.op, p.b, p.m, p.n, p.k, p.a_dtype);
    let is_routed = p.groups.is_none_or(|groups| groups.rows == Rows::Routed);
    let has_layouts = p.op.is_plain() || p.b_layout == usual.b_layout;
    p.a_dtype == p.b_dtype
        && p.out_dtype == usual.out_dtype
        && p.out_layout.is_none()
        && is_routed
        && has_layouts
}

/// The values of [`SHAPE`] for a problem. Parameters that the address leaves out are empty.
pub(crate) fn shape_of(problem: &Problem) -> [(&'static str, String); SHAPE.len()] {
    let p = problem;
    let bias = if p.op.has_bias() { p.bias.to_string() } else { String::new() };
    let said = Option::unwrap_or_default;
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
        p.scaling.to_string(),
        said(p.groups.map(|groups| groups.count.to_string())),
        said(p.groups.map(|groups| groups.top_k.to_string())),
        said(p.groups.and_then(|groups| groups.stage).map(|stage| stage.to_string())),
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
    for (name, layout, usual) in [("a", p.a_layout, Layout::Row), ("b", p.b_layout, p.op.usual_b_layout())] {
        if layout != usual {
            flags += &format!(" --{name}-layout {layout}");
        }
    }
    if p.op.has_bias() {
        flags += &format!(" --bias {}", p.bias);
    }
    if p.scaling != Scaling::None {
        flags += &format!(" --scaling {}", p.scaling);
    }
    if let Some(groups) = p.groups {
        flags += &format!(" --groups {} --top-k {}", groups.count, groups.top_k);
        flags += &groups.stage.map(|stage| format!(" --stage {stage}")).unwrap_or_default();
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_order_and_emptied_sizes() {
        let values = [
            "mm", "1", "", "64", "32", "float16", "row", "row", "matrix", "none", "", "", "", "", "gelu", "",
            "a1",
        ];
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
            is_the_same_again(problem);
        }
    }

    fn is_the_same_again(problem: Problem) {
        let values = shape_of(&problem);
        let values = std::array::from_fn(|place| match values[place].1.as_str() {
            "" => SHAPE[place].default,
            value => value,
        });
        assert!(has_a_form(&problem), "{problem:?}");
        assert_eq!(problem_of(values), Ok(problem));
    }

    #[test]
    fn scales_and_groups_are_in_the_address_and_in_the_flags() {
        let scaled = ProblemFields::plain(Op::ScaledMm, 1, 16, 4096, 14336, DType::Float8E4M3);
        let scaled = Problem::new(ProblemFields { scaling: Scaling::Row, ..scaled }).unwrap();
        assert_eq!(
            flags(&scaled),
            "--op scaled_mm --m 16 --n 4096 --k 14336 --dtype float8_e4m3fn --scaling row"
        );
        let groups = Some(Groups { stage: Some(diode_core::Stage::GateUp), ..Groups::routed(128, 8) });
        let experts = ProblemFields::plain(Op::FusedMoe, 1, 64, 1536, 2048, DType::Float8E4M3);
        let experts = Problem::new(ProblemFields { scaling: Scaling::Block, groups, ..experts }).unwrap();
        assert!(
            link("/predict", shape_of(&experts)).ends_with("&scaling=block&groups=128&top_k=8&stage=gate-up")
        );
        assert!(flags(&experts).ends_with("--scaling block --groups 128 --top-k 8 --stage gate-up"));
        for problem in [scaled, experts] {
            is_the_same_again(problem);
        }
    }
}
