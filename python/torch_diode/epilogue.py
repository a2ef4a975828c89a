"""What a kernel's choice costs beyond the multiplication: what follows it is part of a tile, but a kernel of its own after the library."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

from ._core import Config, Hardware, Problem

# How long functions take in a kernel of their own and in a tile, in units of `erf`; what is not here takes no time beside
# the memory's. Long ones need registers of their own in a tile.
_LONG = {"erf": (1.0, 1.0), "tanh": (1.0, 1.6), "pow": (1.0, 1.0), "sin": (1.0, 1.0), "cos": (1.0, 1.0)}
_SHORT = {"exp": (0.3, 0.44), "sigmoid": (0.3, 0.44), "log": (0.5, 0.5), "log1p": (0.5, 0.5)}
_WORK = {**_LONG, **_SHORT}

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
    def separate_work(self) -> float:
        """How long its functions take in a kernel of their own, in units of `erf`."""
        return sum(_WORK[op][0] for op in self.ops if op in _WORK)

    @property
    def long_work(self) -> float:
        """The same of its long functions in a tile."""
        return sum(_LONG[op][1] for op in self.ops if op in _LONG)

    @property
    def short_work(self) -> float:
        """The same of its short functions in a tile."""
        return sum(_SHORT[op][1] for op in self.ops if op in _SHORT)


@dataclasses.dataclass(frozen=True)
class Costs:
    """What was measured of one kind of hardware, `hardware`."""

    hardware: Hardware
    gap_us: float
    """A further kernel, however small."""
    bytes_per_us: float
    """From memory and to it, by kernels that do nothing else."""
    erfs_per_us: float
    """By kernels of their own, while they wait for memory."""
    read_us: float
    """In a tile, waiting for other operands."""
    erf_us: float
    """In a tile, 1024 of the function on every multiprocessor."""
    crowded_erf_us: float
    """The same with so many values per thread that registers do not suffice."""
    few_warps: float
    """How many times as long functions and other operands take with fewer than `_ENOUGH_WARPS` at once on a multiprocessor."""
    lost_occupancy: float
    """The share of its time that a tile takes longer for, where an epilogue's registers leave room for one block less."""
    registers: int
    """Of a multiprocessor."""
    cache_bytes: int

    def separate_us(self, epilogue: Epilogue) -> float:
        """A kernel of its own. Half of a product that fits the cache is still there."""
        product = epilogue.product_bytes * (0.5 if epilogue.product_bytes <= self.cache_bytes / 2 else 1)
        memory = (product + epilogue.read_bytes + epilogue.written_bytes) / self.bytes_per_us
        return self.gap_us + max(memory, epilogue.separate_work * epilogue.elements / self.erfs_per_us)

    def fused_us(self, epilogue: Epilogue, problem: Problem, tile: Config, alone_us: float) -> float:
        """What a tile takes longer for, when it does all this itself."""
        if tile.block_m is None or tile.block_n is None or tile.num_warps is None or self.hardware.sms is None:
            return self.separate_us(epilogue)
        values = tile.block_m * tile.block_n // (32 * tile.num_warps)
        crowded = values >= _CROWDED
        more_written = max(epilogue.written_bytes - (0 if epilogue.keeps_product else epilogue.product_bytes), 0)
        if not epilogue.read_bytes and not epilogue.long_work and not epilogue.short_work:
            return more_written / self.bytes_per_us
        before = self._resident(problem, tile, values + _REGISTERS)
        after = self._resident(problem, tile, values + _REGISTERS + _MORE_REGISTERS)
        blocks = problem.b * math.ceil(problem.m / tile.block_m) * math.ceil(problem.n / tile.block_n)
        waves = math.ceil(blocks / self.hardware.sms)
        each = waves * tile.block_m * tile.block_n / 1024
        work = epilogue.long_work * (self.crowded_erf_us if crowded else self.erf_us) + epilogue.short_work * self.erf_us
        waiting = (self.read_us if epilogue.read_bytes else 0.0) + each * work
        if min(after, waves) * tile.num_warps < _ENOUGH_WARPS:
            waiting *= self.few_warps
        # With short functions alone no tile has lost a block.
        loses = before > after == 1 and (epilogue.long_work > 0 or not epilogue.short_work)
        # Nothing else runs meanwhile: it takes twice as long to read.
        memory = (more_written + epilogue.read_bytes * (2 if crowded or loses else 1)) / self.bytes_per_us
        return memory + waiting + (self.lost_occupancy * alone_us if loses else 0.0)

    def _resident(self, problem: Problem, tile: Config, registers: int) -> int:
        """How many blocks run at once on a multiprocessor, with so many registers for each thread."""
        assert tile.block_m and tile.block_n and tile.block_k and tile.num_stages and tile.num_warps
        element = 4 if problem.dtype == "float32" else 2
        shared = (tile.block_m + tile.block_n) * tile.block_k * tile.num_stages * element
        room = self.hardware.shared_memory or shared
        return max(1, min(room // shared, self.registers // (32 * tile.num_warps * registers)))


_CROWDED = 128
"""Values of the product per thread from which an epilogue's registers do not suffice."""

_ENOUGH_WARPS = 8
"""On a multiprocessor. With fewer, one of its four schedulers has a single warp, which waits for its own results."""

_REGISTERS, _MORE_REGISTERS = 56, 16
"""Of a thread, besides its values of the product; and what an epilogue adds."""

_MEASURED: Mapping[str, Mapping[str, float]] = {
    "nvidia-h100": {"gap_us": 1.9, "bytes_per_us": 3.3e6, "erfs_per_us": 0.8e6, "read_us": 0.2, "lost_occupancy": 0.18},
    "nvidia-h200": {"gap_us": 1.75, "bytes_per_us": 4.4e6, "erfs_per_us": 0.75e6, "read_us": 0.16, "lost_occupancy": 0.25},
}
"""What differs between them, by the slug of the hardware: docs/measurements/plugin.md says how it was found."""


@functools.cache
def costs_of(slug: str) -> Costs | None:
    """The costs on a kind of hardware. Where there are none, only the multiplication itself decides."""
    hardware, measured = Hardware.find(slug), _MEASURED.get(slug)
    if hardware is None or measured is None:
        return None
    return Costs(hardware, erf_us=0.145, crowded_erf_us=0.26, few_warps=2.2, registers=65536, cache_bytes=50 << 20, **measured)


DOUBT = 0.07
"""A tile is taken for the library if it is expected to be faster by this share, with what follows.

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
        return self.us if self.config.is_library else self.us * (1 + DOUBT)


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
