//! Parts of a file, after RFC 9110, section 14.

use std::ops::Range;

use axum::http::{HeaderMap, HeaderValue, Method, header};

/// The part of a file that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    Part(Range<u64>),
    /// A part that the file does not have.
    Nothing,
}

impl Wanted {
    /// Reads which part of a file is wanted. `tag` is the file's strong tag. If a client asks for several
    /// ranges, or for a range of anything but bytes, it gets the whole file, as the RFC allows.
    pub(crate) fn of(method: &Method, asked: &HeaderMap, tag: &HeaderValue, length: u64) -> Self {
        let mut ranges = asked.get_all(header::RANGE).iter();
        let (Some(range), None) = (ranges.next(), ranges.next()) else { return Self::All };
        // Methods other than GET have no ranges. An `If-Range` with a date never matches, because files have no
        // date.
        let is_same = asked.get(header::IF_RANGE).is_none_or(|condition| condition == tag);
        if method != Method::GET || !is_same {
            return Self::All;
        }
        range.to_str().ok().and_then(|range| read(range, length)).unwrap_or(Self::All)
    }
}

/// `None` if this is not exactly one range of bytes.
fn read(range: &str, length: u64) -> Option<Wanted> {
    let (unit, range) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let part = match (first, last) {
        ("", last) => length.saturating_sub(number(last)?)..length,
        (first, "") => number(first)?..length,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            first..last.saturating_add(1).min(length)
        }
    };
    Some(if part.start < part.end { Wanted::Part(part) } else { Wanted::Nothing })
}

/// A number that does not fit in 64 bits counts as the largest that does: no file has so many bytes.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: HeaderValue = HeaderValue::from_static("\"a\"");

    fn wanted(range: &str) -> Wanted {
        let asked = HeaderMap::from_iter([(header::RANGE, HeaderValue::try_from(range).unwrap())]);
        Wanted::of(&Method::GET, &asked, &TAG, 10)
    }

    #[test]
    fn one_range_is_read_in_its_three_forms() {
        assert_eq!(wanted("bytes=2-4"), Wanted::Part(2..5));
        assert_eq!(wanted("Bytes=2-"), Wanted::Part(2..10));
        assert_eq!(wanted("bytes=-3"), Wanted::Part(7..10));
        assert_eq!(wanted("bytes=9-999999999999999999999"), Wanted::Part(9..10));
        assert_eq!(wanted("bytes=-11"), Wanted::Part(0..10));
        for beyond in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=999999999999999999999-"] {
            assert_eq!(wanted(beyond), Wanted::Nothing, "{beyond}");
        }
    }

    #[test]
    fn what_is_no_single_range_is_left_alone() {
        for other in ["bytes=4-2", "bytes=1-2,4-5", "bytes=a-", "bytes=-", "bytes", "lines=1-2", "bytes=+1-2"]
        {
            assert_eq!(wanted(other), Wanted::All, "{other}");
        }
        assert_eq!(Wanted::of(&Method::GET, &HeaderMap::new(), &TAG, 10), Wanted::All);
    }

    #[test]
    fn a_part_is_only_of_the_file_that_the_client_has_begun() {
        let with = |method: Method, condition: &'static str| {
            let mut asked = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=2-"))]);
            asked.insert(header::IF_RANGE, HeaderValue::from_static(condition));
            Wanted::of(&method, &asked, &TAG, 10)
        };
        assert_eq!(with(Method::GET, "\"a\""), Wanted::Part(2..10));
        for other in ["\"b\"", "W/\"a\"", "Mon, 23 Nov 2026 08:00:00 GMT"] {
            assert_eq!(with(Method::GET, other), Wanted::All, "{other}");
        }
        assert_eq!(with(Method::HEAD, "\"a\""), Wanted::All);
    }

    #[test]
    fn an_empty_file_has_no_part() {
        let asked = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=0-"))]);
        assert_eq!(Wanted::of(&Method::GET, &asked, &TAG, 0), Wanted::Nothing);
    }
}
