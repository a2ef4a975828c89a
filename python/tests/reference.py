"""The reference of the package, made from its docstrings. Run it to write docs/reference/python.md anew."""

from __future__ import annotations

import inspect
from typing import Any

import torch_diode
from workspace import ROOT

PAGE = ROOT / "docs/reference/python.md"
HEAD = """# Python

The names of `torch_diode`, from its docstrings; `help(torch_diode.NAME)` has examples. Errors are `DiodeError`s, and \
wrong values also `ValueError`s; wrong types raise a `TypeError`.
"""


def text() -> str:
    """The page."""
    values = {name: getattr(torch_diode, name) for name in torch_diode.__all__}
    values = {name: value for name, value in values.items() if not isinstance(value, str)}
    earlier = [name for name, value in values.items() if ".compat." in getattr(value, "__module__", "")]
    lines = [_line(name, value) for name, value in values.items() if name not in earlier]
    lines.append(f"- [torch-diode's own](../guides/migrating.md#python): {', '.join(f'`{name}`' for name in earlier)}")
    return HEAD + "\n" + "\n".join(lines) + "\n"


def _line(name: str, value: Any) -> str:
    sentence = (inspect.getdoc(value) or "").split("\n\n")[0].replace("``", "`")
    call = _call(value) if callable(value) and not inspect.isclass(value) else ""
    return f"- `{name}{call}`: {sentence}"


def _call(function: Any) -> str:
    """The names of a function's parameters, if they are few. Those after ``*`` are given by name."""
    words = []
    parameters = inspect.signature(function).parameters
    if len(parameters) > 6:
        return "(…)"
    for one in parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(one.name)
    return f"({', '.join(words)})"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
