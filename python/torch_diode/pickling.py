"""How objects of the core are pickled and copied."""

from __future__ import annotations

import copyreg
from typing import Any

from ._core import Config, Hardware, Model, Problem, Table


def _problem(text: str) -> Problem:
    return Problem.from_json(text)


def _config(fields: Any) -> Config:
    return Config(**fields)


def _hardware(text: str) -> Hardware:
    return Hardware.from_json(text)


def _table(text: str) -> Table:
    return Table.from_json(text)


def _model(content: bytes, stands_in_for: Hardware | None) -> Model:
    model = Model.from_bytes(content)
    return model if stands_in_for is None else model.standing_in_for(stands_in_for)


def register() -> None:
    """Tells Python's pickle and copy about them."""
    copyreg.pickle(Problem, lambda one: (_problem, (one.to_json(),)))
    copyreg.pickle(Config, lambda one: (_config, (one.to_dict(),)))
    copyreg.pickle(Hardware, lambda one: (_hardware, (one.to_json(),)))
    copyreg.pickle(Table, lambda one: (_table, (one.to_json(),)))
    copyreg.pickle(Model, lambda one: (_model, (one.to_bytes(), one.hardware if one.stands_in else None)))
