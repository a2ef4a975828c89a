"""Decides on one kernel: asks the heuristics in turn and keeps what can run."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from . import messages
from ._core import Costs, Hardware, hides_steps, obstacle
from .heuristics import Answer, Candidate, Heuristic, Request
from .heuristics.attention import AttentionRequest
from .inductor import OPS, attention, config, epilogues, kernels, served
from .kernels import Offer
from .picks import Pick, Records
from .problems import Device, Unsupported, described_device, device_of, problem_of
from .settings import Settings
from .statistics import Statistics

# A failed launch fails the whole compile. So an unknown size counts as the smallest in the catalogue.
_LEAST_SHARED_MEMORY = 65536

T = TypeVar("T")


class NoAnswer(Exception):
    """No heuristic has an answer that can run. Holds the counter to increase, and the reason in words."""

    def __init__(self, counter: str, reason: str, problem: Any = None) -> None:
        super().__init__(reason)
        self.counter = counter
        self.problem = problem


class Question:
    """A kernel to decide on, and the answers so far. Each heuristic is asked once, when its turn comes."""

    def __init__(self, request: Request, heuristics: Sequence[Heuristic], statistics: Statistics) -> None:
        self.request = request
        self.failures: list[str] = []
        """Why heuristics failed, in words."""
        self._heuristics = iter(heuristics)
        self._statistics = statistics
        self._answers: list[Answer] = []

    def answers(self) -> Iterator[Answer]:
        yield from self._answers
        for heuristic in self._heuristics:
            try:
                answer = heuristic.answer(self.request)
            except Exception as error:  # A user's function may raise anything. The next heuristic may still have an answer.
                self._statistics.count("fallback_error")
                name = getattr(heuristic, "name", heuristic.source)
                reason = f"{name} failed: {type(error).__name__}: {error}"
                messages.log_once(reason, logging.WARNING, "%s", reason)
                self.failures.append(reason)
                continue
            if answer is not None:
                self._answers.append(answer)
                yield answer


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is to run."""

    question: Question
    answer: Answer
    picks: Sequence[Candidate]
    """The candidates that were picked, the likeliest first."""
    choices: Sequence[Any]
    """Inductor's choices for the picks. Empty before Inductor has offered its templates."""
    dropped: Sequence[str]
    """Candidates that cannot run, with the reason."""

    @property
    def library_alone(self) -> bool:
        return all(pick.config.is_library for pick in self.picks)


