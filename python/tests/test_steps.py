"""Kernels whose loop over K hides how often it runs, so that `ptxas` does not unroll it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.kernel import mm

import torch_diode
from simulated import Compiled, compile, gpu, offered, tensor
from torch_diode.inductor import hiding

pytestmark = pytest.mark.usefixtures("gpu", "tf32")

LARGE = {"block_m": 128, "block_n": 128, "block_k": 32, "num_stages": 5, "num_warps": 4}
HIDDEN = "range(0, tl.cdiv(K, BLOCK_K) + tl.program_id(2))"
SHOWN = "range(0, tl.cdiv(K, BLOCK_K))"


def product(k: int | str, dtype: torch.dtype = torch.float32, tile: object = LARGE) -> Compiled:
    """A product along the rows of both operands, as in a linear layer, with a ReLU."""
    torch_diode.install(heuristic=lambda problem: tile)
    found = compile(lambda x, w: (x @ w.t()).relu(), tensor((1576, k), dtype), tensor((768, k), dtype))
    assert torch_diode.history()[-1].source == "function"
    return found


def loops(code: Compiled) -> Sequence[bool]:
    """For each loop over K in the code, whether its steps are hidden."""
    lines = [line for line in code.code.splitlines() if "for k_idx in" in line]
    assert all((HIDDEN in line) != (SHOWN in line) for line in lines)
    return [HIDDEN in line for line in lines]


def test_a_loop_in_tf32_that_takes_long_to_compile_hides_its_steps() -> None:
    code = product(768)
    assert loops(code) == [True]
    assert len(code.kernels()) == 2, "one kernel, once defined and once run: the relu is inside"
    assert code.constants("EVEN_K") == ["True"]


@pytest.mark.parametrize(
    ("k", "dtype", "tile"),
    [
        (8192, torch.float32, LARGE),
        (768, torch.bfloat16, LARGE),
        (768, torch.float32, {**LARGE, "block_m": 32}),
        (768, torch.float32, {**LARGE, "num_warps": 2}),
        ("k=768", torch.float32, LARGE),
    ],
    ids=["too long to be unrolled", "half precision", "few rows", "few warps", "a K that may change"],
)
def test_other_loops_are_those_of_inductor(k: int | str, dtype: torch.dtype, tile: object) -> None:
    assert loops(product(k, dtype, tile)) == [False]


def test_without_tf32_a_loop_is_that_of_inductor() -> None:
    torch.set_float32_matmul_precision("highest")
    assert loops(product(768)) == [False]


def test_on_hardware_whose_compile_times_are_unknown_a_loop_is_that_of_inductor() -> None:
    with gpu(name="NVIDIA A100-SXM4-80GB", gcnArchName="NVIDIA A100-SXM4-80GB", major=8):
        assert loops(product(768)) == [False]


def test_the_models_picks_hide_their_steps() -> None:
    with gpu(name="NVIDIA H100 80GB HBM3", gcnArchName="NVIDIA H100 80GB HBM3"):
        torch_diode.install()
        relu = lambda x, w, b: torch.nn.functional.linear(x, w, b).relu()
        code = compile(relu, *(tensor(shape, torch.float32) for shape in [(4096, 512), (1024, 512), (1024,)]))
    assert torch_diode.history()[-1].source == "model"
    assert loops(code) == [True]


def test_the_template_of_inductor_stays_as_it_is() -> None:
    before = mm.mm_template.template
    product(768)
    torch_diode.uninstall()
    assert mm.mm_template.template is before
    assert hiding._edited(mm.mm_template, ((hiding._STEPS, hiding._HIDDEN_STEPS),)).uid == mm.mm_template.uid, (
        "a table names Inductor's template"
    )
    with inductor_config.patch(max_autotune_gemm=True, max_autotune_gemm_backends="TRITON"), offered():
        code = compile(lambda x, w: x @ w.t(), tensor((1576, 768), torch.float32), tensor((768, 768), torch.float32))
    assert loops(code) == [False]


def test_with_another_template_of_a_future_torch_a_loop_is_that_of_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    hiding._edited.cache_clear()
    monkeypatch.setattr(mm, "load_kernel_template", lambda name: "another text")
    try:
        assert loops(product(768)) == [False]
    finally:
        hiding._edited.cache_clear()


def test_a_model_that_stands_in_says_nothing_about_compiling() -> None:
    with gpu(name="NVIDIA GeForce RTX 4090", gcnArchName="NVIDIA GeForce RTX 4090", minor=9, major=8):
        torch_diode.install(heuristic=lambda problem: {**LARGE, "num_stages": 2}, hardware="nvidia-h200")
        code = compile(lambda x, w: x @ w.t(), tensor((1576, 768), torch.float32), tensor((768, 768), torch.float32))
    assert loops(code) == [False]


def test_the_name_of_the_template_does_not_matter() -> None:
    assert loops(product(768, tile={**LARGE, "template": "triton::bmm"})) == [True]
