//! The given timings that a model cannot learn from.

/// The numbers of timings that were given but cannot be learnt from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Timings by another method than the set's. [`TrainingSet::others`](crate::TrainingSet::others)
    /// may have them.
    pub other_methods: usize,
    /// Timings of kernels without features.
    pub no_features: usize,
    /// Timings of input types for which the hardware has no known peak.
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
