"""Inductor's own lowerings and code generation on a simulated H200, with the plug-in picking."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config

import torch_diode
from simulated import compile, offered, tensor
from torch_diode import Config, kernels

pytestmark = pytest.mark.usefixtures("gpu")

aten = torch.ops.aten
TILE = {"block_m": 64, "block_n": 128, "block_k": 32, "num_stages": 3, "num_warps": 4}


def forced(**changes: object):
    """A function that picks the same tile for every problem."""
    return lambda problem: {**TILE, **changes}


def test_one_pick_is_compiled_without_a_benchmark_and_the_epilogue_is_fused() -> None:
    torch_diode.install(heuristic=forced())
    counters.clear()
    code = compile(lambda a, b: (a @ b).relu(), tensor((512, 256)), tensor((256, 1024)))
    assert [code.constants(name) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")] == [["64"], ["128"], ["32"]]
    assert len(code.kernels()) == 2, "one kernel, once defined and once run: the relu is inside"
    assert "triton_helpers.maximum" in code.code or "tl.maximum" in code.code
    assert not [name for name in counters["inductor"] if name.startswith("select_algorithm")]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("op", ["mm", "addmm", "bmm", "baddbmm"])
def test_every_op_and_type_is_picked_by_the_model(op: str, dtype: torch.dtype) -> None:
    torch_diode.install()
    batch = (4,) if op in ("bmm", "baddbmm") else ()
    a, b = tensor((*batch, 256, 512), dtype), tensor((*batch, 512, 384), dtype)
    bias = tensor((384,) if op == "addmm" else (*batch, 256, 384), dtype)
    inputs = (bias, a, b) if op in ("addmm", "baddbmm") else (a, b)
    code = compile(getattr(aten, op).default, *inputs)
    [pick] = torch_diode.explain()
    assert (pick.source, pick.problem.op, pick.problem.dtype) == ("model", op, str(dtype).removeprefix("torch."))
    assert len(pick.picks) == 1
    assert len(code.kernels()) >= 1
    stats = torch_diode.get_stats()
    assert (stats["total_calls"], stats["model_selections"], stats["fallbacks"]) == (1, 1, 0)


def test_linear_is_an_addmm_with_b_in_columns_and_a_vector_bias() -> None:
    torch_diode.install()
    linear = lambda x, w, bias: torch.nn.functional.linear(x, w, bias)
    compile(linear, tensor((64, 512)), tensor((1024, 512)), tensor((1024,)))
    [pick] = torch_diode.explain()
    problem = pick.problem
    assert (problem.op, problem.m, problem.n, problem.k) == ("addmm", 64, 1024, 512)
    assert (problem.a_layout, problem.b_layout, problem.bias) == ("row", "column", "vector")


def test_a_matrix_bias_and_transposed_a_are_told_apart() -> None:
    torch_diode.install()
    compile(aten.addmm.default, tensor((64, 128)), tensor((64, 512), stride=(1, 64)), tensor((512, 128)))
    problem = torch_diode.explain()[0].problem
    assert (problem.a_layout, problem.b_layout, problem.bias) == ("column", "row", "matrix")


@pytest.mark.parametrize(("k", "even"), [(256, "True"), (250, "False"), (16, "False")])
def test_masks_are_left_out_only_where_k_is_a_multiple_of_the_block(k: int, even: str) -> None:
    torch_diode.install(heuristic=forced())
    code = compile(torch.mm, tensor((512, k)), tensor((k, 1024)))
    assert code.constants("EVEN_K") == [even]


def test_a_k_that_may_change_keeps_its_masks() -> None:
    torch_diode.install(heuristic=forced())
    code = compile(torch.mm, tensor((512, "k=256")), tensor(("k=256", 1024)))
    assert code.constants("EVEN_K") == ["False"]
    assert torch_diode.explain()[0].problem.k == 256, "the hint"


@pytest.fixture
def precision() -> Iterator[Callable[[str], None]]:
    """Sets how fp32 products are computed."""
    before = torch.get_float32_matmul_precision()
    yield torch.set_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("allowed", ["high", "highest"])
def test_tf32_follows_the_user(allowed: str, precision: Callable[[str], None]) -> None:
    precision(allowed)
    torch_diode.install(heuristic=forced())
    code = compile(torch.mm, tensor((512, 512), torch.float32), tensor((512, 1024), torch.float32))
    assert code.constants("ALLOW_TF32") == [str(allowed == "high")]


def test_the_model_ranks_fp32_by_whether_tf32_is_allowed(precision: Callable[[str], None]) -> None:
    torch_diode.install(pick_unjudged=True)
    times = {}
    for allowed in ("highest", "high"):
        precision(allowed)
        compile(torch.mm, tensor((4096, 4096), torch.float32), tensor((4096, 4096), torch.float32))
        times[allowed] = torch_diode.explain()[-1].picks[0].expected_us
    assert times["high"] < times["highest"] / 2


def test_the_library_is_one_of_the_picks() -> None:
    torch_diode.install(heuristic=lambda problem: "aten")
    code = compile(aten.addmm.default, tensor((384,)), tensor((256, 512)), tensor((512, 384)))
    assert code.kernels()[0].startswith("extern_kernels.addmm(arg0_1,"), "the library adds the vector itself"
    assert not code.constants("BLOCK_M")
    code = compile(torch.mm, tensor((256, 512)), tensor((512, 384)))
    assert code.kernels()[0].startswith("extern_kernels.mm(")
    assert torch_diode.get_stats()["library_picks"] == 2


def test_a_tall_k_can_have_a_tile_though_inductor_does_not_offer_it() -> None:
    torch_diode.install(heuristic=forced())
    code = compile(torch.mm, tensor((64, 4096)), tensor((4096, 64)))
    assert code.constants("BLOCK_N") == ["128"]
    torch_diode.install(heuristic=lambda problem: {"template": "decompose_k", "k_split": 16})
    code = compile(torch.mm, tensor((64, 4096)), tensor((4096, 64)))
    assert torch_diode.explain()[0].picks[0].config == Config("decompose_k", k_split=16)
    assert not code.constants("BLOCK_N")


@pytest.mark.parametrize("m", [1, 7, 33])
def test_few_and_odd_rows_are_picked(m: int) -> None:
    torch_diode.install()
    compile(torch.mm, tensor((m, 4096)), tensor((4096, 4095)))
    [pick] = torch_diode.explain()
    assert (pick.problem.m, pick.problem.group) == (m, "unaligned")
    assert pick.source == "model"


def test_alpha_and_beta_are_kept() -> None:
    torch_diode.install(heuristic=forced())
    scaled = lambda c, a, b: torch.addmm(c, a, b, alpha=3.0, beta=0.5)
    code = compile(scaled, tensor((1024,)), tensor((512, 256)), tensor((256, 1024)))
    assert "3.0" in code.code and "0.5" in code.code
    assert code.constants("BLOCK_N") == ["128"]


@pytest.mark.parametrize("bias", [(1024,), (1, 1024), (512, 1024)])
def test_a_sum_that_gets_a_tile_is_not_benchmarked(bias: tuple[int, ...]) -> None:
    """Inductor may ask for its choices in several calls: for the library's before those for tiles."""
    torch_diode.install(heuristic=forced())
    counters.clear()
    code = compile(aten.addmm.default, tensor(bias), tensor((512, 256)), tensor((256, 1024)))
    assert code.constants("BLOCK_N") == ["128"] and not any("extern" in kernel for kernel in code.kernels())
    assert not [name for name in counters["inductor"] if name.startswith("select_algorithm")]


