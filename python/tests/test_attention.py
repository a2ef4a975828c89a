"""FlexAttention: options of the nearest measured case, or torch's own code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import _create_empty_block_mask

import torch_diode
from simulated import code_of, compile, served_gpu, tensor
from torch_diode import Hardware
from torch_diode.heuristics.attention import Attention, AttentionRequest, AttentionTable, Options

DECODE = {"BLOCK_N": 64, "num_stages": 4, "num_warps": 2}
FORWARD = {"BLOCK_M": 128, "BLOCK_N": 64, "num_stages": 2, "num_warps": 8}


def entry(kind: str, options: dict[str, int] | None, **sizes: Any) -> dict[str, Any]:
    usual = {"dtype": "bfloat16", "head_dim": 128, "group": 4, "heads": 64, "q": 1, "kv": 8192, "mask": "full"}
    times = {"us": 100.0, "default_us": 220.0}
    return {"pass": kind, **usual, **sizes, **times, **({} if options is None else {"options": options})}


def table(path: Path, *entries: dict[str, Any]) -> AttentionTable:
    content = {"format": "torch_diode flex 1", "hardware": "nvidia-h200", "torch": "2.11.0", "entries": entries}
    path.write_text(json.dumps(content))
    return AttentionTable(str(path))


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with served_gpu():
        yield


def flex(score: Callable[..., Any], rows: int, **options: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def function(q: Any, k: Any, v: Any) -> Any:
        mask = _create_empty_block_mask(q, k).as_tuple()
        # The size of a block of such a mask is too large for a tensor's guard, so it is stated.
        mask = (*mask[:-3], 128, 128, mask[-1])
        flex = torch.ops.higher_order.flex_attention
        usual = {"PRESCALE_QK": False, "ROWS_GUARANTEED_SAFE": False, "BLOCKS_ARE_CONTIGUOUS": False, "WRITE_DQ": True}
        more = {"OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False} if torch.__version__ >= "2.10" else {"OUTPUT_LOGSUMEXP": True}
        return flex(q, k, v, score, mask, 0.088, {**usual, **more, **options}, (), ())[0]

    heads = 32 if rows > 1 else 8
    return function, (tensor((8, 32, rows, 128)), tensor((8, heads, 8192, 128)), tensor((8, heads, 8192, 128)))


def identity(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score


def alibi(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + (k - q)


@pytest.mark.parametrize(("kind", "rows", "options"), [("decode", 1, DECODE), ("forward", 1024, FORWARD)])
def test_the_nearest_measured_options_are_compiled(kind: str, rows: int, options: dict[str, int], tmp_path: Path) -> None:
    function, inputs = flex(identity, rows)
    without = code_of(function, *inputs)
    group = 4 if kind == "decode" else 1
    heads = 64 if kind == "decode" else 256
    known = table(tmp_path / "table.json", entry(kind, options, q=rows, heads=heads, group=group))
    torch_diode.install(heuristic=[known], model=[])
    code = compile(function, *inputs)
    for name, value in options.items():
        if name.startswith("BLOCK"):
            assert str(value) in code.constants(name), name
    [pick] = torch_diode.explain()
    assert pick.source == "table" and "2.20 times as fast as torch's options" in pick.why
    torch_diode.install(heuristic=[table(tmp_path / "none.json", entry(kind, None, q=rows, heads=heads, group=group))], model=[])
    assert code_of(function, *inputs) == without, "torch's options were the best there"
    torch_diode.uninstall()
    assert code_of(function, *inputs) == without, "nothing is left behind"


@pytest.mark.parametrize(("score", "options", "why"), [
    (identity, {"BLOCK_N": 32}, "the user's kernel_options set BLOCK_N"), (alibi, {}, "it changes scores"),
])  # fmt: skip
def test_the_users_options_and_unmeasured_scores_are_torchs(
    score: Callable[..., Any], options: dict[str, int], why: str, tmp_path: Path
) -> None:
    function, inputs = flex(score, 1, **options)
    without = code_of(function, *inputs)
    torch_diode.install(heuristic=[table(tmp_path / "table.json", entry("decode", DECODE))], model=[])
    assert code_of(function, *inputs) == without
    [pick] = torch_diode.explain()
    assert pick.source == "inductor" and why in pick.why


def test_what_is_far_from_every_case_or_on_other_hardware_is_torchs(tmp_path: Path) -> None:
    known = table(tmp_path / "table.json", entry("decode", DECODE))
    asked = lambda slug, **sizes: known.answer(
        AttentionRequest(Attention(**{"kind": "decode", "dtype": "bfloat16", "head_dim": 128, "group": 4, "heads": 64, "q": 1,
                                      "kv": 8192, "mask": "full", **sizes}), Hardware.find(slug))
    )  # fmt: skip
    assert asked("nvidia-h200").candidates[0].config == Options(DECODE)
    assert asked("nvidia-h200", kv=32768) is not None
    assert asked("nvidia-h200", kv=8192 * 16) is None
    assert asked("nvidia-h200", dtype="float16") is None
    assert asked("nvidia-h200", mask="causal") is not None, "a single row meets all keys"
    assert asked("nvidia-h200", mask="documents") is None
    assert asked("nvidia-h100") is None
