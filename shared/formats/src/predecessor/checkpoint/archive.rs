//! The ZIP archive around a checkpoint. torch does not compress the entries, so nothing has to be
//! unpacked.

use std::collections::BTreeMap;

use crate::bytes::{Corrupt, Cursor};
use crate::limits::{MAX_CHECKPOINT_ENTRIES, MAX_PICKLE};

const END_MARK: [u8; 4] = *b"PK\x05\x06";
const LISTED_MARK: [u8; 4] = *b"PK\x01\x02";
const LOCAL_MARK: [u8; 4] = *b"PK\x03\x04";
/// The length of the end record without a comment, and with the longest comment.
const END_BYTES: usize = 22;
const MAX_END_BYTES: usize = END_BYTES + u16::MAX as usize;
/// The name of the pickle within the archive's only folder.
const PICKLE: &str = "data.pkl";

/// The entries of an archive, by their names within its only folder.
pub(super) struct Archive<'a> {
    entries: BTreeMap<String, &'a [u8]>,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let end = find_end(bytes)?;
        let mut record = Cursor::new(&bytes[end..]);
        record.take(10)?;
        let count = usize::from(u16_of(&mut record)?);
        let (size, start) = (u32_of(&mut record)? as usize, u32_of(&mut record)? as usize);
        if count > MAX_CHECKPOINT_ENTRIES {
            return Err(Corrupt::invalid(
                end,
                format!("{count} entries, expected at most {MAX_CHECKPOINT_ENTRIES}"),
            ));
        }
        let directory = bytes
            .get(start..start.saturating_add(size))
            .ok_or_else(|| Corrupt::invalid(end, "its list of entries lies outside of the file"))?;
        let mut list = Cursor::new(directory);
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(entry(bytes, &mut list)?);
        }
        let folder = all
            .iter()
            .find_map(|(name, _)| name.strip_suffix(PICKLE))
            .ok_or_else(|| {
                Corrupt::invalid(end, format!("no entry {PICKLE}, expected a file that torch.save wrote"))
            })?
            .to_owned();
        let mut entries = BTreeMap::new();
        for (name, content) in all {
            let Some(inner) = name.strip_prefix(&folder) else { continue };
            if entries.insert(inner.to_owned(), content).is_some() {
                return Err(Corrupt::invalid(end, format!("entry {name} twice")));
            }
        }
        Ok(Self { entries })
    }

    pub(super) fn entry(&self, name: &str) -> Option<&'a [u8]> {
        self.entries.get(name).copied()
    }

    pub(super) fn pickle(&self) -> Result<&'a [u8], Corrupt> {
        let pickle = self.entry(PICKLE).unwrap_or_default();
        if pickle.len() > MAX_PICKLE {
            let cause = format!("{PICKLE} of {} bytes, expected at most {MAX_PICKLE}", pickle.len());
            return Err(Corrupt::invalid(0, cause));
        }
        Ok(pickle)
    }
}

/// The position of the record at the end. A comment may follow the record.
fn find_end(bytes: &[u8]) -> Result<usize, Corrupt> {
    let first = bytes.len().saturating_sub(MAX_END_BYTES);
    let last = bytes.len().checked_sub(END_BYTES);
    last.and_then(|last| (first..=last).rev().find(|&at| bytes[at..].starts_with(&END_MARK))).ok_or(Corrupt {
        truncated: true,
        at: bytes.len(),
        cause: "expected the list of entries that ends an archive".to_owned(),
    })
}

/// The next entry of the archive's list, with its content.
fn entry<'a>(bytes: &'a [u8], list: &mut Cursor<'_>) -> Result<(String, &'a [u8]), Corrupt> {
    if list.take(4)? != LISTED_MARK {
        return Err(list.corrupt("expected an entry of the archive's list"));
    }
    list.take(6)?;
    let method = u16_of(list)?;
    list.take(4)?;
    let checksum = u32_of(list)?;
    let (packed, size) = (u32_of(list)? as usize, u32_of(list)? as usize);
    let [name, extra, comment] = [u16_of(list)?, u16_of(list)?, u16_of(list)?].map(usize::from);
    list.take(8)?;
    let local = u32_of(list)? as usize;
    let name = String::from_utf8_lossy(list.take(name)?).into_owned();
    list.take(extra + comment)?;
    if method != 0 || packed != size {
        return Err(list.corrupt(format!("entry {name} is compressed, expected it stored as torch does")));
    }
    let outside = || Corrupt {
        truncated: true,
        at: local,
        cause: format!("entry {name} lies outside of the file, or is not where the list says"),
    };
    let mut header = Cursor::new(bytes.get(local..).ok_or_else(outside)?);
    if header.take(4).map_err(|_| outside())? != LOCAL_MARK {
        return Err(outside());
    }
    header.take(22).map_err(|_| outside())?;
    let before = usize::from(u16_of(&mut header)?) + usize::from(u16_of(&mut header)?);
    header.take(before).map_err(|_| outside())?;
    let content = header.take(size).map_err(|_| outside())?;
    if crc32fast::hash(content) != checksum {
        let cause = format!(
            "entry {name} differs from its checksum: the file is damaged, or torch was told to write no checksums"
        );
        return Err(Corrupt::invalid(local, cause));
    }
    Ok((name, content))
}

fn u16_of(cursor: &mut Cursor<'_>) -> Result<u16, Corrupt> {
    let bytes = cursor.take(2)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_of(cursor: &mut Cursor<'_>) -> Result<u32, Corrupt> {
    let bytes = cursor.take(4)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}
