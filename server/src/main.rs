#![deny(unsafe_code)]

mod process;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use diode_server::cli::{Cli, LogFormat};
use diode_server::settings::WrongSetting;
use diode_server::store::StoreError;
use tracing_subscriber::EnvFilter;

/// How long other threads may go on working when everything else has ended.
const LAST_WORK: Duration = Duration::from_secs(5);

/// Leaves out notices of Postgres. At each start, one of them says that the table of migrations already exists.
const USUAL_LOG: &str = "info,sqlx::postgres::notice=warn";

/// The exit code for wrong flags and settings. The parser of flags uses the same code.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    process::limit_unused_memory();
    process::keep_files_private();
    process::allow_many_files();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(wrong) => return failed(&wrong.into()),
    };
    let filter = match std::env::var("DIODE_LOG").unwrap_or_default() {
        unset if unset.is_empty() => EnvFilter::new(USUAL_LOG),
        given => match EnvFilter::try_new(&given) {
            Ok(filter) => filter,
            Err(error) => {
                let expected =
                    "expected a level such as debug, or targets with levels such as info,sqlx=warn";
                failed(&anyhow::anyhow!("DIODE_LOG: got `{given}`, {expected}: {error}"));
                return WRONG_USAGE.into();
            }
        },
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // The log would report its own errors by a macro that panics if stderr cannot be written to.
        .log_internal_errors(false);
    match cli.log_format {
        LogFormat::Text => log.init(),
        // The line already has the span of the request, so a list of spans would repeat it.
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).init(),
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let outcome = runtime.block_on(cli.run());
    runtime.shutdown_timeout(LAST_WORK);
    outcome.unwrap_or_else(|error| failed(&error))
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // If stderr cannot be written to, the exit code still shows the failure.
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    let is_setting = error.is::<WrongSetting>();
    let is_url = matches!(error.downcast_ref(), Some(StoreError::Url { .. }));
    if is_setting || is_url { WRONG_USAGE.into() } else { ExitCode::FAILURE }
}
