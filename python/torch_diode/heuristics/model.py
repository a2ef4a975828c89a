"""Picks by models, one for each hardware."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from .._core import Hardware, Model
from . import Answer, Candidate, Request

_WORTH_TIMING = 1.25
"""Of several picks, those predicted to take longer than the fastest by this factor are not benchmarked.

None of them was missed on 246 problems that the model was judged by. Where the library is so far ahead, Inductor's
benchmark has taken far slower kernels for faster."""


class ModelHeuristic:
    """Ranks every config by a model of the request's hardware."""

    source = "model"

    def __init__(self, models: Sequence[Model], asked_for: str | None = None) -> None:
        self._models = {model.hardware.slug: model for model in models}
        self._asked_for = asked_for
        self._standing_in: dict[str, Model] = {}
        self._lock = threading.Lock()

    def models(self) -> Sequence[Model]:
        """The models, one for each hardware."""
        return list(self._models.values())

    def model_for(self, hardware: Hardware | None) -> Model | None:
        """The hardware's own model. Another one's stands in only where it was asked for by name."""
        if hardware is not None and hardware.slug in self._models:
            return self._models[hardware.slug]
        other = self._models.get(self._asked_for or "")
        if other is None or hardware is None or other.kind != "ranking":
            return other
        with self._lock:
            if hardware.slug not in self._standing_in:
                self._standing_in[hardware.slug] = other.standing_in_for(hardware)
            return self._standing_in[hardware.slug]

    def answer(self, request: Request) -> Answer | None:
        model = self.model_for(request.hardware)
        if model is None:
            return None
        threshold = request.performance_threshold
        # How many picks reach a probability was measured without a threshold.
        if threshold is None and request.min_confidence is None and model.kind == "ranking":
            threshold = _WORTH_TIMING
        choice = model.choose(
            request.problem,
            request.top_k,
            min_confidence=request.min_confidence,
            performance_threshold=threshold,
            tf32=request.tf32,
            shared_memory=request.shared_memory,
            cache=request.cache_predictions,
        )
        return Answer(
            source=self.source,
            candidates=[Candidate(config, us) for config, us in choice.picks],
            why=f"predicted fastest of {choice.ranked} configs and the library by the model of {model.hardware.slug} "
            f"({model.digest[:12]})",
            near=[Candidate(config, us) for config, us in choice.near],
            probability=choice.probability,
            between_us=choice.first_us,
            caveat=choice.caveat,
        )

    def digest(self) -> str:
        return ",".join(sorted(model.digest for model in self._models.values())) + f";{self._asked_for}"
