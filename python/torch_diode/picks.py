"""Decisions: what was picked and why."""

from __future__ import annotations

import collections
import dataclasses
import threading

from . import machine
from ._core import Problem
from .heuristics import Candidate

_MOST = 4096


@dataclasses.dataclass(frozen=True)
class Pick:
    """One decision: what it was about, what was picked, and why."""

    compile_id: str
    compile_number: int
    """Tells compiles apart. torch gives the same id again after ``torch.compiler.reset()``."""
    problem: Problem | None
    label: str
    source: str
    """``model``, ``table`` or ``function``. ``rule`` if it is always lowered so. ``inductor`` if the decision was left to Inductor."""
    why: str
    picks: tuple[Candidate, ...] = ()
    near: tuple[Candidate, ...] = ()
    probability: float | None = None
    between_us: tuple[float, float] | None = None
    caveat: str | None = None
    fusion: str | None = None
    """How long the epilogue was expected to take, fused or not, in words."""
    dropped: tuple[str, ...] = ()
    """Candidates that cannot run, with the reason."""

    def lines(self) -> list[str]:
        """The decision as lines of text."""
        if self.source == "rule":
            return [f"{self.label}: {self.why}"]
        if not self.picks:
            return [f"{self.label}: left to Inductor, since {self.why}", *self._notes()]
        chosen = ", ".join(_shown(pick) for pick in self.picks)
        how = "not benchmarked" if len(self.picks) == 1 else f"{len(self.picks)} to be benchmarked"
        lines = [f"{self.label}: {chosen} ({how})", f"    why: {self.why}"]
        if self.fusion is not None:
            lines.append(f"    {self.fusion}")
        if self.between_us is not None:
            low, high = self.between_us
            lines.append(f"    expected: {_time(low)} to {_time(high)} in four cases of five")
        if self.probability is not None:
            lines.append(f"    sure: within 5 % of the best for {self.probability:.0%} of problems of its group")
        # Tiles that differ in nothing but the order of their blocks are shown once.
        known = {pick.config.label for pick in self.picks}
        unlike = {near.config.label: near for near in reversed(self.near) if near.config.label not in known}
        if unlike:
            lines.append("    also near: " + ", ".join(_shown(near) for near in reversed(unlike.values())))
        return lines + self._notes()

    def _notes(self) -> list[str]:
        return [f"    note: {note}" for note in (self.caveat, *self.dropped) if note]


def _time(us: float) -> str:
    return f"{us:.3g} µs" if us < 1000 else f"{us / 1000:.3g} ms"


def _shown(candidate: Candidate) -> str:
    name = candidate.config.label
    return name if candidate.expected_us is None else f"{name} {_time(candidate.expected_us)}"


class Explanation(list[Pick]):
    """The decisions of one compile. It is a list, and prints as text."""

    why_not = ""
    """Why the plug-in picks no kernels in this thread. Empty if it picks them."""

    def __str__(self) -> str:
        if not self and self.why_not:
            return f"torch_diode picks nothing here: {self.why_not}."
        if not self:
            why_not = (
                "A graph that Inductor takes from its cache is not decided again: "
                "set torch.compiler.config.force_disable_caches = True to see it."
                if machine.has_gpu()
                else "It picks kernels for GPUs only, and this machine shows none."
            )
            return f"torch_diode decided nothing since it was installed. {why_not}"
        return "\n".join(line for pick in self for line in pick.lines())

    __repr__ = __str__


class Records:
    """The latest decisions of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._picks: collections.deque[Pick] = collections.deque(maxlen=_MOST)

    def add(self, pick: Pick) -> None:
        with self._lock:
            self._picks.append(pick)

    def clear(self) -> None:
        with self._lock:
            self._picks.clear()

    def last_compile(self) -> Explanation:
        """The decisions of the compile that made the latest decision."""
        with self._lock:
            picks = list(self._picks)
        return Explanation([pick for pick in picks if pick.compile_number == picks[-1].compile_number])

    def all(self) -> Explanation:
        """Every decision that is still kept, oldest first."""
        with self._lock:
            return Explanation(self._picks)
