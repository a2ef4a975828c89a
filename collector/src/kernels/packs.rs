//! The packs on this node: pulled from servers, or built here.
//!
//! Packs are code, so a pulled one is kept only if its digest is right. A collection that names no pack takes packs
//! of this node first, then the server's. If kernels are still lacking, a pack is built.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use diode_api::PackSummary;
use diode_core::ids::Digest;
use diode_core::{Config, KernelVariant, Problem};
use diode_formats::pack::Pack;

use crate::failure::Usage;
use crate::interrupt::Interrupt;
use crate::kernels::build::build_here;
use crate::kernels::compiler::cache_folder;
use crate::kernels::plan::Plan;
use crate::kernels::variant::Variant;
use crate::kernels::{ABI, ABI_KEY, TRITON, TRITON_KEY};
use crate::output::count;
use crate::output::log::Progress;
use crate::server::{Answered, Arriving, Client, PackServerArgs, Trouble, document, successful};

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
        let cache = Self { folder: cache_folder()?.join("packs"), most_bytes: cache_limit()? };
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

    /// Every pack for an architecture that this program launches unasked. The pack that was used last comes first.
    pub(crate) fn all(&self, arch: &str) -> Vec<(PathBuf, Pack)> {
        let mut found: Vec<(SystemTime, PathBuf)> = packs_in(&self.pulled_folder());
        found.extend(packs_in(&self.built_folder()));
        found.sort_by(|a, b| b.cmp(a));
        let open = |(_, path): (_, PathBuf)| Pack::open(&path).ok().map(|pack| (path, pack));
        let launches = |pack: &Pack| pack.toolchain().get(ABI_KEY).is_some_and(|stated| stated == ABI);
        let fits =
            |pack: &Pack| pack.arch() == arch && launches(pack) && is_usual(pack.toolchain().get(TRITON_KEY));
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
        let kept =
            write_part(&part, bytes, content).and_then(|()| check_digest(&part, digest)).and_then(|()| {
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
        let mut found = packs_in(&self.pulled_folder());
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

/// Whether a pack is of the version of Triton that collections use unasked. Times of versions are not mixed.
fn is_usual(triton: Option<&String>) -> bool {
    triton.is_none_or(|version| version == TRITON)
}

/// Notes that a pack is used now, and returns its path.
pub(crate) fn used(path: PathBuf) -> PathBuf {
    // If the folder cannot be written to, nothing can remove its packs either, so the note is not needed.
    let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
    path
}

/// The packs of a folder, with the time when each was last used.
fn packs_in(folder: &Path) -> Vec<(SystemTime, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect()
}

fn write_part(part: &Path, bytes: u64, content: impl Read) -> anyhow::Result<()> {
    let unwritable = || format!("cannot write {}", part.display());
    let mut file = File::create(part).with_context(unwritable)?;
    // One byte more is read than expected, so that a file that is too long is noticed.
    io::copy(&mut content.take(bytes + 1), &mut file).with_context(unwritable)?;
    file.sync_all().with_context(unwritable)
}

fn check_digest(part: &Path, digest: &Digest) -> anyhow::Result<()> {
    let refuse = || format!("the server's pack {digest:.12} is refused: it is not what its digest names");
    let mut pack = Pack::open(part).with_context(refuse)?;
    if pack.digest() != digest {
        bail!("{}, but {:.12}", refuse(), pack.digest());
    }
    pack.check().with_context(refuse)
}

fn cache_limit() -> anyhow::Result<u64> {
    let Some(given) = std::env::var_os(LIMIT) else { return Ok(USUAL_MEGABYTES * 1_000_000) };
    let given = given.to_string_lossy();
    let megabytes: u64 = given
        .parse()
        .map_err(|_| Usage::new(format!("{LIMIT}: got `{given}`, expected a number of megabytes")))?;
    Ok(megabytes.saturating_mul(1_000_000))
}

/// Locked while a pack is pulled. The GPUs of a node are threads of one process, and several often lack
/// the same pack.
static PULLING: Mutex<()> = Mutex::new(());

/// The server's packs for an architecture that this program launches unasked, newest first. The list is empty if
/// the server is too old to have packs.
pub(crate) fn packs(client: &Client, arch: &str) -> Answered<Vec<PackSummary>> {
    let answer = match successful(client.getting(&format!("/packs?architecture={arch}"))) {
        Err(Trouble::Unknown(_)) => return Ok(Vec::new()),
        other => other?,
    };
    let listed: Vec<PackSummary> = document(answer)?;
    let launches = |pack: &PackSummary| pack.abi.as_deref() == Some(ABI) && is_usual(pack.triton.as_ref());
    Ok(listed.into_iter().filter(launches).collect())
}

/// The file of a pack: from the cache, or else pulled from the server.
pub(crate) fn pull(client: &Client, cache: &PackCache, pack: &PackSummary) -> Answered<PathBuf> {
    if let Some(path) = cache.pulled(&pack.digest) {
        return Ok(path);
    }
    let _pulling = PULLING.lock().unwrap_or_else(PoisonError::into_inner);
    // The thread of another GPU may have pulled it meanwhile.
    if let Some(path) = cache.pulled(&pack.digest) {
        return Ok(path);
    }
    say!(
        "pulling the kernel pack {:.12} ({:.1} MiB) from {}",
        pack.digest,
        pack.bytes as f64 / f64::from(1 << 20),
        client.address()
    );
    let mut answer = successful(client.getting_much(&format!("/packs/{}", pack.digest)))?;
    let mut body = Arriving::new(answer.body_mut().as_reader());
    let mut progress = Progress::of_bytes(pack.bytes);
    let kept = cache.keep(&pack.digest, pack.bytes, progress.watch(&mut body, 0));
    kept.map_err(|error| {
        if body.broke.is_some() {
            Trouble::Away(anyhow::anyhow!("the pack did not arrive: {}", error.root_cause()), None)
        } else {
            Trouble::Fatal(error)
        }
    })
}

/// What a collection launches kernels for.
pub(crate) struct WantedKernels<'a> {
    pub(crate) arch: &'a str,
    pub(crate) problems: &'a [Problem],
    pub(crate) configs: &'a dyn Fn(&Problem) -> anyhow::Result<Vec<Config>>,
}

/// Packs that together have the wanted kernels, as far as there are such packs. Prints which packs they are.
pub(crate) fn find_packs(
    wanted: &WantedKernels<'_>,
    server: &PackServerArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<PathBuf>> {
    let cache = PackCache::open()?;
    let mut lacking = wanted.kernels()?;
    let mut found = Vec::new();
    let here = if server.may_run() { cache.all(wanted.arch) } else { cache.built(wanted.arch) };
    for (path, pack) in here {
        if remove_found(&mut lacking, &pack) {
            say!("kernels: pack {:.12}, cached on this node", pack.digest());
            found.push(used(path));
        }
    }
    let mut asked = false;
    if !lacking.is_empty()
        && let Some(client) = server.client()?
    {
        asked = true;
        found.extend(of_server(wanted, &client, &cache, &mut lacking)?);
    }
    if !lacking.is_empty()
        && let Some(path) = wanted.build(&cache, &lacking, interrupt)?
    {
        remove_found(&mut lacking, &Pack::open(&path)?);
        say!("kernels: {}, built on this node", path.display());
        found.push(path);
    }
    if found.is_empty() && !lacking.is_empty() {
        bail!(
            "no kernels for {}: none are cached, {}, and this node has no Python with Triton to build them; name \
             a pack with --kernels (`diode kernels build` makes one), or measure the CPU with --backend cpu",
            wanted.arch,
            match (asked, server.may_run()) {
                (true, _) => "the server has none",
                (false, true) => "no server was named with --server",
                (false, false) => "packs of a server are not to be run",
            }
        );
    }
    if !lacking.is_empty() {
        say!(
            "note: no pack has {} that are asked for; problems that need them are skipped",
            count(lacking.len(), "kernel")
        );
    }
    Ok(found)
}

fn of_server(
    wanted: &WantedKernels<'_>,
    client: &Client,
    cache: &PackCache,
    lacking: &mut BTreeSet<String>,
) -> anyhow::Result<Vec<PathBuf>> {
    let listed = match packs(client, wanted.arch) {
        Ok(listed) => listed,
        Err(error) => {
            say!("note: {:#}; packs of the server are not used", anyhow::Error::from(error));
            return Ok(Vec::new());
        }
    };
    let mut found = Vec::new();
    for pack in listed {
        let variants: BTreeSet<KernelVariant> =
            lacking.iter().filter_map(|kernel| KernelVariant::of_kernel(kernel)).collect();
        if !pack.variants.iter().any(|held| variants.contains(&held.variant)) {
            continue;
        }
        let path = pull(client, cache, &pack)?;
        if remove_found(lacking, &Pack::open(&path)?) {
            say!("kernels: pack {:.12} of {}", pack.digest, client.address());
            found.push(path);
        }
    }
    Ok(found)
}

/// Removes the kernels of a pack from `lacking`. `false` if the pack has none of them.
fn remove_found(lacking: &mut BTreeSet<String>, pack: &Pack) -> bool {
    let before = lacking.len();
    if !pack.is_exact() {
        lacking.retain(|kernel| pack.find(kernel).is_none());
    }
    lacking.len() < before
}

impl WantedKernels<'_> {
    /// The names of the kernels. Problems that no kernel computes are left out here; the collection reports
    /// them.
    fn kernels(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut kernels = BTreeSet::new();
        for problem in self.problems {
            let Ok(variant) = Variant::for_problem(problem) else { continue };
            for config in (self.configs)(problem)? {
                kernels.extend(variant.form(&config, problem).map(|form| variant.key(&form)));
            }
        }
        Ok(kernels)
    }

    fn build(
        &self,
        cache: &PackCache,
        lacking: &BTreeSet<String>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<PathBuf>> {
        let mut planned = Vec::new();
        for problem in self.problems.iter().filter(|problem| Variant::for_problem(problem).is_ok()) {
            let space = diode_core::space::Space::List((self.configs)(problem)?);
            planned
                .extend(Plan::of_space(self.arch, space).kernels_for(std::slice::from_ref(problem), false)?);
        }
        let mut seen = BTreeSet::new();
        planned.retain(|kernel| {
            (!kernel.matmul || lacking.contains(&kernel.key)) && seen.insert(kernel.key.clone())
        });
        build_here(cache, self.arch, &planned, interrupt)
    }
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
