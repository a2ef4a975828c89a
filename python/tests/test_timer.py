"""What `diode tune --measure` launches: the lists that a server makes of a batch's routing, and kernels out of a package."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import pytest
import torch

from workspace import ROOT


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("timer", ROOT / "collector/kernels/timer.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DEVICE", "cpu")
    return module


def batch(timer: ModuleType, reader: str, experts: int, choice: list[list[int]], *, spread: bool = False) -> Any:
    layer = {"reader": reader, "experts": experts, "spread": spread}
    made = timer.Batch(layer, {"tokens": len(choice), "top_k": len(choice[0])})
    made.choice = torch.tensor(choice).flatten().repeat(timer.ROUTINGS, 1)
    return made


def test_pairs_are_sorted_as_vllm_sorts_them(timer: ModuleType) -> None:
    made = batch(timer, "vllm", 3, [[0, 2], [2, 1], [0, 1]])
    ids, experts, used = made.sorted(4)
    length = made.length(4)
    assert length == 15 and used.rows[0, 0] == 12
    assert ids.rows[0, :length].tolist() == [0, 4, 6, 6, 3, 5, 6, 6, 1, 2, 6, 6, 6, 6, 6]
    assert experts.rows[0, :4].tolist() == [0, 1, 2, -1]


def test_few_pairs_have_a_block_each_in_vllm_alone(timer: ModuleType) -> None:
    choice = [[7, 3]]
    made = batch(timer, "vllm", 8, choice)
    assert made.unsorted and made.length(16) == 32
    assert made.sorted(16)[1].rows[0, :2].tolist() == [7, 3]
    # SGLang sorts always, and rounds the length up to a multiple of 4; vLLM sorts experts that are spread over GPUs.
    made = batch(timer, "sglang", 8, choice)
    assert not made.unsorted and made.length(16) == 32
    assert made.sorted(16)[1].rows[0, :2].tolist() == [3, 7]
    assert batch(timer, "sglang", 3, [[0, 2], [2, 1], [0, 1]]).length(4) == 20
    assert not batch(timer, "vllm", 8, choice, spread=True).unsorted


def test_a_kernel_is_taken_out_of_a_file_with_what_it_calls(timer: ModuleType) -> None:
    text = "import heavy\n\ndef helper(x):\n    return x\n\n@heavy.jit\ndef kernel(x):\n    return helper(x)\n\ndef other():\n    pass\n"
    alone = timer.alone(text, "kernel")
    assert "def helper" in alone and "@triton.jit\ndef kernel" in alone
    assert "heavy" not in alone and "other" not in alone


def test_packages_are_found_without_running_them(timer: ModuleType, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, name = timer.SOURCES["vllm", "experts"][0]
    source = tmp_path / path
    source.parent.mkdir(parents=True)
    (tmp_path / "vllm/__init__.py").write_text("raise SystemExit('it was imported')\n")
    source.write_text(f"def {name}(x):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = timer.Source("vllm", "experts", str(tmp_path))
    assert (made.kernel, made.package, made.version) == (name, str(tmp_path / "vllm"), None)
    with pytest.raises(LookupError):
        timer.Source("vllm", "dense", str(tmp_path))
