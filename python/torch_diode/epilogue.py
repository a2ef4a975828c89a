"""Describes epilogues in words."""

from __future__ import annotations

from collections.abc import Sequence

from ._core import Costs, Epilogue, Weighed


def in_words(costs: Costs, epilogue: Epilogue, best_first: Sequence[Weighed]) -> str:
    """Whether the epilogue is fused, and how long it was expected to take."""
    separate = f"{costs.separate_us(epilogue):.2g} µs as a kernel after the library"
    tile = next((one for one in best_first if not one.config.is_library), None)
    if tile is not None and tile is best_first[0]:
        return f"fused: {epilogue.label}, expected to take {tile.following_us:.2g} µs in the tile, {separate}"
    inside = "" if tile is None else f", {tile.following_us:.2g} µs in the best tile, {tile.config.label} {tile.alone_us:.3g} µs"
    return f"not fused: {epilogue.label}, expected to take {separate}{inside}"
