use std::fmt;

use crate::Invalid;

/// One epoch of a training. It is written as a line of a job's event, from which programs read the loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    /// Which network is trained: `fold 1 of 4` or `final`.
    pub phase: String,
    /// Counts from 1.
    pub epoch: u32,
    pub epochs: u32,
    /// The mean loss over the epoch's steps.
    pub loss: f64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { phase, epoch, epochs, loss } = self;
        write!(f, "{phase}: epoch {epoch} of {epochs}, loss {loss:.4}")
    }
}

impl std::str::FromStr for Epoch {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parsed = || {
            let (phase, rest) = text.rsplit_once(": epoch ")?;
            let (place, loss) = rest.split_once(", loss ")?;
            let (epoch, epochs) = place.split_once(" of ")?;
            let loss: f64 = loss.parse().ok().filter(|loss: &f64| loss.is_finite())?;
            Some(Self {
                phase: phase.to_owned(),
                epoch: epoch.parse().ok()?,
                epochs: epochs.parse().ok()?,
                loss,
            })
        };
        parsed().ok_or_else(|| {
            Invalid::new("epoch", format_args!("`{text:.80}`"), "such as `final: epoch 3 of 60, loss 0.0310`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_can_be_read_back() {
        let epoch = Epoch { phase: "fold 1 of 4".to_owned(), epoch: 12, epochs: 60, loss: 0.031 };
        assert_eq!(epoch.to_string(), "fold 1 of 4: epoch 12 of 60, loss 0.0310");
        assert_eq!(epoch.to_string().parse(), Ok(epoch));
        for other in ["", "started", "done", "final: epoch 1 of 2", "final: epoch 1 of 2, loss NaN"] {
            assert!(other.parse::<Epoch>().is_err(), "{other}");
        }
    }
}
