//! How the program ends when it cannot do what was asked.

use std::process::ExitCode;

use diode_train::TrainError;

use crate::{interrupt, output};

/// An error in the command line. The exit code is 2 instead of 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn new(message: impl std::fmt::Display) -> Self {
        Self(message.to_string())
    }

    /// Refuses the command line where something about it is wrong.
    pub(crate) fn refuse_if(is_wrong: bool, message: impl std::fmt::Display) -> Result<(), Self> {
        if is_wrong { Err(Self::new(message)) } else { Ok(()) }
    }
}

/// The user asked to end before the work was done. Nothing is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Interrupted(String);

impl Interrupted {
    pub(crate) fn new(message: impl std::fmt::Display) -> Self {
        Self(message.to_string())
    }
}

/// Prints an error as one line on stderr and returns the exit code: 2 for wrong usage, that of the signal for work that the
/// user stopped, or else 1.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let was_stopped = matches!(error.downcast_ref(), Some(TrainError::Stopped));
    if error.is::<Interrupted>() || was_stopped {
        say!("{}", one_line(error));
        return ExitCode::from(interrupt::exit_code());
    }
    tell!(Error, {}, "{}", one_line(error));
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// The whole chain of causes in one line. If an error's text already ends with its cause, the cause
/// is not repeated.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    output::one_line(&line)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn causes_are_joined_once() {
        let error = anyhow!("c").context("b: c").context("a");
        assert_eq!(one_line(&error), "a: b: c");
        let usage = Err::<(), _>(Usage::new("two\nlines")).context("x").unwrap_err();
        assert_eq!(one_line(&usage), "x: two lines");
        assert!(usage.is::<Usage>());
    }
}
