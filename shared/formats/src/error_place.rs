//! Where in a dataset an error happened.

use std::fmt;

use diode_core::Op;

/// The hardware, op and problem that are being read. Prints ` (hardware "…", op mm, problem 17)`,
/// or nothing if there is no hardware yet.
#[derive(Debug, Default, Clone)]
pub(crate) struct Place {
    pub(crate) hardware: Option<String>,
    pub(crate) op: Option<Op>,
    /// Counted from 1.
    pub(crate) problem: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(hardware) = &self.hardware else { return Ok(()) };
        // Debug output quotes and escapes, so a name with line breaks stays on one line.
        write!(f, " (hardware {hardware:?}")?;
        if let Some(op) = self.op {
            write!(f, ", op {op}")?;
        }
        if let Some(problem) = self.problem {
            write!(f, ", problem {problem}")?;
        }
        f.write_str(")")
    }
}
