use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use anyhow::bail;
use diode_api::PackSummary;
use diode_core::KernelVariant;
use diode_formats::pack::Pack;

use super::allowed::Allowed;
use super::offers::{Needed, Offer, Source, choose};
use super::service::{Answered, Service, patiently};
use super::stop::Stop;
use crate::interrupt::Interrupt;
use crate::kernels::{Held, PackCache, build_here, held};
use crate::output::count;

/// How often packs are listed again, to find newly published ones.
const LIST_EVERY: Duration = Duration::from_secs(3600);
/// How often packs are listed again after a lease lacked a pack. The pack may have been published since.
pub(super) const LIST_AGAIN: Duration = Duration::from_secs(60);

/// The kernels that an agent's GPUs can launch, from packs on this node or on the server.
pub(crate) struct Kernels {
    arch: String,
    allowed: Allowed,
    /// The cache to look for packs in; `None` if the user named the packs.
    cache: Option<PackCache>,
    known: RwLock<Known>,
}

struct Known {
    offers: Vec<Offer>,
    listed: Instant,
    /// Whether a lease lacked a pack.
    lacking: bool,
}

/// Where an agent may look for kernels if the user named no packs.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// `None` if packs of the server may not run.
    pub(crate) service: Option<&'a Service>,
    pub(crate) stop: &'a Stop,
    pub(crate) interrupt: &'a Interrupt,
}

impl Kernels {
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
        Ok(Self::new(arch, allowed, None, offers))
    }

    /// The kernels of the server's packs and of packs built on this node. If there are none, a pack is
    /// built now. `None` if the agent is to stop before the pack is built.
    pub(crate) fn found(arch: &str, allowed: Allowed, places: Places<'_>) -> anyhow::Result<Option<Self>> {
        let cache = PackCache::open()?;
        let listed = match places.service {
            None => Vec::new(),
            Some(service) => match patiently(places.stop, || service.packs(arch)) {
                None => return Ok(None),
                Some(listed) => listed.map_err(anyhow::Error::from)?,
            },
        };
        let mut offers = offered(arch, listed, &cache, &allowed)?;
        if offers.is_empty() {
            let Some(path) = build_here(&cache, arch, &allowed.plan(arch).kernels()?, places.interrupt)?
            else {
                bail!(
                    "no kernels for {arch}: {}, and this node has no Python with Triton to build them; an administrator \
                     publishes packs with `diode kernels publish`, and --kernels names one of this node",
                    if places.service.is_some() {
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
        Ok(Some(Self::new(arch, allowed, Some(cache), offers)))
    }

    fn new(arch: &str, allowed: Allowed, cache: Option<PackCache>, offers: Vec<Offer>) -> Self {
        let known = RwLock::new(Known { offers, listed: Instant::now(), lacking: false });
        Self { arch: arch.to_owned(), allowed, cache, known }
    }

    /// Looks for packs again if it is time. The server's packs are considered only if there is a service.
    pub(super) fn refresh(&self, service: Option<&Service>, stop: &Stop) -> anyhow::Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        if !self.known().is_due() {
            return Ok(());
        }
        let listed = match service {
            None => Vec::new(),
            Some(service) => match patiently(stop, || service.packs(&self.arch)) {
                None => return Ok(()),
                Some(listed) => listed.map_err(anyhow::Error::from)?,
            },
        };
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
    pub(super) fn offers(&self, file: &Path) -> bool {
        self.cache.is_none() || self.known().offers.iter().any(|offer| offer.is(file))
    }

    /// The packs with the needed kernels. Each of them is on this node when this returns.
    pub(super) fn packs_for(&self, service: &Service, needed: &Needed) -> Answered<Vec<PathBuf>> {
        let chosen: Vec<Source> = {
            let known = self.known();
            let places = choose(&known.offers, needed, self.cache.as_ref());
            places.into_iter().map(|place| known.offers[place].source.clone()).collect()
        };
        let mut paths = Vec::new();
        for source in chosen {
            match (source, &self.cache) {
                (Source::Here(path), _) => paths.push(path),
                (Source::Server(pack), Some(cache)) => paths.push(service.pull(cache, &pack)?),
                // Packs that the user named are on this node already.
                (Source::Server(_), None) => {}
            }
        }
        Ok(paths)
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_due(&self) -> bool {
        is_due(self.listed.elapsed(), self.lacking)
    }
}

fn is_due(age: Duration, lacking: bool) -> bool {
    age >= if lacking { LIST_AGAIN } else { LIST_EVERY }
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
        let held = allowed.of(held(arch, counted)?);
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
        let held: Vec<Held> = allowed.of(held(pack.arch(), pack.variants())?);
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        offers.push(Offer { held, bytes, source: Source::Here(path) });
    }
    offers.retain(|offer| !offer.held.is_empty());
    Ok(offers)
}

#[cfg(test)]
mod tests {
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
        let mut writer = PackWriter::new("sm_90", std::collections::BTreeMap::new());
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
        let others = Allowed { ops: vec![diode_core::Op::Baddbmm], ..allowed };
        assert!(Kernels::given("sm_90", &[path], others).err().unwrap().to_string().contains("--space full"));
    }
}
