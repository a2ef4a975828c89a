"""Picks with lookup tables in Inductor's form."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from .._core import Config, DiodeError
from ..configs import FIELDS, SPELLINGS, as_config
from ..errors import DiodeValueError
from ..inductor import SCALED_TMA, TMA
from . import Answer, Candidate, Request
from .watched_file import WatchedFile


class InductorTableHeuristic:
    """Looks problems up in a table in Inductor's form, by Inductor's keys."""

    source = "table"

    def __init__(self, table: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        if isinstance(table, Mapping):
            # A copy, because the graphs that were compiled with it do not change with the user's own.
            content = _checked_inductor_table(copy.deepcopy(dict(table)), "table")
            self._content: Callable[[], tuple[Mapping[str, Any], str]] = lambda: content
        else:
            self._content = WatchedFile(table, _read_inductor_table).content

    def answer(self, request: Request) -> Answer | None:
        table, _ = self._content()
        for key in request.inductor_keys():
            if key in table:
                candidates = [_inductor_candidate(entry) for entry in table[key]]
                why = f"listed in a table of {len(table)} keys in Inductor's form"
                return Answer(self.source, candidates[: request.top_k], why, near=candidates[request.top_k :][:5])
        return None

    def digest(self) -> str:
        return self._content()[1]


def is_inductor_table(content: Any) -> bool:
    """Whether JSON looks like Inductor's form of a table and not like Diode's."""
    return isinstance(content, Mapping) and all(
        isinstance(key, str) and "+" in key and isinstance(value, list) for key, value in content.items()
    )


def _read_inductor_table(path: str) -> tuple[Mapping[str, Any], str]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise DiodeError(f"{path}: {error}") from None
    return _checked_inductor_table(content, path)


def _checked_inductor_table(content: Any, name: str) -> tuple[Mapping[str, Any], str]:
    if not is_inductor_table(content):
        raise DiodeValueError(f"{name}: got {content!r:.60}, expected Inductor's lookup table: lists of entries by key")
    for key, entries in content.items():
        for number, entry in enumerate(entries, 1):
            try:
                _inductor_candidate(entry)
            except (DiodeError, TypeError, KeyError, OverflowError) as error:
                raise DiodeError(f"{name}: `{key}`, entry {number}: {error}") from None
    text = json.dumps(content, sort_keys=True)
    return content, hashlib.sha256(text.encode()).hexdigest()


def _inductor_candidate(entry: Mapping[str, Any]) -> Candidate:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("template_id"), str):
        raise DiodeError(f"got {entry!r:.60}, expected an object with a template_id")
    params = {name: value for name, value in entry.items() if name not in ("template_id", "template_hash", "swap_ab")}
    # A scaled multiplication's TMA tile has a template of its own.
    template = TMA if entry["template_id"] == SCALED_TMA else entry["template_id"]
    if template.startswith("aten::"):
        config = Config("aten")
    else:
        config = as_config({"template": template, **{k: v for k, v in entry.items() if k in SPELLINGS or k in FIELDS}})
    return Candidate(config, params=params, template_hash=entry.get("template_hash"))
