//! The packs that an agent's devices launch kernels from: named ones, the server's, or one that it builds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use anyhow::bail;
use diode_api::{Lease, LeasedProblem, PackSummary};
use diode_core::KernelVariant;
use diode_formats::pack::Pack;

use crate::agent::Worker;
use crate::agent::lease::{ConfigChooser, patiently};
use crate::agent::limits::{Allowed, ability_with};
use crate::failure::Interrupted;
use crate::interrupt::Interrupt;
use crate::kernels::variant::Variant;
use crate::kernels::{Held, PackCache, build_here, held, packs, pull};
use crate::output::count;
use crate::server::{Answered, Client, Trouble};

/// How often packs are listed again, to find newly published ones.
const LIST_EVERY: Duration = Duration::from_secs(3600);
/// How often packs are listed again after a lease lacked a pack. The pack may have been published since.
const LIST_AGAIN: Duration = Duration::from_secs(60);

/// The kernels that an agent's GPUs can launch, from packs on this node or on the server.
pub(crate) struct Kernels<'a> {
    arch: String,
    allowed: Allowed,
    /// The cache to look for packs in; `None` if the user named the packs.
    cache: Option<PackCache>,
    /// The server whose packs may run, if any may.
    client: Option<&'a Client>,
    known: RwLock<Known>,
}

struct Known {
    offers: Vec<Offer>,
    listed: Instant,
    /// Whether a lease lacked a pack.
    lacking: bool,
}

impl<'a> Kernels<'a> {
    /// The kernels of packs that the user named.
    pub(crate) fn given(arch: &str, packs: &[PathBuf], allowed: Allowed) -> anyhow::Result<Self> {
        let opened = packs.iter().map(|path| Ok((path.clone(), Pack::open(path)?)));
        let offers = here(opened.collect::<anyhow::Result<_>>()?, &allowed)?;
        if offers.is_empty() {
            bail!(
                "--kernels: the packs have no operator and type that is asked for with the configs of the full \
                 space, as agents time them; `diode kernels build --space full` makes such packs"
            );
        }
        Ok(Self::new(arch, allowed, None, None, offers))
    }

    /// The kernels of the server's packs and of packs built on this node. If there are none, a pack is
    /// built now. `None` if the agent is to stop before the pack is built. Without a client, packs of the server may
    /// not run.
    pub(crate) fn found(
        arch: &str,
        allowed: Allowed,
        client: Option<&'a Client>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Self>> {
        let cache = PackCache::open()?;
        let Some(listed) = listed(arch, client, interrupt)? else { return Ok(None) };
        let mut offers = offered(arch, listed, &cache, &allowed)?;
        if offers.is_empty() {
            let Some(path) = build_here(&cache, arch, &allowed.plan(arch).kernels()?, interrupt)? else {
                bail!(
                    "no kernels for {arch}: {}, and this node has no Python with Triton to build them; an administrator \
                     publishes packs with `diode kernels publish`, and --kernels names one of this node",
                    if client.is_some() {
                        "the server has none"
                    } else {
                        "packs of the server are not to be run"
                    }
                );
            };
            say!("kernels: {}, built on this node", path.display());
            let pack = Pack::open(&path)?;
            offers = here(vec![(path, pack)], &allowed)?;
        }
        Ok(Some(Self::new(arch, allowed, Some(cache), client, offers)))
    }

    fn new(
        arch: &str,
        allowed: Allowed,
        cache: Option<PackCache>,
        client: Option<&'a Client>,
        offers: Vec<Offer>,
    ) -> Self {
        let known = RwLock::new(Known { offers, listed: Instant::now(), lacking: false });
        Self { arch: arch.to_owned(), allowed, cache, client, known }
    }

    /// Looks for packs again if it is time.
    fn refresh(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let (age, lacking) = (self.known().listed.elapsed(), self.known().lacking);
        if !is_due(age, lacking) {
            return Ok(());
        }
        let Some(listed) = listed(&self.arch, self.client, interrupt)? else { return Ok(()) };
        let offers = offered(&self.arch, listed, cache, &self.allowed)?;
        if offers.is_empty() {
            bail!("no kernels for {} are left: their packs were withdrawn or removed", self.arch);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Known { offers, listed: Instant::now(), lacking: false };
        Ok(())
    }

    /// Notes that a lease could not be measured because a pack was lacking.
    pub(super) fn note_lack(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).lacking = true;
    }

    /// All variants that can be launched.
    pub(crate) fn variants(&self) -> Vec<KernelVariant> {
        let known = self.known();
        let held = known.offers.iter().flat_map(|offer| &offer.held);
        let mut variants: Vec<_> = held.map(|held| held.variant).collect();
        variants.sort_unstable();
        variants.dedup();
        variants
    }

