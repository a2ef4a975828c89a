//! Reads the sizes of a model from text: `hidden=4096,heads=32`.

use crate::Problem;
use crate::error::Invalid;

/// The values of these names, in the order of the names. A name without a value gives `None`.
pub(super) fn parse<const N: usize>(
    what: &str,
    text: &str,
    names: [&str; N],
) -> Result<[Option<u64>; N], Invalid> {
    let mut values = [None; N];
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let expected = || format!("name=size with a name of {}", names.join(", "));
        let refuse = || Invalid::new(what, format_args!("`{part}`"), expected());
        let (name, value) = part.split_once('=').ok_or_else(refuse)?;
        let place = names.iter().position(|known| *known == name.trim()).ok_or_else(refuse)?;
        let value: u64 = value.trim().parse().map_err(|_| refuse())?;
        if value > Problem::MAX_DIM {
            let expected = format!("at most {}", Problem::MAX_DIM);
            return Err(Invalid::new(name, value, expected).within(what));
        }
        if values[place].replace(value).is_some() {
            return Err(Invalid::new(name, "two values", "one").within(what));
        }
    }
    Ok(values)
}

/// A size that must be given and must be more than 0.
pub(super) fn need(what: &str, name: &str, value: Option<u64>) -> Result<u64, Invalid> {
    match value {
        Some(value) if value > 0 => Ok(value),
        Some(value) => Err(Invalid::new(name, value, "more than 0").within(what)),
        None => Err(Invalid::new(name, "none", format!("a size, such as {name}=64")).within(what)),
    }
}

/// A size divided by a number of parts, without remainder.
pub(super) fn divide(what: &str, name: &str, size: u64, parts: u64) -> Result<u64, Invalid> {
    if parts > 0 && size.is_multiple_of(parts) {
        Ok(size / parts)
    } else {
        Err(Invalid::new(name, size, format!("a multiple of {parts}")).within(what))
    }
}