class Selector:
    """Picks kernels by a chain of heuristics."""

    def __init__(self, heuristics: Sequence[Heuristic], *, hardware: Hardware | None = None) -> None:
        self.heuristics = tuple(heuristics)
        of = lambda kind: tuple(one for one in heuristics if getattr(one, "kind", "multiplication") == kind)
        self._multiplications, self._attentions = of("multiplication"), of("attention")
        self.statistics = Statistics()
        self.records = Records()
        self._hardware = hardware

    def digest(self) -> str:
        """A text that changes whenever another kernel may be picked."""
        parts = [f"{heuristic.source}:{heuristic.digest()}" for heuristic in self.heuristics]
        return "|".join([*parts, self._hardware.slug if self._hardware else ""])

    def decide(
        self, inputs: Any, op: str, settings: Settings, offer: Offer | None = None, before: Question | None = None
    ) -> Decision | None:
        """What is to run. ``None`` leaves the kernel to Inductor. With an ``offer``, only its templates count.

        ``before`` holds the heuristics' answers from before the lowering. It is used if the problem is still the same.
        """

        def decided() -> Decision:
            question = self._question(inputs, op, settings)
            if before is not None and before.request.problem == question.request.problem:
                question = before
            return self._decided(question, offer)

        return self.unfailing(decided, op)

    def unfailing(self, function: Callable[[], T], op: str) -> T | None:
        """What a function returns. If it fails, ``None``, and the failure is recorded: a compile must not fail because of it."""
        try:
            return function()
        except NoAnswer as no_answer:
            self.record_left(no_answer.counter, str(no_answer), op, no_answer.problem)
        except Exception as error:
            messages.logger.debug("picking a kernel failed", exc_info=True)
            self.record_left("fallback_error", f"picking failed: {type(error).__name__}: {error}", op)
        return None

    def record_left(self, counter: str, reason: str, op: str, problem: Any = None) -> None:
        """Records that a kernel is left to Inductor."""
        self.statistics.count("total_calls")
        self.statistics.count(counter)
        level = logging.WARNING if counter == "fallback_error" else logging.INFO
        messages.log_once(f"{counter} {reason}", level, "%s is left to Inductor: %s", op, reason)
        label = problem.label if problem is not None else op
        self.records.add(Pick(kernels.compile_id(), kernels.compile_number(), problem, label, "inductor", reason))

    def record_untiled(self, op: str) -> None:
        """Records a multiplication for which Inductor has no tiles, so that there is nothing to decide."""
        reason = "Inductor has no tiles for it (its type, a size of 0, an output of another type, or a beta of 0)"
        self.records.add(Pick(kernels.compile_id(), kernels.compile_number(), None, op, "inductor", reason))

    def record_rule(self, what: str, why: str) -> bool:
        """Records that something is lowered in another way, on hardware like that on which this was measured."""
        device = described_device(torch.cuda.current_device())
        known = device.hardware is not None and Costs.of(device.hardware) is not None
        told = ("rule", why) if known else ("inductor", "other ways were measured on other GPUs only")
        self.records.add(Pick(kernels.compile_id(), kernels.compile_number(), None, what, *told))
        return known

    def attention(self, kind: str, found: Sequence[Any]) -> Any:
        """The options for a kernel of FlexAttention. ``None`` leaves it to torch."""
        device = described_device(torch.cuda.current_device())
        asked = attention.asked(kind)
        hardware = device.hardware or self._hardware
        request = AttentionRequest(asked, hardware)
        answers = (one.answer(request) for one in self._attentions) if asked.why_not is None else iter(())
        answer = next((answer for answer in answers if answer is not None), None)
        options = None if answer is None else attention.changed(found[0], answer.candidates[0], asked)
        if options is None:
            unknown = "no table knows such kernels" if answer is None else answer.why
            why = asked.why_not or unknown
            self.records.add(Pick(kernels.compile_id(), kernels.compile_number(), None, asked.label, "inductor", why))
            return None
        assert answer is not None
        pick = Pick(
            kernels.compile_id(), kernels.compile_number(), None, asked.label, answer.source, answer.why, tuple(answer.candidates)
        )
        self.records.add(pick)
        return options

    def record(self, decision: Decision) -> None:
        """Records what is to run."""
        answer = decision.answer
        self.statistics.count("total_calls")
        self.statistics.count("configs_filtered", len(decision.dropped))
        if answer.source == "model":
            self.statistics.count_prediction(answer.probability)
        else:
            self.statistics.count(f"{answer.source}_selections")
        if decision.picks[0].config.is_library:
            self.statistics.count("library_picks")
        self.records.add(_pick(decision))

    def _question(self, inputs: Any, op: str, settings: Settings) -> Question:
        try:
            device = device_of(inputs)
            problem = problem_of(inputs, op)
        except Unsupported as unsupported:
            raise NoAnswer("fallback_non_mm_op", str(unsupported)) from None
        return Question(self._request(problem, device, inputs, op, settings), self._multiplications, self.statistics)

    def _request(self, problem: Any, device: Device, inputs: Any, op: str, settings: Settings) -> Request:
        hardware = device.hardware or self._hardware
        shared_memory = device.shared_memory or (hardware.shared_memory if hardware else None)
        tf32 = problem.dtype == "float32" and op in OPS and kernels.library_uses_tf32()
        served_one = inputs if isinstance(inputs, served.Served) else None
        epilogue = epilogues.epilogue_of(op)
        return Request(
            problem=problem,
            hardware=hardware,
            device_name=device.name,
            shared_memory=shared_memory or _LEAST_SHARED_MEMORY,
            tf32=tf32,
            tiles_tf32=tf32 and kernels.tiles_use_tf32(inputs, op),
            top_k=settings.top_k,
            min_confidence=settings.min_confidence,
            performance_threshold=settings.performance_threshold,
            cache_predictions=settings.cache_predictions,
            pick_unjudged=settings.pick_unjudged,
            epilogue=epilogue,
            tma=op in served.GROUPED or served_one is None or served_one.may_use_tma(),
            # Nothing becomes part of a tile whose product is turned back.
            may_swap=epilogue is None and served_one is not None and served_one.may_swap(),
            inductor_keys=functools.partial(kernels.lookup_keys, inputs, op),
        )

    def _decided(self, question: Question, offer: Offer | None) -> Decision:
        request, dropped = question.request, []
        for answer in question.answers():
            kept: list[tuple[Candidate, Any]] = []
            for candidate in answer.candidates:
                found = _runnable(candidate, request, offer)
                if isinstance(found, str):
                    dropped.append(found)
                else:
                    kept.append((candidate, *found))
            # If Inductor must not benchmark, it would take the library from among several choices, so
            # only one is kept.
            kept = kept[:1] if config.is_deterministic() else kept
            if kept:
                choices = [choice for _, choice in kept if choice is not None]
                return Decision(question, answer, [candidate for candidate, _ in kept], choices, dropped)
        self.statistics.count("configs_filtered", len(dropped))
        reasons = [*question.failures, *dropped]
        if reasons:
            raise NoAnswer("fallback_empty_result", f"no candidate can run ({'; '.join(reasons)})", request.problem)
        name = request.hardware.slug if request.hardware else request.device_name
        raise NoAnswer("fallback_no_model", f"no table, model or function knows it on {name}", request.problem)


