//! Whether a problem fits into the memory of the hardware.

use super::{Hardware, catalogue};
use crate::Problem;

/// The error for a problem that needs more memory than the hardware has.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{dims} needs {} for A, B and the output, and {hardware} has {}", bytes(*.needed), bytes(*.memory as f64))]
pub struct TooLarge {
    dims: String,
    hardware: String,
    /// In bytes.
    needed: f64,
    /// In bytes.
    memory: u64,
}

/// Refuses a problem that no device of the hardware can hold. If the memory is not known, every
/// problem is accepted.
pub fn fits(hardware: &Hardware, problem: &Problem) -> Result<(), TooLarge> {
    let Some(memory) = catalogue::memory(hardware) else { return Ok(()) };
    let needed = problem.bytes();
    if needed <= memory as f64 {
        return Ok(());
    }
    Err(TooLarge { dims: problem.dims(), hardware: hardware.name.clone(), needed, memory })
}

/// A number of bytes for people: `141 GB`, `4.19 TB`.
fn bytes(count: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("GB", 1e9), ("TB", 1e12), ("PB", 1e15), ("EB", 1e18)];
    let fits = |(_, size): &&(&str, f64)| count / size < 999.5;
    let (unit, size) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    let value = count / size;
    let decimals = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::find;
    use crate::{DType, Op, ProblemFields};

    fn said(hardware: &str, [m, n, k]: [u64; 3]) -> Option<String> {
        let hardware = find(hardware).unwrap();
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap();
        fits(&hardware, &problem).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_larger_than_the_memory_is_refused_in_words() {
        assert_eq!(said("nvidia-h200", [4096, 4096, 4096]), None);
        assert_eq!(
            said("nvidia-h200", [1_000_000_000, 4096, 4096]).unwrap(),
            "1000000000×4096×4096 needs 16.4 TB for A, B and the output, and NVIDIA H200 has 141 GB"
        );
        assert_eq!(
            said("nvidia-h200", [1 << 31; 3]).unwrap(),
            "2147483648×2147483648×2147483648 needs 27.7 EB for A, B and the output, and NVIDIA H200 has 141 GB"
        );
    }

    #[test]
    fn each_hardware_has_its_own_memory() {
        let cube = [131_072; 3];
        assert_eq!(said("nvidia-h200", cube), None);
        assert!(said("nvidia-h100", cube).is_some());
        assert!(said("simulated-nvidia-h100", cube).is_some());
        let unknown = Hardware::from_name("NVIDIA Z9000").unwrap();
        let problem =
            Problem::new(ProblemFields::plain(Op::Mm, 1, 1 << 31, 1, 1 << 31, DType::Int8)).unwrap();
        assert_eq!(fits(&unknown, &problem), Ok(()));
    }
}
