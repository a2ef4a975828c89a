"""The three kinds of heuristic, alone and in turn."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_diode
from simulated import compile, tensor
from torch_diode import Config, DiodeError, Model, Table
from torch_diode.choices import active_selector

pytestmark = pytest.mark.usefixtures("gpu")

KEY = "((torch.bfloat16, [512, 256], [256, 1]), (torch.bfloat16, [256, 1024], [1024, 1]))+mm"


def mm() -> Any:
    return compile(torch.mm, tensor((512, 256)), tensor((256, 1024)))


def tile(block_m: int = 128, **changes: Any) -> dict[str, Any]:
    return {
        "template": "triton::mm",
        "block_m": block_m,
        "block_n": 64,
        "block_k": 32,
        "num_stages": 3,
        "num_warps": 4,
        **changes,
    }


def table(*configs: dict[str, Any], hardware: str = "nvidia-h200") -> dict[str, Any]:
    return {
        "format": "diode-table/1",
        "hardware": {"slug": hardware, "name": "NVIDIA H200", "vendor": "nvidia", "facts": None},
        "method": "median-cold-event",
        "entries": [{"problem": problem(), "configs": list(configs)}],
    }


def problem(**changes: Any) -> dict[str, Any]:
    bf16 = "bfloat16"
    return {
        "op": "mm", "b": 1, "m": 512, "n": 1024, "k": 256, "a_dtype": bf16, "b_dtype": bf16, "out_dtype": bf16,
        "a_layout": "row", "b_layout": "row", "bias": "none", **changes,
    }  # fmt: skip


def entry(block_m: int = 128, **changes: Any) -> dict[str, Any]:
    return {
        "template_id": "triton::mm", "EVEN_K": True, "USE_FAST_ACCUM": False, "ACC_TYPE": "tl.float32", "num_stages": 3,
        "num_warps": 4, "BLOCK_M": block_m, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "hint_override": None, **changes,
    }  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.json"


def test_a_table_decides_and_its_edit_takes_effect_at_the_next_compile(path: Path) -> None:
    path.write_text(json.dumps(table(tile(128))))
    torch_diode.install(table=path)
    assert mm().constants("BLOCK_M") == ["128"]
    before = active_selector().digest()
    if shutil.which("jq"):
        edited = subprocess.check_output(["jq", ".entries[0].configs[0].block_m = 32", str(path)], text=True)
    else:
        edited = json.dumps(table(tile(32)))
    path.write_text(edited)
    assert mm().constants("BLOCK_M") == ["32"]
    assert active_selector().digest() != before, "the cache of graphs sees the edit"
    [pick] = torch_diode.history()[-1:]
    assert (pick.source, pick.why) == ("table", "listed in a table of 1 problems")


def test_a_broken_edit_keeps_the_last_good_table(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text(json.dumps(table(tile(128))))
    torch_diode.install(table=path)
    path.write_text("{ this is not JSON")
    assert mm().constants("BLOCK_M") == ["128"]
    assert mm().constants("BLOCK_M") == ["128"]
    said = [record.message for record in caplog.records if "last good content" in record.message]
    assert len(said) == 1 and str(path) in said[0]


def test_a_table_in_inductors_form_decides_by_inductors_keys(path: Path) -> None:
    path.write_text(json.dumps({KEY: [entry(64)]}))
    torch_diode.install(table=path)
    assert mm().constants("BLOCK_M") == ["64"]
    path.write_text(json.dumps({f"NVIDIA H200+{KEY}": [entry(16)], KEY: [entry(64)]}))
    assert mm().constants("BLOCK_M") == ["16"], "the device's own key comes first"
    path.write_text(json.dumps({KEY: [{"template_id": "aten::mm"}]}))
    assert mm().kernels()[0].startswith("extern_kernels.mm(")


def test_an_entry_needs_no_parameter_that_all_kernels_share(path: Path) -> None:
    short = {name: value for name, value in entry(64).items() if name.startswith(("template", "BLOCK", "num"))}
    path.write_text(json.dumps({KEY: [short]}))
    torch_diode.install(table=path)
    assert mm().constants("BLOCK_M") == ["64"]


def test_a_table_that_changes_in_the_program_does_not_change_what_was_installed() -> None:
    given = {KEY: [entry(64)]}
    torch_diode.install(table=given)
    given.clear()
    assert mm().constants("BLOCK_M") == ["64"]


def test_an_entry_for_another_source_of_the_template_is_passed_over(path: Path) -> None:
    path.write_text(json.dumps({KEY: [entry(64, template_hash="0" * 64)]}))
    torch_diode.install(table=path)
    mm()
    [pick] = torch_diode.explain()
    assert pick.source == "model" and "not offered" in pick.dropped[0]


def test_even_k_of_a_table_is_never_taken_on_trust(path: Path) -> None:
    key = KEY.replace("256", "250").replace("[512, 250], [250, 1]", "[512, 250], [250, 1]")
    path.write_text(json.dumps({key: [entry(64)]}))
    torch_diode.install(table=path)
    code = compile(torch.mm, tensor((512, 250)), tensor((250, 1024)))
    assert (code.constants("BLOCK_M"), code.constants("EVEN_K")) == (["64"], ["False"])


def test_the_export_of_a_table_is_a_table_of_inductors() -> None:
    ours = Table.from_json(json.dumps(table(tile(64))))
    exported = json.loads(ours.to_inductor_json())
    assert list(exported) == [f"NVIDIA H200+{KEY}"]
    torch_diode.install(table=exported)
    assert mm().constants("BLOCK_M") == ["64"]


def test_an_export_for_one_torch_is_used_where_its_template_is_the_same() -> None:
    from torch._inductor.kernel.mm import mm_template

    ours = Table.from_json(json.dumps(table(tile(64))))
    exported = json.loads(ours.to_inductor_json(torch="2.11.0"))
    [entry] = exported[f"NVIDIA H200+{KEY}"]
    same = entry["template_hash"] == mm_template.src_hash
    assert same == torch.__version__.startswith(("2.10.", "2.11.")), "later ones have other casts of indices"
    torch_diode.install(table=exported)
    mm()
    assert torch_diode.explain()[0].source == ("table" if same else "model")


def test_what_a_table_does_not_list_goes_to_the_model_or_to_the_nearest(path: Path) -> None:
    path.write_text(json.dumps({**table(tile(64)), "entries": [{"problem": problem(m=640), "configs": [tile(64)]}]}))
    torch_diode.install(table=path)
    mm()
    assert torch_diode.explain()[0].source == "model"
    torch_diode.install(table=path, nearest=True)
    mm()
    [pick] = torch_diode.explain()
    assert (pick.source, pick.picks[0].config.block_m) == ("table", 64)
    assert "nearest" in pick.why


def test_a_table_of_other_hardware_is_passed_over(path: Path) -> None:
    path.write_text(json.dumps(table(tile(64), hardware="nvidia-h100")))
    torch_diode.install(table=path)
    mm()
    assert torch_diode.explain()[0].source == "model"


def test_a_function_comes_first_then_the_table_then_the_model(path: Path) -> None:
    path.write_text(json.dumps(table(tile(64))))
    asked = []

    def only_wide(problem: torch_diode.Problem) -> Any:
        asked.append(problem.n)
        return tile(16) if problem.n > 2000 else None

    torch_diode.install(heuristic=only_wide, table=path)
    assert mm().constants("BLOCK_M") == ["64"]
    wide = compile(torch.mm, tensor((512, 256)), tensor((256, 4096)))
    assert wide.constants("BLOCK_M") == ["16"]
    compile(torch.mm, tensor((256, 256)), tensor((256, 1024)))
    assert asked == [1024, 4096, 1024]
    assert [pick.source for pick in torch_diode.history()] == ["table", "function", "model"]
    stats = torch_diode.get_stats()
    assert (stats["table_selections"], stats["function_selections"], stats["model_selections"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "given",
    [
        Config("triton::mm", block_m=32, block_n=64, block_k=32, num_stages=3, num_warps=4),
        {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "num_stages": 3, "num_warps": 4},
        [tile(32), tile(64)],
    ],
)
def test_functions_answer_in_several_spellings(given: Any) -> None:
    torch_diode.install(heuristic=lambda problem: given)
    assert mm().constants("BLOCK_M") == ["32"]


def test_a_function_that_fails_is_counted_logged_once_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    def broken(problem: torch_diode.Problem) -> None:
        raise KeyError("no idea")

    torch_diode.install(heuristic=broken)
    mm()
    mm()
    assert [pick.source for pick in torch_diode.history()] == ["model", "model"]
    assert torch_diode.get_stats()["fallback_error"] == 2
    [said] = [record.message for record in caplog.records if "no idea" in record.message]
    assert "function" in said and "broken failed: KeyError" in said, "which function it was"


def test_what_cannot_be_launched_is_dropped_with_the_reason() -> None:
    torch_diode.install(heuristic=[lambda problem: tile(256, block_n=256, block_k=128, num_stages=5, num_warps=8)])
    mm()
    [pick] = torch_diode.explain()
    assert pick.source == "model"
    assert "bytes of shared memory" in pick.dropped[0]
    assert torch_diode.get_stats()["configs_filtered"] == 1


def test_models_can_be_named_or_given(tmp_path: Path) -> None:
    from workspace import MODEL

    for model in (MODEL, str(MODEL), Model.load(MODEL), "NVIDIA-H200-matmul", "nvidia-h200", [MODEL]):
        torch_diode.install(model=model)
        mm()
        assert torch_diode.explain()[0].source == "model"
    with pytest.raises(DiodeError, match="got `nothing`, expected a file or one of: NVIDIA-H100-matmul, NVIDIA-H200-matmul"):
        torch_diode.install(model="nothing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({KEY: [{"BLOCK_M": 64}]}, "template_id"),
        ({KEY: [entry(48)]}, "block_m: got 48, expected a power of two"),
        ({KEY: [entry(-64)]}, "entry 1"),
        ({KEY: [entry(2**40)]}, "entry 1"),
        ({KEY: [{"template_id": 5}]}, "template_id"),
        ("[" * 100_000, "expected a string"),
        ({"format": "diode-table/1"}, "missing field"),
        ("{", "the text ends within an object"),
    ],
)
def test_a_bad_table_is_refused_when_it_is_installed(content: Any, message: str, path: Path) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DiodeError, match=message):
        torch_diode.install(table=path)
    assert not torch_diode.is_installed()
