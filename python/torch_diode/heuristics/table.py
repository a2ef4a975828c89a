"""Picks with tables of Diode or torch-diode, and tells the forms of tables apart."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._core import DiodeError, Table
from ..errors import DiodeTypeError
from . import Answer, Candidate, Heuristic, Request
from .inductor_table import InductorTableHeuristic, is_inductor_table
from .watched_file import WatchedFile


class TableHeuristic:
    """Looks problems up in a table of Diode or torch-diode. If its file is edited, that takes effect at the next compile."""

    source = "table"

    def __init__(self, table: str | os.PathLike[str] | Table, *, nearest: bool = False) -> None:
        self._nearest = nearest
        if isinstance(table, Table):
            self._table: Callable[[], Table] = lambda: table
        else:
            self._table = WatchedFile(table, Table.load).content

    def answer(self, request: Request) -> Answer | None:
        table = self._table()
        if request.hardware is None or table.hardware.slug != request.hardware.slug:
            return None
        listed = table.lookup(request.problem)
        if listed is not None:
            candidates = [Candidate(config, us) for config, us in listed]
            return self._answer(request, candidates, f"listed in a table of {len(table)} problems")
        if not self._nearest:
            return None
        advice = table.nearest(request.problem, max(request.top_k, 6))
        if advice is None:
            return None
        candidates = [Candidate(config) for config, _ in advice]
        return self._answer(request, candidates, f"advised by the nearest of {len(table)} problems in a table")

    def _answer(self, request: Request, candidates: Sequence[Candidate], why: str) -> Answer:
        return Answer(self.source, candidates[: request.top_k], why, near=candidates[request.top_k :][:5])

    def digest(self) -> str:
        return f"{self._table().digest};{self._nearest}"


def table_heuristic(table: Any, *, nearest: bool = False) -> Heuristic:
    """A heuristic for a table in any of the forms."""
    if isinstance(table, Table):
        return TableHeuristic(table, nearest=nearest)
    if isinstance(table, Mapping):
        return InductorTableHeuristic(table)
    if not isinstance(table, (str, os.PathLike)):
        raise DiodeTypeError(
            f"table: got {table!r:.60}, expected a Table, a file or a dict in the form of Inductor's lookup table"
        )
    path = os.fspath(table)
    try:
        with open(path, "rb") as file:
            content = json.load(file)
    except OSError as error:
        raise DiodeError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        content = None  # Compressed or broken: the core says which.
    if content is not None and is_inductor_table(content) and "format" not in content:
        return InductorTableHeuristic(path)
    return TableHeuristic(path, nearest=nearest)
