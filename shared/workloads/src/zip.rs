//! A zip archive of a few small files, as plain bytes. The same files make the same archive.

/// 1980-01-01, the first day that the format knows.
const DATE: u16 = 0x21;
/// The version of the format that readers need for files that are not compressed.
const VERSION: u16 = 10;
/// Says that names are UTF-8.
const FLAGS: u16 = 1 << 11;

/// The archive of files with these names. Names have slashes between folders.
///
/// An archive has at most 65,535 files and 4 GB.
pub fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let offset = archive.len() as u32;
        let described = described(name, bytes);
        archive.extend(b"PK\x03\x04");
        archive.extend(&described);
        archive.extend(name.as_bytes());
        archive.extend(bytes);
        directory.extend(b"PK\x01\x02");
        directory.extend(VERSION.to_le_bytes());
        directory.extend(&described);
        // No comment, disk 0, and no attributes.
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (from, size, count) = (archive.len() as u32, directory.len() as u32, files.len() as u16);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].iter().flat_map(|count| count.to_le_bytes()));
    archive.extend([size, from].iter().flat_map(|number| number.to_le_bytes()));
    archive.extend([0, 0]);
    archive
}

/// What stands both before a file and in the directory at the end.
fn described(name: &str, bytes: &[u8]) -> Vec<u8> {
    let size = bytes.len() as u32;
    let mut fields = Vec::new();
    // Stored as it is, at midnight.
    for field in [VERSION, FLAGS, 0, 0, DATE] {
        fields.extend(field.to_le_bytes());
    }
    for field in [crc32(bytes), size, size] {
        fields.extend(field.to_le_bytes());
    }
    fields.extend((name.len() as u16).to_le_bytes());
    fields.extend([0, 0]);
    fields
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    /// The bytes that Python's `zipfile` writes for `writestr(ZipInfo("a/b.json"), b"{}\n")`, but for the attributes and
    /// the flag of UTF-8.
    #[test]
    fn an_archive_has_every_field_in_its_place() {
        let archive = zip(&[("a/b.json".to_owned(), b"{}\n".to_vec())]);
        assert_eq!(archive.len(), 30 + 8 + 3 + 46 + 8 + 22);
        let number = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap());
        assert_eq!(
            (&archive[..4], number(14), number(18), number(22)),
            (&b"PK\x03\x04"[..], crc32(b"{}\n"), 3, 3)
        );
        assert_eq!(&archive[30..41], b"a/b.json{}\n");
        assert_eq!((&archive[41..45], &archive[41 + 46..41 + 54]), (&b"PK\x01\x02"[..], &b"a/b.json"[..]));
        let end = archive.len() - 22;
        assert_eq!(
            (&archive[end..end + 4], number(end + 12), number(end + 16)),
            (&b"PK\x05\x06"[..], 54, 41)
        );
        assert_eq!(zip(&[]).len(), 22);
    }
}
