//! The instructions that a processor has for vectors.

#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};

use super::Task;

#[derive(Debug, Clone, Copy)]
pub(super) enum Instructions {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(V3),
    #[cfg(target_arch = "x86_64")]
    Avx512(V4),
}

impl Instructions {
    /// All that this processor has, with the best last.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let avx2 = V3::try_new().map(Self::Avx2);
        let avx512 = V4::try_new().map(Self::Avx512);
        std::iter::once(Self::Plain).chain(avx2).chain(avx512)
    }

    /// The processor is asked only once, because `cpuid` is slow in virtual machines.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn best() -> Self {
        static BEST: std::sync::OnceLock<Instructions> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| Self::all().last().unwrap_or(Self::Plain))
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn best() -> Self {
        Self::Plain
    }

    #[inline(always)]
    pub(super) fn run(self, task: impl Task) {
        match self {
            Self::Plain => task.plain(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => pulp::Simd::vectorize(simd, Fast(task)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => pulp::Simd::vectorize(simd, Fast(task)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
struct Fast<T>(T);

#[cfg(target_arch = "x86_64")]
impl<T: Task> pulp::WithSimd for Fast<T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        self.0.fast(simd);
    }
}
