use crate::solutions::Damaged;

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached at the moment; trying again later may help.
    #[error("the database does not answer: {0}")]
    Unavailable(sqlx::Error),

    #[error("the database refused a statement: {0}")]
    Sql(sqlx::Error),

    #[error("the database could not be brought up to date")]
    Migrate(#[from] sqlx::migrate::MigrateError),

    #[error("`{url}` is no database this server can use: {reason}")]
    Url { url: String, reason: String },

    #[error(transparent)]
    Damaged(#[from] Damaged),

    #[error("a computation ended abruptly: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_) => {
                Self::Unavailable(error)
            }
            other => Self::Sql(other),
        }
    }
}

pub type StoreResult<T> = Result<T, StoreError>;
