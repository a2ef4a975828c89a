#![deny(unsafe_code)]

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
    limit_unused_memory();
    keep_files_private();
    allow_many_files();
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

/// Blocks of at least this size come from the system one by one, and go back to it as soon as they are freed.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 1 << 20;

/// How much unused memory an arena keeps at its end.
#[cfg(target_env = "gnu")]
const KEPT: i32 = 4 << 20;

/// One arena for each upload that may be decoded at a time.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;

/// Limits the unused memory that glibc keeps.
///
/// By default, glibc keeps all memory that an arena has once used, and there are up to eight arenas for each core.
/// After a large block is freed, glibc also takes later blocks of that size from the arenas. Uploads are decoded on
/// many threads, one after the other, so the kept memory would add up: to 470 MB where 200 MB are enough.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the standard library has no call for it")]
fn limit_unused_memory() {
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, KEPT), (libc::M_ARENA_MAX, ARENAS)]
    {
        // SAFETY: the call takes two numbers and changes only settings of the allocator. If it fails, the settings stay
        // as they were.
        unsafe { libc::mallopt(setting, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
fn limit_unused_memory() {}

/// Lets this process have as many files open as the system allows it. Each connection is one, and the usual limit of 1,024
/// is for programs that use `select`.
#[allow(unsafe_code, reason = "the standard library has no call for it")]
fn allow_many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to a value that outlives them. If one fails, the limit stays as it was.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// From now on, only their owner may read the files that this process makes. The database has addresses, and
/// digests of passwords and tokens.
#[allow(unsafe_code, reason = "the standard library has no call for it")]
fn keep_files_private() {
    // SAFETY: the call changes a setting of this process and cannot fail. No other thread runs yet.
    unsafe { libc::umask(0o077) };
}
