use std::process::ExitCode;

/// Ends a program that reports: what it found goes to stdout, why it failed to stderr.
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
