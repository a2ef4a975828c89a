use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use diode_core::api::{PackSummary, Work};
use diode_core::space::{Space, SpaceName};
use diode_core::{Alignment, Bias, DType, KernelVariant, Layout, Op};
use diode_formats::pack::Pack;

use super::service::{Answered, Service, patiently};
use super::stop::Stop;
use crate::interrupt::Interrupt;
use crate::kernels::{PackCache, Plan, build_here, complete};
use crate::output::count;

/// The kernels that an agent's GPUs can launch: each variant with all of the full space, in packs that are here
/// or on the server.
pub(crate) struct Kernels {
    offers: Vec<Offer>,
}

struct Offer {
    variants: Vec<KernelVariant>,
    pack: Source,
}

enum Source {
    Here(PathBuf),
    /// Pulled into the cache when a lease needs it.
    Server(Box<PackSummary>, Arc<PackCache>),
}

/// What an agent is to measure; empty lists are no choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) ops: &'a [Op],
    pub(crate) dtypes: &'a [DType],
}

/// Where an agent may look for kernels that it was not given.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// `None` if packs of the server are not to be run.
    pub(crate) service: Option<&'a Service>,
    pub(crate) stop: &'a Stop,
    pub(crate) interrupt: &'a Interrupt,
}

impl Kernels {
    /// Those of packs that were named.
    pub(crate) fn given(packs: &[PathBuf], choice: Choice<'_>) -> anyhow::Result<Self> {
        let opened = packs.iter().map(|path| Ok((path.clone(), Pack::open(path)?)));
        let kernels = Self::here(opened.collect::<anyhow::Result<_>>()?, choice)?;
        if kernels.offers.is_empty() {
            bail!(
                "--kernels: the packs have no operator and type that is asked for with every config of the full \
                 space, as agents time them; `diode kernels build --space full` makes such packs"
            );
        }
        Ok(kernels)
    }

    /// Those of the server; if it has none, those that were built on this node, or are built now. `None` if the
    /// agent is to stop before that is done.
    pub(crate) fn found(arch: &str, choice: Choice<'_>, places: Places<'_>) -> anyhow::Result<Option<Self>> {
        let cache = Arc::new(PackCache::open()?);
        let listed = match places.service {
            None => Vec::new(),
            Some(service) => match patiently(places.stop, || service.packs(arch)) {
                None => return Ok(None),
                Some(listed) => listed.map_err(anyhow::Error::from)?,
            },
        };
        let mut offers = Vec::new();
        for pack in listed {
            let counted = pack.variants.iter().map(|held| (held.variant, held.kernels));
            let variants = choice.of(complete(arch, counted)?);
            offers.push(Offer { variants, pack: Source::Server(Box::new(pack), Arc::clone(&cache)) });
        }
        offers.retain(|offer| !offer.variants.is_empty());
        if !offers.is_empty() {
            say!("kernels: {} of the server", count(offers.len(), "pack"));
            return Ok(Some(Self { offers }));
        }
        let kernels = Self::here(cache.built(arch), choice)?;
        if !kernels.offers.is_empty() {
            say!("kernels: {} of this node, built earlier", count(kernels.offers.len(), "pack"));
            return Ok(Some(kernels));
        }
        let Some(path) = build_here(&cache, arch, &choice.plan(arch).kernels()?, places.interrupt)? else {
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
        Self::here(vec![(path, pack)], choice).map(Some)
    }

    fn here(packs: Vec<(PathBuf, Pack)>, choice: Choice<'_>) -> anyhow::Result<Self> {
        let mut offers = Vec::new();
        for (path, pack) in packs.into_iter().filter(|(_, pack)| !pack.is_exact()) {
            let variants = choice.of(complete(pack.arch(), pack.variants())?);
            offers.push(Offer { variants, pack: Source::Here(path) });
        }
        offers.retain(|offer| !offer.variants.is_empty());
        Ok(Self { offers })
    }

    /// All that can be launched.
    pub(super) fn variants(&self) -> Vec<KernelVariant> {
        let mut variants: Vec<_> = self.offers.iter().flat_map(|offer| offer.variants.clone()).collect();
        variants.sort_unstable();
        variants.dedup();
        variants
    }

    /// The packs that some work needs, each on this node when this returns.
    pub(super) fn packs_for(&self, service: &Service, work: &[Work]) -> Answered<Vec<PathBuf>> {
        let needed: Vec<KernelVariant> =
            work.iter().filter_map(|work| KernelVariant::of(&work.problem).ok()).collect();
        let offer_of = |variant| self.offers.iter().position(|offer| offer.variants.contains(variant));
        let mut offers: Vec<usize> = needed.iter().filter_map(offer_of).collect();
        offers.sort_unstable();
        offers.dedup();
        let path = |number: usize| match &self.offers[number].pack {
            Source::Here(path) => Ok(path.clone()),
            Source::Server(pack, cache) => service.pull(cache, pack),
        };
        offers.into_iter().map(path).collect()
    }
}

impl Choice<'_> {
    fn of(self, variants: Vec<KernelVariant>) -> Vec<KernelVariant> {
        let admits = |variant: &KernelVariant| {
            (self.ops.is_empty() || self.ops.contains(&variant.op()))
                && (self.dtypes.is_empty() || self.dtypes.contains(&variant.dtype))
        };
        variants.into_iter().filter(admits).collect()
    }

    /// What is built where there is no pack: without a choice what is most usual, since it takes minutes.
    fn plan(self, arch: &str) -> Plan {
        let or = |given: &[Op]| if given.is_empty() { vec![Op::Mm] } else { given.to_vec() };
        let dtypes = if self.dtypes.is_empty() { vec![DType::BFloat16] } else { self.dtypes.to_vec() };
        Plan {
            arch: arch.to_owned(),
            ops: or(self.ops),
            dtypes,
            layouts: vec![(Layout::Row, Layout::Row), (Layout::Row, Layout::Column)],
            alignments: vec![Alignment::Bytes16],
            biases: Bias::ALL.to_vec(),
            tf32: false,
            space: Space::Named(SpaceName::Full),
        }
    }
}
