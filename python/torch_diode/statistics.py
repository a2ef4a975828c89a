"""Counts decisions."""

from __future__ import annotations

import threading
from typing import Any, TypedDict, cast

COUNTERS = (
    "total_calls",
    "model_selections",
    "table_selections",
    "function_selections",
    "library_picks",
    "configs_filtered",
    "fallback_non_mm_op",
    "fallback_no_model",
    "fallback_empty_result",
    "fallback_error",
)


class Counts(TypedDict):
    """What was counted."""

    total_calls: int
    model_selections: int
    table_selections: int
    function_selections: int
    library_picks: int
    configs_filtered: int
    fallback_non_mm_op: int
    fallback_no_model: int
    fallback_empty_result: int
    fallback_error: int
    total_predictions: int
    fallbacks: int
    avg_confidence: float | None


class Statistics:
    """Counters that several threads may use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def count(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counts[name] += by

    def count_prediction(self, probability: Any) -> None:
        """Counts a prediction, and its confidence if that is known."""
        with self._lock:
            self._counts["model_selections"] += 1
            if probability is not None:
                self._confidences += probability
                self._with_confidence += 1

    def reset(self) -> None:
        """Sets all counters to zero. Every key stays."""
        with self._lock:
            self._counts = dict.fromkeys(COUNTERS, 0)
            self._confidences = 0.0
            self._with_confidence = 0

    def get(self) -> Counts:
        """Every counter, and the values derived from them. ``avg_confidence`` is None until a prediction states a confidence."""
        with self._lock:
            counts: dict[str, Any] = dict(self._counts)
            counts["total_predictions"] = counts["model_selections"]
            counts["fallbacks"] = sum(counts[name] for name in COUNTERS if name.startswith("fallback_"))
            counts["avg_confidence"] = self._confidences / self._with_confidence if self._with_confidence else None
            return cast(Counts, counts)
