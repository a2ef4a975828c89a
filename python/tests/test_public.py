"""Every public name has a sentence, an example that runs, and types that a checker can rely on."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
import types
import typing
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_diode

NAMES = [name for name in torch_diode.__all__ if not isinstance(getattr(torch_diode, name), str)]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(torch_diode, name))]


@pytest.mark.parametrize("name", NAMES)
def test_it_has_one_sentence_and_an_example_that_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = inspect.getdoc(getattr(torch_diode, name)) or ""
    summary = text.split("\n\n")[0]
    assert summary.endswith(".") and ". " not in summary and "\n" not in summary, summary
    monkeypatch.chdir(tmp_path)
    torch.compiler.reset()
    globs = {"torch": torch, "torch_diode": torch_diode}
    example = doctest.DocTestParser().get_doctest(text, globs, name, None, None)
    assert example.examples, "no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failed = runner.run(example, out=said.append).failed
    assert failed == 0, "".join(said)


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_has_a_sentence(name: str) -> None:
    for method, value in vars(getattr(torch_diode, name)).items():
        if not method.startswith("_") and (callable(value) or isinstance(value, (staticmethod, classmethod))):
            assert inspect.getdoc(getattr(getattr(torch_diode, name), method)), f"{name}.{method}"


def functions() -> list[tuple[str, Any]]:
    """The functions and methods that are written in Python. The others have their types in the stub."""
    found = []
    for name in NAMES:
        value = getattr(torch_diode, name)
        if inspect.isclass(value):
            found += [(f"{name}.{method}", one) for method, one in vars(value).items() if inspect.isfunction(one)]
        elif inspect.isfunction(value):
            found.append((name, inspect.unwrap(value)))
    return [(name, one) for name, one in found if not name.split(".")[-1].startswith("_") or name.endswith("__init__")]


@pytest.mark.parametrize(("name", "function"), functions())
def test_its_types_are_stated_and_none_is_any(name: str, function: types.FunctionType) -> None:
    hints = typing.get_type_hints(function, {**function.__globals__, "torch": torch})
    parameters = [one for one in inspect.signature(function).parameters if one != "self"]
    assert set(parameters) <= set(hints) and ("return" in hints or name.endswith("__init__")), name
    assert not [hint for hint in hints.values() if "Any" in str(hint)], name


EXAMPLE = """
import torch
import torch_diode

choice = torch_diode.predict("16x4096x4096", hardware="nvidia-h200", dtype=torch.bfloat16)
config: torch_diode.Config = choice.config
blocks: int | None = config.block_m
again = torch_diode.Config(**config.to_dict())
torch_diode.install(heuristic=lambda problem: "aten" if problem.m <= 16 else None, model=["h200", "h100"])
calls: int = torch_diode.get_stats()["total_calls"]
with torch_diode.record() as recording:
    problems: list[torch_diode.Problem] = recording.problems
print(torch_diode.explain(), torch_diode.hub.pull("nvidia-h200").model)
"""


def test_a_type_checker_takes_examples_and_refuses_misspelt_names(tmp_path: Path) -> None:
    def check(text: str) -> str:
        file = tmp_path / "example.py"
        file.write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(file)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    assert check(EXAMPLE).startswith("Success")
    for wrong, said in [
        ("torch_diode.instal()", 'Module has no attribute "instal"'),
        ("torch_diode.install(tabel=3)", 'Unexpected keyword argument "tabel"'),
        ("torch_diode.predict(16)", 'Argument 1 to "predict" has incompatible type "int"'),
        ("torch_diode.predict('16x16x16').confg", '"Choice" has no attribute "confg"'),
        ("torch_diode.get_stats()['calls']", 'TypedDict "Counts" has no key "calls"'),
    ]:
        assert said in check(f"import torch_diode\n{wrong}\n"), wrong
