"""Settings: where they can be set, which value counts, and which values are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch._inductor import config

import torch_diode
from torch_diode import DiodeError, settings

PROMISED = ("fast_autotune", "diode_fallback_to_autotune", "diode_confidence_threshold", "diode_cache_predictions")


def test_the_promised_settings_are_entries_of_inductors_config() -> None:
    torch_diode.install()
    assert [getattr(config, name) for name in PROMISED] == [True, True, None, True]
    config.diode_confidence_threshold = 0.95
    config.diode_fallback_to_autotune = False
    assert settings.current().min_confidence == 0.95
    assert not settings.current().fallback_to_autotune


def test_options_of_one_compile_are_accepted() -> None:
    torch_diode.install()
    options = {"fast_autotune": False, "diode_top_k": 3, "diode_confidence_threshold": 0.9, "diode_cache_predictions": False}
    torch.compile(lambda x: x, options=options)
    with pytest.raises(RuntimeError, match="Unexpected type of attr diode_top_k"):
        torch.compile(lambda x: x, options={"diode_top_k": "three"})


def test_an_impossible_value_is_named_as_it_was_set() -> None:
    torch_diode.install()
    config.diode_top_k = 0
    with pytest.raises(DiodeError, match="diode_top_k: got 0, expected"):
        settings.current()
    with pytest.raises(DiodeError, match="^top_k: got 0, expected"):
        torch_diode.install(top_k=0)


def test_arguments_come_before_variables_before_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIODE_TOP_K", "4")
    monkeypatch.setenv("DIODE_CONFIDENCE_THRESHOLD", "0.9")
    monkeypatch.setenv("DIODE_FAST_AUTOTUNE", "0")
    torch_diode.install(top_k=2)
    now = settings.current()
    assert (now.top_k, now.min_confidence, now.fast_autotune, now.cache_predictions) == (2, 0.9, False, True)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("DIODE_TOP_K", "many", "a number from 1 to"),
        ("DIODE_TOP_K", "²", "a number from 1 to"),
        ("DIODE_TOP_K", "9" * 30, "a number from 1 to"),
        ("DIODE_FAST_AUTOTUNE", "maybe", "1 or 0"),
        ("DIODE_CONFIDENCE_THRESHOLD", "high", "a number, or none"),
        ("DIODE_PERFORMANCE_THRESHOLD", "0.5", "a factor of at least 1"),
    ],
)
def test_a_bad_variable_is_named(variable: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(DiodeError, match=expected):
        torch_diode.install()
    assert not torch_diode.is_installed()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 0),
        ("top_k", 10**30),
        ("top_k", True),
        ("min_confidence", 1.5),
        ("min_confidence", "x"),
        ("performance_threshold", 0.9),
        ("performance_threshold", "x"),
        ("fast_autotune", "no"),
        ("fallback_to_autotune", 5),
        ("nearest", "yes"),
        ("hardware", 5),
        ("model", 5),
        ("table", []),
    ],
)
def test_a_bad_argument_is_named(name: str, value: Any) -> None:
    with pytest.raises(DiodeError, match=re.escape(f"{name}: got {value!r}, expected ")):
        torch_diode.install(**{name: value})
    assert not torch_diode.is_installed()


@pytest.mark.parametrize(("name", "value"), [("top_k_configs", 0), ("performance_threshold", 0.1)])
def test_a_bad_argument_of_a_handler_is_refused_at_once(name: str, value: Any) -> None:
    with pytest.raises(DiodeError, match=f"got {value}, expected "):
        torch_diode.create_diode_choices(**{name: value})


def test_files_can_be_named_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    from workspace import MODEL

    monkeypatch.setenv("DIODE_MODEL", "")
    monkeypatch.setenv("DIODE_TABLE", "")
    torch_diode.install()
    monkeypatch.setenv("DIODE_MODEL", str(MODEL))
    torch_diode.install()
    monkeypatch.setenv("DIODE_TABLE", "/no/such/table.json")
    with pytest.raises(DiodeError, match="/no/such/table.json: No such file"):
        torch_diode.install()
