"""Multiplications that models are served with: one pick, or the very code that torch writes without the plug-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch._inductor.kernel import mm as inductor_mm
from torch._inductor.lookup_table import LookupTableChoices
from torch._inductor.virtualized import V
from torch.nn import functional as F

import torch_diode
from simulated import code_of, compile, served_gpu, tensor

f8, bf, f32, i8, i32 = torch.float8_e4m3fn, torch.bfloat16, torch.float32, torch.int8, torch.int32
M, K, N, T, G = 512, 4096, 1024, 4096, 64
a, b = tensor((M, K), f8), tensor((K, N), f8, stride=(1, K))
rows = (tensor((M, 1), f32), tensor((1, N), f32))
experts = (tensor((T, K)), tensor((G, K, N), stride=(K * N, 1, K)), tensor((G,), i32))
TILE = {"block_m": 128, "block_n": 128, "block_k": 128, "num_stages": 3, "num_warps": 8}
SMALL = {"block_m": 64, "block_n": 128, "block_k": 64, "num_stages": 3, "num_warps": 4}
TMA = "triton::mm_persistent_tma"


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with served_gpu():
        yield


def scaled(a: Any, b: Any, sa: Any, sb: Any, *bias: Any) -> Any:
    return torch._scaled_mm(a, b, sa, sb, *bias, out_dtype=bf, use_fast_accum=not bias)


def quantised(y: Any, scale: Any) -> Any:
    return (y.float() * scale).clamp(-448, 448).to(f8)


def dynamic(x: Any, b: Any, sb: Any) -> Any:
    scale = (x.abs().amax(-1, keepdim=True) / 448).float()
    return scaled((x.float() / scale).clamp(-448, 448).to(f8), b, scale, sb)


def torchao(x: Any, b: Any, sb: Any) -> Any:
    """A linear layer as torchao's float8 writes it with ``KernelPreference.TORCH``: by row, or by tensor if the weights have one scale."""
    most = x.abs().amax([-1] if sb.numel() > 1 else [-2, -1], keepdim=True)
    scale = (most / 448).to(f32)
    rows = (x.to(f32) / scale).clamp(-448, 448).to(f8).reshape(-1, x.shape[-1])
    product = scaled(rows, b, scale.reshape(-1, 1), sb)
    return product.reshape(*x.shape[:-1], -1)


def by_channel(a: Any, b: Any, sa: Any, sb: Any, one: Any) -> Any:
    """As vLLM does with ``--linear-backend torch``: scales of one, and an output in fp32 that is scaled afterwards."""
    return (torch._scaled_mm(a, b, one, one, out_dtype=f32) * sa * sb).to(bf)


def grouped(x: Any, w: Any, offs: Any) -> Any:
    return torch._grouped_mm(x, w, offs=offs)


