/// Why a letter was not sent.
#[derive(Debug)]
pub struct Failure {
    pub cause: anyhow::Error,
    /// Whether another try would fail, too.
    pub is_final: bool,
}
