"""How many configs are picked, what is left to Inductor, and what is counted."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch._guards import CompileContext, CompileId, compile_context
from torch._inductor import config

import simulated
import torch_diode
from simulated import compile, offered, tensor
from torch_diode import DiodeError, DiodeInductorChoices, create_diode_choices
from torch_diode.choices import active_selector
from torch_diode.problems import Unsupported, problem_of

pytestmark = pytest.mark.usefixtures("gpu")

aten = torch.ops.aten


def mm(m: int = 512, n: int = 1024, k: int = 256) -> simulated.Compiled:
    return compile(torch.mm, tensor((m, k)), tensor((k, n)))


def test_top_k_offers_so_many_the_library_among_them() -> None:
    torch_diode.install(top_k=5)
    with offered() as lists:
        mm(4096, 4096, 4096)
    [choices] = lists
    assert len(choices) == 5
    names = [choice.name.split("_")[0] for choice in choices]
    assert names.count("mm") == 1, "cuBLAS is one of them"
    [pick] = torch_diode.explain()
    tiles = {(one.config.block_m, one.config.block_n, one.config.block_k) for one in pick.picks}
    assert len(pick.picks) == 5 and len(tiles) >= 3, "they are not near-copies of one another"
    assert "5 to be benchmarked" in str(torch_diode.explain())


def test_the_likeliest_is_benchmarked_last_and_taken_where_nothing_is_benchmarked() -> None:
    tiles = [{"block_m": block_m, "block_n": 64, "block_k": 32, "num_stages": 3, "num_warps": 4} for block_m in (128, 64)]
    torch_diode.install(top_k=3, heuristic=lambda problem: [tiles[0], "aten", tiles[1]])
    blocks = {}
    for deterministic in (False, True):
        with config.patch(deterministic=deterministic), offered() as lists:
            mm()
        params = [choice.annotations["ktc"].params.to_kwargs() for choice in lists[0]]
        blocks[deterministic] = [one.get("BLOCK_M") for one in params]
    assert blocks == {False: [64, None, 128], True: [128]}, "of several Inductor would take the library"


def test_min_confidence_picks_as_many_as_it_takes() -> None:
    torch_diode.install()
    counts = []
    share = 0.0
    for _ in range(3):
        with config.patch(diode_confidence_threshold=share), offered() as lists:
            mm(8, 16384, 4096)
        counts.append(len(lists[0]))
        reached = torch_diode.explain()[-1].probability
        assert reached >= share
        share = reached + 1e-6
    assert counts[0] == 1 < counts[1] < counts[2], "each asks for a little more than the one before has reached"


def test_without_a_known_confidence_the_most_candidates_are_picked() -> None:
    torch_diode.install(min_confidence=0.5)
    with offered() as lists:
        compile(torch.bmm, tensor((4, 64, 64), torch.float32), tensor((4, 64, 63), torch.float32))
    assert len(lists[0]) > 5
    [pick] = torch_diode.explain()
    assert pick.probability is None and "nobody has measured how well" in pick.caveat


def test_what_is_far_behind_is_not_benchmarked_unless_asked_for() -> None:
    torch_diode.install(top_k=5)
    with offered() as lists:
        mm(1, 248, 5504)
        with config.patch(diode_performance_threshold=10.0):
            mm(1, 248, 5504)
        with config.patch(diode_confidence_threshold=0.5):
            mm(1, 248, 5504)
    assert [len(choices) for choices in lists] == [1, 5, 5]
    [library], tiles, _ = (pick.picks for pick in torch_diode.history())
    assert library.config.is_library
    assert min(tile.expected_us for tile in tiles if not tile.config.is_library) > 1.25 * library.expected_us


def test_performance_threshold_leaves_out_the_slow_ones() -> None:
    torch_diode.install(top_k=16)
    with offered() as lists:
        mm(4096, 4096, 4096)
        with config.patch(diode_performance_threshold=1.02):
            mm(4096, 4096, 4096)
    assert len(lists[1]) < len(lists[0])
    picks = torch_diode.history()[-1].picks
    assert max(pick.expected_us for pick in picks) <= 1.02 * min(pick.expected_us for pick in picks)


def test_ops_beyond_the_four_are_inductors_under_max_autotune() -> None:
    torch_diode.install()
    with config.patch(max_autotune_gemm=True), offered() as lists:
        compile(aten._int_mm.default, tensor((64, 64), torch.int8), tensor((64, 64), torch.int8))
    assert len(lists[0]) > 5
    assert torch_diode.get_stats()["fallback_non_mm_op"] == 1
    assert torch_diode.explain()[0].source == "inductor"


@pytest.mark.parametrize("by_user", [True, False])
def test_unknown_hardware_is_left_to_inductor_as_the_user_set_it(by_user: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="torch_diode")
    torch_diode.install()
    unknown = simulated.gpu(name="NVIDIA Z9000", gcnArchName="NVIDIA Z9000")
    with unknown, config.patch(max_autotune_gemm=by_user), offered() as lists:
        code = mm()
        mm()
    assert len(lists[0]) > 10 if by_user else len(lists[0]) == 1
    assert by_user or code.kernels()[0].startswith("extern_kernels.mm(")
    assert torch_diode.get_stats()["fallback_no_model"] == 2
    said = [record.message for record in caplog.records if "NVIDIA Z9000" in record.message]
    assert len(said) == 1, "once, not for every kernel"


def test_without_fallback_to_autotune_the_library_is_taken() -> None:
    torch_diode.install(fallback_to_autotune=False)
    with simulated.gpu(name="NVIDIA Z9000"), config.patch(max_autotune_gemm=True), offered() as lists:
        assert mm().kernels()[0].startswith("extern_kernels.mm(")
    assert len(lists[0]) == 1


def test_another_hardwares_model_stands_in_only_when_asked_by_name() -> None:
    torch_diode.install(hardware="nvidia-h200")
    with simulated.gpu(name="NVIDIA H100 PCIe"):
        mm()
    [pick] = torch_diode.explain()
    assert pick.source == "model" and pick.probability is None, "how good it is there is not known"
    assert "the model of nvidia-h200" in pick.why and "stands in" in pick.why
    torch_diode.install()
    with simulated.gpu(name="NVIDIA H100 PCIe"):
        mm()
    assert torch_diode.explain()[0].source == "inductor"
    with pytest.raises(DiodeError, match="hardware: got `Z9000`, expected"):
        torch_diode.install(hardware="Z9000")


def test_a_smaller_gpu_gets_kernels_that_fit_it() -> None:
    torch_diode.install(hardware="nvidia-h200", top_k=16)
    with simulated.gpu(name="Some GPU", shared_memory_per_block_optin=65536), offered():
        mm(4096, 4096, 4096)
    [pick] = torch_diode.explain()
    tiles = [one.config for one in pick.picks if not one.config.is_library]
    assert tiles and all(torch_diode.obstacle(pick.problem, tile, 65536) is None for tile in tiles)
    assert any(torch_diode.obstacle(pick.problem, tile, 32768) is not None for tile in tiles)


def test_a_compile_is_told_from_one_with_the_same_id_before_a_reset() -> None:
    torch_diode.install()
    for m in (512, 64):
        context = CompileContext(CompileId(frame_id=0, frame_compile_id=0))
        for k in (256, 1024):
            with compile_context(context):  # As for forward and backward.
                mm(m, k=k)
    assert [(pick.compile_id, pick.problem.m, pick.problem.k) for pick in torch_diode.explain()] == [
        ("0/0", 64, 256),
        ("0/0", 64, 1024),
    ]
    assert len(torch_diode.history()) == 4


def test_types_that_have_no_templates_are_not_counted() -> None:
    torch_diode.install()
    compile(torch.mm, tensor((64, 64), torch.float64), tensor((64, 64), torch.float64))
    assert torch_diode.get_stats()["total_calls"] == 0


class Inputs:
    """A stand-in for what Inductor passes about a kernel's inputs."""

    def __init__(self, *tensors: tuple[tuple[int, ...], tuple[int, ...], torch.dtype]) -> None:
        self._tensors = tensors

    def shapes_symbolic(self) -> list[tuple[int, ...]]:
        return [shape for shape, _, _ in self._tensors]

    def strides_symbolic(self) -> list[tuple[int, ...]]:
        return [stride for _, stride, _ in self._tensors]

    def dtypes(self) -> list[torch.dtype]:
        return [dtype for _, _, dtype in self._tensors]

    def out_dtype(self) -> torch.dtype:
        return self._tensors[-1][2]


