"""Recording what a program compiles: problems to measure, and picks to ship."""

from __future__ import annotations

import collections
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.lookup_table import LookupTableChoices
from torch._inductor.virtualized import V

import torch_diode
from simulated import code_of, compile, tensor
from torch_diode import DiodeError, Problem, Recording
from torch_diode.heuristics.function import as_heuristic
from workspace import ROOT

pytestmark = pytest.mark.usefixtures("gpu")

TILE = {"block_m": 64, "block_n": 128, "block_k": 32, "num_stages": 3, "num_warps": 4}
x, w, bias = tensor((512, 256)), tensor((256, 1024)), tensor((1024,))
LINEAR = Problem("addmm", 512, 1024, 256, "bfloat16", b_layout="column", bias="vector")


def linear(x: Any, w: Any, bias: Any) -> Any:
    return torch.nn.functional.linear(x, w, bias).relu()


def compile_some() -> None:
    for _ in range(2):
        compile(linear, x, tensor((1024, 256)), bias)
    compile(lambda a, b: a @ b, x, w)
    compile(lambda q, k: torch.softmax(q @ k.transpose(-1, -2), -1), tensor((8, 128, 64)), tensor((8, 128, 64)))
    compile(torch.mm, tensor((64, 64), torch.float64), tensor((64, 64), torch.float64))


def test_every_multiplication_is_counted_with_what_follows_it() -> None:
    with torch_diode.record() as recording:
        compile_some()
    found = {one.problem.label: (one.followers, count) for one, count in recording.counts.items()}
    assert found == {
        "addmm 512×1024×256 bfloat16 nt": (("relu",), 2),
        "mm 512×1024×256 bfloat16 nn": (("output",), 1),
        "bmm 8×128×128×64 bfloat16 nt": (("convert_element_type",), 1),
    }
    assert recording.problems[0] == LINEAR, "the most frequent one first"
    assert dict(recording.skipped) == {"mm, since it computes in float64; fp16, bf16 and fp32 are supported": 1}
    assert str(recording).startswith("2 × addmm 512×1024×256 bfloat16 nt, then relu\n")


def test_recording_changes_no_code_and_leaves_nothing() -> None:
    from test_installation import state

    before = state()
    with config.patch(force_disable_caches=True):
        alone = code_of(linear, x, tensor((1024, 256)), bias)
    with torch_diode.record() as recording:
        assert code_of(linear, x, tensor((1024, 256)), bias) == alone
        assert config.force_disable_caches and not torch_diode.is_installed()
    assert state() == before and not config.force_disable_caches
    assert len(recording.counts) == 1 and recording.table == {}, "nothing was picked"
    torch_diode.install()
    during = state()
    with torch_diode.record():
        assert torch_diode.is_installed()
    assert state() == during


def test_recordings_that_overlap_do_not_end_one_another() -> None:
    first, second = torch_diode.record(), torch_diode.record()
    outer, inner = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    torch_diode.install()
    torch_diode.uninstall()
    compile(torch.mm, x, w)
    second.__exit__(None, None, None)
    assert (len(outer.counts), len(inner.counts)) == (0, 1)


def test_a_handler_that_is_made_while_something_is_recorded_goes_on_picking() -> None:
    with torch_diode.record():
        handler = torch_diode.DiodeInductorChoices(heuristics=[as_heuristic(lambda problem: TILE)])
    with V.set_choices_handler(handler), config.patch(max_autotune_gemm=True):
        assert compile(torch.mm, x, w).constants("BLOCK_N") == ["128"]


