"""torch-diode's shipped network v1 as a function of the problem, with the inputs of its plug-in or of its training."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import torch

import torch_diode

# torch-diode ranked Inductor's exhaustive configs and had the best five benchmarked. The library was left out, too.
TOP = 5
_BLOCKS, _STAGES, _WARPS = (16, 32, 64, 128, 256), (1, 2, 3, 4, 5), (2, 4, 8)
_KERNEL_OVERHEAD_MS = 0.00541

# Mean and deviation of the logarithm of each column: bits, M, N, K, GB, Gflop, flops per byte, block_k, block_m,
# block_n, stages, warps.
_MEANS = (
    2.78275084,
    8.23996746,
    7.27791873,
    7.92035942,
    -2.39558163,
    3.40679233,
    5.80237395,
    3.95781827,
    4.19478321,
    4.19098234,
    0.9045909,
    1.28331208,
)
_DEVIATIONS = (
    0.08322756,
    2.31893439,
    1.65605574,
    2.15447078,
    2.19682881,
    2.99600806,
    1.24328795,
    0.92352521,
    0.93849802,
    0.93872011,
    0.57455891,
    0.5837217,
)


class PredecessorNetwork:
    """Picks the network's best five configs."""

    def __init__(self, path: Path, *, fed_right: bool) -> None:
        self._weights = torch.load(path, weights_only=True)["model_state_dict"]
        self._fed_right = fed_right

    def __call__(self, problem: torch_diode.Problem) -> list[Any] | None:
        if problem.op != "mm":
            return None
        tiles = list(
            dict.fromkeys(_scaled(problem, *tile) for tile in itertools.product(_BLOCKS, _BLOCKS, _BLOCKS, _STAGES, _WARPS))
        )
        configs = [_config(*tile) for tile in tiles]
        usable = [
            (config, tile)
            for config, tile in zip(configs, tiles, strict=True)
            if torch_diode.obstacle(problem, config, 232448) is None and tile[0] * tile[1] / (tile[4] * 32) <= 255
        ]
        times = self.ln_ms(problem.m, problem.n, problem.k, [tile for _, tile in usable], bits=16 if self._fed_right else 32)
        return [usable[at][0] for at in torch.argsort(times)[:TOP].tolist()]

    def ln_ms(self, m: int, n: int, k: int, tiles: list[Any], *, bits: int) -> torch.Tensor:
        """The network's output. torch-diode's plug-in passed bfloat16 to it as 32 bits."""
        gb, gflop = (m * k + k * n + m * n) * bits / 8 / 1e9, 2 * m * n * k / 1e9
        problem = (bits, m, n, k, gb, gflop, gflop / gb)
        rows = torch.tensor([(*problem, bk, bm, bn, stages, warps) for bm, bn, bk, stages, warps in tiles], dtype=torch.float64)
        if self._fed_right:
            rows = (rows.log() - torch.tensor(_MEANS, dtype=torch.float64)) / torch.tensor(_DEVIATIONS, dtype=torch.float64)
        values = rows.float()
        weight = lambda layer, name: self._weights[f"linear_relu_stack.{layer}.{name}"]
        for layer in range(0, 18, 3):
            values = torch.nn.functional.linear(values, weight(layer, "weight"), weight(layer, "bias"))
            norm = [weight(layer + 1, name) for name in ("running_mean", "running_var", "weight", "bias")]
            values = torch.relu(torch.nn.functional.batch_norm(values, *norm))
        outputs = torch.nn.functional.linear(values, weight(18, "weight"), weight(18, "bias")).squeeze(1)
        return torch.logaddexp(outputs, torch.tensor(math.log(_KERNEL_OVERHEAD_MS)))


def _scaled(problem: torch_diode.Problem, bm: int, bn: int, bk: int, stages: int, warps: int) -> tuple[int, ...]:
    """The tile as Inductor shrinks it to a problem."""
    fit = lambda block, size: min(block, max(16, 1 << (size - 1).bit_length()))
    bm, bn, bk = fit(bm, problem.m), fit(bn, problem.n), fit(bk, problem.k)
    return bm, bn, bk, stages, min(warps, bm * bn // 256)


def _config(bm: int, bn: int, bk: int, stages: int, warps: int) -> torch_diode.Config:
    return torch_diode.Config("triton::mm", block_m=bm, block_n=bn, block_k=bk, num_stages=stages, num_warps=warps)
