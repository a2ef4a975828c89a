"""The settings, as entries of Inductor's own config.

There they can be set like any of torch's settings, also for one compile (``torch.compile(…, options={…})``). They are part of
the key of Inductor's graph cache, so a graph that was compiled under other settings is not reused.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from collections.abc import Callable, Mapping
from typing import Any

from .errors import DiodeTypeError, DiodeValueError
from .inductor import Undo

BACKEND = "DIODE"

# Far more than a space has configs.
_MOST_PICKS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Settings:
    """The values of the settings for the kernel that is being decided on."""

    fast_autotune: bool
    top_k: int
    min_confidence: float | None
    performance_threshold: float | None
    fallback_to_autotune: bool
    cache_predictions: bool
    pick_unjudged: bool


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A setting: its name in Inductor's config, and its value until it is set."""

    name: str
    default: Any
    value_type: Any
    variable: str
    parse: Callable[[str], Any]


def _switch(text: str) -> bool:
    values = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in values:
        raise ValueError("1 or 0")
    return values[text.lower()]


def _number(text: str) -> float | None:
    if text.lower() in ("", "none"):
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number, or none") from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"a number from 1 to {_MOST_PICKS}")
    return int(text)


_ENTRIES: Mapping[str, _Entry] = {
    "fast_autotune": _Entry("fast_autotune", True, bool, "DIODE_FAST_AUTOTUNE", _switch),
    "top_k": _Entry("diode_top_k", 1, int, "DIODE_TOP_K", _count),
    "min_confidence": _Entry("diode_confidence_threshold", None, float | None, "DIODE_CONFIDENCE_THRESHOLD", _number),
    "performance_threshold": _Entry("diode_performance_threshold", None, float | None, "DIODE_PERFORMANCE_THRESHOLD", _number),
    "fallback_to_autotune": _Entry("diode_fallback_to_autotune", True, bool, "DIODE_FALLBACK_TO_AUTOTUNE", _switch),
    "cache_predictions": _Entry("diode_cache_predictions", True, bool, "DIODE_CACHE_PREDICTIONS", _switch),
    "pick_unjudged": _Entry("diode_pick_unjudged", False, bool, "DIODE_PICK_UNJUDGED", _switch),
}

NAMES = {field: entry.name for field, entry in _ENTRIES.items()}
VARIABLES = {field: entry.variable for field, entry in _ENTRIES.items()}


def initial(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The first values of the settings: the arguments of ``install``, or else the environment, or else the defaults."""
    values = {}
    for field, entry in _ENTRIES.items():
        if chosen.get(field) is not None:
            values[field] = chosen[field]
        elif entry.variable in os.environ:
            text = os.environ[entry.variable]
            try:
                values[field] = entry.parse(text)
            except ValueError as expected:
                raise DiodeValueError(f"{entry.variable}: got `{text}`, expected {expected}") from None
        else:
            values[field] = entry.default
    _check(Settings(**values), {field: field for field in _ENTRIES})
    return values


def _check(settings: Settings, names: Mapping[str, str]) -> None:
    """Raises a ``DiodeError`` for a value that makes no sense. ``names`` are the settings' names where the user set them."""
    top_k, share, factor = settings.top_k, settings.min_confidence, settings.performance_threshold
    if not isinstance(top_k, int) or isinstance(top_k, bool) or not 1 <= top_k <= _MOST_PICKS:
        raise DiodeValueError(f"{names['top_k']}: got {top_k!r}, expected a number from 1 to {_MOST_PICKS}")
    if share is not None and not (_is_number(share) and 0 <= share <= 1):
        raise DiodeValueError(f"{names['min_confidence']}: got {share!r}, expected a probability from 0 to 1, or None")
    if factor is not None and not (_is_number(factor) and 1 <= factor < math.inf):
        raise DiodeValueError(f"{names['performance_threshold']}: got {factor!r}, expected a factor of at least 1, or None")
    for field, entry in _ENTRIES.items():
        value = getattr(settings, field)
        if entry.value_type is bool and not isinstance(value, bool):
            raise DiodeTypeError(f"{names[field]}: got {value!r}, expected True or False")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def add_entries(values: Mapping[str, Any]) -> Undo:
    """Adds the settings to Inductor's config."""
    from .inductor import config

    return config.add_settings({entry.name: (values[field], entry.value_type) for field, entry in _ENTRIES.items()})


def current() -> Settings:
    """The current values, with what this compile overrides. Before they are in Inductor's config, the first values."""
    from .inductor import config

    if not config.has_setting(NAMES["top_k"]):
        return Settings(**initial({}))
    settings = Settings(**{field: config.setting(entry.name) for field, entry in _ENTRIES.items()})
    _check(settings, NAMES)
    return settings


def names_backend() -> bool:
    """Whether ``max_autotune_gemm_backends`` names the plug-in's backend."""
    from .inductor import config

    return config.names_backend(BACKEND)
