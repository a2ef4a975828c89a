"""If the library is picked or nothing is known, the code is byte for byte the same as without the plug-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config

import torch_diode
from simulated import code_of, compile, tensor

pytestmark = pytest.mark.usefixtures("gpu")

aten = torch.ops.aten
fp32 = torch.float32
x, w, v = tensor((512, 256)), tensor((256, 1024)), tensor((1024,))
batches = (tensor((8, 128, 256)), tensor((8, 256, 128)))

Graph = tuple[Callable[..., Any], tuple[Any, ...]]


def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, norm: Any) -> Any:
    hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, w1, b1))
    return torch.nn.functional.layer_norm(x + torch.nn.functional.linear(hidden, w2, b2), (512,), norm)


def gated(x: Any, gate: Any, up: Any, down: Any) -> Any:
    return (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down


def attention(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) / 8.0, dim=-1) @ v


GRAPHS: dict[str, Graph] = {
    "mm": (torch.mm, (x, w)),
    "mm in fp32": (torch.mm, (tensor((512, 256), fp32), tensor((256, 1024), fp32))),
    "epilogue": (lambda a, b: (a @ b).relu() + 1, (x, w)),
    "residual": (lambda a, b, c: a @ b + c, (x, w, tensor((512, 1024)))),
    "vector bias": (aten.addmm.default, (v, x, w)),
    "matrix bias": (aten.addmm.default, (tensor((512, 1024)), x, w)),
    "alpha and beta": (lambda c, a, b: torch.addmm(c, a, b, alpha=2.0, beta=0.5), (v, x, w)),
    "beta of zero": (lambda c, a, b: torch.addmm(c, a, b, beta=0), (v, x, w)),
    "linear of three dimensions": (torch.nn.functional.linear, (tensor((4, 128, 256)), tensor((1024, 256)), v)),
    "gelu of a linear layer": (lambda *t: torch.nn.functional.gelu(torch.nn.functional.linear(*t)), (x, tensor((1024, 256)), v)),
    "bmm": (torch.bmm, batches),
    "bmm with a softmax": (lambda a, b: torch.softmax(torch.bmm(a, b), -1), batches),
    "baddbmm": (aten.baddbmm.default, (tensor((8, 128, 128)), *batches)),
    "attention": (attention, (tensor((2, 4, 128, 64)),) * 3),
    "operand that is computed": (lambda a, b: a.relu() @ b, (x, w)),
    "operand that is copied": (lambda a, b: torch.cat([a, a], 1)[:, 128:384].relu().t().flip(0).t() @ b, (x, w)),
    "operand that is gathered": (lambda a, b: a.expand(3, 512, 256).reshape(1536, 256) @ b.flip(0), (x, w)),
    "bias that is computed": (lambda c, a, b: torch.addmm(c * 2, a, b), (v, x, w)),
    "bias that is gathered": (lambda c, a, b: torch.addmm(c.flip(0), a, b), (v, x, w)),
    "permuted operand": (lambda a, b: (a + 1).t() @ b.relu(), (tensor((256, 512)), w)),
    "chain": (gated, (x, w, w, tensor((1024, 256)))),
    "dynamic rows": (lambda a, b: (a @ b).relu(), (tensor(("m=512", 256)), w)),
    "dynamic K": (torch.mm, (tensor((512, "k=256")), tensor(("k=256", 1024)))),
    "small K and N": (torch.mm, (tensor((512, 4)), tensor((4, 4)))),
    "long K": (torch.mm, (tensor((64, 8192)), tensor((8192, 64)))),
    "odd sizes": (torch.mm, (tensor((511, 255)), tensor((255, 1023)))),
    "mixed with a convolution": (
        lambda a, k, b: torch.conv2d(a, k).relu().flatten(1)[:, :256] @ b,
        (tensor((2, 16, 8, 8)), tensor((32, 16, 1, 1)), w),
    ),
    "network": (mlp, (tensor((64, 512)), tensor((2048, 512)), tensor((2048,)), tensor((512, 2048)), tensor((512,)), tensor((512,)))),
}  # fmt: skip


def by_library(problem: Any) -> str:
    return "aten"


def nothing(problem: Any) -> None:
    return None


def without(graph: Graph) -> str:
    """The code that Inductor writes without the plug-in."""
    torch_diode.uninstall()
    return code_of(graph[0], *graph[1])


@pytest.mark.parametrize("name", GRAPHS)
def test_the_librarys_code_is_inductors_own(name: str) -> None:
    graph = GRAPHS[name]
    alone = without(graph)
    torch_diode.install(heuristic=by_library)
    assert code_of(graph[0], *graph[1]) == alone
    assert torch_diode.get_stats()["total_calls"] > 0 or name == "beta of zero"
    torch_diode.uninstall()
    assert code_of(graph[0], *graph[1]) == alone, "nothing is left behind"


@pytest.mark.parametrize("name", GRAPHS)
def test_where_nothing_is_known_the_code_is_inductors_own(name: str) -> None:
    graph = GRAPHS[name]
    alone = without(graph)
    torch_diode.install(model=[], heuristic=nothing)
    assert code_of(graph[0], *graph[1]) == alone
    assert torch_diode.get_stats()["library_picks"] == 0


@pytest.mark.parametrize(
    "bias",
    [tensor((1,)), tensor(()), tensor((1, 1)), tensor((1024,), stride=(2,)), tensor((512, 1024), stride=(2048, 2))],
    ids=["one value", "a scalar", "one value in two dimensions", "a vector with gaps", "a matrix with gaps"],
)
def test_a_bias_that_inductor_would_copy_for_a_tile_leaves_the_code_as_it_is(bias: Any) -> None:
    graph: Graph = (lambda c, a, b: torch.addmm(c, a, b).relu(), (bias, x, w))
    alone = without(graph)
    torch_diode.install(heuristic=lambda problem: {"block_m": 64, "block_n": 64, "block_k": 32, "num_stages": 3, "num_warps": 4})
    assert code_of(graph[0], *graph[1]) == alone
    assert "Inductor would copy the bias for a tile" in torch_diode.explain()[0].why


def test_a_linear_layer_with_one_output_keeps_its_code() -> None:
    graph: Graph = (torch.nn.functional.linear, (tensor((4096, 1024)), tensor((1, 1024)), tensor((1,))))
    alone = without(graph)
    torch_diode.install()
    assert code_of(graph[0], *graph[1]) == alone


@pytest.mark.parametrize("name", ["vector bias", "epilogue", "bmm", "network", "small K and N"])
def test_a_library_pick_is_not_tuned_under_max_autotune_either(name: str) -> None:
    graph = GRAPHS[name]
    alone = without(graph)
    torch_diode.install(heuristic=by_library)
    with config.patch(max_autotune_gemm=True):
        assert code_of(graph[0], *graph[1]) == alone


UNJUDGED: dict[str, Graph] = {
    "bmm, rows of B aligned to 4 bytes": (torch.bmm, (tensor((8, 128, 64), fp32), tensor((8, 64, 127), fp32))),
    "bmm, A transposed": (torch.bmm, (tensor((8, 128, 64), stride=(8192, 1, 128)), tensor((8, 64, 128)))),
    "baddbmm": (aten.baddbmm.default, (tensor((8, 128, 128), fp32), tensor((8, 128, 64), fp32), tensor((8, 64, 128), fp32))),
    "attention over 127 tokens": (attention, (tensor((2, 4, 127, 64), fp32),) * 3),
}


@pytest.mark.parametrize("name", UNJUDGED)
def test_kinds_that_no_model_was_judged_on_get_the_library(name: str) -> None:
    graph = UNJUDGED[name]
    alone = without(graph)
    torch_diode.install()
    assert code_of(graph[0], *graph[1]) == alone
    pick = torch_diode.explain()[0]
    assert pick.source == "model" and pick.picks[0].config.is_library
    assert "was not judged on such problems" in pick.why
    assert any(not one.config.is_library for one in pick.near), "what would have been picked"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_over_any_number_of_tokens_gets_a_tile(dtype: torch.dtype) -> None:
    torch_diode.install()
    compile(torch.bmm, tensor((96, 197, 64), dtype), tensor((96, 64, 197), dtype, stride=(12608, 1, 64)))
    [pick] = torch_diode.explain()
    assert not pick.picks[0].config.is_library and pick.caveat is None


@pytest.mark.parametrize(("k", "picked"), [(1000, False), (1001, True), (1008, True)])
def test_weights_whose_rows_begin_off_a_sector_get_the_library(k: int, picked: bool) -> None:
    graph: Graph = (
        lambda x, w, b: torch.relu(torch.addmm(b, x, w)), (tensor((1000, k)), tensor((k, 1000), stride=(1, k)), tensor((1000,)))
    )  # fmt: skip
    alone = without(graph)
    torch_diode.install()
    assert (code_of(graph[0], *graph[1]) != alone) == picked
    assert ("begin off a sector" in torch_diode.explain()[0].why) != picked


@pytest.mark.usefixtures("tf32")
def test_in_tf32_too_kinds_that_no_model_was_judged_on_get_the_library() -> None:
    graph: Graph = (torch.bmm, (tensor((8, 1024, 1024), fp32), tensor((8, 1024, 1023), fp32)))
    alone = without(graph)
    torch_diode.install()
    assert code_of(graph[0], *graph[1]) == alone
    why = torch_diode.explain()[0].why
    # Newer versions of torch do not round batched products in tiles.
    assert "was not judged on such problems" in why or "tiles do not" in why


@pytest.mark.usefixtures("tf32")
def test_in_tf32_a_model_decides_between_tiles_and_the_library() -> None:
    torch_diode.install()
    compile(torch.mm, tensor((4096, 4096), fp32), tensor((4096, 4096), fp32))
    [pick] = torch_diode.explain()
    expected = pick.picks[0].expected_us
    # In full precision, no kernel of the hardware takes less than 2 ms.
    assert expected is not None and expected < 1000
    assert pick.source == "model" and "judged" not in pick.why


@pytest.mark.usefixtures("tf32")
def test_in_tf32_the_model_also_picks_for_linear_layers_of_which_it_has_learnt_none() -> None:
    torch_diode.install()
    weight = tensor((4096, 4096), fp32, stride=(1, 4096))
    compile(aten.addmm.default, tensor((4096,), fp32), tensor((16, 4096), fp32), weight)
    [pick] = torch_diode.explain()
    assert pick.source == "model" and "judged" not in pick.why
    assert not pick.picks[0].config.is_library


def test_a_table_a_function_or_the_user_may_say_otherwise() -> None:
    batched = UNJUDGED["bmm, A transposed"]
    tile = {"block_m": 64, "block_n": 64, "block_k": 32, "num_stages": 3, "num_warps": 4}
    torch_diode.install(heuristic=lambda problem: tile)
    assert compile(batched[0], *batched[1]).constants("BLOCK_M") == ["64"]
    torch_diode.install(pick_unjudged=True)
    compile(batched[0], *batched[1])
    [pick] = torch_diode.explain()
    assert pick.probability is None and "judged" not in pick.why


@pytest.mark.parametrize("name", ["mm", "vector bias", "bmm"])
def test_code_in_cpp_is_inductors_own_too(name: str) -> None:
    function, inputs = GRAPHS[name]
    torch_diode.uninstall()
    alone = code_of(function, *inputs, cpp=True)
    torch_diode.install(heuristic=by_library)
    assert code_of(function, *inputs, cpp=True) == alone


def test_several_multiplications_of_which_some_get_tiles_keep_the_others_code() -> None:
    """If one multiplication gets a tile, the library's calls for the others are the same as without the plug-in."""
    function, inputs = GRAPHS["chain"]
    torch_diode.uninstall()
    alone = compile(function, *inputs).kernels()
    tile = {"block_m": 64, "block_n": 64, "block_k": 32, "num_stages": 3, "num_warps": 4}
    torch_diode.install(heuristic=lambda problem: tile if problem.n == 256 else "aten")
    mixed = compile(function, *inputs).kernels()
    libraries = [kernel for kernel in mixed if kernel.startswith("extern_kernels")]
    assert libraries == alone[:2] and len(alone) == 3
