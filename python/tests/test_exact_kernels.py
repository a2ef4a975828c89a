"""Kernels that `diode kernels build --exact-sizes` compiles are Inductor's own, instruction by instruction."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from triton.compiler import ASTSource

import torch_diode
from simulated import compile, tensor

pytestmark = pytest.mark.usefixtures("gpu")

KERNELS = Path(__file__).parents[2] / "collector" / "kernels"
FIELDS = ("block_m", "block_n", "block_k", "num_stages", "num_warps")
aten = torch.ops.aten


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module that compiles the kernels of packs."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    patch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    patch.syspath_prepend(str(KERNELS))
    patch.setattr(sys, "dont_write_bytecode", True)
    import compile as found

    yield found
    patch.undo()


def body(ptx: str) -> str:
    """The instructions without those that load the arguments, because arguments come in another order."""
    instructions = re.sub(r"//.*", "", ptx[ptx.index("\n{") :])
    return re.sub(r"\tld\.param.*\n", "", instructions)


def inductors(compiler: Any, code: str, tile: tuple[int, ...], folder: Path) -> str:
    """The kernel in Inductor's code, compiled as Inductor would."""
    source = code[code.index("@triton.jit") : code.index("''', device_str")]
    [signature] = re.findall(r"'signature': (\{[^}]*\})", code)
    types = ast.literal_eval(signature)
    file = folder / "kernel.py"
    file.write_text("import triton\nimport triton.language as tl\n" + source)
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    [name] = re.findall(r"def (\w+)\(", source)
    aligned = {(index,): [["tt.divisibility", 16]] for index in range(len(types))}
    kernel = ASTSource(getattr(module, name), types, attrs=aligned)
    return triton.compile(kernel, target=compiler.target("sm_90"), options=options(tile)).asm["ptx"]


def options(tile: tuple[int, ...]) -> dict[str, Any]:
    return {"num_stages": tile[3], "num_warps": tile[4], "sanitize_overflow": False}


def follows_another_template(op: str) -> bool:
    """Whether packs follow another template than this torch's. That for batches has changed in almost every version."""
    from torch._inductor.kernel.bmm import bmm_template

    of_torch_2_11 = "1635ad519a2790c283e0cd308d03f44e1673a8289810f371093fbdcba6ec4f6a"
    return op in ("bmm", "baddbmm") and bmm_template.src_hash != of_torch_2_11


LISTENER = """#!{python}
import json, sys
print(json.dumps({{"triton": "3.6.0"}}), flush=True)
for line in sys.stdin:
    with open({heard!r}, "a") as file:
        file.write(line)
    print(json.dumps({{"failed": "only listening"}}), flush=True)
"""


def request(diode: str, folder: Path, problem: dict[str, Any], tile: tuple[int, ...]) -> dict[str, Any]:
    """The request of `diode kernels build` to a compiler. A stand-in for the compiler writes it down."""
    listener, heard = folder / "python", folder / "heard.jsonl"
    listener.write_text(LISTENER.format(python=sys.executable, heard=str(heard)))
    listener.chmod(0o755)
    config = {"template": "triton::bmm" if "bmm" in problem["op"] else "triton::mm", **dict(zip(FIELDS, tile, strict=True)), "group_m": 8,
              "even_k": problem["k"] % tile[2] == 0, "allow_tf32": False, "use_fast_accum": False, "acc_type": "tl.float32"}  # fmt: skip
    (folder / "problems.json").write_text(json.dumps([problem]))
    (folder / "space.json").write_text(json.dumps([config]))
    arguments = ["--arch", "sm_90", "--problems", "problems.json", "--exact-sizes", "--space", "space.json", "--out", "a.pack"]
    command = [diode, "kernels", "build", *arguments, "--python", str(listener), "--processes", "1"]
    subprocess.run(command, cwd=folder, check=False, capture_output=True)
    requests = [json.loads(line) for line in heard.read_text().splitlines()]
    [exact] = [one for one in requests if one["kernel"].endswith("_known")]
    return exact


@pytest.mark.parametrize(
    ("op", "dtype", "sizes", "nt", "bias", "tile"),
    [
        ("mm", torch.bfloat16, (1000, 1001, 1003), False, "none", (128, 64, 128, 3, 8)),
        ("mm", torch.bfloat16, (1000, 1001, 1003), False, "none", (256, 16, 64, 2, 4)),
        ("mm", torch.bfloat16, (333, 50, 777), False, "none", (16, 64, 32, 3, 4)),
        ("mm", torch.bfloat16, (512, 512, 512), False, "none", (64, 32, 128, 5, 4)),
        ("mm", torch.float16, (2384, 2304, 1072), False, "none", (128, 128, 64, 3, 8)),
        ("mm", torch.bfloat16, (1, 11008, 4096), True, "none", (16, 128, 256, 3, 4)),
        ("mm", torch.bfloat16, (4096, 1, 200), False, "none", (64, 16, 64, 3, 4)),
        ("mm", torch.float32, (128, 128, 4096), False, "none", (32, 32, 64, 3, 4)),
        ("addmm", torch.bfloat16, (2048, 2048, 2048), True, "vector", (128, 128, 64, 3, 8)),
        ("addmm", torch.float16, (100, 304, 200), False, "matrix", (64, 64, 32, 3, 4)),
        ("bmm", torch.bfloat16, (256, 384, 200), False, "none", (64, 64, 32, 3, 4)),
        ("bmm", torch.float16, (65, 67, 71), True, "none", (32, 64, 32, 2, 4)),
        ("baddbmm", torch.bfloat16, (256, 384, 256), False, "matrix", (64, 128, 32, 3, 4)),
    ],
)
def test_kernels_of_exact_sizes_are_inductors(
    op: str, dtype: torch.dtype, sizes: tuple[int, int, int], nt: bool, bias: str, tile: tuple[int, ...],
    compiler: Any, diode: str, tmp_path: Path,
) -> None:  # fmt: skip
    m, n, k = sizes
    torch_diode.install(heuristic=lambda problem: dict(zip(FIELDS, tile, strict=True)))
    batch = (3,) if op in ("bmm", "baddbmm") else ()
    strides = (n * k, 1, k)[1 - len(batch) :]
    operands = [tensor((*batch, m, k), dtype), tensor((*batch, k, n), dtype, strides if nt else None)]
    if bias != "none":
        operands.insert(0, tensor((n,) if bias == "vector" else (*batch, m, n), dtype))
    code = compile(getattr(aten, op).default, *operands).code
    named = zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile[:3], strict=True)
    assert all(f"{name} : tl.constexpr = {size}\n" in code for name, size in named), "Inductor took another tile"
    theirs = inductors(compiler, code, tile, tmp_path)

    name = str(dtype).removeprefix("torch.")
    problem = {"op": op, "b": 3 if batch else 1, "m": m, "n": n, "k": k, "a_dtype": name, "b_dtype": name, "out_dtype": name,
               "a_layout": "row", "b_layout": "column" if nt else "row", "bias": bias}  # fmt: skip
    asked = request(diode, tmp_path, problem, tile)
    source = compiler.source(asked)
    ours = triton.compile(source, target=compiler.target(asked["arch"]), options=asked["options"]).asm["ptx"]
    if body(ours) != body(theirs) and follows_another_template(op):
        pytest.xfail("this torch has another template of batches than the one that packs follow")
    assert body(ours) == body(theirs)
