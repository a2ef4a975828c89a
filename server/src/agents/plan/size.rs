/// A bin of similar sizes: from 4ⁿ to 4ⁿ⁺¹ − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SizeBin(u8);

impl SizeBin {
    /// All bins. The last one ends at 65,535. There are no bins for larger sizes, because they are rare and kernels treat
    /// them all alike.
    pub(super) const ALL: [Self; 8] =
        [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];
    /// The bin of a batch of 1, for operators without a batch.
    pub(super) const ONE: Self = Self(0);

    /// `None` for sizes beyond the last bin.
    pub(super) fn of(size: u64) -> Option<Self> {
        let bin = size.checked_ilog2()? / 2;
        Self::ALL.get(bin as usize).copied()
    }

    /// The index in [`Self::ALL`].
    pub(super) const fn place(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn least(self) -> u64 {
        4_u64.pow(self.0 as u32)
    }

    pub(super) const fn most(self) -> u64 {
        4_u64.pow(self.0 as u32 + 1) - 1
    }
}

impl std::fmt::Display for SizeBin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}–{}", self.least(), self.most())
    }
}
