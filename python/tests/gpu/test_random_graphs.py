"""Random graphs with tiles in them compute the right results.

    python -m pytest python/tests/gpu/test_random_graphs.py -n 12

With pytest-xdist, they are compiled side by side.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from graphs import graph
from served_graphs import served_graph
from test_results import error
from torch._inductor import config

import torch_diode

GRAPHS = 200
# Allows for several roundings, some of them in sums that nearly cancel.
TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-3}


def results(found: Any) -> list[torch.Tensor]:
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_random_graph(seed: int) -> None:
    one = graph(seed, "cuda")
    # In three graphs of four, problems get the tile that was drawn for the graph. In the fourth,
    # the model picks.
    torch_diode.install(heuristic=None if seed % 4 == 0 else lambda problem: one.tile)
    with config.patch(shape_padding=False):
        found = torch.compile(one.function, dynamic=one.dynamic)(*one.inputs)
    exact = one.function(*(tensor.double() for tensor in one.inputs))
    for value, expected in zip(results(found), results(exact), strict=True):
        assert error(value, expected) < TOLERANCE[one.inputs[0].dtype], one.label


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_random_graph_of_what_models_are_served_with(seed: int) -> None:
    one = served_graph(seed, "cuda")
    torch_diode.install(heuristic=None if seed % 3 == 0 else lambda problem: one.tile)
    found = torch.compile(one.function, dynamic=one.dynamic)(*one.inputs)
    assert error(found, one.exact()) < one.tolerance, f"{one.label}\n{torch_diode.explain()}"
