"""The multiplications that a program compiles, to measure or contribute them or to ship their picks."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import messages
from ._core import DiodeError, Problem
from .inductor import foreseen, kernels, served
from .problems import Unsupported, problem_of

_lock = threading.Lock()
_recordings: list[Recording] = []


@dataclasses.dataclass(frozen=True)
class Multiplication:
    """A multiplication in a compiled graph."""

    problem: Problem
    followers: tuple[str, ...]
    """The operators in the graph that use its result, also through views. ``output`` if the graph returns it."""


class Recording:
    """The multiplications that were compiled, how often each was, and what was picked for them.

    >>> recording = torch_diode.Recording()
    >>> recording.problems, recording.skipped, recording.table
    ([], Counter(), {})
    """

    def __init__(self) -> None:
        self.counts: collections.Counter[Multiplication] = collections.Counter()
        """How often each multiplication was compiled."""
        self.skipped: collections.Counter[str] = collections.Counter()
        """How many kernels no problem describes, by the reason."""
        self._table: dict[str, list[dict[str, object]]] = {}

    @property
    def problems(self) -> list[Problem]:
        """The distinct problems. The one that was compiled most often comes first."""
        totals: collections.Counter[Problem] = collections.Counter()
        for multiplication, count in self.counts.items():
            totals[multiplication.problem] += count
        return [problem for problem, _ in totals.most_common()]

    @property
    def table(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """The picks as a lookup table in Inductor's form, without what was left to Inductor."""
        return self._table

    def save_problems(self, path: str | os.PathLike[str]) -> None:
        """Writes the list that ``diode collect --problems`` measures."""
        if not self.counts:
            raise DiodeError(f"problems: {self}")
        write(path, json.dumps([json.loads(problem.to_json()) for problem in self.problems], indent=1))

    def save_table(self, path: str | os.PathLike[str]) -> None:
        """Writes the table, for ``torch_diode.install(table=…)`` or ``torch._inductor.config.lookup_table.table``."""
        if not self._table:
            raise DiodeError(
                "table: nothing was picked here, so there is nothing to write; `diode predict` makes a table of what save_problems "
                "writes, with --hardware and --format inductor"
            )
        write(path, json.dumps(self._table, indent=1))

    def __str__(self) -> str:
        lines = [
            f"{count} × {one.problem.label}, then {', '.join(one.followers) or 'nothing'}"
            for one, count in self.counts.most_common()
        ]
        lines += [f"{count} × not recorded: {reason}" for reason, count in self.skipped.items()]
        return "\n".join(lines) or (
            "no multiplication was compiled; call torch.compile(model)(x) while it records, and torch.compiler.reset() before it "
            "if the model was compiled already"
        )

    def __repr__(self) -> str:
        return f"<Recording of {sum(self.counts.values())} multiplications, {len(self.problems)} problems>"

    def _add(self, inputs: Any, op: str, followers: tuple[str, ...]) -> None:
        try:
            problem = problem_of(inputs, op)
        except Unsupported as unsupported:
            self.skipped[f"{op}, since {unsupported}"] += 1
            return
        self.counts[Multiplication(problem, followers)] += 1

    def _add_picks(self, inputs: Any, op: str, entries: list[dict[str, Any]]) -> None:
        keys = kernels.lookup_keys(inputs, op)
        if keys:
            self._table[keys[0]] = entries


@contextlib.contextmanager
def added(recording: Recording) -> Iterator[None]:
    """A context in which a recording is active."""
    with _lock:
        _recordings.append(recording)
    try:
        yield
    finally:
        with _lock:
            _recordings.remove(recording)


def is_on() -> bool:
    """Whether a recording is active."""
    return bool(_recordings)


def note(op: str, inputs_of: Callable[[], Any]) -> None:
    """Records a multiplication that is about to be lowered."""

    def add(recording: Recording) -> None:
        inputs = inputs_of()
        if inputs is not None:
            recording._add(inputs, op, foreseen.followers(op))

    _each(add)


def note_traced(recording: Recording, graph: Any) -> None:
    """Records the multiplications of meta tensors in a traced graph."""

    def add(active: Recording) -> None:
        if active is recording:
            for op, operands, node in foreseen.on_meta(graph):
                recording._add(operands, op, foreseen.followers_of(node))

    _each(add)


def note_picks(op: str, inputs: Any, entries: Sequence[dict[str, Any]]) -> None:
    """Records what was picked for a multiplication, as entries of Inductor's lookup table. Without any, it is the library."""
    name = f"_{op}" if op in served.TARGETS.values() else op
    listed = [*entries] or [{"template_id": f"{kernels.LIBRARY}{name}"}]
    _each(lambda recording: recording._add_picks(inputs, op, listed))


def _each(add: Callable[[Recording], None]) -> None:
    with _lock:
        for recording in _recordings:
            try:
                add(recording)
            except Exception as error:  # A compile must not fail because of it.
                messages.log_once(f"recording {error}", logging.WARNING, "a multiplication was not recorded: %s", error)


def write(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file, in the place of an earlier one."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DiodeError(f"{os.fspath(path)}: {error.strerror}") from None