@pytest.mark.parametrize("by_user", [True, False])
@pytest.mark.parametrize("op", ["mm", "addmm", "bmm", "baddbmm"])
def test_several_picks_come_in_one_order_whatever_the_operator(op: str, by_user: bool) -> None:
    picks = [forced(block_m=block_m)(None) for block_m in (32, 64)]
    torch_diode.install(heuristic=lambda problem: [picks[0], "aten", picks[1]], top_k=3, fast_autotune=not by_user)
    batch = (4,) if op in ("bmm", "baddbmm") else ()
    operands = [tensor((*batch, 512, 256)), tensor((*batch, 256, 1024))]
    if op in ("addmm", "baddbmm"):
        operands.insert(0, tensor((1024,) if op == "addmm" else (*batch, 512, 1024)))
    with offered() as lists, config.patch(max_autotune_gemm=by_user):
        compile(getattr(aten, op).default, *operands)
    params = [choice.annotations["ktc"].params.to_kwargs() for choice in lists[0]]
    assert [one.get("BLOCK_M") for one in params] == [64, None, 32], "the likeliest last"


def test_what_one_type_was_compiled_with_does_not_reach_another() -> None:
    torch_diode.install(heuristic=forced())

    def batched(dtype: torch.dtype) -> str:
        return compile(torch.bmm, tensor((8, 128, 256), dtype), tensor((8, 256, 128), dtype)).code

    types = (torch.float16, torch.bfloat16, torch.float32)
    together = [batched(dtype) for dtype in types]
    for dtype, code in zip(types, together, strict=True):
        kernels._shared_params.clear()
        assert batched(dtype) == code


