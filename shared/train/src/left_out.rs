//! What of the given timings is not learnt from.

/// Timings that were given but cannot be learnt from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Taken by another method than the set's; see [`TrainingSet::others`](crate::TrainingSet::others).
    pub other_methods: usize,
    /// Of kernels that the model has no features for.
    pub no_features: usize,
    /// Of input types for which the hardware has no known peak.
    pub no_peak: usize,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { other_methods, no_features, no_peak } = self;
        write!(
            f,
            "left out: {other_methods} timings taken by another method (which \
             training tells apart), {no_features} of kernels without features, {no_peak} of dtypes without a known peak"
        )
    }
}