def test_an_error_in_recording_never_ends_a_compile(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("torch_diode.recording.problem_of", lambda *arguments: 1 / 0)
    with torch_diode.record() as recording:
        compile_some()
    assert not recording.counts
    assert len([one for one in caplog.records if "was not recorded" in one.message]) == 1


def test_the_problems_are_a_list_that_diode_measures(tmp_path: Path, diode: str) -> None:
    with torch_diode.record() as recording:
        compile(linear, tensor((32, 16), torch.float32), tensor((24, 16), torch.float32), tensor((24,), torch.float32))
        compile(torch.bmm, tensor((2, 8, 16), torch.float32), tensor((2, 16, 8), torch.float32))
    path = tmp_path / "problems.json"
    with pytest.raises(DiodeError, match="^/no/folder/problems.json: No such file or directory$"):
        recording.save_problems("/no/folder/problems.json")
    recording.save_problems(path)
    measured = tmp_path / "measured.msgpack.zst"
    subprocess.run([diode, "collect", "--problems", path, "--output", measured], check=True, capture_output=True)
    assert set(torch_diode.Dataset.load(measured).problems) == set(recording.problems)


def picks(problem: Problem) -> Any:
    return "aten" if problem.op == "bmm" else TILE


@pytest.fixture
def recorded() -> Recording:
    torch_diode.install(heuristic=picks)
    with torch_diode.record() as recording:
        compile_some()
    torch_diode.uninstall()
    return recording


def test_the_picks_are_a_table_for_us(recorded: Recording, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    recorded.save_table(path)
    assert len(json.loads(path.read_text())) == 3
    torch_diode.install(table=path, model=[])
    code = compile(linear, x, tensor((1024, 256)), bias)
    assert code.constants("BLOCK_N") == ["128"] and torch_diode.explain()[0].source == "table"
    compile(lambda q, k: q @ k.transpose(-1, -2), tensor((8, 128, 64)), tensor((8, 128, 64)))
    assert torch_diode.explain()[-1].picks[0].config.is_library


@pytest.mark.parametrize(
    ("function", "inputs"),
    [(lambda a, b: a @ b, (x, w)), (lambda q, k: q @ k.transpose(-1, -2), (tensor((8, 128, 64)),) * 2)],
    ids=["tile", "library"],
)
def test_the_picks_are_a_table_for_inductor_alone(recorded: Recording, function: Callable[..., Any], inputs: Any) -> None:
    counters.clear()
    settings = {"max_autotune_gemm": True, "lookup_table.table": dict(recorded.table)}
    available = mock.patch("torch.cuda.is_available", lambda: True)
    with available, config.patch(settings), V.set_choices_handler(LookupTableChoices()):
        code = compile(function, *inputs)
    assert code.constants("BLOCK_N") == (["128"] if inputs[0] is x else [])
    assert not [name for name in counters["inductor"] if name.startswith("select_algorithm")], "nothing is benchmarked"


def test_the_documents_code_for_inductors_table_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guides/tables.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "lookup.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    torch.compiler.reset()
    names: dict[str, Any] = {"model": torch.nn.Linear(16, 8, bias=False)}
    exec(code, names)
    with torch.no_grad():
        assert names["fast"](torch.ones(4, 16)).shape == (4, 8)


class Small(torch.nn.Module):
    """Two layers and a product of batches. On a CPU it needs no C++ compiler, because nothing is computed between them."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 128, device=device, dtype=torch.bfloat16)
        self.second = torch.nn.Linear(128, 32, bias=False, device=device, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor, batch: torch.Tensor) -> Any:
        return self.second(self.first(x)), batch @ batch.transpose(1, 2)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_laptop_lists_a_models_multiplications(device: str) -> None:
    torch.compiler.reset()
    inputs = torch.empty(8, 64, device=device, dtype=torch.bfloat16), torch.empty(2, 4, 16, device=device, dtype=torch.bfloat16)
    with torch.no_grad(), torch_diode.record() as recording:
        torch.compile(Small(device))(*inputs)
    assert {one.problem.label: (one.followers, count) for one, count in recording.counts.items()} == {
        "addmm 8×128×64 bfloat16 nt": (("mm",), 1),
        "mm 8×32×128 bfloat16 nt": (("output",), 1),
        "bmm 2×4×4×16 bfloat16 nt": (("output",), 1),
    }
    assert not recording.skipped and recording.problems[0].bias == "vector"


class Llama(torch.nn.Module):
    """A layer as in Llama: four heads, of which two share their keys and values, and an MLP with a gate."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {
            "q": (64, 64),
            "k": (64, 32),
            "v": (64, 32),
            "o": (64, 64),
            "gate": (64, 160),
            "up": (64, 160),
            "down": (160, 64),
        }
        made = lambda ins, outs: torch.nn.Linear(ins, outs, bias=False, device="meta", dtype=torch.bfloat16)
        self.linear = torch.nn.ModuleDict({name: made(*size) for name, size in sizes.items()})
        self.norms = torch.nn.ModuleList([torch.nn.RMSNorm(64, device="meta", dtype=torch.bfloat16) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear, y, tokens = self.linear, self.norms[0](x), x.shape[0]
        heads = lambda name, count: linear[name](y).view(tokens, count, 16).transpose(0, 1)
        q, k, v = heads("q", 4), heads("k", 2).repeat_interleave(2, 0), heads("v", 2).repeat_interleave(2, 0)
        x = x + linear["o"]((torch.softmax(q @ k.transpose(1, 2), -1) @ v).transpose(0, 1).reshape(tokens, 64))
        y = self.norms[1](x)
        return x + linear["down"](torch.nn.functional.silu(linear["gate"](y)) * linear["up"](y))


def test_a_laptop_lists_the_multiplications_of_a_transformer() -> None:
    torch.compiler.reset()
    with torch.no_grad(), torch_diode.record() as recording:
        torch.compile(Llama())(torch.empty(8, 64, device="meta", dtype=torch.bfloat16))
    found: collections.Counter[str] = collections.Counter()
    for one, count in recording.counts.items():
        found[one.problem.label] += count
    assert found == {
        "mm 8×64×64 bfloat16 nt": 2,
        "mm 8×32×64 bfloat16 nt": 2,
        "bmm 4×8×8×16 bfloat16 nt": 1,
        "bmm 4×8×16×8 bfloat16 nn": 1,
        "mm 8×160×64 bfloat16 nt": 2,
        "mm 8×64×160 bfloat16 nt": 1,
    }


class Served(torch.nn.Module):
    """A product in fp8 by row and one of experts, as models are served with."""

    def forward(self, x: Any, w: Any, sx: Any, sw: Any, experts: Any, ends: Any, integers: Any) -> Any:
        y = torch._scaled_mm(x, w.t(), sx, sw, out_dtype=torch.bfloat16, use_fast_accum=True)
        return torch._grouped_mm(y, experts, offs=ends), torch._int_mm(integers, integers.t()) * sx[0]


def test_a_laptop_lists_what_models_are_served_with(tmp_path: Path) -> None:
    torch.compiler.reset()
    made = lambda *sizes, dtype=torch.bfloat16: torch.empty(sizes, device="meta", dtype=dtype)
    f8, f32 = torch.float8_e4m3fn, torch.float32
    inputs = (
        made(64, 256, dtype=f8), made(128, 256, dtype=f8), made(64, 1, dtype=f32), made(1, 128, dtype=f32),
        made(8, 128, 32), made(8, dtype=torch.int32), made(64, 64, dtype=torch.int8),
    )  # fmt: skip
    with torch.no_grad(), torch_diode.record() as recording:
        torch.compile(Served())(*inputs)
    assert {one.problem.label: one.followers for one in recording.counts} == {
        "scaled_mm 64×128×256 float8_e4m3fn nt row": ("_grouped_mm",),
        "grouped_mm 64×32×128 bfloat16 nn groups 8 top1": ("output",),
        "scaled_mm 64×64×64 int8 nt row": ("mul",),
    }, recording.skipped


def test_recordings_of_meta_tensors_nest_and_leave_a_users_pass() -> None:
    seen: list[Any] = []
    model, x = torch.nn.Linear(64, 32, device="meta"), torch.empty(8, 64, device="meta")

    def compile_once() -> None:
        torch.compiler.reset()
        torch.compile(model)(x)

    with torch.no_grad(), config.patch(joint_custom_pre_pass=seen.append):
        first, second = torch_diode.record(), torch_diode.record()
        outer, inner = first.__enter__(), second.__enter__()
        compile_once()
        first.__exit__(None, None, None)
        compile_once()
        second.__exit__(None, None, None)
        compile_once()
        assert config.joint_custom_pre_pass == seen.append
    assert (sum(outer.counts.values()), sum(inner.counts.values())) == (1, 2)
    assert len(seen) == 3


def test_a_training_step_on_meta_tensors_has_its_backward_pass() -> None:
    torch.compiler.reset()
    model, x = torch.nn.Linear(64, 32, device="meta"), torch.empty(8, 64, device="meta", requires_grad=True)
    with torch_diode.record() as recording:
        torch.compile(model)(x)
    assert sorted(problem.label for problem in recording.problems) == [
        "addmm 8×32×64 float32 nt",
        "mm 32×64×8 float32 tn",
        "mm 8×64×32 float32 nn",
    ]