    /// Whether a pack may still be used: a server may have withdrawn it.
    fn offers(&self, file: &Path) -> bool {
        self.cache.is_none() || self.known().offers.iter().any(|offer| offer.is(file))
    }

    /// The packs with the needed kernels. Each of them is on this node when this returns.
    fn packs_for(&self, needed: &Needed) -> Answered<Vec<PathBuf>> {
        let chosen: Vec<Source> = {
            let known = self.known();
            let places = choose(&known.offers, needed, self.cache.as_ref());
            places.into_iter().map(|place| known.offers[place].source.clone()).collect()
        };
        let mut paths = Vec::new();
        for source in chosen {
            match (source, &self.cache, self.client) {
                (Source::Here(path), ..) => paths.push(path),
                (Source::Server(pack), Some(cache), Some(client)) => paths.push(pull(client, cache, &pack)?),
                // Only a server's list brings such sources.
                (Source::Server(_), ..) => {}
            }
        }
        Ok(paths)
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_due(age: Duration, lacking: bool) -> bool {
    age >= if lacking { LIST_AGAIN } else { LIST_EVERY }
}

/// The packs that the server lists for an architecture. `None` if the agent is to stop before the server answers.
fn listed(
    arch: &str,
    client: Option<&Client>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Vec<PackSummary>>> {
    let Some(client) = client else { return Ok(Some(Vec::new())) };
    Ok(patiently(interrupt, || packs(client, arch)).transpose()?)
}

/// The offers from packs that the server lists and from packs that were built on this node. Prints how
/// many packs these are.
fn offered(
    arch: &str,
    listed: Vec<PackSummary>,
    cache: &PackCache,
    allowed: &Allowed,
) -> anyhow::Result<Vec<Offer>> {
    let mut offers = Vec::new();
    for pack in listed {
        let counted = pack.variants.iter().map(|held| (held.variant, held.kernels));
        let held = allowed.keep(held(arch, counted)?);
        offers.push(Offer { held, bytes: pack.bytes, source: Source::Server(Box::new(pack)) });
    }
    offers.retain(|offer| !offer.held.is_empty());
    let of_server = offers.len();
    offers.extend(here(cache.built(arch), allowed)?);
    let built = offers.len() - of_server;
    for (packs, whose) in [(of_server, "of the server"), (built, "of this node, built earlier")] {
        if packs > 0 {
            say!("kernels: {} {whose}", count(packs, "pack"));
        }
    }
    Ok(offers)
}

/// The offers from packs on this node.
fn here(packs: Vec<(PathBuf, Pack)>, allowed: &Allowed) -> anyhow::Result<Vec<Offer>> {
    let mut offers = Vec::new();
    for (path, pack) in packs.into_iter().filter(|(_, pack)| !pack.is_exact()) {
        let held: Vec<Held> = allowed.keep(held(pack.arch(), pack.variants())?);
        let bytes = fs::metadata(&path).map_or(0, |file| file.len());
        offers.push(Offer { held, bytes, source: Source::Here(path) });
    }
    offers.retain(|offer| !offer.held.is_empty());
    Ok(offers)
}

/// A pack, and the variants in it that agents can use.
struct Offer {
    held: Vec<Held>,
    bytes: u64,
    source: Source,
}

#[derive(Clone)]
enum Source {
    Here(PathBuf),
    /// A pack of the server. It is pulled into the cache when a lease needs it.
    Server(Box<PackSummary>),
}

/// The names of the kernels that a lease launches, by variant.
type Needed = BTreeMap<KernelVariant, BTreeSet<String>>;

/// The kernels that some work needs. A problem that no kernel computes needs none.
fn needed(chooser: &mut ConfigChooser, work: &[LeasedProblem]) -> Needed {
    let mut needed = Needed::new();
    for work in work {
        let (Ok(general), Ok(variant)) =
            (KernelVariant::for_problem(&work.problem), Variant::for_problem(&work.problem))
        else {
            continue;
        };
        let Ok(configs) = chooser.choose(work) else { continue };
        let key = |config| Some(variant.key(&variant.form(config, &work.problem)?));
        needed.entry(general).or_default().extend(configs.iter().filter_map(key));
    }
    needed
}

/// The indexes of the offers that a lease needs. For each variant it chooses the smallest pack that surely has
/// all kernels, and prefers packs on this node. If no pack surely has all kernels, it chooses every pack with
/// the variant.
fn choose(offers: &[Offer], needed: &Needed, cache: Option<&PackCache>) -> BTreeSet<usize> {
    let mut chosen = BTreeSet::new();
    for (variant, kernels) in needed {
        let has = |offer: &Offer| offer.held.iter().any(|held| held.variant == *variant);
        let mut having: Vec<usize> = (0..offers.len()).filter(|&place| has(&offers[place])).collect();
        having.sort_by_cached_key(|&place| (offers[place].path(cache).is_none(), offers[place].bytes));
        let covering = having.iter().find(|&&place| offers[place].covers(*variant, kernels, cache));
        chosen.extend(covering.map_or(having.clone(), |&place| vec![place]));
    }
    chosen
}

impl Offer {
    /// Whether a file is the file of this pack.
    fn is(&self, file: &Path) -> bool {
        match &self.source {
            Source::Here(path) => path == file,
            Source::Server(pack) => file.file_stem().is_some_and(|stem| stem == pack.digest.as_str()),
        }
    }

    /// The pack's file, if it is on this node.
    fn path(&self, cache: Option<&PackCache>) -> Option<PathBuf> {
        match &self.source {
            Source::Here(path) => Some(path.clone()),
            Source::Server(pack) => cache?.find(&pack.digest),
        }
    }

    /// Whether the pack surely has all these kernels. Of a pack on the server, only the number of kernels is
    /// known.
    fn covers(&self, variant: KernelVariant, kernels: &BTreeSet<String>, cache: Option<&PackCache>) -> bool {
        if self.held.contains(&Held { variant, complete: true }) {
            return true;
        }
        let Some(pack) = self.path(cache).and_then(|path| Pack::open(&path).ok()) else { return false };
        kernels.iter().all(|kernel| pack.find(kernel).is_some())
    }
}

impl Worker<'_> {
    /// Prints which device this is, and its driver.
    pub(super) fn say_what_it_is(&self) {
        let (name, node) = (&self.device.hardware.name, &self.device.provenance.node);
        let driver = node.get("driver");
        let words = driver.map_or(String::new(), |driver| format!(", driver {driver}"));
        tell!(
            Info,
            { "hardware": self.device.hardware.slug, "driver": driver, "backend": node.get("backend") },
            "{name}{words}"
        );
        if !self.device.packs.is_empty() {
            self.say_packs();
        }
    }

    /// Looks for new packs when that is due. Returns whether the kernels now serve other problems than the server
    /// was told.
    pub(super) fn has_other_kernels(&mut self) -> anyhow::Result<bool> {
        let Some(kernels) = self.shared.kernels else { return Ok(false) };
        kernels.refresh(self.shared.interrupt)?;
        let variants = kernels.variants();
        let ability = &mut self.device.registration.ability;
        if ability.variants.as_ref() == Some(&variants) {
            return Ok(false);
        }
        *ability = ability_with(variants, ability.memory_bytes);
        Ok(true)
    }

    /// Lets the device use the packs that a lease needs. `false` if the lease cannot go on: the agent is to stop, or
    /// a pack was withdrawn.
    pub(super) fn get_kernels(&mut self, lease: &Lease) -> anyhow::Result<bool> {
        let Some(kernels) = self.shared.kernels else { return Ok(true) };
        self.note("getting kernels");
        let needed = needed(&mut self.configs, &lease.work);
        let Some(found) = patiently(self.shared.interrupt, || kernels.packs_for(&needed)) else {
            return Ok(false);
        };
        if matches!(found, Err(Trouble::Unknown(_))) {
            say!("a pack that the lease needs was withdrawn; what is left of the lease goes back");
            kernels.note_lack();
            self.gives_back = true;
            self.waits_for_kernels = true;
            return Ok(false);
        }
        // A pack may have been withdrawn since, or the cache may have removed it to make room.
        let stays = |path: &PathBuf| kernels.offers(path) && path.exists();
        let mut packs: Vec<PathBuf> = self.device.packs.iter().filter(|path| stays(path)).cloned().collect();
        for path in found.map_err(anyhow::Error::from)? {
            if !packs.contains(&path) {
                packs.push(path);
            }
        }
        if packs == self.device.packs {
            return Ok(true);
        }
        match self.device.meter.use_packs(&packs, &|| self.shared.interrupt.insisted()) {
            Ok(node) => self.device.provenance.node = node,
            Err(error) if error.is::<Interrupted>() => return Ok(false),
            Err(error) => return Err(error),
        }
        self.device.packs = packs;
        self.say_packs();
        Ok(true)
    }

    /// Waits until the server's packs may be listed again. Until then, the next lease would need the same missing
    /// pack.
    pub(super) fn wait_for_kernels(&mut self) {
        if std::mem::take(&mut self.waits_for_kernels) {
            self.note("waiting for kernels");
            self.shared.interrupt.sleep(LIST_AGAIN);
        }
    }

    fn say_packs(&self) {
        let node = &self.device.provenance.node;
        let digests: Vec<&String> = node
            .iter()
            .filter(|(name, _)| name.starts_with("kernel_pack"))
            .map(|(_, digest)| digest)
            .collect();
        let short: Vec<String> = digests.iter().map(|digest| format!("{digest:.12}")).collect();
        let triton = node.get("triton");
        let words = triton.map_or(String::new(), |triton| format!(", of Triton {triton}"));
        tell!(
            Info,
            { "packs": digests, "triton": triton },
            "kernels from {}: {}{words}",
            count(digests.len(), "pack"),
            short.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use diode_api::{Breadth, Purpose};
    use diode_core::hardware::find;
    use diode_core::{DType, Op, Problem, ProblemFields};
    use diode_formats::pack::PackWriter;

    use super::*;

    #[test]
    fn packs_are_listed_each_hour_and_sooner_where_something_lacked() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert!(!is_due(minutes(59), false) && is_due(minutes(60), false));
        assert!(!is_due(minutes(0), true) && is_due(minutes(1), true));
    }

    #[test]
    fn packs_that_were_named_are_neither_listed_again_nor_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.pack");
        let allowed = Allowed { ops: Vec::new(), dtypes: Vec::new() };
        let mut writer = PackWriter::new("sm_90", BTreeMap::new());
        for kernel in
            allowed.plan("sm_90").kernels().unwrap().into_iter().filter(|kernel| kernel.matmul).take(1534)
        {
            writer.add_built(kernel.key, "mm".to_owned(), [128, 0, 16, 0], b"binary");
        }
        diode_formats::write_atomically(&path, &writer.finish()).unwrap();
        let kernels = Kernels::given("sm_90", std::slice::from_ref(&path), allowed.clone()).unwrap();
        assert_eq!(kernels.variants().len(), 1);
        kernels.note_lack();
        assert!(kernels.offers(&path) && kernels.cache.is_none());
        // The pack has only half of the variant's kernels. These are enough for some problems.
        let held = &kernels.known().offers[0].held;
        assert!(!held[0].complete);
        let others = Allowed { ops: vec![Op::Baddbmm], ..allowed };
        assert!(Kernels::given("sm_90", &[path], others).err().unwrap().to_string().contains("--space full"));
    }

    fn work(k: u64) -> LeasedProblem {
        LeasedProblem {
            problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 512, 512, k, DType::BFloat16)).unwrap(),
            purpose: Purpose::Hole,
            why: String::new(),
            breadth: Breadth::Sample,
            kept: false,
            seconds: 1.0,
        }
    }

