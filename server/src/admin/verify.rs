use crate::consensus::Consensus;
use crate::store::{Entry, PackedSolutions, Store, StoreResult, View};

/// An entry that is not what its solutions say.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    pub view: View,
    pub stored: Option<Entry>,
    /// `None` if there should be no entry.
    pub computed: Option<Entry>,
}

/// What verification found.
#[derive(Debug, Default)]
pub struct Verified {
    pub entries: usize,
    pub differences: Vec<Difference>,
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Difference { view, stored, computed } in &self.differences {
            writeln!(f, "{view}:\n  stored   {stored:?}\n  computed {computed:?}")?;
        }
        write!(f, "{} entries recomputed, {} differ", self.entries, self.differences.len())
    }
}

/// Recomputes every entry from the solutions and compares.
pub async fn verify(store: &dyn Store) -> anyhow::Result<Verified> {
    let mut verified = Verified::default();
    for view in store.views().await? {
        let stored = store.entry(&view).await?;
        let computed = match store.hardware(&view.hardware).await? {
            None => None,
            Some(summary) => {
                let packed = store.view_solutions(&view).await?;
                let id = view.problem.clone();
                let compute = move || -> StoreResult<Option<Entry>> {
                    compute(&packed, |consensus| {
                        consensus.entry(packed.problems.get(&id)?, &summary.hardware)
                    })
                };
                tokio::task::spawn_blocking(compute).await??
            }
        };
        verified.entries += 1;
        if stored != computed {
            verified.differences.push(Difference { view, stored, computed });
        }
    }
    Ok(verified)
}

fn compute(
    packed: &PackedSolutions,
    entry: impl FnOnce(&Consensus) -> Option<Entry>,
) -> StoreResult<Option<Entry>> {
    let measured: Vec<_> = packed.unpack()?.into_iter().map(|(_, _, measured)| measured).collect();
    Ok(entry(&Consensus::of(&measured)))
}
