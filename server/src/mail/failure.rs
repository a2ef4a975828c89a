/// Why a letter was not sent.
#[derive(Debug)]
pub struct Failure {
    pub cause: anyhow::Error,
    /// Whether trying again is of no use.
    pub is_final: bool,
}
