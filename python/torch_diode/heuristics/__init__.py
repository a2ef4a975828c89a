"""Heuristics: tables, models and functions. Each answers a request or leaves it to the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .._core import Config, Epilogue, Hardware, Problem


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A kernel to compile. ``config`` says what runs. A table in Inductor's form also gives all ``params``."""

    config: Config
    expected_us: float | None = None
    params: Mapping[str, Any] | None = None
    template_hash: str | None = None


@dataclasses.dataclass(frozen=True)
class Request:
    """A kernel to decide on, and what the decision may depend on."""

    problem: Problem
    hardware: Hardware | None
    """The hardware to decide for. ``None`` if the catalogue does not have the device."""
    device_name: str
    shared_memory: int | None
    tf32: bool
    """Whether the library computes the problem in TF32."""
    tiles_tf32: bool
    top_k: int
    min_confidence: float | None
    performance_threshold: float | None
    cache_predictions: bool
    pick_unjudged: bool
    """Whether a model may pick tiles for kinds of problems on which the quality of its picks was never measured."""
    epilogue: Epilogue | None = None
    """What a tile would compute, too, and the library would leave to another kernel."""
    tma: bool = True
    """Whether Inductor offers the TMA form of its tiles, if it is asked to."""
    may_swap: bool = False
    """Whether a tile may multiply the transposes."""
    inductor_keys: Callable[[], Sequence[str]] = tuple
    """Returns the keys under which tables in Inductor's form list the problem."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """Candidates, the preferred one first, and why."""

    source: str
    candidates: Sequence[Candidate]
    why: str
    near: Sequence[Candidate] = ()
    probability: float | None = None
    between_us: tuple[float, float] | None = None
    caveat: str | None = None
    fusion: str | None = None
    """How long the epilogue is expected to take, fused or not, in words."""


class Heuristic(Protocol):
    """One way to decide. It is asked about multiplications, or about what its ``kind`` names."""

    source: str

    def answer(self, request: Any) -> Answer | None:
        """Candidates for a request. ``None`` leaves it to the next heuristic."""

    def digest(self) -> str:
        """A text that changes whenever answers may change. It is part of the key of Inductor's graph cache."""
