//! Finds the packs for a collection that names none: first packs of this node, then the server's. If kernels
//! are still lacking, a pack is built.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;
use diode_core::{Config, KernelVariant, Problem};
use diode_formats::pack::Pack;

use crate::interrupt::Interrupt;
use crate::kernels::variant::{Variant, tile_of};
use crate::kernels::{PackCache, Plan, build_here, used};
use crate::output::count;
use crate::server::{Client, PackServerArgs, packs, pull};

/// What a collection launches kernels for.
pub(super) struct Wanted<'a> {
    pub(super) arch: &'a str,
    pub(super) problems: &'a [Problem],
    pub(super) configs: &'a dyn Fn(&Problem) -> anyhow::Result<Vec<Config>>,
}

/// Packs that together have the wanted kernels, as far as there are such packs. Prints which packs they are.
pub(super) fn find(
    wanted: &Wanted<'_>,
    server: &PackServerArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<PathBuf>> {
    let cache = PackCache::open()?;
    let mut lacking = wanted.kernels()?;
    let mut found = Vec::new();
    let here = if server.may_run() { cache.all(wanted.arch) } else { cache.built(wanted.arch) };
    for (path, pack) in here {
        if take(&mut lacking, &pack) {
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
        take(&mut lacking, &Pack::open(&path)?);
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
    wanted: &Wanted<'_>,
    client: &Client,
    cache: &PackCache,
    lacking: &mut BTreeSet<String>,
) -> anyhow::Result<Vec<PathBuf>> {
    let listed = match packs(client, Some(wanted.arch)) {
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
        if take(lacking, &Pack::open(&path)?) {
            say!("kernels: pack {:.12} of {}", pack.digest, client.address());
            found.push(path);
        }
    }
    Ok(found)
}

/// Removes the kernels of a pack from `lacking`. `false` if the pack has none of them.
fn take(lacking: &mut BTreeSet<String>, pack: &Pack) -> bool {
    let before = lacking.len();
    if !pack.is_exact() {
        lacking.retain(|kernel| pack.find(kernel).is_none());
    }
    lacking.len() < before
}

impl Wanted<'_> {
    /// The names of the kernels. Problems that no kernel computes are left out here; the collection reports
    /// them.
    fn kernels(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut kernels = BTreeSet::new();
        for problem in self.problems {
            let Ok(variant) = Variant::of(problem) else { continue };
            for config in (self.configs)(problem)? {
                let Some(tile) = tile_of(&config) else { continue };
                kernels.insert(variant.key(tile, variant.fits(tile, problem)));
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
        for problem in self.problems.iter().filter(|problem| Variant::of(problem).is_ok()) {
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
