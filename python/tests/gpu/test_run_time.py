"""How fast the picked kernels run, against the winner of Inductor's default autotuning, library in play on both sides."""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch
from shapes import Shape, judged
from torch._inductor import config
from triton.testing import do_bench

import torch_diode

ROUNDS = 5


def compiled(shape: Shape, inputs: tuple[torch.Tensor, ...], **options: Any) -> Any:
    torch._dynamo.reset()
    function = torch.compile(shape.function(), options=options, dynamic=False)
    with torch.no_grad():
        function(*inputs)
    return function


def milliseconds(functions: list[Any], inputs: tuple[torch.Tensor, ...]) -> list[float]:
    """Of each function, taken in turns so that all see the same clock and neighbours."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for place, function in enumerate(functions):
            times[place].append(do_bench(lambda: function(*inputs), warmup=10, rep=40, return_mode="median"))
    return [statistics.median(one) for one in times]


def geomean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def test_picks_run_as_fast_as_what_autotuning_finds(report) -> None:
    shares: dict[str, list[tuple[float, Shape]]] = {"1": [], "5": [], "none": []}
    with config.patch(shape_padding=False, force_disable_caches=True), torch.no_grad():
        for shape in judged():
            inputs = shape.inputs()
            torch_diode.uninstall()
            tuned = compiled(shape, inputs, max_autotune_gemm=True)
            plain = compiled(shape, inputs)
            torch_diode.install()
            ours = compiled(shape, inputs)
            torch_diode.install(top_k=5)
            five = compiled(shape, inputs)
            winner, *others = milliseconds([tuned, ours, five, plain], inputs)
            for name, time in zip(("1", "5", "none"), others, strict=True):
                shares[name].append((winner / time, shape))
    names = {"1": "top_k = 1", "5": "top_k = 5", "none": "no tuning (the library)"}
    for name, found in shares.items():
        worst, where = min(found, key=lambda one: one[0])
        mean = geomean([share for share, _ in found])
        report("Run time", f"{names[name]}: speed relative to default max-autotune's winner, {len(found)} problems", f"geometric mean {mean:.3f}, worst {worst:.2f} ({where})")
    one = [share for share, _ in shares["1"]]
    assert geomean(one) >= 0.99
    assert min(one) >= 0.80
    assert geomean([share for share, _ in shares["5"]]) >= 1.01
