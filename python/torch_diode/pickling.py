"""How objects of the core are pickled and copied."""

from __future__ import annotations

import copyreg
from typing import Any

from ._core import Choice, Config, Dataset, Hardware, Model, Problem, Table


def _config(fields: Any) -> Config:
    return Config(**fields)


def _model(content: bytes, stands_in_for: Hardware | None) -> Model:
    model = Model.from_bytes(content)
    return model if stands_in_for is None else model.standing_in_for(stands_in_for)


def register() -> None:
    """Tells Python's pickle and copy about them."""
    copyreg.pickle(Problem, lambda one: (Problem.from_json, (one.to_json(),)))
    copyreg.pickle(Config, lambda one: (_config, (one.to_dict(),)))
    copyreg.pickle(Hardware, lambda one: (Hardware.from_json, (one.to_json(),)))
    copyreg.pickle(Choice, lambda one: (Choice.from_json, (one.to_json(),)))
    copyreg.pickle(Table, lambda one: (Table.from_json, (one.to_json(),)))
    copyreg.pickle(Dataset, lambda one: (Dataset.from_bytes, (one.to_bytes(),)))
    copyreg.pickle(Model, lambda one: (_model, (one.to_bytes(), one.hardware if one.stands_in else None)))
