//! The kernels of a worker's device.

use std::path::PathBuf;

use diode_api::Lease;

use super::Worker;
use crate::agent::ability::ability_with;
use crate::agent::kernels::LIST_AGAIN;
use crate::agent::offers::needed;
use crate::agent::service::{Trouble, patiently};
use crate::failure::Interrupted;
use crate::output::count;

impl Worker<'_> {
    /// Prints which device this is, and its driver.
    pub(super) fn say_what_it_is(&self) {
        let (name, node) = (&self.hardware.name, &self.provenance.node);
        let driver = node.get("driver");
        let words = driver.map_or(String::new(), |driver| format!(", driver {driver}"));
        tell!(
            Info,
            { "hardware": self.hardware.slug, "driver": driver, "backend": node.get("backend") },
            "{name}{words}"
        );
        if !self.packs.is_empty() {
            self.say_packs();
        }
    }

    /// Looks for new packs when that is due. Returns whether the kernels now serve other problems than the server
    /// was told.
    pub(super) fn has_other_kernels(&mut self) -> anyhow::Result<bool> {
        let Some(kernels) = self.kernels else { return Ok(false) };
        kernels.refresh(Some(self.service).filter(|_| self.server_packs), self.stop)?;
        let variants = kernels.variants();
        let ability = &mut self.registration.ability;
        if ability.variants.as_ref() == Some(&variants) {
            return Ok(false);
        }
        *ability = ability_with(variants, ability.memory_bytes);
        Ok(true)
    }

    /// Lets the device use the packs that a lease needs. `false` if the lease cannot go on: the agent is to stop, or
    /// a pack was withdrawn.
    pub(super) fn get_kernels(&mut self, lease: &Lease) -> anyhow::Result<bool> {
        let Some(kernels) = self.kernels else { return Ok(true) };
        self.note("getting kernels");
        let needed = needed(&mut self.configs, &lease.work);
        let Some(found) = patiently(self.stop, || kernels.packs_for(self.service, &needed)) else {
            return Ok(false);
        };
        if matches!(found, Err(Trouble::Unknown)) {
            say!("a pack that the lease needs was withdrawn; what is left of the lease goes back");
            kernels.note_lack();
            self.gives_back = true;
            self.waits_for_kernels = true;
            return Ok(false);
        }
        // A pack may have been withdrawn since, or the cache may have removed it to make room.
        let stays = |path: &PathBuf| kernels.offers(path) && path.exists();
        let mut packs: Vec<PathBuf> = self.packs.iter().filter(|path| stays(path)).cloned().collect();
        for path in found.map_err(anyhow::Error::from)? {
            if !packs.contains(&path) {
                packs.push(path);
            }
        }
        if packs == self.packs {
            return Ok(true);
        }
        match self.meter.use_packs(&packs, &|| self.stop.insisted()) {
            Ok(node) => self.provenance.node = node,
            Err(error) if error.is::<Interrupted>() => return Ok(false),
            Err(error) => return Err(error),
        }
        self.packs = packs;
        self.say_packs();
        Ok(true)
    }

    /// Waits until the server's packs may be listed again. Until then, the next lease would need the same missing
    /// pack.
    pub(super) fn wait_for_kernels(&mut self) {
        if std::mem::take(&mut self.waits_for_kernels) {
            self.note("waiting for kernels");
            self.stop.sleep(LIST_AGAIN);
        }
    }

    fn say_packs(&self) {
        let node = &self.provenance.node;
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
