use std::process::ExitCode;

/// Ends a program that prints a report: the report goes to stdout, an error to stderr.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
pub fn reported(report: anyhow::Result<String>) -> ExitCode {
    match report {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
