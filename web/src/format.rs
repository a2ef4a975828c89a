//! Numbers as people read them: three significant digits and a unit that fits.

use diode_core::hardware::Vendor;
use diode_core::{Bias, Config, DType, Layout, Method, Op, Problem, Scaling};

/// Rounds to three significant digits: `1.04`, `12.3`, `987`.
pub(crate) fn three_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // The number of digits is that of the rounded value, so that 9.996 becomes 10.0 and not 10.00.
    let digits_before_point = (value.abs() * 1.0005).log10().floor() as i32 + 1;
    let decimals = usize::try_from(3 - digits_before_point).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// A value in the first unit in which it is below 1000 after rounding.
fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let last = units.len() - 1;
    let fits = |&(_, size): &(&str, f64)| value / size < 999.5;
    let (unit, size) = units[units.iter().position(fits).unwrap_or(last)];
    format!("{}\u{a0}{unit}", three_digits(value / size))
}

/// A duration: `850 ns`, `12.3 µs`, `1.04 ms`.
pub(crate) fn time(micros: f64) -> String {
    scaled(micros, &[("ns", 1e-3), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)])
}

/// The size of a file: `48.2 kB`.
pub(crate) fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count}\u{a0}B");
    }
    scaled(count as f64, &[("kB", 1e3), ("MB", 1e6), ("GB", 1e9)])
}

/// A share as percent: `97.3 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent {
        _ if percent < 0.995 => 2,
        _ if percent < 99.95 => 1,
        _ => 0,
    };
    format!("{percent:.decimals$}\u{a0}%")
}

/// A rate and its unit: `990` and `TFLOP/s`, `51.2` and `GFLOP/s`.
pub(crate) fn rate(tflops: f64) -> (String, &'static str) {
    match tflops {
        _ if tflops < 0.9995 => (three_digits(tflops * 1e3), "GFLOP/s"),
        _ if tflops < 999.5 => (three_digits(tflops), "TFLOP/s"),
        _ => (count(tflops.round() as u64), "TFLOP/s"),
    }
}

/// A rate with its unit: `990 TFLOP/s`.
pub(crate) fn rate_text(tflops: f64) -> String {
    let (value, unit) = rate(tflops);
    format!("{value}\u{a0}{unit}")
}

/// A factor: `1.12×`.
pub(crate) fn factor(value: f64) -> String {
    format!("{}×", three_digits(value))
}

/// How a file's time compares with that of the default: `2 % slower than its default`.
pub(crate) fn beside_default(us: f64, default: f64) -> String {
    let ratio = us / default;
    match ((ratio - 1.0) * 100.0).round() {
        0.0 => "as fast as its default".to_owned(),
        slower if slower > 0.0 => format!("{slower}\u{a0}% slower than its default"),
        _ => format!("{}\u{a0}% faster than its default", ((1.0 / ratio - 1.0) * 100.0).round()),
    }
}

/// How Triton compares with the library, given library time / Triton time: `9.6 % slower`, `7 % faster`, `2.4× faster`.
pub(crate) fn against(ratio: f64) -> String {
    let word = if ratio < 1.0 { "slower" } else { "faster" };
    match gap(ratio) {
        Some(gap) => format!("{gap} {word}"),
        None => "tied".to_owned(),
    }
}

/// How much longer the slower of two takes, given the ratio of their times. `None` within 1 %, which is noise.
pub(crate) fn gap(ratio: f64) -> Option<String> {
    let more = ratio.max(1.0 / ratio) - 1.0;
    match more {
        _ if more < 0.01 => None,
        _ if more < 0.0995 => Some(format!("{:.1}\u{a0}%", more * 100.0)),
        _ if more < 0.995 => Some(format!("{:.0}\u{a0}%", more * 100.0)),
        _ => Some(factor(more + 1.0)),
    }
}

/// The name of the vendor's library.
pub(crate) fn library(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "cuBLAS",
        Vendor::Amd => "hipBLASLt",
        Vendor::Cpu => "library",
    }
}

/// What a GPU is called where the vendor is clear: `H200`.
pub(crate) fn gpu(name: &str) -> &str {
    name.strip_prefix("NVIDIA ").or_else(|| name.strip_prefix("AMD ")).unwrap_or(name)
}

