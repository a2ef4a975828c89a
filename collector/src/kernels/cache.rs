//! The packs on this node: pulled from servers, or built here.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use diode_core::ids::Digest;
use diode_formats::pack::Pack;

use super::python::cache_folder;
use super::{ABI, ABI_KEY};
use crate::failure::Usage;

/// The usual limit of the cache: forty times what one GPU's packs of the usual types and layouts take.
const USUAL_MEGABYTES: u64 = 4096;
/// The variable that sets another limit, in megabytes.
const LIMIT: &str = "DIODE_PACK_CACHE_MB";

/// A pack that was used within this time may still be open in a process.
const IN_USE: Duration = Duration::from_secs(3600);

/// The user's folder of packs. When it is full, the packs that were used last stay.
pub(crate) struct PackCache {
    folder: PathBuf,
    most_bytes: u64,
}

impl PackCache {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let cache = Self { folder: cache_folder()?.join("packs"), most_bytes: limit()? };
        for folder in [cache.pulled_folder(), cache.built_folder()] {
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(cache)
    }

    /// A pack that was pulled before. It counts as used now. `None` if its file is damaged.
    pub(crate) fn pulled(&self, digest: &Digest) -> Option<PathBuf> {
        self.find(digest).map(used)
    }

    /// Like [`Self::pulled`], but the pack does not count as used.
    pub(crate) fn find(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.path_of(digest);
        let pack = Pack::open(&path).ok()?;
        (pack.digest() == digest).then_some(path)
    }

    /// Every pack for an architecture that this program can launch. The pack that was used last comes
    /// first.
    pub(crate) fn all(&self, arch: &str) -> Vec<(PathBuf, Pack)> {
        let mut found: Vec<(SystemTime, PathBuf)> = files(&self.pulled_folder());
        found.extend(files(&self.built_folder()));
        found.sort_by(|a, b| b.cmp(a));
        let open = |(_, path): (_, PathBuf)| Pack::open(&path).ok().map(|pack| (path, pack));
        let launches = |pack: &Pack| pack.toolchain().get(ABI_KEY).is_some_and(|stated| stated == ABI);
        let fits = |pack: &Pack| pack.arch() == arch && launches(pack);
        found.into_iter().filter_map(open).filter(|(_, pack)| fits(pack)).collect()
    }

    /// The packs for an architecture that were built on this node.
    pub(crate) fn built(&self, arch: &str) -> Vec<(PathBuf, Pack)> {
        let here = self.built_folder();
        self.all(arch).into_iter().filter(|(path, _)| path.starts_with(&here)).collect()
    }

    /// The file for a pack to be built with this name.
    pub(crate) fn to_build(&self, name: &str) -> PathBuf {
        self.built_folder().join(format!("{name}.pack"))
    }

