"""Picks with models, one for each hardware."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from .._core import WEIGHED, Choice, Config, Costs, Hardware, Model, Problem, weighed
from ..epilogue import in_words
from . import Answer, Candidate, Request

_WORTH_TIMING = 1.25
"""If there are several picks, those predicted to be slower than the fastest by this factor are not benchmarked.

That lost none of the best picks on 246 problems that the model was judged by. If the library is so far ahead, Inductor's
benchmark has mistaken far slower kernels for faster ones."""

_SECTOR_BYTES = 32
_ALIGNED_BYTES = 16

_NEAR = 6
"""How many configs that were not picked are named as near."""


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
        threshold = request.performance_threshold
        # A confidence holds for picks without a threshold. So no threshold is set where a confidence is asked for.
        if threshold is None and request.min_confidence is None and model.kind == "ranking":
            threshold = _WORTH_TIMING
        choice = model.choose(
            request.problem,
            request.top_k,
            min_confidence=request.min_confidence,
            performance_threshold=threshold,
            tf32=request.tiles_tf32,
            shared_memory=request.shared_memory,
            cache=request.cache_predictions,
        )
        picks = [Candidate(config, us) for config, us in choice.picks]
        near = [Candidate(config, us) for config, us in choice.near]
        unjudged = self._unjudged(model, request, choice)
        if unjudged is not None and _is_taken_untried(request):
            library = [Candidate(Config("aten"))]
            return Answer(
                self.source, library, f"{unjudged}, so it is left to the library", near=[*picks, *near], caveat=choice.caveat
            )
        answer = Answer(
            source=self.source,
            candidates=picks,
            why=f"predicted fastest of {choice.ranked} configs and the library by {self._named(model)}",
            near=near,
            probability=choice.probability,
            between_us=choice.first_us,
            caveat=choice.caveat,
        )
        is_judged_alone = model.kind == "ranking" and _is_taken_untried(request)
        return self._weighed(answer, model, request, choice) if is_judged_alone else answer

    def _unjudged(self, model: Model, request: Request, choice: Choice) -> str | None:
        """Why nobody knows how good a model's picks are for a problem. ``None`` if that was measured or does not matter."""
        problem = request.problem
        if request.pick_unjudged or model.kind != "ranking":
            return None
        if request.tf32 and not model.knows_tf32:
            return f"the file of the model of {model.hardware.slug} does not say whether it was judged on TF32"
        if request.tf32 and not request.tiles_tf32:
            return "the library computes such sizes in TF32, and tiles do not"
        # The user has asked by name for a model that stands in. Such a model is trusted with the kinds of problems
        # that it was judged on for its own hardware.
        stands_in = model is not self._models.get(model.hardware.slug)
        judged = problem.op in model.ops and problem.dtype in model.dtypes if stands_in else choice.caveat is None
        if judged and problem.op == "addmm" and _rows_begin_off_a_sector(problem):
            return f"the model of {model.hardware.slug} was judged on few linear layers whose weights' rows begin off a sector"
        return None if judged else f"the model of {model.hardware.slug} was not judged on such problems"

    def _named(self, model: Model) -> str:
        """A model in words: whose it is, and the beginning of its file's digest."""
        slug = model.hardware.slug
        if self._models.get(slug) is model:
            return f"the model of {slug} ({model.digest[:12]})"
        assert self._asked_for is not None
        own = self._models[self._asked_for]
        return f"the model of {own.hardware.slug} ({own.digest[:12]}), which stands in for one of {slug}"

    def _weighed(self, answer: Answer, model: Model, request: Request, choice: Choice) -> Answer:
        """The answer for a single pick. It weighs tiles against the library with their doubt and with the epilogue's costs."""
        costs = Costs.of(request.hardware) if request.hardware else None
        epilogue = request.epilogue if costs is not None else None
        considered = choice
        # If the first pick is a tile, the library may be almost as fast and yet not be among the near configs.
        if epilogue is not None or not answer.candidates[0].config.is_library:
            considered = model.choose(
                request.problem,
                WEIGHED,
                tf32=request.tiles_tf32,
                shared_memory=request.shared_memory,
                cache=request.cache_predictions,
            )
        best_first = weighed([*considered.picks, *considered.near], request.problem, costs, epilogue)
        best, first = best_first[0], answer.candidates[0]
        if best.config == first.config and epilogue is None:
            return answer
        assert first.expected_us is not None
        scale = best.alone_us / first.expected_us
        by = f"by {self._named(model)}"
        why, longer = answer.why, best.us / min(one.us for one in best_first) - 1
        if longer > 0 and not best.config.is_library:
            why = f"compiled sooner than the fastest tile, and predicted to take {longer:.1%} longer, {by}"
        elif best.config.is_library and (longer > 0 or epilogue is None):
            following = "" if epilogue is None else ", with what follows"
            why = f"no tile is predicted to be clearly faster than the library{following}, {by}"
        elif epilogue is not None:
            why = f"predicted fastest with what follows, of the {WEIGHED} likeliest of {choice.ranked} configs and the library, {by}"
        return dataclasses.replace(
            answer,
            candidates=[Candidate(best.config, best.alone_us)],
            why=why,
            near=[Candidate(one.config, one.alone_us) for one in best_first[1 : 1 + _NEAR]],
            between_us=answer.between_us and (answer.between_us[0] * scale, answer.between_us[1] * scale),
            fusion=in_words(costs, epilogue, best_first) if costs is not None and epilogue is not None else None,
        )

    def digest(self) -> str:
        return ",".join(sorted(model.digest for model in self._models.values())) + f";{self._asked_for}"


def _rows_begin_off_a_sector(problem: Problem) -> bool:
    """Whether rows of B are aligned but begin inside a sector of memory.

    On an H200, tiles then take up to 1.3 times as long. Rows that are not aligned are another kind of problem.
    """
    bytes_of_row = problem.k * (4 if problem.b_dtype == "float32" else 2)
    return problem.b_layout == "column" and bytes_of_row % _ALIGNED_BYTES == 0 and bytes_of_row % _SECTOR_BYTES != 0


def _is_taken_untried(request: Request) -> bool:
    """Whether the first pick is compiled without a benchmark that compares it with the library."""
    return request.top_k == 1 and request.min_confidence is None
