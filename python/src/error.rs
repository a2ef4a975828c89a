//! How failures appear in Python.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diode_core::Invalid;
use diode_core::error::Subject;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

pyo3::import_exception!(torch_diode.errors, DiodeError);
pyo3::import_exception!(torch_diode.errors, DiodeValueError);
pyo3::import_exception!(torch_diode.errors, DiodeTypeError);

/// A `DiodeError` with the message of an error in Rust.
pub(crate) fn refusal(error: impl std::fmt::Display) -> PyErr {
    DiodeError::new_err(in_pythons_words(&error.to_string()))
}

/// The same for an argument whose value makes no sense. It is a `ValueError`, too.
pub(crate) fn wrong_value(error: impl std::fmt::Display) -> PyErr {
    DiodeValueError::new_err(in_pythons_words(&error.to_string()))
}

/// The same for an argument of a wrong type. It is a `TypeError`, too.
pub(crate) fn wrong_type(name: &str, given: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shown = given.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    DiodeTypeError::new_err(format!("{name}: got {shown:.60}, expected {expected}"))
}

/// What is expected of a number that is far too large or negative.
pub(crate) const USUAL: &str = "a whole number of usual size";

/// A whole number as Python gives it: an `int`, or what can be used as one.
pub(crate) struct Whole(pub(crate) i128);

impl FromPyObject<'_, '_> for Whole {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        whole(&given).map(Self)
    }
}

/// The same, for an argument with a default.
pub(crate) fn whole(given: &Bound<'_, PyAny>) -> PyResult<i128> {
    given.extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(given.py()) {
        true => wrong_value(format_args!("got a number beyond 10^38, expected {USUAL}")),
        false => error,
    })
}

impl Whole {
    /// The number, if it fits.
    pub(crate) fn fit<T: TryFrom<i128>>(
        self,
        name: impl Into<Subject>,
        expected: impl Into<String>,
    ) -> Result<T, Invalid> {
        T::try_from(self.0).map_err(|_| Invalid::new(name, self.0, expected))
    }
}

/// How messages of libraries are worded here.
const REWORDED: [(&str, &str); 7] = [
    ("invalid type: ", "got "),
    ("invalid value: ", "got "),
    ("got sequence", "got a list"),
    ("got map", "got an object"),
    ("got null", "got None"),
    ("EOF while parsing", "the text ends within"),
    ("expected value at", "expected JSON at"),
];

/// A message in one line, without words that say something to Rust's users only: names of its types, and the numbers that it
/// adds to errors of the system: `No such file or directory (os error 2)`.
fn in_pythons_words(message: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = message.split(' ').peekable();
    while let Some(word) = rest.next() {
        match word {
            "(os" if rest.peek() == Some(&"error") => {
                // The number ends with `)`, behind which a sentence may go on: `2);`.
                let (_, number) = (rest.next(), rest.next().unwrap_or_default());
                let after = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == ')');
                if !after.is_empty() {
                    words.push(after);
                }
            }
            "struct" => {
                rest.next();
                words.push("an object");
            }
            "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" => {
                words.push("a whole number")
            }
            "f32" | "f64" => words.push("a number"),
            other => words.push(other),
        }
    }
    let reworded = |text: String, (word, other): &(&str, &str)| text.replace(word, other);
    REWORDED.iter().fold(words.join(" ").replace('\n', "\\n"), reworded)
}

/// Computes while other Python threads run. A panic becomes an error, too: a failed choice of a
/// kernel must not end the user's program.
pub(crate) fn computed<T: Send, E: std::fmt::Display + Send>(
    py: Python<'_>,
    compute: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    uncaught(py, compute)?.map_err(refusal)
}

/// The same for what an argument holds, of which an error is a `ValueError`, too.
pub(crate) fn decoded<T: Send, E: std::fmt::Display + Send>(
    py: Python<'_>,
    decode: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    uncaught(py, decode)?.map_err(wrong_value)
}

fn uncaught<T: Send>(py: Python<'_>, compute: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(compute)))
        .map_err(|_| refusal("a defect in torch_diode: this could not be computed; please report it"))
}