Graph = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
GRAPHS: dict[str, Graph] = {
    "rows": (scaled, (a, b, *rows), TILE),
    "rows, TMA": (scaled, (a, b, *rows), {**TILE, "template": TMA}),
    "rows, bias": (scaled, (a, b, *rows, tensor((N,))), TILE),
    "rows that may change": (scaled, (tensor(("m=512", K), f8), b, tensor(("m=512", 1), f32), rows[1]), TILE),
    "tensor": (scaled, (a, b, tensor((), f32), tensor((), f32)), TILE),
    "dynamically quantised": (dynamic, (tensor((M, K)), b, rows[1]), TILE),
    "torchao, by row": (torchao, (tensor((1, M, K)), b, rows[1]), TILE),
    "torchao, by tensor": (torchao, (tensor((1, M, K)), b, tensor((1, 1), f32)), TILE),
    "by channel": (by_channel, (a, b, *rows, tensor((), f32)), TILE),
    "silu, up, statically quantised": (
        lambda a, b, sa, sb, up, s: quantised(F.silu(scaled(a, b, sa, sb)) * up, s),
        (a, b, *rows, tensor((M, N)), tensor((), f32)), TILE,
    ),
    "integers, then scales": (
        lambda a, b, sa, sb: torch._int_mm(a, b) * sa * sb,
        (tensor((M, K), i8), tensor((K, N), i8, stride=(1, K)), tensor((M, 1)), tensor((N,))), TILE,
    ),
    "experts": (grouped, experts, SMALL),
    "experts, TMA": (grouped, experts, {**SMALL, "template": TMA}),
    "experts, routing weights": (lambda x, w, o, r: grouped(x, w, o) * r, (*experts, tensor((T, 1))), SMALL),
    "experts in fp8": (
        lambda x, w, sa, sb, o: torch._scaled_grouped_mm(x, w, sa, sb, offs=o, out_dtype=bf, use_fast_accum=True),
        (tensor((T, K), f8), tensor((G, K, N), f8, stride=(K * N, 1, K)), tensor((T,), f32), tensor((G, N), f32), experts[2]), SMALL,
    ),
}  # fmt: skip
LEFT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "blocks": (
        scaled, (a, b, tensor((M, K // 128), f32, stride=(1, M)), tensor((K // 128, N // 128), f32, stride=(1, K // 128))),
        "only the library multiplies in fp8",
    ),
    "integers alone": (torch._int_mm, (tensor((M, K), i8), tensor((K, N), i8)), "not scaled in the same kernel"),
    "gradients of experts' weights": (
        grouped, (tensor((M, T), stride=(1, M)), tensor((T, N)), experts[2]), "not gradients of weights"
    ),
}  # fmt: skip


def alone(function: Callable[..., Any], inputs: tuple[Any, ...]) -> str:
    torch_diode.uninstall()
    return code_of(function, *inputs)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_pick_is_compiled_alone_and_the_librarys_code_is_torchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs, tile = GRAPHS[name]
    without = alone(function, inputs)
    torch_diode.install(heuristic=lambda problem: tile)
    picked = compile(function, *inputs)
    blocks = [picked.constants(one) for one in ("BLOCK_M", "BLOCK_N", "BLOCK_K")]
    assert blocks == [[str(tile[one])] for one in ("block_m", "block_n", "block_k")], torch_diode.explain()
    pick = torch_diode.explain()[-1]
    assert pick.source == "function" and pick.problem.op in pick.label
    torch_diode.install(heuristic=lambda problem: "aten")
    assert code_of(function, *inputs) == without
    torch_diode.install(model=[])
    assert code_of(function, *inputs) == without
    assert "no table, model or function knows it on nvidia-h200" in torch_diode.explain()[-1].why
    torch_diode.uninstall()
    assert code_of(function, *inputs) == without, "nothing is left behind"


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_torch_is_told_with_the_reason(name: str) -> None:
    function, inputs, why = LEFT[name]
    without = alone(function, inputs)
    torch_diode.install(heuristic=lambda problem: TILE)
    assert code_of(function, *inputs) == without
    [pick] = torch_diode.explain()
    assert pick.source == "inductor" and why in pick.why


def test_scales_of_one_dimension_get_a_tile() -> None:
    graph = (scaled, (a, b, tensor((1,), f32), tensor((1,), f32)))
    without = alone(*graph)
    torch_diode.install(heuristic=lambda problem: TILE)
    code = compile(graph[0], *graph[1])
    assert code.constants("BLOCK_M") == ["128"], torch_diode.explain()
    assert len([line for line in code.code.splitlines() if ".run(" in line]) == 1, "no scale is copied"
    torch_diode.install(heuristic=lambda problem: "aten")
    assert code_of(graph[0], *graph[1]) == without


def vllm(x: Any, w: Any, one: Any, sx: Any, sw: Any, *bias: Any) -> Any:
    """vLLM's fp8 linear layer by channel with ``--linear-backend torch``: scales of one, fp32, then a scale a token and a channel."""
    product = torch._scaled_mm(x, w, scale_a=one, scale_b=one, out_dtype=f32)
    found = product * sx * sw.t()
    return (found + bias[0] if bias else found).to(bf)


@pytest.mark.parametrize("bias", [(), (tensor((N,)),)], ids=["", "bias"])
def test_vllms_layer_by_channel_is_one_kernel(bias: Any) -> None:
    inputs = (tensor(("m=512", K), f8), b, tensor((1,), f32), tensor(("m=512", 1), f32), tensor((N, 1), f32), *bias)
    without = alone(vllm, inputs)
    assert len([line for line in without.splitlines() if ".run(" in line]) == 1, "the library's product is scaled by a kernel"
    torch_diode.install(heuristic=lambda problem: TILE)
    code = compile(vllm, *inputs)
    assert code.constants("BLOCK_M") == ["128"] and "extern_kernels" not in code.code.split("async_compile.wait")[1]
    assert len([line for line in code.code.splitlines() if ".run(" in line]) == 1
    problem = torch_diode.explain()[-1].problem
    assert (problem.scaling, problem.out_dtype) == ("tensor", "float32")
    torch_diode.install()
    compile(vllm, *inputs)
    assert torch_diode.explain()[-1].source == "model", torch_diode.explain()
    torch_diode.install(heuristic=lambda problem: "aten")
    assert code_of(vllm, *inputs) == without


@pytest.mark.skipif(not hasattr(inductor_mm, "tuned_scaled_mm_v2"), reason="this torch does not lower it")
def test_the_second_version_is_picked_where_it_is_lowered() -> None:
    recipe = F.ScalingType.RowWise
    function = lambda a, b, sa, sb: F.scaled_mm(a, b, sa, recipe, sb, recipe, output_dtype=bf)
    torch_diode.install(heuristic=lambda problem: TILE)
    assert compile(function, a, b, *rows).constants("BLOCK_M") == ["128"]
    assert torch_diode.explain()[0].problem.scaling == "row"
    torch_diode.install(heuristic=lambda problem: SWAPPED)
    code = compile(function, *few_rows)
    assert (code.constants("BLOCK_M"), code.constants("BLOCK_N")) == (["64"], ["16"]) and f"idx_m + {N}*idx_n" in code.code
    turned = (*rows[:1], tensor((N, 1), f32))
    compile(function, a, b, *turned)
    assert "shapes that Inductor has no tiles for" in torch_diode.explain()[-1].why


@pytest.mark.parametrize("name", ["bias", "rows that may change"])
def test_a_tma_tile_that_torch_cannot_have_is_left_with_the_sizes_as_they_are(name: str) -> None:
    inputs = GRAPHS["rows, bias" if name == "bias" else name][1]
    without = alone(scaled, inputs)
    torch_diode.install(heuristic=lambda problem: {**TILE, "template": TMA}, model=[])
    assert code_of(scaled, *inputs) == without
    assert "its template is not offered here" in torch_diode.explain()[-1].why


@pytest.mark.parametrize("name", ["rows", "tensor", "experts"])
def test_the_librarys_code_in_cpp_is_torchs_own(name: str) -> None:
    function, inputs, _ = GRAPHS[name]
    without = code_of(function, *inputs, cpp=True)
    torch_diode.install(heuristic=lambda problem: "aten")
    assert code_of(function, *inputs, cpp=True) == without


def hugging_face(x: Any, gate_up: Any, down: Any, ids: Any, weights: Any) -> Any:
    """A block of experts in ``grouped_mm`` form."""
    top_k, experts = ids.shape[1], gate_up.shape[0]
    values, order = ids.reshape(-1).sort()
    ends = torch.histc(values.float(), experts, 0, experts - 1).to(i32).cumsum(0, dtype=i32)
    gate, up = grouped(x[order // top_k], gate_up.transpose(-1, -2), ends).chunk(2, -1)
    y = grouped(F.silu(gate) * up, down.transpose(-1, -2), ends) * weights.reshape(-1)[order].unsqueeze(-1)
    return torch.empty_like(y).index_put((order,), y).reshape(x.shape[0], top_k, -1).sum(1)


def test_hugging_faces_experts_get_tiles_without_a_change() -> None:
    weights = (tensor((128, 1536, 2048)), tensor((128, 2048, 768)))
    inputs = (tensor((512, 2048)), *weights, tensor((512, 8), torch.int64), tensor((512, 8)))
    without = alone(hugging_face, inputs)
    torch_diode.install(heuristic=lambda problem: {**SMALL, "block_m": 32})
    assert compile(hugging_face, *inputs).constants("BLOCK_M") == ["32", "32"]
    picks = [pick for pick in torch_diode.explain() if pick.problem is not None]
    assert [(pick.problem.op, pick.problem.m, pick.problem.n, pick.problem.k) for pick in picks] == [
        ("grouped_mm", 4096, 1536, 2048), ("grouped_mm", 4096, 2048, 768)
    ]  # fmt: skip
    torch_diode.install(model=[])
    assert code_of(hugging_face, *inputs) == without


def test_both_accumulations_are_the_users() -> None:
    slow = lambda a, b, sa, sb: torch._scaled_mm(a, b, sa, sb, out_dtype=bf, use_fast_accum=False)
    torch_diode.install(heuristic=lambda problem: TILE)
    assert compile(scaled, a, b, *rows).constants("USE_FAST_ACCUM") == ["True"]
    assert compile(slow, a, b, *rows).constants("USE_FAST_ACCUM") == ["False"]


def test_epilogues_are_part_of_a_tile() -> None:
    torch_diode.install(heuristic=lambda problem: TILE)
    for name in ("silu, up, statically quantised", "integers, then scales", "by channel", "experts, routing weights"):
        function, inputs, _ = GRAPHS[name]
        launches = [line for line in code_of(function, *inputs).splitlines() if ".run(" in line]
        assert len(launches) == 1, name


SWAPPED = {"block_m": 16, "block_n": 64, "block_k": 256, "num_stages": 5, "num_warps": 4, "swap_ab": True}
few_rows = (tensor((16, K), f8), b, tensor((16, 1), f32), rows[1])


@pytest.mark.parametrize("scales", ["row", "tensor"])
def test_a_tile_that_multiplies_the_transposes_writes_the_product_in_rows(scales: str) -> None:
    inputs = few_rows if scales == "row" else (*few_rows[:2], tensor((1, 1), f32), tensor((1, 1), f32))
    without = alone(scaled, inputs)
    torch_diode.install(heuristic=lambda problem: SWAPPED)
    code = compile(scaled, *inputs)
    assert (code.constants("BLOCK_M"), code.constants("BLOCK_N")) == (["64"], ["16"])
    launches = [line for line in code.code.splitlines() if ".run(" in line]
    assert len(launches) == 1, "no other kernel turns the product back"
    assert f"idx_m + {N}*idx_n" in code.code
    assert "swap" in str(torch_diode.explain())
    torch_diode.uninstall()
    assert code_of(scaled, *inputs) == without


@pytest.mark.parametrize(("function", "more"), [
    (lambda a, b, sa, sb: F.relu(scaled(a, b, sa, sb)), ()), (scaled, (tensor((N,)),)),
], ids=["what follows", "bias"])  # fmt: skip
def test_transposes_are_multiplied_only_where_nothing_is_fused(function: Any, more: Any) -> None:
    inputs = (*few_rows, *more)
    without = alone(function, inputs)
    torch_diode.install(heuristic=lambda problem: SWAPPED, model=[])
    assert code_of(function, *inputs) == without
    assert "its operands cannot be swapped here" in torch_diode.explain()[-1].why


def test_the_model_picks_among_the_tiles_that_can_run() -> None:
    torch_diode.install()
    found = {}
    for name, function, inputs in (
        ("alone", scaled, few_rows),
        ("followed", lambda a, b, sa, sb: F.relu(scaled(a, b, sa, sb)), few_rows),
        ("biased", scaled, (*few_rows, tensor((N,)))),
    ):
        compile(function, *inputs)
        found[name] = torch_diode.explain()[-1].picks[0].config
    assert found["alone"].swap_ab and not found["followed"].swap_ab
    assert not found["biased"].swap_ab and found["biased"].template != TMA


def test_the_model_picks_for_experts_in_fp8_which_were_tried_but_not_judged() -> None:
    function, inputs, _ = GRAPHS["experts in fp8"]
    torch_diode.install()
    compile(function, *inputs)
    pick = torch_diode.explain()[-1]
    assert not pick.picks[0].config.is_library and "extrapolates" in pick.caveat


@pytest.mark.parametrize("name", ["rows", "experts"])
def test_tables_decide_them(name: str, tmp_path: Path) -> None:
    function, inputs, tile = GRAPHS[name]
    torch_diode.install(model=[])
    compile(function, *inputs)
    dataset = torch_diode.Dataset("NVIDIA H200")
    dataset.add(torch_diode.explain()[-1].problem, [(torch_diode.Config(**tile), 10.0), (torch_diode.Config("aten"), 20.0)])
    dataset.save(tmp_path / "timings.msgpack.zst")
    torch_diode.install(table=torch_diode.Table.from_dataset(tmp_path / "timings.msgpack.zst"), model=[])
    assert compile(function, *inputs).constants("BLOCK_M") == [str(tile["block_m"])]
    assert torch_diode.explain()[-1].source == "table"


@pytest.mark.skipif(hasattr(inductor_mm, "tuned_scaled_mm_v2"), reason="this torch lowers it")
def test_explain_tells_of_what_this_torch_calls_as_it_is() -> None:
    recipe = F.ScalingType.RowWise
    function = lambda a, b, sa, sb: F.scaled_mm(a, b, sa, recipe, sb, recipe, output_dtype=bf)
    without = alone(function, (a, b, *rows))
    torch_diode.install()
    assert code_of(function, a, b, *rows) == without
    assert "aten._scaled_mm_v2: left to Inductor, since this version of torch calls it as it is" in str(torch_diode.explain())


def test_explain_tells_of_operators_of_other_libraries() -> None:
    with torch.library._scoped_library("diode_test", "DEF") as library:
        library.define("f8f8bf16_rowwise(Tensor a, Tensor b) -> Tensor")
        library.define("common_shift(Tensor a) -> Tensor")
        library.impl("f8f8bf16_rowwise", lambda a, b: a.new_empty((a.shape[0], b.shape[1]), dtype=bf), "Meta")
        library.impl("common_shift", torch.empty_like, "Meta")
        operators = torch.ops.diode_test
        function = lambda a, b: operators.common_shift(operators.f8f8bf16_rowwise(a, b))
        torch_diode.install()
        code_of(function, a, b)
        [pick] = torch_diode.explain()
        assert pick.label == "diode_test.f8f8bf16_rowwise"
        assert pick.why == "it is an operator of diode_test, into which Inductor does not see"


def test_another_process_picks_the_same_and_writes_the_same_code() -> None:
    program = (
        "import hashlib, test_served as t, torch_diode\n"
        "from torch._inductor import config\n"
        "with t.served_gpu(), config.patch(deterministic=True):\n"
        "    torch_diode.install()\n"
        "    for inputs in (t.few_rows, (t.a, t.b, *t.rows)):\n"
        "        code = t.code_of(t.scaled, *inputs)\n"
        "        print(torch_diode.explain()[-1].picks[0].config.label, hashlib.sha256(code.encode()).hexdigest())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    run = lambda seed: (
        subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    first, second = run("1"), run("2")
    assert first == second and "swap" in first


@pytest.mark.parametrize(
    "name", ["rows", "rows, TMA", "rows, bias", "few rows", "integers, then scales", "experts", "experts, TMA", "experts in fp8"]
)
@pytest.mark.parametrize("library", [False, True], ids=["tile", "library"])
def test_a_recorded_table_gives_the_same_picks(name: str, library: bool, tmp_path: Path) -> None:
    function, inputs, tile = GRAPHS.get(name, (scaled, few_rows, SWAPPED))
    torch_diode.install(heuristic=lambda problem: "aten" if library else tile)
    code = code_of(function, *inputs)
    with torch_diode.record() as recording:
        code_of(function, *inputs)
    recording.save_table(tmp_path / "table.json")
    torch_diode.install(table=tmp_path / "table.json", model=[])
    assert code_of(function, *inputs) == code
    [pick] = torch_diode.explain()
    assert pick.source == "table" and pick.picks[0].config.is_library == library
    if name.startswith("rows"):  # Inductor looks for no groups, and what it does with integers or transposes is its own.
        torch_diode.uninstall()
        settings = {"max_autotune_gemm": True, "lookup_table.table": dict(recording.table)}
        settings |= {"triton.enable_persistent_tma_matmul": True} if name == "rows, TMA" else {}
        with config.patch(settings), V.set_choices_handler(LookupTableChoices()):
            found = compile(function, *inputs)
        assert found.constants("BLOCK_M") == ([] if library else ["128"])


@pytest.mark.parametrize("name", ["rows", "experts"])
def test_records_name_scaling_and_groups(name: str, tmp_path: Path) -> None:
    function, inputs, _ = GRAPHS[name]
    with torch_diode.record() as recording:
        compile(function, *inputs)
    recording.save_problems(tmp_path / "problems.json")
    [problem] = json.loads((tmp_path / "problems.json").read_text())
    if name == "rows":
        assert (problem["op"], problem["a_dtype"], problem["scaling"]) == ("scaled_mm", "float8_e4m3fn", "row")
    else:
        assert (problem["op"], problem["groups"]["count"], problem["m"]) == ("grouped_mm", G, T)


@pytest.mark.parametrize(("rows", "way", "launches"), [
    (1, "multiplied and summed as they are read", 1), (16, "converted in the tile that multiplies them", 2),
    (32, "converted in the tile that multiplies them", 2), (512, "converted and multiplied by mm", 2),
])  # fmt: skip
def test_int8_weights_get_no_thread_for_each_output(rows: int, way: str, launches: int) -> None:
    function = torch.ops.aten._weight_int8pack_mm.default
    inputs = (tensor((rows, K)), tensor((N, K), i8), tensor((N,)))
    without = alone(function, inputs)
    assert "_weight_int8pack_mm" in without
    torch_diode.install(model=[])
    code = code_of(function, *inputs)
    assert "aten._weight_int8pack_mm" not in code.split("async_compile.wait")[1]
    # Behind a tile, the graph's output is brought into rows. The scales are always part of another kernel.
    assert len([line for line in code.splitlines() if ".run(" in line]) == launches
    assert ("extern_kernels.mm(" in code) == (rows > 32) and ("triton_tem" in code) == (2 < rows <= 32)
    assert f"int8 weights {rows}×{N}×{K}: {way}" in str(torch_diode.explain())
    torch_diode.uninstall()
    assert code_of(function, *inputs) == without


def test_gpus_on_which_nothing_was_measured_keep_torchs_ways() -> None:
    int8 = (torch.ops.aten._weight_int8pack_mm.default, (tensor((16, K)), tensor((N, K), i8), tensor((N,))))
    experts = (experts_of_a_token, (tensor((128, 1536, 2048)), tensor((8,), torch.int64), tensor((8, 2048))))
    with served_gpu(name="NVIDIA L40S", gcnArchName="NVIDIA L40S", minor=9):
        for function, inputs in (int8, experts):
            without = alone(function, inputs)
            torch_diode.install()
            assert code_of(function, *inputs) == without
            assert torch_diode.explain()[0].why == "other ways were measured on other GPUs only"


def experts_of_a_token(weights: Any, ids: Any, x: Any) -> Any:
    """As Hugging Face does with ``batched_mm`` when it decodes."""
    return torch.bmm(weights[ids], x.unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize("tokens", [1, 4])
def test_experts_are_multiplied_without_a_copy_of_their_weights_when_decoding(tokens: int) -> None:
    inputs = (tensor((128, 1536, 2048)), tensor((tokens * 8,), torch.int64), tensor((tokens * 8, 2048)))
    without = alone(experts_of_a_token, inputs)
    assert "extern_kernels.bmm" in without
    torch_diode.install()
    code = code_of(experts_of_a_token, *inputs)
    assert "extern_kernels" not in code.split("async_compile.wait")[1]
    assert len([line for line in code.splitlines() if ".run(" in line]) == 1, "the gather is part of the sum"
    assert f"bmm {tokens * 8}×1536×1×2048 of gathered weights: multiplied and summed" in str(torch_diode.explain())
    torch_diode.install(model=[])
    ungathered = (torch.bmm, (tensor((8, 1536, 2048)), tensor((8, 2048, 1))))
    assert code_of(ungathered[0], *ungathered[1]) == alone(*ungathered), "weights that are not gathered stay with bmm"
    assert code_of(experts_of_a_token, *inputs) == without


@pytest.mark.parametrize(("sizes", "tokens", "top_k"), [((128, 1536, 2048), 16, 8), ((8, 28672, 4096), 4, 2)])
def test_rows_that_share_experts_are_multiplied_as_groups(sizes: tuple[int, int, int], tokens: int, top_k: int) -> None:
    inputs = (tensor(sizes), tensor((tokens * top_k,), torch.int64), tensor((tokens * top_k, sizes[2])))
    without = alone(experts_of_a_token, inputs)
    torch_diode.install()
    code = compile(experts_of_a_token, *inputs)
    assert code.constants("BLOCK_M") == ["16"] and "extern_kernels.bmm" not in code.code
    assert "each expert's rows together" in str(torch_diode.explain())
    torch_diode.uninstall()
    assert code_of(experts_of_a_token, *inputs) == without


def test_a_deterministic_compile_picks_the_same_and_times_nothing() -> None:
    function, inputs, tile = GRAPHS["rows"]
    torch_diode.install(heuristic=lambda problem: [tile, "aten"], top_k=2)
    with config.patch(deterministic=True):
        codes = {code_of(function, *inputs) for _ in range(2)}
        picks = [pick.picks for pick in torch_diode.history()]
    assert len(codes) == 1 and picks[0] == picks[1] and len(picks[0]) == 1
