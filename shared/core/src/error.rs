//! One error for everything that validation can refuse.

/// A value that validation refuses.
///
/// The message says what was given, what was expected and, where it is not obvious, what to do. The
/// command line, the server and the browser print it unchanged, so all three refuse the same input
/// in the same words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}{subject}: got {given}, expected {expected}")]
pub struct Invalid {
    /// Where the value was found: places, each followed by a colon (`entry 3: config 2: `). Often
    /// empty.
    place: String,
    pub subject: Subject,
    /// The value as it was given.
    pub given: String,
    /// What would have been accepted.
    pub expected: String,
}

/// What the refused value was meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A field of a problem or a config. Forms have an input for each.
    Field(Field),
    /// Anything else, by the name that people use for it.
    Named(String),
}

/// The fields of problems and configs that validation checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    B,
    M,
    N,
    K,
    Bias,
    OutSize,
    ADtype,
    BDtype,
    OutDtype,
    ALayout,
    BLayout,
    Scaling,
    Groups,
    TopK,
    Stage,
    Rows,
    BlockM,
    BlockN,
    BlockK,
    GroupM,
    NumStages,
    NumWarps,
    EvenK,
    AllowTf32,
    UseFastAccum,
    Rocm,
    KSplit,
    SwapAb,
}

impl Field {
    /// The name used in files, URLs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::B => "B",
            Self::M => "M",
            Self::N => "N",
            Self::K => "K",
            Self::Bias => "bias",
            Self::OutSize => "out_size",
            Self::ADtype => "a_dtype",
            Self::BDtype => "b_dtype",
            Self::OutDtype => "out_dtype",
            Self::ALayout => "a_layout",
            Self::BLayout => "b_layout",
            Self::Scaling => "scaling",
            Self::Groups => "groups",
            Self::TopK => "top_k",
            Self::Stage => "stage",
            Self::Rows => "rows",
            Self::BlockM => "block_m",
            Self::BlockN => "block_n",
            Self::BlockK => "block_k",
            Self::GroupM => "group_m",
            Self::NumStages => "num_stages",
            Self::NumWarps => "num_warps",
            Self::EvenK => "even_k",
            Self::AllowTf32 => "allow_tf32",
            Self::UseFastAccum => "use_fast_accum",
            Self::Rocm => "rocm",
            Self::KSplit => "k_split",
            Self::SwapAb => "swap_ab",
        }
    }
}

impl Invalid {
    pub fn new(
        subject: impl Into<Subject>,
        given: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            place: String::new(),
            subject: subject.into(),
            given: given.to_string(),
            expected: expected.into(),
        }
    }

    /// Adds an outer place to the message, before the place that it already names.
    #[must_use]
    pub fn within(self, place: impl std::fmt::Display) -> Self {
        Self { place: format!("{place}: {}", self.place), ..self }
    }

    /// The refused field; `None` if the subject is no field.
    pub fn field(&self) -> Option<Field> {
        match self.subject {
            Subject::Field(field) => Some(field),
            Subject::Named(_) => None,
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(field) => f.write_str(field.as_str()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl From<Field> for Subject {
    fn from(field: Field) -> Self {
        Self::Field(field)
    }
}

impl From<&str> for Subject {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for Subject {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stand_before_what_was_refused() {
        let invalid = Invalid::new(Field::NumWarps, 3, "a power of two up to 32");
        assert_eq!(invalid.to_string(), "num_warps: got 3, expected a power of two up to 32");
        let placed = invalid.within("config 2").within("entry 7");
        assert_eq!(
            placed.to_string(),
            "entry 7: config 2: num_warps: got 3, expected a power of two up to 32"
        );
        assert_eq!(placed.field(), Some(Field::NumWarps));
        assert_eq!(Invalid::new("tops", 0, "at least 1").field(), None);
    }
}
