"""Every public name has a sentence, an example that runs, and types that a checker can rely on."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_diode
from workspace import ROOT

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


def test_no_type_in_the_stub_of_the_core_is_any() -> None:
    stub = Path(torch_diode.__file__).with_name("_core.pyi").read_text(encoding="utf-8")
    assert "class Model:" in stub and "Any" not in stub


EXAMPLE = """
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
WRONG = {
    "torch_diode.instal()": 'Module has no attribute "instal"',
    "torch_diode.install(tabel=3)": 'Unexpected keyword argument "tabel"',
    "torch_diode.predict(16)": 'Argument 1 to "predict" has incompatible type "int"',
    "torch_diode.predict('16x16x16').confg": '"Choice" has no attribute "confg"',
    "torch_diode.get_stats()['calls']": 'TypedDict "Counts" has no key "calls"',
    "torch_diode.compat.instal": 'Module has no attribute "instal"',
}


def samples() -> Iterator[tuple[str, str]]:
    """The examples of the docstrings, and those of the documents."""
    objects = {name: getattr(torch_diode, name) for name in NAMES}
    for name, value in objects.items():
        yield name, "".join(one.source for one in doctest.DocTestParser().get_examples(inspect.getdoc(value) or ""))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "python/README.md"]:
        text = path.read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) or re.findall(
            r"(?:^    .*\n|^\n)+", text, flags=re.MULTILINE
        )
        for number, block in enumerate(block for block in blocks if "torch" in block):
            model = "model, x = torch.nn.Linear(8, 8), torch.empty(8, 8)\n"
            yield f"{path.stem}_{path.parent.name}_{number}", model + textwrap.dedent(block)


def errors(*command: str, folder: Path) -> set[tuple[str, int, str]]:
    """File, line and text of each error that a type checker finds in a folder."""
    said = subprocess.run([sys.executable, "-m", *command, str(folder)], cwd=folder, capture_output=True, text=True, check=False)
    assert not said.stderr, said.stderr
    found = re.findall(r"^\s*(?:\S*/)?(\w+)\.py:(\d+)(?::\d+)?(?: -|:) error: (.*)$", said.stdout, flags=re.MULTILINE)
    assert found, said.stdout
    return {(file, int(line), text) for file, line, text in found}


def test_type_checkers_take_every_example_and_refuse_misspelt_names(tmp_path: Path) -> None:
    written = {"example": EXAMPLE, **dict(samples())}
    assert len(written) > 40
    for name, text in written.items():
        (tmp_path / f"{name}.py").write_text("import torch, torch_diode\n" + text)
    (tmp_path / "wrong.py").write_text("\n".join(["import torch_diode, torch_diode.compat", *WRONG]))
    by_mypy = errors("mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), folder=tmp_path)
    by_pyright = errors("pyright", "--pythonpath", sys.executable, folder=tmp_path)
    for found in (by_mypy, by_pyright):
        assert {(file, line) for file, line, _ in found} == {("wrong", line) for line in range(2, len(WRONG) + 2)}, found
    for line, said in enumerate(WRONG.values(), 2):
        assert any(at == line and said in text for _, at, text in by_mypy), by_mypy