def _runnable(candidate: Candidate, request: Request, offer: Offer | None) -> tuple[Any] | str:
    """The choice for a candidate, or why it cannot run. The tuple is empty as long as there is no offer."""
    assert request.shared_memory is not None
    reason = obstacle(request.problem, candidate.config, request.shared_memory, tf32=request.tiles_tf32)
    if reason is not None:
        return reason
    if candidate.config.swap_ab and not request.may_swap:
        return f"{candidate.config.label}: its operands cannot be swapped here"
    if offer is None:
        offered = not candidate.config.is_library or kernels.offers_library()
        choice = None
    else:
        choice = offer.choice(candidate, **_hidden(candidate, request))
        offered = choice is not None
    return (choice,) if offered else f"{candidate.config.label}: its template is not offered here"


def _hidden(candidate: Candidate, request: Request) -> dict[str, bool]:
    """What the kernel should hide from the assembler, to compile sooner or to be as fast as the timed kernel.

    An entry of Inductor's own table stays as it is.
    """
    # Hardware whose model stands in for this device's says nothing about its compiler.
    device = Hardware.find(request.device_name)
    if device is None or Costs.of(device) is None or candidate.params is not None:
        return {}
    steps = request.tiles_tf32 and hides_steps(request.problem, candidate.config)
    return {"hides_steps": steps, "hides_strides": True}


def _pick(decision: Decision) -> Pick:
    answer, request = decision.answer, decision.question.request
    return Pick(
        compile_id=kernels.compile_id(),
        compile_number=kernels.compile_number(),
        problem=request.problem,
        label=request.problem.label,
        source=answer.source,
        why=answer.why,
        picks=tuple(decision.picks),
        near=tuple(answer.near),
        probability=answer.probability,
        between_us=answer.between_us,
        caveat=answer.caveat,
        fusion=answer.fusion,
        dropped=(*decision.question.failures, *decision.dropped),
    )
