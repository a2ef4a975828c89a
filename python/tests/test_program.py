"""The program `diode` and the commands of the package, each in a new process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import triton
from torch._inductor import config as inductor
from torch._inductor.lookup_table import LookupTableChoices
from torch._inductor.virtualized import V

import torch_diode
from simulated import compile, tensor


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `python -m torch_diode` does."""
    command = [sys.executable, "-m", "torch_diode", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


@pytest.fixture
def carried() -> str:
    """The `diode` that the wheel has put beside this Python."""
    path = Path(sys.executable).with_name("diode")
    if torch_diode.DISTRIBUTION != "torch-diode" or not path.is_file():
        pytest.fail(f"{path} is not there; install the wheel that `cargo xtask torch` builds")
    return str(path)


def test_the_wheel_carries_the_program(carried: str) -> None:
    for command in ([carried], [sys.executable, "-m", "torch_diode"], [sys.executable, "-m", "torch_diode", "toolkit"]):
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert said.stdout == f"diode {torch_diode.__version__}\n" and said.stderr == ""
    predicted = subprocess.check_output([carried, "predict", "16x4096x4096", "--hardware", "nvidia-h200"], text=True)
    assert "16×4096×4096" in predicted
    assert run("predict", "16x4096x4096", "--hardware", "nvidia-h200").stdout == predicted


def test_the_old_name_runs_and_says_the_new_one(carried: str) -> None:
    said = subprocess.run([Path(carried).with_name("torch-diode"), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("diode ")
    assert said.stderr == "torch-diode is now called diode; this name still works\n"


def test_files_for_servers_are_tuned_from_the_wheel(carried: str, tmp_path: Path) -> None:
    name = "E=8,N=7168,device_name=NVIDIA_H200.json"
    alone = [str(Path(carried).with_name("diode-tune"))]
    for at, command in enumerate([alone, [sys.executable, "-m", "torch_diode", "tune"]]):
        line = [*command, "Mixtral-8x7B", "--tp", "2", "--hardware", "nvidia-h200", "--out", str(tmp_path / str(at))]
        assert name in subprocess.check_output(line, text=True)
        assert len(json.loads((tmp_path / str(at) / name).read_text())) == 18


def answer(diode: str, *words: str) -> str:
    return subprocess.check_output([diode, "predict", *words, "--hardware", "nvidia-h200"], text=True)


def test_a_shape_becomes_configs_that_are_pasted_into_a_kernel(diode: str) -> None:
    pasted: dict[str, Any] = {}
    exec(answer(diode, "16x4096x4096", "--top", "5", "--format", "triton"), pasted)
    candidates = json.loads(answer(diode, "16x4096x4096", "--top", "13", "--json"))["candidates"]
    tiles = [one for one in candidates if one["template"].startswith("triton::")][:5]
    assert len(pasted["configs"]) == 5 and candidates[:5] != tiles, "the library is not counted"
    for config, tile in zip(pasted["configs"], tiles, strict=True):
        assert isinstance(config, triton.Config)
        assert config.kwargs == {name.upper(): tile[name] for name in ("block_m", "block_n", "block_k", "group_m")}
        assert (config.num_stages, config.num_warps) == (tile["num_stages"], tile["num_warps"])


def test_a_model_becomes_a_table_that_inductor_reads(diode: str, gpu: None) -> None:
    table = json.loads(answer(diode, "Llama-3.1-8B", "--format", "inductor"))
    (tile,) = table["NVIDIA H200+((torch.bfloat16, [4, 4096], [4096, 1]), (torch.bfloat16, [4096, 6144], [1, 4096]))+mm"]
    settings = {"max_autotune_gemm": True, "lookup_table.table": table}
    available = mock.patch("torch.cuda.is_available", lambda: True)

    def project(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w.t()

    inputs = tensor((4, 4096)), tensor((6144, 4096))
    assert compile(project, *inputs).constants("BLOCK_M") == [], "without the table, it is cuBLAS"
    with available, inductor.patch(settings), V.set_choices_handler(LookupTableChoices()):
        code = compile(project, *inputs)
    assert tile["template_id"] == "triton::mm"
    for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"):
        assert code.constants(name) == [str(tile[name])]


def test_exit_codes_and_signals_are_the_programs(diode: str) -> None:
    assert run("no-such-command", DIODE_PROGRAM=diode).returncode == 2
    assert run(DIODE_PROGRAM="/no/such/diode").returncode == 1
    command = [sys.executable, "-m", "torch_diode", "60"]
    with subprocess.Popen(command, env={**os.environ, "DIODE_PROGRAM": shutil.which("sleep")}) as child:
        name, end = Path(f"/proc/{child.pid}/comm"), time.monotonic() + 30
        while name.read_text() != "sleep\n" and time.monotonic() < end:
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
    assert child.returncode == -signal.SIGTERM, "the signal reaches the program itself"


def test_a_program_that_is_not_there_is_named() -> None:
    said = run("--version", DIODE_PROGRAM="/no/such/diode")
    assert said.stderr == "error: DIODE_PROGRAM: got `/no/such/diode`, expected a program that can be run\n"


def test_the_package_has_two_commands_of_its_own() -> None:
    assert json.loads(run("status").stdout)["import"]["version"] == torch_diode.__version__
    for words in (["pull"], ["pull", "--server"], ["pull", "nvidia-h200", "--server"], ["pull", "nvidia-h200", "http://x"]):
        said = run(*words)
        assert (said.returncode, said.stderr) == (2, "usage: python -m torch_diode pull HARDWARE [--server URL]\n")
