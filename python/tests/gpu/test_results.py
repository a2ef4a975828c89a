"""What is picked computes the right thing, and nothing is benchmarked."""

from __future__ import annotations

import pytest
import torch
from shapes import random_problems
from torch._dynamo.utils import counters
from torch._inductor import config

import torch_diode

TILE = {"block_m": 128, "block_n": 64, "block_k": 64, "num_stages": 3, "num_warps": 4}


def tiled(problem: torch_diode.Problem) -> object:
    """A Triton kernel whatever the model would say, so that the template is what is tested."""
    return {"template": "triton::bmm" if problem.op in ("bmm", "baddbmm") else "triton::mm", **TILE}


def check(function, *inputs: torch.Tensor) -> None:
    """Compares with fp64, by the error that the input's type allows."""
    exact = function(*(one.double() for one in inputs))
    found = torch.compile(function)(*inputs)
    assert found.dtype == inputs[0].dtype
    scale = exact.abs().max().item() + 1e-6
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 2e-2, torch.float32: 2e-3}[inputs[0].dtype]
    error = (found.double() - exact).abs().max().item() / scale
    assert error < tolerance, f"relative error {error:.2g}"


def randn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


@pytest.mark.parametrize("heuristic", [None, tiled], ids=["model", "tile"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 512, 250), (33, 77, 129), (1, 4096, 4096), (1, 1, 1), (128, 128, 16384), (4096, 8, 8)])
def test_sizes_of_every_kind(heuristic, dtype: torch.dtype, m: int, n: int, k: int) -> None:
    torch_diode.install(heuristic=heuristic)
    check(torch.mm, randn(m, k, dtype=dtype), randn(k, n, dtype=dtype))


@pytest.mark.parametrize("heuristic", [None, tiled], ids=["model", "tile"])
def test_layouts_and_biases(heuristic) -> None:
    torch_diode.install(heuristic=heuristic)
    a, b = randn(300, 200), randn(200, 400)
    check(torch.mm, a.t().contiguous().t(), b)
    check(torch.mm, a, b.t().contiguous().t())
    check(torch.mm, a.t().contiguous().t(), b.t().contiguous().t())
    check(torch.mm, a[:, 8:72], b[8:72])
    check(torch.addmm, randn(400), a, b)
    check(torch.addmm, randn(300, 400), a, b)
    check(lambda c, a, b: torch.addmm(c, a, b, alpha=2.0, beta=0.5), randn(400), a, b)
    check(torch.bmm, randn(5, 100, 60), randn(5, 60, 70))
    check(torch.baddbmm, randn(5, 100, 70), randn(5, 100, 60), randn(5, 60, 70))
    check(lambda x, w, c: torch.relu(torch.nn.functional.linear(x, w, c)) * 2 + 1, a, randn(96, 200), randn(96))


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_tf32_on_and_off(precision: str) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        torch_diode.install(heuristic=tiled)
        a, b = randn(512, 512, dtype=torch.float32), randn(512, 512, dtype=torch.float32)
        exact = a.double() @ b.double()
        error = ((torch.compile(torch.mm)(a, b).double() - exact).abs().max() / exact.abs().max()).item()
        assert (error > 1e-5) if precision == "high" else (error < 1e-5), f"relative error {error:.2g}"
    finally:
        torch.set_float32_matmul_precision(before)


def test_forward_and_backward_of_a_model() -> None:
    torch_diode.install()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda().bfloat16()
    x = randn(384, 512)
    expected = torch.autograd.grad(model(x).float().square().mean(), list(model.parameters()))
    counters.clear()
    found = torch.autograd.grad(torch.compile(model)(x).float().square().mean(), list(model.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=5e-2, atol=5e-3)
    assert len(torch_diode.history()) >= 5, "two products forwards, three or more backwards"
    assert not [name for name in counters["inductor"] if name.startswith("select_algorithm")]


def test_dynamo_counts_no_benchmark(report) -> None:
    torch_diode.install()
    counters.clear()
    with config.patch(shape_padding=False):
        for m in (64, 256, 1000):
            torch.compile(torch.mm, dynamic=False)(randn(m, 1024), randn(1024, 2048))
    benchmarks = {name: count for name, count in counters["inductor"].items() if name.startswith("select_algorithm")}
    assert not benchmarks
    report("Correctness", "counters of benchmarks after three compiles with top_k = 1", "none")


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_and_cudagraphs(mode: str) -> None:
    torch_diode.install()
    a, b = randn(256, 512), randn(512, 384)
    compiled = torch.compile(torch.mm, mode=mode)
    for _ in range(3):
        torch.testing.assert_close(compiled(a, b), a @ b, rtol=2e-2, atol=0.5)
    assert torch_diode.explain()[0].source == "model"


def test_options_of_one_compile() -> None:
    torch_diode.install()
    torch.compile(torch.mm, options={"fast_autotune": False})(randn(64, 64), randn(64, 64))
    assert not torch_diode.history()
    torch.compile(torch.mm, options={"max_autotune_gemm_backends": "DIODE", "diode_top_k": 3})(randn(512, 512), randn(512, 640))
    assert len(torch_diode.explain()[0].picks) == 3


def test_sizes_that_change() -> None:
    torch_diode.install()
    compiled = torch.compile(torch.mm, dynamic=True)
    for m, k in [(64, 128), (100, 130), (1, 64), (777, 250)]:
        a, b = randn(m, k), randn(k, 96)
        torch.testing.assert_close(compiled(a, b), a @ b, rtol=2e-2, atol=0.5)


def test_two_hundred_random_problems_compile(report) -> None:
    torch_diode.install()
    shapes = random_problems(200)
    for shape in shapes:
        torch._dynamo.reset()
        check(shape.function(), *shape.inputs())
    stats = torch_diode.get_stats()
    assert stats["fallback_error"] == 0
    left = stats["fallbacks"]
    report("Correctness", "random problems (any size up to 4096, three types, mm, linear and bmm)", f"{len(shapes)} right, {left} left to Inductor")


def test_the_cache_of_graphs_never_mixes_who_decided() -> None:
    a, b = randn(512, 512), randn(512, 640)
    for heuristic, expected in [(None, "model"), (tiled, "function"), (lambda problem: "aten", "function")]:
        torch._dynamo.reset()
        torch_diode.install(heuristic=heuristic)
        torch.compile(torch.mm)(a, b)
        assert torch_diode.explain()[0].source == expected, "it was decided anew, not taken from the cache"

