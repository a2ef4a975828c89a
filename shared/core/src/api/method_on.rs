use crate::ids::HardwareSlug;
use crate::{Invalid, Method};

/// A method on one hardware: `nvidia-h200@median-cold-event`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MethodOn {
    pub hardware: HardwareSlug,
    pub method: Method,
}

impl std::fmt::Display for MethodOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.hardware, self.method)
    }
}

impl std::str::FromStr for MethodOn {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "HARDWARE@METHOD, such as nvidia-h200@median-cold-event";
        let (hardware, method) = text
            .split_once('@')
            .ok_or_else(|| Invalid::new("method", format_args!("`{text:.80}`"), expected))?;
        Ok(Self { hardware: hardware.parse()?, method: method.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_on_a_hardware_is_read_as_it_is_written() {
        let text = "nvidia-h200@median-cold-event";
        let one: MethodOn = text.parse().unwrap();
        assert_eq!((one.method, one.to_string().as_str()), (Method::MEDIAN_COLD_EVENT, text));
        let fault = "nvidia-h200".parse::<MethodOn>().unwrap_err().to_string();
        assert!(fault.contains("nvidia-h200") && fault.contains("HARDWARE@METHOD"), "{fault}");
        assert!("nvidia-h200@quickly".parse::<MethodOn>().is_err());
    }
}