@pytest.mark.parametrize(
    ("a", "reason"),
    [
        (((64, 64), (256, 2), torch.float16), r"neither dimension of A is contiguous \(strides \[256, 2\]\)"),
        (((64, 64), (64, 1), torch.int8), "it computes in int8; fp16, bf16 and fp32 are supported"),
        (((0, 64), (64, 1), torch.float16), "it is empty"),
    ],
)
def test_what_no_problem_describes_is_named(a: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        problem_of(Inputs(a, ((64, 32), (32, 1), torch.float16)), "mm")


def test_an_error_in_the_plug_in_never_ends_a_compile(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    torch_diode.install()
    monkeypatch.setattr("torch_diode.selection.problem_of", lambda *arguments: 1 / 0)
    assert mm().kernels()[0].startswith("extern_kernels.mm(")
    mm()
    assert torch_diode.get_stats()["fallback_error"] == 2
    assert len([record for record in caplog.records if "ZeroDivisionError" in record.message]) == 1


def test_predictions_are_cached_unless_told_otherwise() -> None:
    from torch_diode import Model
    from workspace import MODEL

    model = Model.load(MODEL)
    torch_diode.install(model=model)
    mm()
    known = model.cached
    for _ in range(3):
        mm()
    assert model.cached == known > 0
    with config.patch(diode_cache_predictions=False):
        mm(520)
    assert model.cached == known


def test_counts_can_be_set_to_zero_and_keep_their_keys() -> None:
    torch_diode.install()
    mm()
    before = torch_diode.get_stats()
    assert (before["total_predictions"], before["fallbacks"]) == (1, 0)
    assert 0.5 < before["avg_confidence"] <= 1
    torch_diode.reset_stats()
    after = torch_diode.get_stats()
    assert set(after) == set(before) and after["total_calls"] == 0 and after["avg_confidence"] is None
    assert not torch_diode.explain()


def test_the_predecessors_handler_picks_with_its_own_parameters() -> None:
    from torch._inductor.virtualized import V

    from workspace import MODEL

    handler = create_diode_choices(model_path=str(MODEL), device="cuda", top_k_configs=3, enable_fallback=True)
    with V.set_choices_handler(handler), config.patch(max_autotune_gemm=True), offered() as lists:
        mm()
    assert len(lists[0]) == 3
    assert handler.get_stats()["model_selections"] == 1
    handler.reset_stats()
    assert handler.get_stats()["total_calls"] == 0
    strict = DiodeInductorChoices(model_path=str(MODEL), enable_fallback=False)
    refused = pytest.raises(Exception, match="nothing was picked, and enable_fallback is False")
    with V.set_choices_handler(strict), config.patch(max_autotune_gemm=True), offered(), refused:
        compile(aten._int_mm.default, tensor((64, 64), torch.int8), tensor((64, 64), torch.int8))


def test_the_predecessors_installation_sets_the_handler() -> None:
    from torch._inductor.virtualized import V

    from workspace import MODEL

    handler = torch_diode.install_diode_choices(model_path=str(MODEL), top_k_configs=2, performance_threshold=1.5)
    assert V.choices is handler
    with offered() as lists:
        mm(4096, 4096, 4096)
    assert len(lists[0]) == 2
    torch_diode.uninstall()
    assert not isinstance(V.choices, DiodeInductorChoices)
    assert active_selector() is None
