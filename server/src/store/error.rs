use diode_core::ids::HardwareSlug;
use sqlx::migrate::MigrateError;

use crate::uploads::solutions::Damaged;

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached at the moment. Trying again later may help.
    #[error("the database does not answer: {0}")]
    Unavailable(sqlx::Error),

    /// The disk of the database is full.
    #[error("the database cannot store any more: {0}")]
    Full(sqlx::Error),

    /// The hardware was merged into another one after the request had looked it up.
    #[error("`{0}` was merged into another hardware meanwhile; send it again")]
    Merged(HardwareSlug),

    #[error("the database refused a statement: {0}")]
    Sql(sqlx::Error),

    /// A row that the new row refers to, such as the caller's account, was deleted meanwhile.
    #[error("what the row refers to is not there any more: {0}")]
    Gone(sqlx::Error),

    #[error("the database could not be brought up to date")]
    Migrate(#[source] MigrateError),

    /// The database was made by a development version, or by a newer version.
    #[error(
        "the database was made by another version of Diode: got step {0} of a schema, expected the schema of version \
         {version}; if it is a development version's, move it away and upload its data to a new database",
        version = env!("CARGO_PKG_VERSION")
    )]
    OtherSchema(i64),

    #[error("`{url}` is no database this server can use: {reason}")]
    Url { url: String, reason: String },

    #[error(transparent)]
    Damaged(#[from] Damaged),

    #[error("a computation ended abruptly: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Postgres's codes for transactions that conflicted. If two transactions wait for each other, Postgres ends
/// one of the two.
const CONFLICTS: [&str; 2] = ["40001", "40P01"];

impl StoreError {
    /// Whether the same transaction is likely to succeed if it begins again.
    pub(super) fn is_conflict(&self) -> bool {
        let Self::Unavailable(error) = self else { return false };
        let code = error.as_database_error().and_then(|refusal| refusal.code());
        code.is_some_and(|code| CONFLICTS.contains(&&*code))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let unavailable =
            matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_));
        let fault =
            error.as_database_error().and_then(|refusal| refusal.code()).and_then(|code| fault(&code));
        match fault {
            Some(Fault::Full) => Self::Full(error),
            Some(Fault::Passing) => Self::Unavailable(error),
            None if unavailable => Self::Unavailable(error),
            None if is_gone(&error) => Self::Gone(error),
            None => Self::Sql(error),
        }
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(step) | MigrateError::VersionMismatch(step) => {
                Self::OtherSchema(step)
            }
            error => Self::Migrate(error),
        }
    }
}

fn is_gone(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|refusal| refusal.is_foreign_key_violation())
}

/// A fault of the database itself, not of a statement.
#[derive(Debug, PartialEq)]
enum Fault {
    Full,
    /// The fault may pass without a restart of this program.
    Passing,
}

/// Reads the codes of both databases. SQLite's code is a number whose lowest byte is the kind of error.
/// Postgres's code is five characters, of which the first two are the class of error.
fn fault(code: &str) -> Option<Fault> {
    if code.len() == 5 {
        return match code {
            "53100" => Some(Fault::Full),
            // The database only allows reading: it is a standby, or has no room.
            "25006" => Some(Fault::Passing),
            // An operator closed the database, or it is missing while it is being restored.
            "55000" | "3D000" => Some(Fault::Passing),
            _ if CONFLICTS.contains(&code) => Some(Fault::Passing),
            // Lost connections, exhausted resources, a stop by an operator, faults of the system.
            _ if ["08", "53", "57", "58"].contains(&&code[..2]) => Some(Fault::Passing),
            _ => None,
        };
    }
    match code.parse::<u32>().ok()? & 0xff {
        // SQLite's code FULL.
        13 => Some(Fault::Full),
        // SQLite's codes BUSY, LOCKED, READONLY, IOERR and CANTOPEN.
        5 | 6 | 8 | 10 | 14 => Some(Fault::Passing),
        _ => None,
    }
}

pub type StoreResult<T> = Result<T, StoreError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_both_databases_are_told_apart() {
        for (code, expected) in [
            ("13", Some(Fault::Full)),
            ("5", Some(Fault::Passing)),
            ("778", Some(Fault::Passing)),
            ("1", None),
            ("2067", None),
            ("53100", Some(Fault::Full)),
            ("53300", Some(Fault::Passing)),
            ("57P01", Some(Fault::Passing)),
            ("40P01", Some(Fault::Passing)),
            ("55000", Some(Fault::Passing)),
            ("23505", None),
        ] {
            assert_eq!(fault(code), expected, "{code}");
        }
    }
}
