use crate::consensus::{BoardEntry, board_entry};
use crate::solutions::ConfigLists;
use crate::store::{Store, View};

/// A stored board entry that differs from what its solutions give.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    pub view: View,
    pub stored: Option<BoardEntry>,
    /// `None` if there should be no entry.
    pub computed: Option<BoardEntry>,
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

/// Recomputes every board entry from the solutions and compares.
pub async fn verify(store: &dyn Store) -> anyhow::Result<Verified> {
    let mut verified = Verified::default();
    for view in store.views().await? {
        let stored = store.board_entry(&view).await?;
        let computed = match store.hardware(&view.hardware).await? {
            None => None,
            Some(summary) => {
                let solutions = store.view_solutions(&view).await?;
                let problem = view.problem.clone();
                let compute =
                    move || board_entry(&solutions, &mut ConfigLists::default(), &problem, &summary.hardware);
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