    /// Keeps a pack that arrives from a server. A pack is code, so only the content that the digest names
    /// is accepted.
    pub(crate) fn keep(&self, digest: &Digest, bytes: u64, content: impl Read) -> anyhow::Result<PathBuf> {
        let part = self.folder.join(format!("{digest}.{}.part", std::process::id()));
        let kept = receive(&part, bytes, content).and_then(|()| check(&part, digest)).and_then(|()| {
            let path = self.path_of(digest);
            fs::rename(&part, &path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        });
        if kept.is_err() {
            // The incomplete file would never be used.
            let _ = fs::remove_file(&part);
        }
        let path = kept?;
        self.make_room(&path);
        Ok(path)
    }

    /// Removes pulled packs, beginning with the one that was used longest ago, until the cache is within
    /// its limit. The pack `stays` and packs that were used within the last hour are not removed.
    fn make_room(&self, stays: &Path) {
        let mut found = files(&self.pulled_folder());
        found.sort();
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let mut bytes: u64 = found.iter().map(|(_, path)| size(path)).sum();
        for (last_use, path) in found {
            if bytes <= self.most_bytes {
                break;
            }
            let unused = last_use.elapsed().is_ok_and(|age| age >= IN_USE);
            let freed = size(&path);
            // Another process may have removed the file just now.
            if unused && path != stays && fs::remove_file(&path).is_ok() {
                bytes -= freed;
            }
        }
    }

    fn path_of(&self, digest: &Digest) -> PathBuf {
        self.pulled_folder().join(format!("{digest}.pack"))
    }

    fn pulled_folder(&self) -> PathBuf {
        self.folder.join("pulled")
    }

    fn built_folder(&self) -> PathBuf {
        self.folder.join("built")
    }
}

/// Notes that a pack is used now, and returns its path.
pub(crate) fn used(path: PathBuf) -> PathBuf {
    // If the folder cannot be written to, nothing can remove its packs either, so the note is not needed.
    let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
    path
}

/// The packs of a folder, with the time when each was last used.
fn files(folder: &Path) -> Vec<(SystemTime, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect()
}

fn receive(part: &Path, bytes: u64, content: impl Read) -> anyhow::Result<()> {
    let unwritable = || format!("cannot write {}", part.display());
    let mut file = File::create(part).with_context(unwritable)?;
    // One byte more is read than expected, so that a file that is too long is noticed.
    io::copy(&mut content.take(bytes + 1), &mut file).with_context(unwritable)?;
    file.sync_all().with_context(unwritable)
}

fn check(part: &Path, digest: &Digest) -> anyhow::Result<()> {
    let refuse = || format!("the server's pack {digest:.12} is refused: it is not what its digest names");
    let mut pack = Pack::open(part).with_context(refuse)?;
    if pack.digest() != digest {
        bail!("{}, but {:.12}", refuse(), pack.digest());
    }
    pack.check().with_context(refuse)
}

fn limit() -> anyhow::Result<u64> {
    let Some(given) = std::env::var_os(LIMIT) else { return Ok(USUAL_MEGABYTES * 1_000_000) };
    let given = given.to_string_lossy();
    let megabytes: u64 = given
        .parse()
        .map_err(|_| Usage::new(format!("{LIMIT}: got `{given}`, expected a number of megabytes")))?;
    Ok(megabytes.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use diode_formats::pack::PackWriter;

    use super::*;

    fn pack(name: &str) -> (Digest, Vec<u8>) {
        let mut writer = PackWriter::new("sm_90", BTreeMap::from([(ABI_KEY.to_owned(), ABI.to_owned())]));
        writer.add_built(name.to_owned(), "mm".to_owned(), [128, 0, 16, 0], name.repeat(50).as_bytes());
        let bytes = writer.finish();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pack");
        diode_formats::write_atomically(&path, &bytes).unwrap();
        (Pack::open(&path).unwrap().digest().clone(), bytes)
    }

    fn cache(folder: &Path, most_bytes: u64) -> PackCache {
        let cache = PackCache { folder: folder.to_owned(), most_bytes };
        for folder in [cache.pulled_folder(), cache.built_folder()] {
            fs::create_dir_all(folder).unwrap();
        }
        cache
    }

    #[test]
    fn what_is_not_named_by_its_digest_is_refused_and_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 1 << 20);
        let ((digest, bytes), (_, other)) = (pack("one"), pack("two"));
        let mut tampered = bytes.clone();
        *tampered.last_mut().unwrap() ^= 1;
        let mut longer = bytes.clone();
        longer.push(0);
        for bad in [other, tampered, longer, bytes[..bytes.len() - 1].to_vec(), Vec::new()] {
            let error = cache.keep(&digest, bytes.len() as u64, bad.as_slice()).unwrap_err();
            assert!(error.to_string().contains("is refused"), "{error:#}");
            assert_eq!(cache.pulled(&digest), None);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside the folders");
        let path = cache.keep(&digest, bytes.len() as u64, bytes.as_slice()).unwrap();
        assert_eq!(cache.pulled(&digest), Some(path.clone()));
        // Somebody has changed the file since it was kept.
        diode_formats::write_atomically(&path, b"x").unwrap();
        assert_eq!(cache.pulled(&digest), None);
    }

    #[test]
    fn the_packs_used_last_stay() {
        let folder = tempfile::tempdir().unwrap();
        let packs = ["one", "two", "six"].map(pack);
        let cache = cache(folder.path(), packs[0].1.len() as u64 * 5 / 2);
        let long_ago = SystemTime::now() - Duration::from_secs(10_000);
        for ((digest, bytes), age) in packs[..2].iter().zip([0, 500]) {
            let path = cache.keep(digest, bytes.len() as u64, bytes.as_slice()).unwrap();
            let file = File::open(path).unwrap();
            file.set_modified(long_ago + Duration::from_secs(age)).unwrap();
        }
        // The first pack is used again, so the second one is removed.
        assert!(cache.pulled(&packs[0].0).is_some());
        let (digest, bytes) = &packs[2];
        cache.keep(digest, bytes.len() as u64, bytes.as_slice()).unwrap();
        assert!(cache.pulled(&packs[0].0).is_some() && cache.pulled(digest).is_some());
        assert_eq!(cache.pulled(&packs[1].0), None);
        assert_eq!((cache.all("sm_90").len(), cache.all("gfx942").len()), (2, 0));
    }
}