def test_a_batch_runs_the_batched_template() -> None:
    torch_diode.install(heuristic=forced())
    code = compile(torch.bmm, tensor((8, 128, 256)), tensor((8, 256, 128)))
    assert "tl.program_id(1)" in code.code
    assert torch_diode.explain()[0].problem.b == 8


def test_picking_needs_no_setting_and_touches_no_other_setting() -> None:
    torch_diode.install(heuristic=forced())
    assert not config.max_autotune_gemm
    code = compile(lambda a, b: (a @ b).sum(0), tensor((512, 256)), tensor((256, 1024)))
    assert code.constants("BLOCK_N") == ["128"]
    assert not config.max_autotune_gemm


@pytest.mark.parametrize("setting", ["max_autotune", "max_autotune_gemm"])
def test_under_max_autotune_the_pick_is_the_same(setting: str) -> None:
    torch_diode.install(heuristic=forced(), fast_autotune=False)
    with config.patch({setting: True}):
        code = compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert code.constants("BLOCK_N") == ["128"]


def test_without_fast_autotune_a_plain_compile_is_inductors_own() -> None:
    torch_diode.install(heuristic=forced(), fast_autotune=False)
    code = compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert code.kernels()[0].startswith("extern_kernels.mm(")
    assert torch_diode.get_stats()["total_calls"] == 0


def test_the_token_of_the_backend_asks_for_picks() -> None:
    torch_diode.install(heuristic=forced(), fast_autotune=False)
    with config.patch(max_autotune_gemm_backends="DIODE"):
        code = compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert code.constants("BLOCK_N") == ["128"]


def test_the_token_stands_for_inductors_backends_in_other_ops() -> None:
    torch_diode.install()
    with config.patch(max_autotune_gemm_backends="DIODE"):
        code = compile(aten._int_mm.default, tensor((64, 64), torch.int8), tensor((64, 64), torch.int8))
    assert any("_int_mm" in kernel for kernel in code.kernels())


def test_a_backend_that_the_user_shut_out_is_not_picked() -> None:
    torch_diode.install(heuristic=forced())
    with config.patch(max_autotune_gemm_backends="ATEN"):
        code = compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert not code.constants("BLOCK_M")
    torch_diode.install(heuristic=lambda problem: ["aten", forced()(problem)], top_k=2)
    with config.patch(max_autotune_gemm_backends="TRITON"):
        code = compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    assert code.constants("BLOCK_N") == ["128"]
