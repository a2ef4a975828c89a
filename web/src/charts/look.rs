//! The look of a dot. Its colour and its shape have separate meanings.

use std::fmt::Write as _;

use diode_core::DType;
use diode_core::comparison::TIE;

/// From this ratio on, a colour has full strength.
const FAR: f64 = 1.25;

/// Whether Triton or the library is faster, and how clearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    /// The plain colour, for dots without a comparison.
    Plain,
    LibraryFar,
    Library,
    Tie,
    Triton,
    TritonFar,
}

impl Tone {
    /// The tone for a ratio of library time to Triton time.
    pub(crate) fn of(ratio: Option<f64>) -> Self {
        match ratio {
            None => Self::Plain,
            Some(ratio) if (ratio - 1.0).abs() <= TIE => Self::Tie,
            Some(ratio) if ratio <= 1.0 / FAR => Self::LibraryFar,
            Some(ratio) if ratio < 1.0 => Self::Library,
            Some(ratio) if ratio < FAR => Self::Triton,
            Some(_) => Self::TritonFar,
        }
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::LibraryFar => "library-far",
            Self::Library => "library",
            Self::Tie => "tie",
            Self::Triton => "triton",
            Self::TritonFar => "triton-far",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Plain => "not compared",
            Self::LibraryFar => "library 1.25× faster",
            Self::Library => "library faster",
            Self::Tie => "tie, to 1 %",
            Self::Triton => "Triton faster",
            Self::TritonFar => "Triton 1.25× faster",
        }
    }
}

/// The shape of a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Shape {
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::BFloat16 => Self::Circle,
            DType::Float16 => Self::Square,
            DType::Float32 => Self::Triangle,
            _ => Self::Diamond,
        }
    }

    /// Appends the outline of a dot around a point.
    pub(super) fn draw(self, path: &mut String, (x, y): (f64, f64)) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Circle => write!(path, "M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", x - 3.0),
            Self::Square => write!(path, "M{:.1} {:.1}h5.4v5.4h-5.4z", x - 2.7, y - 2.7),
            Self::Triangle => write!(path, "M{x:.1} {:.1}l3.6 6.2h-7.2z", y - 3.8),
            Self::Diamond => write!(path, "M{x:.1} {:.1}l3.8 3.8l-3.8 3.8l-3.8 -3.8z", y - 3.8),
        };
    }

    /// The outline of one dot, in a box of 10 by 10.
    pub(crate) fn outline(self) -> String {
        let mut path = String::new();
        self.draw(&mut path, (5.0, 5.0));
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_tones() {
        for (ratio, tone) in [
            (None, Tone::Plain),
            (Some(0.5), Tone::LibraryFar),
            (Some(0.9), Tone::Library),
            (Some(0.995), Tone::Tie),
            (Some(1.009), Tone::Tie),
            (Some(1.1), Tone::Triton),
            (Some(1.3), Tone::TritonFar),
        ] {
            assert_eq!(Tone::of(ratio), tone, "{ratio:?}");
        }
    }
}
