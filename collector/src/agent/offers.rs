//! Packs that kernels can be taken from, and which of these packs a lease needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use diode_api::{LeasedProblem, PackSummary};
use diode_core::KernelVariant;
use diode_formats::pack::Pack;

use super::configs::ConfigChooser;
use crate::kernels::variant::{Variant, tile_of};
use crate::kernels::{Held, PackCache};

/// A pack, and the variants in it that agents can use.
pub(super) struct Offer {
    pub(super) held: Vec<Held>,
    pub(super) bytes: u64,
    pub(super) source: Source,
}

#[derive(Clone)]
pub(super) enum Source {
    Here(PathBuf),
    /// A pack of the server. It is pulled into the cache when a lease needs it.
    Server(Box<PackSummary>),
}

/// The names of the kernels that a lease launches, by variant.
pub(super) type Needed = BTreeMap<KernelVariant, BTreeSet<String>>;

/// The kernels that some work needs. A problem that no kernel computes needs none.
pub(super) fn needed(chooser: &mut ConfigChooser, work: &[LeasedProblem]) -> Needed {
    let mut needed = Needed::new();
    for work in work {
        let (Ok(general), Ok(variant)) = (KernelVariant::of(&work.problem), Variant::of(&work.problem))
        else {
            continue;
        };
        let Ok(configs) = chooser.choose(work) else { continue };
        let key = |config| Some(variant.key(tile_of(config)?, variant.fits(tile_of(config)?, &work.problem)));
        needed.entry(general).or_default().extend(configs.iter().filter_map(key));
    }
    needed
}

/// The indexes of the offers that a lease needs. For each variant it chooses the smallest pack that surely has
/// all kernels, and prefers packs on this node. If no pack surely has all kernels, it chooses every pack with
/// the variant.
pub(super) fn choose(offers: &[Offer], needed: &Needed, cache: Option<&PackCache>) -> BTreeSet<usize> {
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
    pub(super) fn is(&self, file: &Path) -> bool {
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

#[cfg(test)]
mod tests {
    use diode_api::{Breadth, Purpose};
    use diode_core::hardware::find;
    use diode_core::{DType, Op, Problem, ProblemFields};
    use diode_formats::pack::PackWriter;

    use super::*;

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
        let bytes = std::fs::metadata(&path).unwrap().len();
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
