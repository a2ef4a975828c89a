"""The decision for one kernel: asks the heuristics in turn and keeps what can run."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._inductor import config

from . import messages
from ._core import Hardware, obstacle
from .heuristics import Answer, Candidate, Heuristic, Request
from .kernels import Offer
from .problems import OPS, Device, Unsupported, device_of, problem_of, tf32_allowed
from .records import Pick, Records
from .settings import Settings
from .statistics import Statistics

# A failed launch fails the whole compile, so an unknown size is taken for the smallest of the catalogue.
_LEAST_SHARED_MEMORY = 65536


class NoAnswer(Exception):
    """No heuristic has an answer that can run: the counter to raise and the reason in words."""

    def __init__(self, counter: str, reason: str, problem: Any = None) -> None:
        super().__init__(reason)
        self.counter = counter
        self.problem = problem


class Selector:
    """Picks kernels by a chain of heuristics."""

    def __init__(self, heuristics: Sequence[Heuristic], *, hardware: Hardware | None = None) -> None:
        self.heuristics = tuple(heuristics)
        self.statistics = Statistics()
        self.records = Records()
        self._hardware = hardware

    def digest(self) -> str:
        """Changes whenever another kernel may be picked."""
        parts = [f"{heuristic.source}:{heuristic.digest()}" for heuristic in self.heuristics]
        return "|".join([*parts, self._hardware.slug if self._hardware else ""])

    def select(
        self,
        get_ktc: Callable[..., Any],
        kernel_inputs: Any,
        templates: Sequence[Any],
        op_name: str,
        overrides: Mapping[str, Mapping[str, Any]] | None,
        settings: Settings,
    ) -> list[Any] | None:
        """The choices to take instead of Inductor's; ``None`` leaves the kernel to Inductor."""
        offer = Offer(get_ktc, kernel_inputs, templates, op_name, overrides)
        if not offer.is_tunable():
            return None
        self.statistics.count("total_calls")
        try:
            return self._picked(offer, kernel_inputs, op_name, settings)
        except NoAnswer as no_answer:
            self._record_left(no_answer.counter, str(no_answer), op_name, no_answer.problem)
        except Exception as error:  # Whatever it is, a compile must not fail for it.
            messages.logger.debug("picking a kernel failed", exc_info=True)
            self._record_left("fallback_error", f"picking failed: {type(error).__name__}: {error}", op_name)
        return None

    def _record_left(self, counter: str, reason: str, op_name: str, problem: Any = None) -> None:
        self.statistics.count(counter)
        level = logging.WARNING if counter == "fallback_error" else logging.INFO
        messages.log_once(f"{counter} {reason}", level, "%s is left to Inductor: %s", op_name, reason)
        label = problem.label if problem is not None else op_name
        self.records.add(Pick(_compile_id(), problem, label, "inductor", reason))

    def _picked(self, offer: Offer, kernel_inputs: Any, op_name: str, settings: Settings) -> list[Any]:
        if op_name not in OPS:
            raise NoAnswer("fallback_non_mm_op", f"{op_name} is not among {', '.join(OPS)}")
        try:
            device = device_of(kernel_inputs)
            problem = problem_of(kernel_inputs, op_name)
        except Unsupported as unsupported:
            raise NoAnswer("fallback_non_mm_op", str(unsupported)) from None
        request = self._request(problem, device, kernel_inputs, op_name, settings)
        dropped: list[str] = []
        for heuristic in self.heuristics:
            try:
                answer = heuristic.answer(request)
            except Exception as error:  # A user's function may raise anything; the next heuristic may still have an answer.
                self.statistics.count("fallback_error")
                reason = f"{heuristic.source} failed: {type(error).__name__}: {error}"
                messages.log_once(reason, logging.WARNING, "%s", reason)
                dropped.append(reason)
                continue
            if answer is None:
                continue
            kept, choices = self._runnable(offer, answer, request, dropped)
            if choices:
                self._count(answer, kept)
                self.records.add(_pick(request, answer, kept, dropped))
                return _in_turn(choices)
        if dropped:
            raise NoAnswer("fallback_empty_result", f"no candidate can run ({'; '.join(dropped)})", problem)
        name = request.hardware.slug if request.hardware else device.name
        raise NoAnswer("fallback_no_model", f"no table, model or function knows it on {name}", problem)

    def _request(self, problem: Any, device: Device, kernel_inputs: Any, op_name: str, settings: Settings) -> Request:
        hardware = device.hardware or self._hardware
        shared_memory = device.shared_memory or (hardware.shared_memory if hardware else None)
        return Request(
            problem=problem,
            hardware=hardware,
            device_name=device.name,
            shared_memory=shared_memory or _LEAST_SHARED_MEMORY,
            tf32=tf32_allowed(),
            top_k=settings.top_k,
            min_confidence=settings.min_confidence,
            performance_threshold=settings.performance_threshold,
            cache_predictions=settings.cache_predictions,
            inductor_keys=functools.partial(_inductor_keys, kernel_inputs, op_name),
        )

    def _runnable(self, offer: Offer, answer: Answer, request: Request, dropped: list[str]) -> tuple[list[Candidate], list[Any]]:
        kept, choices = [], []
        assert request.shared_memory is not None
        for candidate in answer.candidates:
            reason = obstacle(request.problem, candidate.config, request.shared_memory, tf32=request.tf32)
            choice = offer.choice(candidate) if reason is None else None
            if choice is not None:
                kept.append(candidate)
                choices.append(choice)
                continue
            self.statistics.count("configs_filtered")
            dropped.append(reason or f"{candidate.config.label}: its template is not offered here")
        return kept, choices

    def _count(self, answer: Answer, kept: Sequence[Candidate]) -> None:
        if answer.source == "model":
            self.statistics.count_prediction(answer.probability)
        else:
            self.statistics.count(f"{answer.source}_selections")
        if kept[0].config.is_library:
            self.statistics.count("library_picks")


def _in_turn(choices: list[Any]) -> list[Any]:
    """Several choices with the likeliest last: that is the order in which Inductor benchmarks them.

    A GPU that has idled through the compiling runs slowly at first, so the first choice is timed slower than it is.
    Where Inductor is not to benchmark it takes the first one.
    """
    return choices if config.deterministic else choices[::-1]


def _inductor_keys(kernel_inputs: Any, op_name: str) -> list[str]:
    """The keys of Inductor's lookup table, the device's own first."""
    from torch._inductor.lookup_table import LookupTableChoices

    keys = LookupTableChoices().make_lookup_key_variants(kernel_inputs, op_name)
    return [key for key in keys if key is not None]


def _pick(request: Request, answer: Answer, kept: Sequence[Candidate], dropped: Sequence[str]) -> Pick:
    return Pick(
        compile_id=_compile_id(),
        problem=request.problem,
        label=request.problem.label,
        source=answer.source,
        why=answer.why,
        picks=tuple(kept),
        near=tuple(answer.near),
        probability=answer.probability,
        between_us=answer.between_us,
        caveat=answer.caveat,
        dropped=tuple(dropped),
    )


def _compile_id() -> str:
    """The id of the compile that runs in this thread; a frame's forward and backward share it."""
    current = torch._guards.CompileContext.current_compile_id()
    return str(current)
