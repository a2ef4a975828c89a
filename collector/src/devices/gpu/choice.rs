//! Which GPUs of a node to use.

use std::str::FromStr;

/// The GPUs to use, by their numbers in the driver's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GpuChoice {
    All,
    Numbers(Vec<u32>),
}

impl FromStr for GpuChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text == "all" {
            return Ok(Self::All);
        }
        let numbers: Vec<u32> = text
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| "expected numbers of GPUs such as 0 or 0,1, or `all`")?;
        match (1..numbers.len()).any(|place| numbers[..place].contains(&numbers[place])) {
            true => Err("expected every GPU once"),
            false => Ok(Self::Numbers(numbers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_gpus() {
        assert_eq!("all".parse(), Ok(GpuChoice::All));
        assert_eq!("0,3".parse(), Ok(GpuChoice::Numbers(vec![0, 3])));
        for bad in ["", "cuda", "-1", "0,0", "0,"] {
            assert!(bad.parse::<GpuChoice>().is_err(), "{bad}");
        }
    }
}