/// How a kernel of a problem is written: a config, or the vendor's library.
pub(crate) fn kernel(config: &Config, problem: &Problem, vendor: Vendor) -> String {
    let mark = if config.rounds(problem) { " TF32" } else { "" };
    let name = if config.is_library() { library(vendor).to_owned() } else { config.label() };
    format!("{name}{mark}")
}

/// A whole number with commas between its thousands: `320,606`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun. The noun is in the plural unless the count is 1: `209 problems`.
pub(crate) fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A loss of a training, with as many digits as the training's events have.
pub(crate) fn loss(value: f64) -> String {
    format!("{value:.4}")
}

/// The day of an RFC 3339 time: `2026-11-20`.
pub(crate) fn day(rfc3339: &str) -> String {
    rfc3339.split('T').next().unwrap_or(rfc3339).to_owned()
}

/// How a config of a problem is written, with a mark if it rounds float32.
pub(crate) fn config(config: &Config, problem: &Problem) -> String {
    format!("{}{}", config.label(), if config.rounds(problem) { " TF32" } else { "" })
}

/// What kind of multiplication a problem is, in the fewest words: `mm bf16 nt`, `addmm fp16 nn, vector bias`. The letters
/// are the layouts of A and B: `n` row-major, `t` column-major.
pub(crate) fn kind(problem: &Problem) -> String {
    let p = problem;
    if !p.op.is_plain() {
        let mut kind = format!("{} {}", p.op, short(p.a_dtype));
        if p.scaling != Scaling::None {
            kind += &format!(" {}", p.scaling);
        }
        if let Some(groups) = p.groups {
            let stage = groups.stage.map(|stage| format!(" {stage}")).unwrap_or_default();
            kind += &format!("{stage}, {} groups top {}", groups.count, groups.top_k);
        }
        return kind;
    }
    let letter = |layout| if layout == Layout::Row { 'n' } else { 't' };
    let bias = if p.bias == Bias::Vector { ", vector bias" } else { "" };
    format!("{} {} {}{}{bias}", p.op, short(p.a_dtype), letter(p.a_layout), letter(p.b_layout))
}

/// A part of the plan: `fused_moe float8_e4m3fn by block`.
pub(crate) fn part(op: Op, dtype: DType, scaling: Scaling) -> String {
    let scaling = if scaling == Scaling::None { String::new() } else { format!(" by {scaling}") };
    format!("{op} {dtype}{scaling}")
}

/// The name of a type that people type.
pub(crate) fn short(dtype: DType) -> &'static str {
    match dtype {
        DType::BFloat16 => "bf16",
        DType::Float16 => "fp16",
        DType::Float32 => "fp32",
        DType::Float8E4M3 => "fp8",
        other => other.as_str(),
    }
}

/// The explanation of [`kind`].
pub(crate) const KIND: &str =
    "Op, type, and the layouts of A and B: n is row-major, t column-major, so nn.Linear is nt";

/// How far the repeats lie apart, given their interquartile range / time.
pub(crate) fn spread(range: f64) -> String {
    format!("±{}", percent(range / 2.0))
}

/// The explanation of [`spread`].
pub(crate) const SPREAD: &str = "Half the interquartile range of the repeats / time";

/// How times were taken: `median-cold-event`. Files of torch-diode do not say it.
pub(crate) fn method(method: Method) -> String {
    match method {
        Method::Unspecified => "method not stated".to_owned(),
        stated => stated.to_string(),
    }
}

/// A text, or a dash if it is unknown.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// The minute of an RFC 3339 time in UTC: `2026-11-20 12:34 UTC`. Other texts are not changed.
pub(crate) fn minute(rfc3339: &str) -> String {
    match rfc3339.get(..16) {
        Some(start) if rfc3339.ends_with('Z') => format!("{} UTC", start.replace('T', " ")),
        _ => rfc3339.to_owned(),
    }
}

/// A round number on an axis, without trailing zeros: `0.5`, `200`, `10k`.
pub(crate) fn tick(value: f64) -> String {
    if value >= 9_999_500.0 {
        format!("{}M", value / 1e6)
    } else if value >= 9_999.5 {
        format!("{}k", value / 1e3)
    } else {
        format!("{value}")
    }
}

