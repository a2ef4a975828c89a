"""Epilogues: they are read from the graph as Inductor later fuses them, and they are part of the decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch.nn import functional as F

import torch_diode
from simulated import Compiled, compile, gpu, offered, tensor
from torch_diode import Problem
from torch_diode._core import Epilogue
from torch_diode.inductor import epilogues

H100 = {"name": "NVIDIA H100 80GB HBM3", "gcnArchName": "NVIDIA H100 80GB HBM3"}
TILE = {"block_m": 64, "block_n": 128, "block_k": 32, "num_stages": 3, "num_warps": 4}

x, w, other, v = tensor((512, 256)), tensor((256, 1024)), tensor((512, 1024)), tensor((1024,))
batches = (tensor((8, 128, 64)), tensor((8, 64, 128)))
fp32 = torch.float32

Case = tuple[Callable[..., Any], tuple[Any, ...], list[int]]
"""A function, its inputs, and how many kernels a tile saves for each of its multiplications in turn."""

CASES: dict[str, Case] = {
    "nothing": (torch.mm, (x, w), [0]),
    "relu": (lambda a, b: (a @ b).relu(), (x, w), [1]),
    "gelu of a linear layer": (lambda *t: F.gelu(torch.addmm(*t)), (v, x, w), [1]),
    "residual": (lambda a, b, c: a @ b + c, (x, w, other), [1]),
    "silu by a gate": (lambda a, b, c: F.silu(a @ b) * c, (x, w, other), [1]),
    "gate by a silu": (lambda a, b, c: F.silu(c) * (a @ b), (x, w, other), [1]),
    "cast": (lambda a, b: (a @ b).float(), (x, w), [1]),
    "the product is wanted too": (lambda a, b: (lambda c: (c, c.relu()))(a @ b), (x, w), [1]),
    "two results": (lambda a, b: (lambda c: (c.relu(), c.float()))(a @ b), (x, w), [1]),
    "scaled batches": (lambda a, b: torch.bmm(a, b) * 0.125, batches, [1]),
    "of the same shape": (lambda a, b: (a @ b).view(512, 1024).relu(), (x, w), [1]),
    "dynamic rows": (lambda a, b: (a @ b).relu(), (tensor(("m=512", 256)), w), [1]),
    "three dimensions": (lambda a, b: F.gelu((a @ b).view(4, 128, 1024)), (x, w), [1]),
    "residual of three dimensions": (lambda a, b, c: (a @ b).view(4, 128, 1024) + c, (x, w, tensor((4, 128, 1024))), [1]),
    "heads": (lambda a, b: (a @ b).view(4, 128, 16, 64).transpose(1, 2).contiguous(), (x, w), [0]),
    "transposed": (lambda a, b: (a @ b).t().contiguous().relu(), (x, w), [0]),
    "sum": (lambda a, b: (a @ b).relu().sum(1), (x, w), [0]),
    "softmax": (lambda a, b: torch.softmax(a @ b, 1), (x, w), [0]),
    "norm": (lambda a, b, c: F.layer_norm(a @ b + c, (1024,)), (x, w, other), [0]),
    "norm, and what it is of": (lambda a, b, c: (lambda y: (y, F.layer_norm(y, (1024,))))(a @ b + c), (x, w, other), [0]),
    "before it": (lambda a, b: a.relu() @ b, (x, w), [0]),
    "two layers": (lambda a, b, c: (a @ b).relu() @ c, (x, w, tensor((1024, 256))), [1, 0]),
    "one layer seen from the other side": (lambda a, b, c: c @ (a @ b).relu().t(), (x, w, tensor((64, 1024))), [1, 0]),
    "gated": (lambda a, b, c: F.silu(a @ b) * (a @ c), (x, w, w), [0, 1]),
    "bias by hand": (lambda a, b, c: a @ b + c, (x, w, v), [1]),
    "broadcast": (lambda a, b, c: (a @ b) + c, (x, w, tensor((3, 512, 1024))), [0]),
}  # fmt: skip


def run(compiled: Compiled) -> int:
    """How many kernels the code launches."""
    lines = [line.strip() for line in compiled.code.splitlines()]
    return sum((".run(" in line or line.startswith("extern_kernels.")) and "import" not in line for line in lines)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", CASES)
def test_what_is_read_off_the_graph_is_what_inductor_fuses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs, expected = CASES[name]
    read: list[int] = []
    original = epilogues.epilogue_of

    def note(op: str) -> Epilogue | None:
        found = original(op)
        read.append(0 if found is None else 1)
        return found

    monkeypatch.setattr(epilogues, "epilogue_of", note)
    torch_diode.install(heuristic=lambda problem: "aten")
    by_library = run(compile(function, *inputs))
    assert read == expected
    torch_diode.install(heuristic=lambda problem: TILE)
    assert by_library - run(compile(function, *inputs)) == sum(expected)


def read_off(function: Callable[..., Any], *inputs: Any) -> Epilogue | None:
    """The epilogue that is read from the graph for the last multiplication."""
    found: list[Epilogue | None] = []

    def note(problem: Problem) -> str:
        found.append(epilogues.epilogue_of(problem.op))
        return "aten"

    torch_diode.install(heuristic=note)
    compile(function, *inputs)
    return found[-1]


@pytest.mark.usefixtures("gpu")
def test_the_bytes_are_those_of_the_kernel_that_is_saved() -> None:
    megabyte = 512 * 1024 * 2
    found = read_off(lambda a, b, c: (F.silu(a @ b) * c).float(), x, w, other)
    assert found is not None
    assert (found.product_bytes, found.read_bytes, found.written_bytes) == (megabyte, megabyte, 2 * megabyte)
    assert not found.keeps_product and {"exp", "sigmoid"} & set(found.ops)
    found = read_off(lambda a, b: (lambda c: (c, c.relu()))(a @ b), x, w)
    assert found is not None and found.keeps_product and found.written_bytes == megabyte


@pytest.mark.usefixtures("gpu")
def test_nothing_is_expected_to_be_fused_where_the_user_forbids_it() -> None:
    with config.patch(epilogue_fusion=False):
        assert read_off(lambda a, b: (a @ b).relu(), x, w) is None


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("reordered", [True, False])
def test_views_are_fused_whether_loops_are_reordered_or_not(reordered: bool) -> None:
    function = lambda a, b: (a @ b).view(4, 128, 1024).relu()
    torch_diode.install(heuristic=lambda problem: TILE)
    with config.patch(loop_ordering_after_fusion=reordered):
        assert run(compile(function, x, w)) == 1


def test_a_tile_that_is_not_clearly_faster_gives_way_to_the_library() -> None:
    with gpu(**H100):
        torch_diode.install()
        compile(lambda a, b: a @ b.t(), tensor((64, 14336)), tensor((4096, 14336)))
    [pick] = torch_diode.history()
    assert pick.picks[0].config.is_library and "clearly faster than the library" in str(pick.why)


def test_a_tile_gives_way_to_one_that_compiles_sooner_and_is_nearly_as_fast() -> None:
    reasons = []
    with gpu(**H100):
        torch_diode.install()
        for m, n, k in ((2048, 1024, 768), (2048, 1024, 1024), (4096, 512, 768), (4096, 512, 1024)):
            compile(lambda c, a, b: torch.addmm(c, a, b.t()).relu(), tensor((n,)), tensor((m, k)), tensor((n, k)))
            reasons.append(torch_diode.history()[-1].why)
    assert any("compiled sooner than the fastest tile, and predicted to take" in str(why) for why in reasons), reasons


def test_the_model_decides_with_what_follows_and_explains_it() -> None:
    rows, layer = tensor((8192, 256)), tensor((256, 4096))
    with gpu(**H100):
        torch_diode.install()
        compile(torch.mm, rows, layer)
        [alone] = torch_diode.explain()
        assert alone.picks[0].config.is_library and alone.fusion is None
        assert "fused" not in str(torch_diode.explain())
        code = compile(lambda a, b: (a @ b).relu(), rows, layer)
        pick = torch_diode.history()[-1]
        assert not pick.picks[0].config.is_library and run(code) == 1
        assert "\n    fused: relu, expected to take " in str(torch_diode.history())
        assert "µs as a kernel after the library" in str(pick.fusion)
        compile(lambda a, b: F.gelu(a @ b), tensor((8192, 3072)), tensor((3072, 768)))
        pick = torch_diode.history()[-1]
        assert pick.picks[0].config.is_library
        assert str(pick.fusion).startswith("not fused: ") and "in the best tile" in str(pick.fusion)


def test_a_library_that_is_not_the_fastest_says_that_no_tile_is_clearly_faster() -> None:
    why = []
    with gpu():
        torch_diode.install()
        for m in (64, 96, 128, 192, 256, 384):
            compile(lambda c, a, b: torch.addmm(c, a, b.t()) * 2 + 1, tensor((4096,)), tensor((m, 4096)), tensor((4096, 4096)))
            pick = torch_diode.history()[-1]
            why += [pick.why] if pick.picks[0].config.is_library else []
    assert any("no tile is predicted to be clearly faster than the library, with what follows" in one for one in why), why


def test_several_picks_leave_fusion_to_inductors_benchmark() -> None:
    with gpu(**H100):
        torch_diode.install(top_k=3)
        with offered():
            compile(lambda a, b: (a @ b).relu(), tensor((8192, 256)), tensor((256, 4096)))
        assert torch_diode.explain()[0].fusion is None
