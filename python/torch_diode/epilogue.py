"""What a kernel's choice costs beyond the multiplication: what follows it is part of a tile, but a kernel of its own after the library."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from ._core import Config, Problem

# How long functions take, in units of `erf`; what is not here takes no time beside the memory's.
_WORK = {
    "erf": 1.0, "tanh": 1.2, "exp": 0.3, "sigmoid": 0.3, "log": 0.5, "log1p": 0.5, "pow": 1.0, "sin": 1.0, "cos": 1.0,
}  # fmt: skip

_CAST = "convert_element_type"


@dataclasses.dataclass(frozen=True)
class Epilogue:
    """What Inductor puts into the kernel of a tile, because it follows the multiplication point by point."""

    ops: tuple[str, ...]
    elements: int
    """Of the product."""
    product_bytes: int
    read_bytes: int
    """Of its other operands."""
    written_bytes: int
    keeps_product: bool
    """Whether the product itself is wanted too."""

    @property
    def label(self) -> str:
        """Its functions, each once; casts only where there is nothing else."""
        names = list(dict.fromkeys(op for op in self.ops if op != _CAST)) or [_CAST]
        return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")

    @property
    def work(self) -> float:
        """How long its functions take, in units of `erf`."""
        return sum(_WORK.get(op, 0.0) for op in self.ops)


@dataclasses.dataclass(frozen=True)
class Costs:
    """What was measured of one kind of hardware."""

    gap_us: float
    """A further kernel, however small."""
    bytes_per_us: float
    """From memory and to it, by kernels that do nothing else."""
    erfs_per_us: float
    """By kernels that do nothing else."""
    erf_us: float
    """In a tile: the function for a block on every multiprocessor. Where two blocks run at once, half of it is hidden."""
    crowded_erf_us: float
    """The same with so many values per thread that registers do not suffice."""
    lost_occupancy: float
    """The share of its time that a tile takes longer for, where an epilogue's registers leave room for one block less."""
    sms: int
    registers: int
    shared_memory: int
    cache_bytes: int

    def separate_us(self, epilogue: Epilogue) -> float:
        """A kernel of its own. Half of a product that fits the cache is still there."""
        product = epilogue.product_bytes * (0.5 if epilogue.product_bytes <= self.cache_bytes / 2 else 1)
        memory = (product + epilogue.read_bytes + epilogue.written_bytes) / self.bytes_per_us
        return self.gap_us + memory + epilogue.work * epilogue.elements / self.erfs_per_us

    def fused_us(self, epilogue: Epilogue, problem: Problem, tile: Config, alone_us: float) -> float:
        """What a tile takes longer for, when it does all this itself."""
        if tile.block_m is None or tile.block_n is None or tile.num_warps is None:
            return self.separate_us(epilogue)
        values = tile.block_m * tile.block_n // (32 * tile.num_warps)
        crowded = values >= _CROWDED
        more_written = epilogue.written_bytes - (0 if epilogue.keeps_product else epilogue.product_bytes)
        memory = (max(more_written, 0) + epilogue.read_bytes * (2 if crowded else 1)) / self.bytes_per_us
        if not epilogue.read_bytes and not epilogue.work:
            return memory
        before = self._resident(problem, tile, values + _REGISTERS)
        after = self._resident(problem, tile, values + _REGISTERS + _MORE_REGISTERS)
        blocks = problem.b * math.ceil(problem.m / tile.block_m) * math.ceil(problem.n / tile.block_n)
        each = self.crowded_erf_us if crowded else self.erf_us / min(after, 2)
        lost = self.lost_occupancy * alone_us if before > after == 1 else 0.0
        return memory + epilogue.work * each * math.ceil(blocks / self.sms) + lost

    def _resident(self, problem: Problem, tile: Config, registers: int) -> int:
        """How many blocks run at once on a multiprocessor, with so many registers for each thread."""
        assert tile.block_m and tile.block_n and tile.block_k and tile.num_stages and tile.num_warps
        element = 4 if problem.dtype == "float32" else 2
        shared = (tile.block_m + tile.block_n) * tile.block_k * tile.num_stages * element
        return max(1, min(self.shared_memory // shared, self.registers // (32 * tile.num_warps * registers)))


_CROWDED = 128
"""Values of the product per thread from which an epilogue's registers do not suffice."""

_REGISTERS, _MORE_REGISTERS = 56, 16
"""Of a thread, besides its values of the product; and what an epilogue adds."""

COSTS: Mapping[str, Costs] = {
    "nvidia-h100": Costs(
        gap_us=1.9,
        bytes_per_us=3.2e6,
        erfs_per_us=3e6,
        erf_us=2.6,
        crowded_erf_us=9.0,
        lost_occupancy=0.25,
        sms=132,
        registers=65536,
        shared_memory=232448,
        cache_bytes=50 << 20,
    ),
}
"""By the slug of the hardware. On what is not here only the multiplication itself decides."""

DOUBT = 0.05
"""A tile is taken for the library if it is expected to be faster by this share.

Fewer picks are then slower than the library, and the mean is the same within 0.3 %: docs/measurements/plugin.md has the figures."""


@dataclasses.dataclass(frozen=True)
class Weighed:
    """A kernel with what follows it."""

    config: Config
    alone_us: float
    following_us: float

    @property
    def us(self) -> float:
        return self.alone_us + self.following_us

    @property
    def doubtful_us(self) -> float:
        """What counts: the library is a known quantity."""
        return self.us if self.config.is_library else self.us + DOUBT * self.alone_us


def weighed(
    kernels: Sequence[tuple[Config, float]], problem: Problem, costs: Costs | None, epilogue: Epilogue | None
) -> list[Weighed]:
    """Kernels and their times, with what follows them where that is known, the best first."""

    def following_us(config: Config, us: float) -> float:
        if costs is None or epilogue is None:
            return 0.0
        return costs.separate_us(epilogue) if config.is_library else costs.fused_us(epilogue, problem, config, us)

    return sorted((Weighed(config, us, following_us(config, us)) for config, us in kernels), key=lambda one: one.doubtful_us)


def in_words(costs: Costs, epilogue: Epilogue, best_first: Sequence[Weighed]) -> str:
    """What is fused, and what was expected of it."""
    separate = f"{costs.separate_us(epilogue):.2g} µs as a kernel after the library"
    tile = next((one for one in best_first if not one.config.is_library), None)
    if tile is not None and tile is best_first[0]:
        return f"fused: {epilogue.label}, expected to take {tile.following_us:.2g} µs in the tile, {separate}"
    inside = "" if tile is None else f", {tile.following_us:.2g} µs in the best tile, {tile.config.label} {tile.alone_us:.3g} µs"
    return f"not fused: {epilogue.label}, expected to take {separate}{inside}"
