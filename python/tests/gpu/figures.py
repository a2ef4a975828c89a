"""Writes the figures of a run on a GPU to a Markdown file, which is complete at any time."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch


class Report:
    """Sections of rows. A row replaces the row with the same name, so a figure can be updated while it still grows."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._sections: dict[str, dict[str, Mapping[str, str]]] = {}

    def figure(self, section: str, measured: str, found: str, goal: str = "") -> None:
        """Adds a figure, with the value that it should have."""
        self.row(section, {"measured": measured, "found": found, "goal": goal})

    def row(self, section: str, columns: Mapping[str, str]) -> None:
        """Adds a row to a table. Its first column is its name."""
        self._sections.setdefault(section, {})[next(iter(columns.values()))] = columns
        print(f"{section}: " + " | ".join(columns.values()), flush=True)
        self._write("not finished")

    def finish(self, outcome: str) -> None:
        """Writes how the tests have ended."""
        if self._sections:
            self._write(outcome)

    def _write(self, outcome: str) -> None:
        if self.path is None:
            return
        lines = [
            "# The plug-in on a GPU",
            "",
            "Written by `python -m pytest python/tests/gpu --gpu-report report.md`.",
            "",
        ]
        lines.append(f"{_where()}; {outcome}.")
        for section, rows in self._sections.items():
            header = list(next(iter(rows.values())))
            lines += ["", f"## {section}", "", _line(header), _line(["---"] * len(header))]
            lines += [_line(columns.values()) for columns in rows.values()]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _where() -> str:
    import triton

    import torch_diode
    from torch_diode import models

    return (
        f"{datetime.date.today().isoformat()}, {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, "
        f"torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}, "
        f"torch_diode {torch_diode.__version__}, model {models.available()[0].model.digest[:12]}"
    )
