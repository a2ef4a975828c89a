//! Arithmetic on sixteen configs at once, with the widest vectors of the processor.
//!
//! Every sum is added up in the order of the inputs. With AVX2 and AVX-512, a product is not rounded before it
//! is added, which halves the time. Predicted times then differ from the browser's, but by at most three
//! millionths.

mod activation;
mod dense;
mod instructions;
mod scaling;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub(crate) use activation::Silu;
pub(crate) use dense::{Dense, UNROLL, Weights};
use instructions::Instructions;
pub use scaling::normalise;
pub(crate) use scaling::{Log2, Normalise};

/// Work on many numbers.
pub(crate) trait Task {
    /// Does the work with vectors of four, which every target has.
    fn plain(self);

    /// Does the work with the vectors of `simd`. The compiler uses AVX2 and AVX-512 only in code that is inlined
    /// here.
    #[cfg(target_arch = "x86_64")]
    fn fast<S: pulp::Simd>(self, simd: S);
}

/// Does the work with the best instructions of this processor.
#[inline(always)]
pub(crate) fn run(task: impl Task) {
    Instructions::best().run(task);
}
