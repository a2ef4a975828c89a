"""What decides: tables, models, functions. Each answers a request or leaves it to the next one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import marshal
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from . import messages
from ._core import Config, DiodeError, Hardware, Model, Problem, Table


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A kernel to compile. ``config`` says what runs; a table in Inductor's form gives all ``params`` itself."""

    config: Config
    expected_us: float | None = None
    params: Mapping[str, Any] | None = None
    template_hash: str | None = None


@dataclasses.dataclass(frozen=True)
class Request:
    """What is to be decided."""

    problem: Problem
    hardware: Hardware | None
    """The hardware to decide for; ``None`` if the catalogue does not have the device."""
    device_name: str
    shared_memory: int | None
    tf32: bool
    top_k: int
    min_confidence: float | None
    performance_threshold: float | None
    cache_predictions: bool
    inductor_keys: Callable[[], Sequence[str]] = tuple
    """Makes the keys under which Inductor's own tables list the problem."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """Candidates, the preferred one first, and why."""

    source: str
    candidates: Sequence[Candidate]
    why: str
    near: Sequence[Candidate] = ()
    probability: float | None = None
    between_us: tuple[float, float] | None = None
    caveat: str | None = None


class Heuristic(Protocol):
    """One way to decide."""

    source: str

    def answer(self, request: Request) -> Answer | None:
        """Candidates for a request; ``None`` leaves it to the next heuristic."""

    def digest(self) -> str:
        """Changes whenever answers may change: it is part of the key of Inductor's graph cache."""


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


