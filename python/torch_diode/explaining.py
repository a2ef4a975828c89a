"""The decisions, to be read after a compile."""

from __future__ import annotations

from . import choices, status
from .picks import Explanation
from .statistics import Counts, Statistics


def explain() -> Explanation:
    """Explains the last compile that decided something: what was picked, why, what time was expected, what else was near.

    >>> torch_diode.install()
    >>> print(torch_diode.explain())
    torch_diode decided nothing since it was installed. ...
    """
    selector = choices.active_selector()
    return selector.records.last_compile() if selector else _nothing()


def history() -> Explanation:
    """Explains every compile since the installation, as far as decisions are still kept.

    >>> torch_diode.install()
    >>> [pick.label for pick in torch_diode.history()]
    []
    """
    selector = choices.active_selector()
    return selector.records.all() if selector else _nothing()


def _nothing() -> Explanation:
    nothing = Explanation()
    nothing.why_not = "this thread collects timings" if choices.is_paused() else status.why_not_installed()
    return nothing


def get_stats() -> Counts:
    """Counts how many kernels were picked, by what, and how many were left to Inductor.

    >>> torch_diode.get_stats()["total_calls"]
    0
    """
    selector = choices.active_selector()
    return selector.statistics.get() if selector else Statistics().get()


def reset_stats() -> None:
    """Sets every count to zero and forgets every decision.

    >>> torch_diode.reset_stats()
    >>> torch_diode.get_stats()["fallbacks"]
    0
    """
    selector = choices.active_selector()
    if selector:
        selector.statistics.reset()
        selector.records.clear()
