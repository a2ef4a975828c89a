"""Every name in the guide exists."""

from __future__ import annotations

import ast
import inspect
import re

import reference
import torch_diode
from torch_diode import settings
from workspace import ROOT

GUIDE = (ROOT / "docs/guides/plugin.md").read_text(encoding="utf-8")


def test_every_setting_and_variable_is_in_the_table() -> None:
    for field, name in settings.NAMES.items():
        assert f"| `{name}` | `{field}` | `{settings.VARIABLES[field]}` |" in GUIDE
        assert field in inspect.signature(torch_diode.install).parameters
    sources = "".join(path.read_text() for path in (ROOT / "python/torch_diode").glob("*.py"))
    assert set(re.findall(r"DIODE_[A-Z_]+", sources)) <= set(re.findall(r"DIODE_[A-Z_]+", GUIDE))


def test_the_reference_is_that_of_the_docstrings() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.text(), "run python python/tests/reference.py"


def test_samples_are_python_and_call_what_exists() -> None:
    samples = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert len(samples) >= 6
    for sample in samples:
        for node in ast.walk(ast.parse(sample)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch_diode":
                assert hasattr(torch_diode, node.attr), node.attr
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                function = getattr(torch_diode, node.func.attr, None)
                known = inspect.signature(function).parameters if inspect.isfunction(function) else {}
                for argument in node.keywords:
                    assert not known or argument.arg in known, f"{node.func.attr}({argument.arg})"
