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

    /// A row holds what this program would never have written.
    #[error("the database holds a damaged {what}: {reason}")]
    Damaged { what: &'static str, reason: String },
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

impl StoreError {
    pub(crate) fn damaged(what: &'static str) -> impl Fn(String) -> Self {
        move |reason| Self::Damaged { what, reason }
    }
}

pub type StoreResult<T> = Result<T, StoreError>;
