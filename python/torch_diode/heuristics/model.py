"""Picks with models, one for each hardware."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from .. import messages
from .._core import Choice, Config, Costs, DiodeError, Hardware, Model
from ..inductor import OPS
from . import Answer, Candidate, Request

_WORTH_TIMING = 1.25
"""If there are several picks, those predicted to be slower than the fastest by this factor are not benchmarked.

That lost none of the best picks on 246 problems that the model was judged by. If the library is so far ahead, Inductor's
benchmark has mistaken far slower kernels for faster ones."""


_TRIED = "scaled_grouped_mm"
"""Models were not judged on it, but for nine products of experts in fp8 on an H200, what they picked was 1.00 to 1.37 times as fast as
the library (`comparison.py --parts grouped --only fp8`)."""


class ModelHeuristic:
    """Ranks every config with the model for the request's hardware."""

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
        """The model for a hardware: its own one. Another hardware's model stands in only if the user asked for it by name."""
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
        if request.problem.op not in OPS:
            return self._served(model, request)
        threshold = request.performance_threshold
        # A confidence holds for picks without a threshold. So no threshold is set where a confidence is asked for.
        if threshold is None and request.min_confidence is None and model.kind == "ranking":
            threshold = _WORTH_TIMING
        # One pick is compiled without a benchmark that compares it with the library. Otherwise Inductor's benchmark decides, also
        # about what is fused.
        is_alone = request.top_k == 1 and request.min_confidence is None and model.kind == "ranking"
        choice = self._chosen(model, request, threshold, is_alone=is_alone)
        if choice.unjudged is not None:
            return self._unjudged(choice)
        return self._answer(model, request, choice, is_alone=is_alone)

    def _chosen(self, model: Model, request: Request, threshold: float | None, *, is_alone: bool) -> Choice:
        return model.choose(
            request.problem,
            request.top_k,
            min_confidence=request.min_confidence,
            performance_threshold=threshold,
            tf32=request.tiles_tf32,
            library_tf32=request.tf32,
            shared_memory=request.shared_memory,
            epilogue=request.epilogue if is_alone else None,
            alone=is_alone,
            untried=request.pick_unjudged or request.problem.op == _TRIED,
            swapped=request.may_swap,
            tma=request.tma,
            cache=request.cache_predictions,
        )

    def _answer(self, model: Model, request: Request, choice: Choice, *, is_alone: bool) -> Answer:
        return Answer(
            source=self.source,
            candidates=[Candidate(config, us) for config, us in choice.picks],
            why=f"{choice.why}, by {self._named(model)}",
            near=[Candidate(config, us) for config, us in choice.near],
            probability=choice.probability,
            between_us=choice.first_us,
            caveat=choice.caveat,
            fusion=_fusion(request, choice) if is_alone else None,
        )

    def _unjudged(self, choice: Choice) -> Answer:
        near = [Candidate(config, us) for config, us in (*choice.picks, *choice.near)]
        why = f"{choice.unjudged}, so it is left to the library"
        return Answer(self.source, [Candidate(Config("aten"))], why, near=near, caveat=choice.caveat)

    def _served(self, model: Model, request: Request) -> Answer | None:
        """The one pick for a scaled or grouped multiplication. ``None`` if the model has not learnt such problems."""
        try:
            choice = self._chosen(model, dataclasses.replace(request, top_k=1, min_confidence=None), None, is_alone=True)
        except DiodeError as error:
            messages.logger.debug("%s: %s", request.problem.label, error)
            return None
        if choice.unjudged is not None:
            return self._unjudged(choice)
        return self._answer(model, request, choice, is_alone=True)

    def _named(self, model: Model) -> str:
        """A model in words: whose it is, and the beginning of its file's digest."""
        slug = model.hardware.slug
        if self._models.get(slug) is model:
            return f"the model of {slug} ({model.digest[:12]})"
        assert self._asked_for is not None
        own = self._models[self._asked_for]
        return f"the model of {own.hardware.slug} ({own.digest[:12]}), which stands in for one of {slug}"

    def digest(self) -> str:
        return ",".join(sorted(model.digest for model in self._models.values())) + f";{self._asked_for}"


def _fusion(request: Request, choice: Choice) -> str | None:
    """Whether the epilogue is fused, and how long it was expected to take."""
    costs = Costs.of(request.hardware) if request.hardware else None
    if costs is None or request.epilogue is None:
        return None
    label, separate = request.epilogue.label, f"{costs.separate_us(request.epilogue):.2g} µs as a kernel after the library"
    if choice.tile is None:
        return f"not fused: {label}, expected to take {separate}"
    tile, alone_us, following_us = choice.tile
    if choice.picks[0][0] == tile:
        return f"fused: {label}, expected to take {following_us:.2g} µs in the tile, {separate}"
    inside = f"{following_us:.2g} µs in the best tile, {tile.label} {alone_us:.3g} µs"
    return f"not fused: {label}, expected to take {separate}, {inside}"
