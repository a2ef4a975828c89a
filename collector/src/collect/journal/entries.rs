//! The entries of a journal. Each is the timings of one problem, with their length before them.

use anyhow::Context as _;
use diode_core::Dataset;
use diode_formats::Format;
use diode_formats::limits::MAX_OBJECT;

/// The most bytes of one entry: as many as one problem of a columnar file may take.
const MAX_ENTRY: u64 = MAX_OBJECT;
/// How many bytes hold an entry's length.
const LENGTH: usize = 4;
/// The first bytes of an entry's columnar file. Every zstd frame begins with them.
const START: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// The bytes of an entry, as they stand in the journal.
pub(super) fn write(entry: &Dataset) -> anyhow::Result<Vec<u8>> {
    let bytes = diode_formats::encode(Format::Columnar, std::slice::from_ref(entry))?;
    let length = u32::try_from(bytes.len()).ok().filter(|&length| u64::from(length) <= MAX_ENTRY);
    let length = length.with_context(|| {
        format!("a problem's timings take {} bytes, expected at most {MAX_ENTRY}", bytes.len())
    })?;
    Ok([&length.to_le_bytes(), &bytes[..]].concat())
}

/// Reads the entries of a journal, and says whether the journal is undamaged. After a damaged entry it looks for
/// the next one.
pub(super) fn read(mut bytes: &[u8]) -> (Vec<Dataset>, bool) {
    let (mut entries, mut is_whole) = (Vec::new(), true);
    while !bytes.is_empty() {
        let framed = framed(bytes);
        if let Some((entry, rest)) =
            framed.and_then(|(entry, rest)| Some((diode_formats::decode(entry).ok()?, rest)))
        {
            entries.extend(entry.datasets);
            bytes = rest;
        } else if let Some(next) = next_start(bytes) {
            is_whole = false;
            bytes = &bytes[next..];
        } else {
            // A process that was killed while it wrote leaves an incomplete last entry. That is no damage.
            is_whole &= framed.is_none() && !entries.is_empty();
            break;
        }
    }
    (entries, is_whole)
}

/// Splits off as many bytes as the length at the beginning says. `None` if there are fewer.
fn framed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Where the next entry may begin, at least one byte further on.
fn next_start(bytes: &[u8]) -> Option<usize> {
    let start = bytes.windows(START.len()).skip(1 + LENGTH).position(|window| window == START)?;
    Some(1 + start)
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::Hardware;
    use diode_core::{
        ConfigDictionary, DType, Method, Op, Problem, ProblemFields, Provenance, Solution, TimeColumn,
    };

    use super::*;

    fn entry(m: u64) -> Dataset {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, 16, 16, DType::Float32)).unwrap();
        let solution = Solution {
            problem,
            method: Method::MEDIAN_COLD_EVENT,
            configs: Vec::new(),
            times: TimeColumn::Nanos(Vec::new()),
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        };
        Dataset {
            hardware: Hardware::from_name("NVIDIA H200").unwrap(),
            provenance: Provenance::default(),
            configs: ConfigDictionary::default(),
            solutions: vec![solution],
        }
    }

    #[test]
    fn a_damaged_byte_costs_no_entry_but_its_own() {
        let entries = [entry(1), entry(2), entry(3)];
        let framed = entries.each_ref().map(|entry| write(entry).unwrap());
        assert_eq!(read(&framed.concat()), (entries.to_vec(), true));
        for damaged in 0..framed.len() {
            let others: Vec<&Dataset> =
                (0..entries.len()).filter(|&place| place != damaged).map(|place| &entries[place]).collect();
            for place in 0..framed[damaged].len() {
                let mut bytes = framed.clone();
                bytes[damaged][place] ^= 0x10;
                let (found, is_whole) = read(&bytes.concat());
                assert!(others.iter().all(|other| found.contains(other)), "entry {damaged}, byte {place}");
                // Damage can increase the length that the last entry states. The entry then looks incomplete, as
                // after a kill, and not damaged.
                if damaged + 1 < framed.len() || place >= LENGTH {
                    assert_eq!(is_whole, found.len() == entries.len(), "entry {damaged}, byte {place}");
                }
            }
        }
    }

    #[test]
    fn an_entry_that_breaks_off_is_no_damage_where_others_are_whole() {
        let entries = [entry(1), entry(2)];
        let framed = entries.each_ref().map(|entry| write(entry).unwrap());
        let bytes = framed.concat();
        for length in framed[0].len()..bytes.len() {
            assert_eq!(read(&bytes[..length]), (vec![entries[0].clone()], true), "{length} bytes");
        }
        for length in 1..framed[0].len() {
            assert_eq!(read(&bytes[..length]), (vec![], false), "{length} bytes");
        }
    }
}