    /// A pack in this folder with these kernels.
    fn offer(folder: &Path, name: &str, kernels: &BTreeSet<String>, held: Held) -> Offer {
        let mut writer = PackWriter::new("sm_90", BTreeMap::new());
        for kernel in kernels {
            writer.add_built(kernel.clone(), "mm".to_owned(), [128, 0, 16, 0], b"binary");
        }
        let path = folder.join(name);
        diode_formats::write_atomically(&path, &writer.finish()).unwrap();
        let bytes = fs::metadata(&path).unwrap().len();
        Offer { held: vec![held], bytes, source: Source::Here(path) }
    }

    #[test]
    fn the_smallest_pack_that_covers_a_lease_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let mut chooser = ConfigChooser::new(find("nvidia-h100").unwrap());
        let mut needed = |work: &[LeasedProblem]| needed(&mut chooser, work);
        let (even, odd) = (needed(&[work(1024)]), needed(&[work(1032)]));
        let (&variant, of_even) = even.first_key_value().unwrap();
        let of_odd = &odd[&variant];
        assert!(of_even.len() > 100 && of_even.is_disjoint(of_odd));
        let of_both: BTreeSet<String> = of_even.union(of_odd).cloned().collect();
        let offer = |name, kernels, complete| offer(folder.path(), name, kernels, Held { variant, complete });
        let offers =
            [offer("all", &of_both, true), offer("even", of_even, false), offer("odd", of_odd, false)];
        let chosen = |needed: &Needed| choose(&offers, needed, None);
        assert_eq!(chosen(&even), BTreeSet::from([1]));
        assert_eq!(chosen(&odd), BTreeSet::from([2]));
        let both = needed(&[work(1024), work(1032)]);
        assert_eq!(chosen(&both), BTreeSet::from([0]));
        // Neither pack alone surely has all; both together may.
        let parts = choose(&offers[1..], &both, None);
        assert_eq!(parts, BTreeSet::from([0, 1]));
        assert!(offers[0].is(&folder.path().join("all")) && !offers[0].is(&folder.path().join("even")));
    }
}
