"""Collecting what Inductor measures, here with given times instead of measured ones."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch._inductor.select_algorithm import add_feedback_saver, get_algorithm_selector_cache

import torch_diode
from simulated import benchmarks, compile, tensor
from torch_diode import Config, DiodeError, MatmulDatasetCollector, Problem, choices

pytestmark = pytest.mark.usefixtures("gpu")

aten = torch.ops.aten


libraries: set[str] = set()
"""The names under which the library was timed."""


def milliseconds(choice: Any) -> float:
    """The library takes 0.01 ms, under one of its names 0.02. A tile takes 0.1 ms per stage; with 8 warps it fails."""
    params = choice.annotations["ktc"].params.to_serializeable_dict()
    if "num_warps" not in params:
        libraries.add(choice.name)
        return 0.02 if choice.name.startswith("addmm") else 0.01
    return float("inf") if params["num_warps"] == 8 else 0.1 * params["num_stages"]


def state() -> tuple[Any, ...]:
    names = ("max_autotune_gemm", "autotune_local_cache", "max_autotune_gemm_search_space")
    caches = torch.compiler.config.force_disable_caches
    return (*(getattr(config, name) for name in names), caches, list(get_algorithm_selector_cache().feedback_saver_fns))


@pytest.fixture
def collected() -> MatmulDatasetCollector:
    torch_diode.install()
    with benchmarks(milliseconds), MatmulDatasetCollector("NVIDIA H200") as collector:
        compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
        compile(lambda x, w, b: torch.nn.functional.linear(x, w, b), tensor((64, 512)), tensor((1024, 512)), tensor((1024,)))
        compile(torch.bmm, tensor((4, 64, 128), torch.float16), tensor((4, 128, 64), torch.float16))
        compile(aten.baddbmm.default, tensor((4, 64, 64)), tensor((4, 64, 128)), tensor((4, 128, 64)))
        compile(torch.mm, tensor((64, 4096)), tensor((4096, 64)))
    return collector


def test_every_op_layout_type_and_the_library_are_recorded(collected: MatmulDatasetCollector) -> None:
    dataset = collected.get_dataset()
    bf16 = "bfloat16"
    assert dataset.problems == [
        Problem("mm", 512, 1024, 256, bf16),
        Problem("addmm", 64, 1024, 512, bf16, b_layout="column", bias="vector"),
        Problem("bmm", 64, 64, 128, "float16", b=4),
        Problem("baddbmm", 64, 64, 128, bf16, b=4, bias="matrix"),
        Problem("mm", 64, 64, 4096, bf16),
    ]
    assert set(dataset.methods) == {"minimum-cold-event"}
    assert dataset.failures > 5
    linear = dataset.times(dataset.problems[1])
    fastest = 0.01 if "bias_addmm" in libraries else 0.02
    assert linear[0] == (Config("aten"), fastest), "the fastest of the names under which the library is offered"
    assert [config for config, _ in linear].count(Config("aten")) == 1
    templates = {config.template for problem in dataset.problems for config, _ in dataset.times(problem)}
    assert templates == {"aten", "triton::mm", "triton::bmm", "decompose_k"}
    assert torch_diode.get_stats()["total_calls"] == 0, "nothing is picked while Inductor measures"
    assert collected.skipped == 0


def test_flags_are_those_that_ran() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with benchmarks(milliseconds), MatmulDatasetCollector(operations=["mm"]) as collector:
            compile(torch.mm, tensor((512, 1050), torch.float32), tensor((1050, 1024), torch.float32))
            compile(torch.bmm, tensor((4, 64, 128)), tensor((4, 128, 64)))
    finally:
        torch.set_float32_matmul_precision(before)
    [problem] = collector.get_dataset().problems
    tiles = [config.to_dict() for config, _ in collector.get_dataset().times(problem) if not config.is_library]
    assert tiles and all(tile["allow_tf32"] and "even_k" not in tile for tile in tiles)
    assert collector.skipped > 0, "bmm was not asked for"


def test_everything_is_restored_and_others_savers_stay() -> None:
    def mine(*arguments: Any) -> None: ...

    add_feedback_saver(mine)
    before = state()
    collector = MatmulDatasetCollector(search_space="EXHAUSTIVE")
    collector.start_collection()
    assert state() != before and config.max_autotune_gemm_search_space == "EXHAUSTIVE"
    collector.start_collection()
    collector.stop_collection()
    collector.stop_collection()
    assert state() == before
    with pytest.raises(ZeroDivisionError), MatmulDatasetCollector():
        raise ZeroDivisionError
    assert state() == before
    get_algorithm_selector_cache().feedback_saver_fns.remove(mine)


def test_collectors_and_recordings_end_in_any_order() -> None:
    torch_diode.install()
    before = state()
    for order in itertools.permutations(range(3)):
        first, second = MatmulDatasetCollector(), MatmulDatasetCollector(search_space="EXHAUSTIVE")
        contexts: list[contextlib.AbstractContextManager[Any]] = [first, torch_diode.record(), second]
        for context in contexts:
            context.__enter__()
        for index in order:
            assert state() != before
            contexts[index].__exit__(None, None, None)
        assert state() == before, order
        assert choices.active_selector() is not None, order


def test_a_collector_that_has_ended_records_nothing_while_a_later_one_goes_on() -> None:
    first, second = MatmulDatasetCollector(), MatmulDatasetCollector()
    first.start_collection()
    second.start_collection()
    first.stop_collection()
    with benchmarks(milliseconds):
        compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))
    second.stop_collection()
    assert (len(first.get_dataset().problems), len(second.get_dataset().problems)) == (0, 1)


@pytest.mark.parametrize("ending", ["json", "msgpack", "msgpack.zst"])
def test_files_round_trip_also_through_the_program(
    ending: str, collected: MatmulDatasetCollector, tmp_path: Path, diode: str
) -> None:
    path = tmp_path / f"timings.{ending}"
    collected.save_to_file(path)
    again = MatmulDatasetCollector("NVIDIA H200")
    again.load_from_file(path)
    # torch-diode's formats can hold neither the library nor split-K, and the last problem has
    # nothing else.
    assert len(again.get_dataset()) == (5 if ending == "msgpack.zst" else 4)
    converted = tmp_path / "converted.csv"
    subprocess.run([diode, "convert", path, converted], check=True, capture_output=True)
    assert converted.read_text().count("triton::mm") > 10
    if ending == "msgpack.zst":
        back = tmp_path / "back.msgpack.zst"
        subprocess.run([diode, "convert", converted, back], check=True, capture_output=True)
        loaded = MatmulDatasetCollector("NVIDIA H200")
        loaded.load_from_file(back)
        for problem in collected.get_dataset().problems:
            assert loaded.get_dataset().times(problem) == collected.get_dataset().times(problem)


def test_what_was_collected_makes_a_table_that_decides(collected: MatmulDatasetCollector, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    collected.save_table_to_file(path, top=2)
    assert len(json.loads(path.read_text())["entries"][0]["configs"]) == 2
    torch_diode.install(table=path)
    assert compile(torch.mm, tensor((512, 256)), tensor((256, 1024))).kernels()[0].startswith("extern_kernels.mm(")
    assert torch_diode.explain()[0].source == "table"


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(DiodeError, match="operations: got `conv`, expected a list with some of mm, addmm, bmm, baddbmm"):
        MatmulDatasetCollector(operations=["conv"])
    with pytest.raises(DiodeError, match="search_space: got `ALL`"):
        MatmulDatasetCollector(search_space="ALL")