class _WatchedFile:
    """A file that is read again when it changed. A broken edit keeps the last good content."""

    def __init__(self, path: str | os.PathLike[str], read: Callable[[str], Any]) -> None:
        self._path = os.fspath(path)
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._stamp()
        self._content = read(self._path)

    def _stamp(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise DiodeError(f"{self._path}: {error.strerror}") from None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def content(self) -> Any:
        with self._lock:
            try:
                stamp = self._stamp()
                if stamp != self._seen:
                    self._seen = stamp
                    self._content = self._read(self._path)
            except DiodeError as error:
                messages.log_once(f"{self._path} {error}", logging.WARNING, "%s; the last good content stays in use", error)
            return self._content


class TableHeuristic:
    """Looks problems up in a table of Diode or torch-diode; an edit of its file takes effect at the next compile."""

    source = "table"

    def __init__(self, table: str | os.PathLike[str] | Table, *, nearest: bool = False) -> None:
        self._nearest = nearest
        if isinstance(table, Table):
            self._table: Callable[[], Table] = lambda: table
        else:
            self._table = _WatchedFile(table, Table.load).content

    def answer(self, request: Request) -> Answer | None:
        table = self._table()
        if request.hardware is None or table.hardware.slug != request.hardware.slug:
            return None
        listed = table.lookup(request.problem)
        if listed is not None:
            candidates = [Candidate(config, us) for config, us in listed]
            return self._answer(request, candidates, f"listed in a table of {len(table)} problems")
        if not self._nearest:
            return None
        advice = table.nearest(request.problem, max(request.top_k, 6))
        if advice is None:
            return None
        candidates = [Candidate(config) for config, _ in advice]
        return self._answer(request, candidates, f"advised by the nearest of {len(table)} problems in a table")

    def _answer(self, request: Request, candidates: Sequence[Candidate], why: str) -> Answer:
        return Answer(self.source, candidates[: request.top_k], why, near=candidates[request.top_k :][:5])

    def digest(self) -> str:
        return f"{self._table().digest};{self._nearest}"


class InductorTableHeuristic:
    """Looks problems up in a table of Inductor's own form, by Inductor's own keys."""

    source = "table"

    def __init__(self, table: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        if isinstance(table, Mapping):
            content = _checked_inductor_table(table, "table")
            self._content: Callable[[], tuple[Mapping[str, Any], str]] = lambda: content
        else:
            self._content = _WatchedFile(table, _read_inductor_table).content

    def answer(self, request: Request) -> Answer | None:
        table, _ = self._content()
        for key in request.inductor_keys():
            if key in table:
                candidates = [_inductor_candidate(entry) for entry in table[key]]
                why = f"listed in a table of {len(table)} keys in Inductor's form"
                return Answer(self.source, candidates[: request.top_k], why, near=candidates[request.top_k :][:5])
        return None

    def digest(self) -> str:
        return self._content()[1]


def is_inductor_table(content: Any) -> bool:
    """Whether JSON looks like Inductor's form and not ours."""
    return isinstance(content, Mapping) and all("+" in key and isinstance(value, list) for key, value in content.items())


def _read_inductor_table(path: str) -> tuple[Mapping[str, Any], str]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        raise DiodeError(f"{path}: {error}") from None
    return _checked_inductor_table(content, path)


def _checked_inductor_table(content: Any, name: str) -> tuple[Mapping[str, Any], str]:
    if not is_inductor_table(content):
        raise DiodeError(f"{name}: got something else, expected Inductor's lookup table: lists of entries by key")
    for key, entries in content.items():
        for number, entry in enumerate(entries, 1):
            try:
                _inductor_candidate(entry)
            except (DiodeError, TypeError, KeyError) as error:
                raise DiodeError(f"{name}: `{key}`, entry {number}: {error}") from None
    text = json.dumps(content, sort_keys=True)
    return content, hashlib.sha256(text.encode()).hexdigest()


_SPELLINGS = {
    "BLOCK_M": "block_m",
    "BLOCK_N": "block_n",
    "BLOCK_K": "block_k",
    "GROUP_M": "group_m",
    "EVEN_K": "even_k",
    "ALLOW_TF32": "allow_tf32",
    "USE_FAST_ACCUM": "use_fast_accum",
    "ACC_TYPE": "acc_type",
}
_FIELDS = {
    *_SPELLINGS.values(), "template", "num_stages", "num_warps", "matrix_instr_nonkdim", "waves_per_eu", "kpack", "k_split"
}  # fmt: skip


def _inductor_candidate(entry: Mapping[str, Any]) -> Candidate:
    if not isinstance(entry, Mapping) or "template_id" not in entry:
        raise DiodeError(f"got {entry!r:.60}, expected an object with a template_id")
    params = {name: value for name, value in entry.items() if name not in ("template_id", "template_hash")}
    template = entry["template_id"]
    if template.startswith("aten::"):
        config = Config("aten")
    else:
        config = as_config({"template": template, **{k: v for k, v in params.items() if k in _SPELLINGS or k in _FIELDS}})
    return Candidate(config, params=params, template_hash=entry.get("template_hash"))


def as_config(value: Any) -> Config:
    """A config as a function may give it: a ``Config``, ``"aten"``, or a dict in our spelling or Inductor's."""
    if isinstance(value, Config):
        return value
    if isinstance(value, str):
        return Config(value)
    if isinstance(value, Mapping):
        fields = {_SPELLINGS.get(name, str(name)): setting for name, setting in value.items()}
        unknown = sorted(set(fields) - _FIELDS)
        if unknown:
            raise DiodeError(f"config: got `{unknown[0]}`, expected one of {', '.join(sorted(_FIELDS))}")
        return Config(**fields)
    raise DiodeError(f'config: got {value!r:.60}, expected a Config, a dict, "aten" or None')


class FunctionHeuristic:
    """Calls a function: it gets the problem and returns a config, a list of them, or None to leave it to the next."""

    source = "function"

    def __init__(self, function: Callable[[Problem], Any]) -> None:
        if not callable(function):
            raise DiodeError(f"heuristic: got {function!r:.60}, expected a function of the problem")
        self._function = function
        self._name = getattr(function, "__qualname__", type(function).__qualname__)
        self._digest = _digest_of(function)

    def answer(self, request: Request) -> Answer | None:
        chosen = self._function(request.problem)
        if chosen is None:
            return None
        several = chosen if isinstance(chosen, (list, tuple)) else [chosen]
        candidates = [Candidate(as_config(config)) for config in several]
        if not candidates:
            return None
        return Answer(self.source, candidates[: request.top_k], f"chosen by {self._name}", near=candidates[request.top_k :])

    def digest(self) -> str:
        return self._digest


def _digest_of(function: Callable[..., Any]) -> str:
    """The digest of a function's code and of what it closes over. What cannot be pickled counts as new every time."""
    code = getattr(function, "__code__", None)
    try:
        closure = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        defaults = (getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None))
        what = pickle.dumps((marshal.dumps(code), closure, defaults)) if code else pickle.dumps(function)
    except Exception:  # Pickling runs code of the user's objects, which may raise anything.
        what = uuid.uuid4().bytes
    return hashlib.sha256(what).hexdigest()


def table_heuristic(table: Any, *, nearest: bool = False) -> Heuristic:
    """A heuristic of a table, whichever of the forms it has."""
    if isinstance(table, Table):
        return TableHeuristic(table, nearest=nearest)
    if isinstance(table, Mapping):
        return InductorTableHeuristic(table)
    path = os.fspath(table)
    try:
        with open(path, "rb") as file:
            content = json.load(file)
    except OSError as error:
        raise DiodeError(f"{path}: {error.strerror}") from None
    except ValueError:
        content = None  # Compressed or broken: the core says which.
    if content is not None and is_inductor_table(content) and "format" not in content:
        return InductorTableHeuristic(path)
    return TableHeuristic(path, nearest=nearest)


def as_heuristic(value: Any) -> Heuristic:
    """A heuristic as ``install`` takes it: one of ours, or a function of the problem."""
    if hasattr(value, "answer") and hasattr(value, "digest"):
        return value
    return FunctionHeuristic(value)
