"""Picks with a user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import Problem
from ..configs import as_config
from ..errors import DiodeTypeError
from . import Answer, Candidate, Heuristic, Request
from .behaviour import Behaviour


class FunctionHeuristic:
    """Calls a function of the problem. It returns a config, a list of configs, or None to leave the problem to the next."""

    source = "function"

    def __init__(self, function: Callable[[Problem], Any]) -> None:
        if not callable(function):
            raise DiodeTypeError(f"heuristic: got {function!r:.60}, expected a function of the problem")
        self._function = function
        self._name = getattr(function, "__qualname__", type(function).__qualname__)
        self.name = f"function {self._name}"
        self._behaviour = Behaviour(function)

    def answer(self, request: Request) -> Answer | None:
        chosen = self._function(request.problem)
        if chosen is None:
            return None
        several = chosen if isinstance(chosen, (list, tuple)) else [chosen]
        candidates = [Candidate(as_config(config)) for config in several]
        if not candidates:
            return None
        return Answer(self.source, candidates[: request.top_k], f"chosen by {self._name}", near=candidates[request.top_k :])

    def digest(self) -> str:
        return self._behaviour.digest()


def as_heuristic(value: Any) -> Heuristic:
    """A heuristic as ``install`` accepts it: an object of this package, or a function of the problem."""
    if hasattr(value, "answer") and hasattr(value, "digest"):
        return value
    return FunctionHeuristic(value)
