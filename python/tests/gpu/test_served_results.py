"""What models are served with gives the numbers of eager torch on a GPU, with tiles and in other forms than torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import served
import torch

import torch_diode

TILE = {"block_m": 64, "block_n": 128, "block_k": 128, "num_stages": 3, "num_warps": 4}
TMA = {**TILE, "template": "triton::mm_persistent_tma"}


def close(function: Callable[..., Any], *inputs: torch.Tensor) -> str:
    """Compares the compiled function with eager torch. Returns what the plug-in did, in words."""
    expected = function(*inputs).float()
    found = torch.compile(function, dynamic=False)(*inputs).float()
    error = (found - expected).abs().max() / expected.abs().max().clamp(min=1e-6)
    assert error < 0.02, f"{error:.3f}\n{torch_diode.explain()}"
    return str(torch_diode.explain())


@pytest.mark.parametrize("rows", [1, 2, 5, 16, 17, 32, 33, 512])
def test_int8_weights(rows: int) -> None:
    torch_diode.install()
    assert "int8 weights" in close(*_flat(served._int8_weights(rows)))


@pytest.mark.parametrize("name", list(served._EXPERTS))
@pytest.mark.parametrize("tokens", [1, 4, 16])
def test_experts_when_decoding(name: str, tokens: int) -> None:
    torch_diode.install()
    assert "of gathered weights: multiplied" in close(*_flat(served._decoding(tokens, *served._EXPERTS[name])))


@pytest.mark.parametrize("tile", [TILE, TMA], ids=["plain", "TMA"])
@pytest.mark.parametrize("m", [1, 17, 100, 512])
def test_fp8_by_row(m: int, tile: dict[str, Any]) -> None:
    torch_diode.install(heuristic=lambda problem: tile)
    assert "not benchmarked" in close(*_flat(served._scaled(m, 1040, 4096)))


@pytest.mark.parametrize("tile", [TILE, TMA], ids=["plain", "TMA"])
@pytest.mark.parametrize("tokens", [1, 3, 64])
def test_groups_also_empty_ones(tokens: int, tile: dict[str, Any]) -> None:
    torch_diode.install(heuristic=lambda problem: {**tile, "block_m": 16, "block_k": 64})
    assert "not benchmarked" in close(*_flat(served._grouped(tokens, 64, 6, 1408, 2048)))


@pytest.mark.parametrize("sizes", [(2, 32, 8, 1, 8192, 128, False), (1, 32, 8, 2048, 2048, 128, True)], ids=["decode", "causal"])
def test_attention(sizes: tuple[Any, ...]) -> None:
    torch_diode.install()
    close(*_flat(served._attention(*sizes)))


def _flat(made: Any) -> tuple[Any, ...]:
    return (made[0], *made[1])
