//! A statement and its values, written in the same way for both databases.
//!
//! A `QueryBuilder` of sqlx belongs to one database. But both databases understand `$1`, so the same text and the same
//! list of values work for both.

use sqlx::{Arguments, AssertSqlSafe, Encode, Type};

use crate::store::error::StoreResult;

/// With so many rows, a statement stays far below the limit of bound values of either database, and round trips
/// take little of the time.
pub(crate) const ROWS_PER_STATEMENT: usize = 200;
/// A value of a column.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Option<String>),
    Integer(Option<i64>),
    Real(Option<f64>),
    Bytes(Vec<u8>),
}

/// SQL with its values. The text is made only of literals. Everything else is a value.
#[derive(Debug)]
pub(crate) struct Statement {
    text: String,
    values: Vec<Value>,
}

impl Statement {
    pub(crate) fn new(text: &'static str) -> Self {
        Self { text: text.to_owned(), values: Vec::new() }
    }

    /// Appends to the text.
    pub(crate) fn push(mut self, text: &'static str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Adds the value of the next placeholder, which is already in the text.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Appends a placeholder with its value.
    pub(crate) fn push_bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self.text.push_str(&format!("${}", self.values.len()));
        self
    }

    /// Appends `VALUES` with many rows.
    pub(crate) fn push_rows(
        mut self,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = Value>>,
    ) -> Self {
        let mut before = " VALUES (";
        for row in rows {
            for value in row {
                self = self.push(before).push_bind(value);
                before = ", ";
            }
            before = "), (";
        }
        self.push(")")
    }

    /// Appends placeholders, separated by commas.
    pub(crate) fn push_list(mut self, values: impl IntoIterator<Item = impl Into<Value>>) -> Self {
        let mut before = "";
        for value in values {
            self = self.push(before).push_bind(value);
            before = ", ";
        }
        self
    }

    /// The same statement with `?` as placeholders, if they are in order. SQLite finds a numbered placeholder by
    /// reading all placeholders before it. A statement with thousands of values would take longer to bind than to run.
    pub(crate) fn unnumbered(mut self) -> Self {
        if let Some(text) = without_numbers(&self.text) {
            self.text = text;
        }
        self
    }

    /// The text and the values in the form of one database.
    pub(crate) fn into_parts<A: Arguments>(self) -> StoreResult<(AssertSqlSafe<String>, A)>
    where
        Option<String>: for<'q> Encode<'q, A::Database> + Type<A::Database>,
        Option<i64>: for<'q> Encode<'q, A::Database> + Type<A::Database>,
        Option<f64>: for<'q> Encode<'q, A::Database> + Type<A::Database>,
        Vec<u8>: for<'q> Encode<'q, A::Database> + Type<A::Database>,
    {
        let mut arguments = A::default();
        for value in self.values {
            let added = match value {
                Value::Text(text) => arguments.add(text),
                Value::Integer(number) => arguments.add(number),
                Value::Real(number) => arguments.add(number),
                Value::Bytes(bytes) => arguments.add(bytes),
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        Ok((AssertSqlSafe(self.text), arguments))
    }
}

/// `None` unless each placeholder is used once, and in order.
fn without_numbers(text: &str) -> Option<String> {
    let mut parts = text.split('$');
    let mut unnumbered = parts.next()?.to_owned();
    for (before, part) in parts.enumerate() {
        let rest = part.trim_start_matches(|character: char| character.is_ascii_digit());
        let number = &part[..part.len() - rest.len()];
        if number.parse() != Ok(before + 1) {
            return None;
        }
        unnumbered.push('?');
        unnumbered.push_str(rest);
    }
    Some(unnumbered)
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        Self::Text(text.map(str::to_owned))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(Some(number))
    }
}

/// For counts and sizes. The databases have no numbers above `i64::MAX`, and no count is so large.
impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(Some(number))
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        Self::Real(number)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_through() {
        let statement = Statement::new("INSERT INTO t (a, b)")
            .push_rows([[1_u64.into(), "x".into()], [2_u64.into(), "y".into()]])
            .push(" RETURNING a");
        assert_eq!(statement.text, "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) RETURNING a");
        assert_eq!(statement.values.len(), 4);
        let unnumbered = statement.unnumbered();
        assert_eq!(unnumbered.text, "INSERT INTO t (a, b) VALUES (?, ?), (?, ?) RETURNING a");
        assert_eq!(unnumbered.values.len(), 4);
    }

    #[test]
    fn placeholders_out_of_order_keep_their_numbers() {
        for text in ["SELECT $1, $1", "SELECT $2, $1", "SELECT $"] {
            assert_eq!(Statement::new(text).bind("x").unnumbered().text, text);
        }
        assert_eq!(Statement::new("SELECT 1").unnumbered().text, "SELECT 1");
    }
}
