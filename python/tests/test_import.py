"""Importing the package, each time in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torch_diode
from torch_diode import machine, status

STATUS = "import json, sys, torch_diode; print(json.dumps([torch_diode.get_import_status(), sorted(sys.modules)]))"


def run(code: str, **environment: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **environment}
    return subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True).stdout


def imported(before: str = "", **environment: str) -> tuple[dict[str, Any], list[str]]:
    """What a new process prints and has loaded after an import."""
    found, modules = json.loads(run(before + STATUS, **environment))
    return found, modules


PRETEND_GPU = "import os.path; real = os.path.exists; os.path.exists = lambda p: p == '/dev/nvidiactl' or real(p); "
NO_TORCH = (
    "import sys, importlib.abc\n"
    "class Absent(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name.split('.')[0] in ('torch', 'triton'): raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
    "sys.meta_path.insert(0, Absent())\n"
    "import importlib.util; real_find = importlib.util.find_spec\n"
    "importlib.util.find_spec = lambda name, *a: None if name == 'torch' else real_find(name, *a)\n"
)
full = pytest.mark.skipif(torch_diode.DISTRIBUTION != "torch-diode", reason="torch-diode-lib registers nothing")


def test_without_a_gpu_nothing_is_loaded() -> None:
    found, modules = imported()
    assert found["integrations_successful"] == 0 and found["errors"] == []
    heavy = {"torch", "numpy", "triton", "urllib.request", "ssl", "asyncio"}
    assert not heavy & set(modules), "a program without a GPU is not slowed"


@full
def test_with_a_gpu_it_registers() -> None:
    found, modules = imported(PRETEND_GPU)
    assert (found["status"], found["integrations_attempted"], found["integrations_successful"]) == ("success", 1, 1)
    assert "torch._inductor.choices" in modules


@full
def test_without_torch_it_says_so() -> None:
    found, _ = imported(PRETEND_GPU + "\n" + NO_TORCH)
    assert (found["status"], found["torch_available"]) == ("interface_unavailable", False)
    assert "pip install torch" in found["errors"][0]


def test_without_torch_models_and_tables_still_work() -> None:
    code = NO_TORCH + (
        "import torch_diode\n"
        "p = torch_diode.Problem('mm', 64, 64, 64, 'float16')\n"
        "try: torch_diode.install()\n"
        "except torch_diode.DiodeError as error: print(p.label, error)\n"
    )
    assert run(code).startswith("mm 64×64×64 float16 nn torch_diode.install needs torch")
    code = NO_TORCH + "import torch_diode; print(torch_diode.install_diode_integrations())"
    assert run(code).startswith("{'matmul_kernel_prediction': False}"), "said instead of raised, as torch-diode did"


@full
def test_it_can_be_told_not_to() -> None:
    found, modules = imported(PRETEND_GPU, DIODE_DISABLE="1")
    assert found["status"] == "not_started" and "torch" not in modules


@full
def test_importing_never_raises() -> None:
    found, _ = imported(PRETEND_GPU, DIODE_TABLE="/no/such/table")
    assert found["status"] == "failed" and "/no/such/table" in found["errors"][0]


@full
def test_a_torch_that_lacks_a_module_leaves_the_plug_in_out_with_one_line() -> None:
    absent = "import sys; sys.modules['torch._inductor.kernel_template_choice'] = None\n"
    found, _ = imported(PRETEND_GPU + absent)
    [line] = found["errors"]
    assert found["status"] == "failed" and "\n" not in line
    assert "kernel_template_choice" in line and "torch_diode was run with torch 2.10.0 to" in line
    says = "import torch_diode\ntry: torch_diode.explain()\nexcept torch_diode.DiodeError as error: print(error)"
    assert "this torch is not supported" in run(absent + says)


def test_without_a_decision_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_diode.uninstall()
    for outcome, words in [("no_gpu", "this machine shows no GPU"), ("success", "torch_diode.uninstall() has ended it")]:
        monkeypatch.setattr(status, "_outcome", outcome)
        assert f"picks nothing here: {words}" in str(torch_diode.explain())
    assert not torch_diode.get_import_status()["installed"]
    torch_diode.install()
    assert torch_diode.get_import_status()["installed"]
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    assert "for GPUs only, and this machine shows none" in str(torch_diode.explain())
    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    assert "takes from its cache is not decided again" in str(torch_diode.explain())


@pytest.mark.parametrize("broken", ["DIODE_TOP_K", "DIODE_MODEL", "DIODE_TABLE", "DIODE_HARDWARE"])
def test_a_bad_variable_is_named_in_the_status(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    monkeypatch.setattr(status, "_outcome", "not_started")
    monkeypatch.setattr(status, "_errors", [])
    monkeypatch.setenv(broken, "nonsense")
    status.register(asked=True)
    found = torch_diode.get_import_status()
    assert found["status"] == "failed" and "nonsense" in found["errors"][0]
    assert not torch_diode.is_installed()


@full
def test_both_distributions_together_are_refused(tmp_path: Path) -> None:
    for name in ("torch_diode", "torch_diode_lib"):
        folder = tmp_path / f"{name}-0.1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.1.0\n")
    found, modules = imported(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); " + PRETEND_GPU)
    assert found["status"] == "refused" and "pip uninstall both" in found["errors"][0]
    assert "torch" not in modules


def test_the_status_is_what_torch_diode_promised() -> None:
    found = torch_diode.get_diode_status()
    assert {"torch_available", "integrations_attempted", "integrations_successful", "errors"} <= set(found["import"])
    info = found["integrations"]["matmul_kernel_prediction"]
    assert info["interface_name"] == "torch._inductor.choices" and info["registration_status"] is False
    assert torch_diode.install_diode_integrations() == {"matmul_kernel_prediction": True}
    assert torch_diode.get_integration_info()["matmul_kernel_prediction"]["registration_status"] is True
    assert {"available_models", "model_manifest", "models_by_purpose"} <= set(found["models"])


def test_every_name_is_there_and_no_other() -> None:
    for name in torch_diode.__all__:
        assert getattr(torch_diode, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch_diode.nothing  # type: ignore[attr-defined] # noqa: B018
