use diode_core::space::{Space, SpaceName};
use diode_core::{Alignment, Bias, DType, Layout, Op};

use crate::kernels::{Held, Plan};

/// What `--ops` and `--dtypes` let an agent measure. An empty list allows all.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    pub(crate) ops: Vec<Op>,
    pub(crate) dtypes: Vec<DType>,
}

impl Allowed {
    /// The variants of a pack that these lists allow.
    pub(super) fn of(&self, held: Vec<Held>) -> Vec<Held> {
        let admits = |Held { variant, .. }: &Held| {
            (self.ops.is_empty() || self.ops.contains(&variant.op()))
                && (self.dtypes.is_empty() || self.dtypes.contains(&variant.dtype))
        };
        held.into_iter().filter(admits).collect()
    }

    /// The kernels to build if there is no pack. Without limits by the user, these are only the most usual ones,
    /// because building takes minutes.
    pub(super) fn plan(&self, arch: &str) -> Plan {
        let or = |given: &[Op]| if given.is_empty() { vec![Op::Mm] } else { given.to_vec() };
        let dtypes = if self.dtypes.is_empty() { vec![DType::BFloat16] } else { self.dtypes.clone() };
        Plan {
            arch: arch.to_owned(),
            ops: or(&self.ops),
            dtypes,
            layouts: vec![(Layout::Row, Layout::Row), (Layout::Row, Layout::Column)],
            alignments: vec![Alignment::Bytes16],
            biases: Bias::ALL.to_vec(),
            tf32: false,
            space: Space::Named(SpaceName::Full),
        }
    }
}
