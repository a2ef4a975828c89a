"""Kernels of unaligned rows, which hide strides from `ptxas` as the kernels of packs do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._inductor.kernel import mm

import torch_diode
from simulated import Compiled, compile, gpu, tensor
from torch_diode.inductor import hiding

pytestmark = pytest.mark.usefixtures("gpu")

TILE = {"block_m": 32, "block_n": 64, "block_k": 16, "num_stages": 2, "num_warps": 4}
HIDDEN = re.compile(r"hidden_([ab]) = \((\d+) // (\d+) \+ tl\.program_id\(2\)\.to\(tl\.int64\)\) \* (\d+)")


def product(
    a: tuple[int | str, ...],
    b: tuple[int | str, ...],
    layout: str = "nn",
    dtype: torch.dtype = torch.bfloat16,
    stages: int = TILE["num_stages"],
) -> Compiled:
    """The product of two matrices, of which `t` in the layout names a transposed one."""
    turned = [letter == "t" for letter in layout]
    torch_diode.install(heuristic=lambda problem: {**TILE, "num_stages": stages})
    found = compile(
        lambda a, b: ((a.t() if turned[0] else a) @ (b.t() if turned[1] else b)).relu(), tensor(a, dtype), tensor(b, dtype)
    )
    assert torch_diode.history()[-1].source == "function"
    return found


def hidden(code: Compiled) -> dict[str, tuple[int, int]]:
    """The hidden strides in the code, and what divides them."""
    found = HIDDEN.findall(code.code)
    assert all(by == times for _, _, by, times in found)
    return {operand: (int(stride), int(by)) for operand, stride, by, _ in found}


@pytest.mark.parametrize(
    ("a", "b", "layout", "dtype", "strides"),
    [
        ((128, 777), (128, 256), "tn", torch.bfloat16, {"a": (777, 1), "b": (256, 8)}),
        ((128, 768), (128, 99), "tn", torch.float16, {"a": (768, 8), "b": (99, 1)}),
        ((100, 128), (128, 99), "nn", torch.bfloat16, {"a": (128, 8), "b": (99, 1)}),
    ],
)
def test_strides_are_hidden_if_the_rows_of_one_operand_are_unaligned(
    a: tuple[int, ...], b: tuple[int, ...], layout: str, dtype: torch.dtype, strides: dict[str, tuple[int, int]]
) -> None:
    code = product(a, b, layout, dtype)
    assert hidden(code) == strides
    assert "range(0, tl.cdiv(K, BLOCK_K) + tl.program_id(2))" in code.code
    assert len(code.kernels()) == 2, "one kernel, once defined and once run: the relu is inside"


@pytest.mark.parametrize(
    ("a", "b", "layout", "dtype"),
    [
        ((128, 768), (128, 256), "tn", torch.bfloat16),
        ((128, 777), (128, 99), "tn", torch.bfloat16),
        ((128, 770), (128, 256), "tn", torch.bfloat16),
        ((100, 99), (99, 256), "nn", torch.bfloat16),
        ((128, 777), (256, 128), "tt", torch.bfloat16),
        ((64, 99), (256, 99), "nt", torch.bfloat16),
        ((128, "m=777"), (128, 256), "tn", torch.bfloat16),
        ((128, 1), (128, 256), "tn", torch.bfloat16),
        ((128, 777), (128, 256), "tn", torch.float32),
    ],
    ids=[
        "all rows are aligned",
        "no rows are aligned",
        "aligned to 4 bytes",
        "unaligned along K",
        "B with rows along K",
        "no rows are aligned, nt",
        "a size may change",
        "one column",
        "fp32",
    ],
)
def test_other_kernels_are_those_of_inductor(
    a: tuple[int | str, ...], b: tuple[int | str, ...], layout: str, dtype: torch.dtype
) -> None:
    code = product(a, b, layout, dtype)
    assert not hidden(code) and "program_id(2)" not in code.code


def test_a_kernel_of_one_stage_is_that_of_inductor_if_a_has_rows_along_k() -> None:
    assert hidden(product((100, 128), (128, 99), "nn", stages=2))
    assert not hidden(product((100, 128), (128, 99), "nn", stages=1))
    assert hidden(product((128, 777), (128, 256), "tn", stages=1))


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090"])
def test_on_other_hardware_kernels_are_those_of_inductor(name: str) -> None:
    with gpu(name=name, gcnArchName=name, major=8):
        assert not hidden(product((128, 777), (128, 256), "tn"))


def test_with_another_template_of_a_future_torch_kernels_are_those_of_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    hiding._edited.cache_clear()
    monkeypatch.setattr(mm, "load_kernel_template", lambda name: "another text")
    try:
        assert not hidden(product((128, 777), (128, 256), "tn"))
    finally:
        hiding._edited.cache_clear()


def test_the_models_picks_hide_strides() -> None:
    with gpu(name="NVIDIA H100 80GB HBM3", gcnArchName="NVIDIA H100 80GB HBM3"):
        torch_diode.install()
        code = compile(lambda a, b: a.t() @ b, tensor((2048, 50257)), tensor((2048, 768)))
    assert torch_diode.history()[-1].source == "model" and not torch_diode.history()[-1].picks[0].config.is_library
    assert hidden(code) == {"a": (50257, 1), "b": (768, 8)}


RUN = """
import builtins
import torch, triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

def range(first, end):
    # With newer NumPy, a tensor of Triton's interpreter is no number for Python's range.
    return builtins.range(first, end.handle.data.item())

{kernel}
torch.manual_seed(0)
a, b = torch.randn({a}).half(), torch.randn({b}).half()
m, n = a{turned_a}.shape[0], b.shape[1]
found = torch.full((m, n), float("nan"), dtype=torch.half)
{name}[(-(-m // {block_m}) * -(-n // {block_n}), 1, 1)](a, b, found)
assert torch.allclose(found.float(), (a.float(){turned_a} @ b.float()).relu(), atol=0.02), "another product"
"""


@pytest.mark.parametrize(
    ("a", "b", "layout"), [((48, 77), (48, 72), "tn"), ((48, 72), (48, 77), "tn"), ((50, 40), (40, 71), "nn")]
)
def test_a_kernel_with_hidden_strides_computes_the_product(
    a: tuple[int, ...], b: tuple[int, ...], layout: str, tmp_path: Path
) -> None:
    code = product(a, b, layout, torch.float16).code
    assert "hidden_a" in code
    kernel = code[code.index("@triton.jit") : code.index("''', device_str")]
    [name] = re.findall(r"def (\w+)\(", kernel)
    script = tmp_path / "run.py"
    turned = ".t()" if layout[0] == "t" else ""
    blocks = {size: TILE[size] for size in ("block_m", "block_n")}
    script.write_text(RUN.format(kernel=kernel, name=name, a=a, b=b, turned_a=turned, **blocks))
    # Triton runs its kernels on the CPU if it is told so before it is imported.
    done = subprocess.run([sys.executable, script], env={"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
