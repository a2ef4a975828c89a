"""Picked kernels compute the right results, and nothing is benchmarked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from figures import Report
from shapes import random_problems
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

import torch_diode
from torch_diode.inductor import hiding

TILE = {"block_m": 128, "block_n": 64, "block_k": 64, "num_stages": 3, "num_warps": 4}
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 2e-2, torch.float32: 1e-4}


def tiled(problem: torch_diode.Problem) -> object:
    """Picks a Triton kernel, so that its template is tested whatever the model would pick."""
    return {"template": "triton::bmm" if problem.op in ("bmm", "baddbmm") else "triton::mm", **TILE}


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error, relative to the largest value."""
    assert found.shape == exact.shape
    return ((found.double() - exact).abs().max() / (exact.abs().max() + 1e-6)).item()


def check(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """Compiles for exactly these sizes and compares with fp64. The allowed error depends on the type."""
    torch._dynamo.reset()
    before = len(torch_diode.history())
    # Padding would change the sizes before the kernels are picked.
    with config.patch(shape_padding=False):
        found = torch.compile(function, dynamic=False)(*inputs)
    exact = function(*(one.double() for one in inputs))
    assert found.dtype == inputs[0].dtype
    assert error(found, exact) < TOLERANCE[found.dtype]
    picked = torch_diode.history()[before:]
    assert picked and all(pick.source != "inductor" for pick in picked), "it was picked by us"


def randn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def benchmarks() -> dict[str, int]:
    """How many kernels dynamo has counted as benchmarked."""
    return {name: count for name, count in counters["inductor"].items() if name.startswith("select_algorithm")}


@pytest.mark.parametrize("heuristic", [None, tiled], ids=["model", "tile"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(256, 512, 250), (33, 77, 129), (1, 4096, 4096), (1, 1, 1), (128, 128, 16384), (4096, 8, 8)]
)
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
        off = error(torch.compile(torch.mm)(a, b), a.double() @ b.double())
        assert (1e-5 < off < 1e-2) if precision == "high" else (off < 1e-5), f"relative error {off:.2g}"
        assert torch_diode.explain()[0].source == "function"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("k", [512, 500])
@pytest.mark.usefixtures("tf32")
def test_hidden_steps_change_no_result(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"block_m": 128, "block_n": 128, "block_k": 32, "num_stages": 5, "num_warps": 4}
    torch_diode.install(heuristic=lambda problem: large)
    x, w = randn(1000, k, dtype=torch.float32), randn(1576, k, dtype=torch.float32)
    product = lambda x, w: (x @ w.t()).relu()

    def compiled() -> tuple[torch.Tensor, str]:
        torch._dynamo.reset()
        # A K that may change would hide no steps, and a cached graph would have those of before.
        with config.patch(force_disable_caches=True):
            found, codes = run_and_get_code(torch.compile(product, dynamic=False), x, w)
        return found, "".join(codes)

    hidden, code = compiled()
    assert "tl.program_id(2)" in code
    assert error(hidden, product(x.double(), w.double())) < 1e-2
    monkeypatch.setattr(hiding, "steps", lambda template, inputs: template)
    shown, code = compiled()
    assert "tl.program_id(2)" not in code
    assert torch.equal(hidden, shown)


@pytest.mark.parametrize(("a", "b", "turned"), [((2048, 5003), (2048, 768), True), ((600, 776), (776, 513), False)])
def test_kernels_with_hidden_strides_are_right(a: tuple[int, int], b: tuple[int, int], turned: bool) -> None:
    # With Inductor's own strides, the kernel of this tile spills registers.
    tile = {"block_m": 128, "block_n": 256, "block_k": 128, "num_stages": 2, "num_warps": 8}
    torch_diode.install(heuristic=lambda problem: tile)
    x, y = randn(*a), randn(*b)
    product = lambda x, y: ((x.t() if turned else x) @ y).relu()
    with config.patch(shape_padding=False):
        found, codes = run_and_get_code(torch.compile(product, dynamic=False), x, y)
    assert "hidden_a" in "".join(codes)
    assert error(found, product(x.double(), y.double())) < TOLERANCE[torch.bfloat16]


def test_forward_and_backward_of_a_model() -> None:
    torch_diode.install()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda().bfloat16()
    x = randn(384, 512)
    loss = lambda model, x: model(x).double().square().sum()
    counters.clear()
    found = torch.autograd.grad(loss(torch.compile(model), x), list(model.parameters()))
    assert len(torch_diode.history()) == 5, "two products forwards, three backwards"
    assert not benchmarks()
    model.double()
    exact = torch.autograd.grad(loss(model, x.double()), list(model.parameters()))
    for one, other in zip(found, exact, strict=True):
        assert error(one, other) < TOLERANCE[torch.bfloat16]


def test_dynamo_counts_no_benchmark(report: Report) -> None:
    torch_diode.uninstall()
    counters.clear()
    with config.patch(shape_padding=False):
        # Here Inductor benchmarks, so this call shows that the counters count.
        torch.compile(torch.mm, options={"max_autotune_gemm": True})(randn(64, 128), randn(128, 64))
        assert benchmarks()
        torch_diode.install()
        counters.clear()
        for m in (64, 256, 1000):
            torch._dynamo.reset()
            torch.compile(torch.mm, dynamic=False)(randn(m, 1024), randn(1024, 2048))
    assert len(torch_diode.history()) == 3
    assert not benchmarks()
    report.figure("Results", "benchmarks that dynamo counts in three compiles, top_k = 1", "none", "none")


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_and_cudagraphs(mode: str) -> None:
    torch_diode.install()
    compiled = torch.compile(torch.mm, mode=mode)
    for _ in range(3):
        a, b = randn(256, 512), randn(512, 384)
        assert error(compiled(a, b), a.double() @ b.double()) < TOLERANCE[torch.bfloat16]
    assert torch_diode.explain()[0].source == "model"


def test_options_of_one_compile() -> None:
    torch_diode.install()
    torch.compile(torch.mm, options={"fast_autotune": False})(randn(64, 64), randn(64, 64))
    assert not torch_diode.history()
    torch._dynamo.reset()
    torch.compile(torch.mm, options={"max_autotune_gemm_backends": "DIODE", "diode_top_k": 3})(randn(512, 512), randn(512, 640))
    assert len(torch_diode.explain()[0].picks) == 3


def test_sizes_that_change() -> None:
    torch_diode.install(heuristic=tiled)
    compiled = torch.compile(torch.mm, dynamic=True)
    for m, k in [(64, 128), (100, 130), (1, 64), (777, 250)]:
        a, b = randn(m, k), randn(k, 96)
        assert error(compiled(a, b), a.double() @ b.double()) < TOLERANCE[torch.bfloat16]
    assert torch_diode.history()


def test_two_hundred_random_problems_compile(report: Report) -> None:
    torch_diode.install()
    shapes, at_once = random_problems(200), 20
    wrong: list[str] = []
    for start in range(0, len(shapes), at_once):
        torch._dynamo.reset()
        some = shapes[start : start + at_once]
        functions, inputs = [shape.function() for shape in some], [shape.inputs() for shape in some]
        found = torch.compile(in_one_graph(functions), dynamic=False)(inputs)
        for shape, function, given, one in zip(some, functions, inputs, found, strict=True):
            off = error(one, function(*(tensor.double() for tensor in given)))
            if not off < TOLERANCE[shape.dtype]:
                wrong.append(f"{shape}: relative error {off:.2g}")
    stats = torch_diode.get_stats()
    found_text = f"{len(shapes) - len(wrong)} of {len(shapes)} right; {stats['total_calls']} asked of us, {stats['fallbacks']} left to Inductor"
    report.figure("Results", "random problems (any size up to 4096, three types, mm, linear and bmm)", found_text, "all compile")
    assert not wrong
    copied = sum(shape.linear and shape.n == 1 for shape in shapes)
    assert stats["fallbacks"] == copied, "Inductor would copy a bias of one value for a tile"
    assert stats["total_calls"] == len(shapes)


def in_one_graph(functions: Sequence[Callable[..., torch.Tensor]]) -> Callable[..., list[torch.Tensor]]:
    """A function that calls all of these, so that their kernels are compiled side by side."""
    return lambda inputs: [function(*given) for function, given in zip(functions, inputs, strict=True)]


def test_the_cache_of_graphs_never_mixes_who_decided() -> None:
    a, b = randn(512, 512), randn(512, 640)
    for heuristic, expected in [(None, "model"), (tiled, "function"), (lambda problem: "aten", "function")]:
        torch._dynamo.reset()
        torch_diode.install(heuristic=heuristic)
        torch.compile(torch.mm)(a, b)
        assert torch_diode.explain()[0].source == expected, "it was decided anew, not taken from the cache"
