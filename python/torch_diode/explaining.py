"""The decisions, to be read after a compile."""

from __future__ import annotations

from typing import Any

from . import choices
from .picks import Explanation
from .statistics import Statistics


def explain() -> Explanation:
    """Explains the last compile that decided something: what was picked, why, what time was expected, what else was near."""
    selector = choices.active_selector()
    return selector.records.last_compile() if selector else _nothing()


def history() -> Explanation:
    """Explains every compile since the installation, as far as decisions are still kept."""
    selector = choices.active_selector()
    return selector.records.all() if selector else _nothing()


def _nothing() -> Explanation:
    nothing = Explanation()
    nothing.picks_now = False
    return nothing


def get_stats() -> dict[str, Any]:
    """How many kernels were picked, by what, and how many were left to Inductor."""
    selector = choices.active_selector()
    return selector.statistics.get() if selector else Statistics().get()


def reset_stats() -> None:
    """Sets every count to zero and forgets every decision."""
    selector = choices.active_selector()
    if selector:
        selector.statistics.reset()
        selector.records.clear()