/// A round duration on an axis: `200 ns`, `5 µs`, `1 ms`.
pub(crate) fn time_tick(micros: f64) -> String {
    let (size, unit) = match micros {
        _ if micros < 0.9995 => (1e-3, "ns"),
        _ if micros < 999.5 => (1.0, "µs"),
        _ if micros < 999_500.0 => (1e3, "ms"),
        _ => (1e6, "s"),
    };
    format!("{:.0}\u{a0}{unit}", micros / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_no_file_states_is_in_words() {
        assert_eq!(method(Method::MEDIAN_COLD_EVENT), "median-cold-event");
        assert_eq!(method(Method::Unspecified), "method not stated");
    }

    #[test]
    fn times_have_three_digits_and_a_unit_that_fits() {
        for (micros, text) in [
            (0.85, "850 ns"),
            (0.0123, "12.3 ns"),
            (1.0, "1.00 µs"),
            (9.996, "10.0 µs"),
            (12.34, "12.3 µs"),
            (999.4, "999 µs"),
            (999.6, "1.00 ms"),
            (1040.0, "1.04 ms"),
            (2_500_000.0, "2.50 s"),
            (3.6e9, "3600 s"),
        ] {
            assert_eq!(time(micros).replace('\u{a0}', " "), text, "{micros}");
        }
    }

    #[test]
    fn small_and_large_numbers_have_three_digits_too() {
        for (value, text) in
            [(0.0, "0"), (0.003_449, "0.00345"), (0.9996, "1.00"), (9.996, "10.0"), (792.7, "793")]
        {
            assert_eq!(three_digits(value), text, "{value}");
        }
        assert_eq!(three_digits(1979.0), "1979");
    }

    #[test]
    fn sizes_and_shares() {
        assert_eq!(bytes(999), "999\u{a0}B");
        assert_eq!(bytes(48_212), "48.2\u{a0}kB");
        assert_eq!(percent(0.9731), "97.3\u{a0}%");
        assert_eq!(percent(0.99999), "100\u{a0}%");
        assert_eq!(percent(1.2), "120\u{a0}%");
        assert_eq!(percent(0.000_44), "0.04\u{a0}%");
        assert_eq!(factor(1.1234), "1.12×");
        assert_eq!(rate(0.0512), ("51.2".to_owned(), "GFLOP/s"));
        assert_eq!(rate(0.9996), ("1.00".to_owned(), "TFLOP/s"));
        assert_eq!(rate_text(1979.0), "1,979\u{a0}TFLOP/s");
    }

    #[test]
    fn a_ratio_says_who_is_faster_and_by_how_much() {
        for (ratio, text) in [
            (0.912, "9.6 % slower"),
            (1.07, "7.0 % faster"),
            (1.43, "43 % faster"),
            (0.4, "2.50× slower"),
            (3.0, "3.00× faster"),
            (0.995, "tied"),
            (1.0, "tied"),
            (1.0 / 1.012, "1.2 % slower"),
        ] {
            assert_eq!(against(ratio).replace('\u{a0}', " "), text, "{ratio}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        for (value, text) in
            [(0, "0"), (999, "999"), (1534, "1,534"), (320_606, "320,606"), (1_000_000, "1,000,000")]
        {
            assert_eq!(count(value), text);
        }
        assert_eq!(counted(1, "upload"), "1 upload");
        assert_eq!(counted(1534, "config"), "1,534 configs");
    }

    #[test]
    fn days_and_ticks() {
        assert_eq!(day("2026-11-20T12:00:00Z"), "2026-11-20");
        assert_eq!(minute("2026-11-20T12:34:56.789Z"), "2026-11-20 12:34 UTC");
        assert_eq!(minute("some day"), "some day");
        assert_eq!(tick(0.5), "0.5");
        assert_eq!(tick(200.0), "200");
        assert_eq!(tick(20_000.0), "20k");
        assert_eq!(tick(10_000_000.0), "10M");
        assert_eq!(time_tick(0.2), "200\u{a0}ns");
        assert_eq!(time_tick(500.0), "500\u{a0}µs");
        assert_eq!(time_tick(1000.0), "1\u{a0}ms");
    }
}
