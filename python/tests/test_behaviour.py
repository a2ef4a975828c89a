"""What counts as a change of a user's function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from torch_diode import Config
from torch_diode.heuristics import behaviour
from torch_diode.heuristics.behaviour import Behaviour

block = 64
table = {"block": 64}


class Rule:
    def __init__(self, block_m: int) -> None:
        self.block_m = block_m

    def pick(self, problem: Any) -> int:
        return self.block_m

    def __call__(self, problem: Any) -> int:
        return self.block_m


def reads_a_global(problem: Any) -> int:
    return block


def reads_a_table(problem: Any) -> int:
    return table["block"]


def calls_another(problem: Any) -> int:
    return reads_a_global(problem)


def calls_another_inside(problem: Any) -> list[int]:
    return [reads_a_global(one) for one in (problem, problem)]


def with_argument(first: int, problem: Any) -> int:
    return first


def closure(value: Any) -> Callable[[Any], Any]:
    return lambda problem: value


def digest(function: Callable[..., Any]) -> str:
    return Behaviour(function).digest()


@pytest.mark.parametrize(
    "made",
    [
        lambda size: Rule(size).pick,
        lambda size: Rule(size),
        lambda size: functools.partial(with_argument, size),
        lambda size: functools.partial(Rule(size).pick),
        lambda size: closure(size),
        lambda size: closure({"a": [size, {"b": (size,)}]}),
        lambda size: closure(Rule(size)),
        lambda size: closure(Config(block_m=size, block_n=64, block_k=64, num_stages=3, num_warps=4)),
    ],
    ids=["method", "object", "partial", "partial of a method", "closure", "containers", "object in a closure", "config"],
)
def test_values_that_are_bound_count(made: Callable[[int], Callable[..., Any]]) -> None:
    assert digest(made(64)) == digest(made(64)) != digest(made(128))


@pytest.mark.parametrize("function", [reads_a_global, calls_another, calls_another_inside])
def test_globals_count_also_those_of_functions_that_are_called(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Behaviour(function)
    before = known.digest()
    assert known.digest() == before
    monkeypatch.setitem(globals(), "block", 128)
    assert known.digest() != before


def test_a_container_that_changes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(reads_a_table)
    monkeypatch.setitem(table, "block", 128)
    assert digest(reads_a_table) != before


def test_other_values_count_by_identity() -> None:
    one, other = object(), object()
    known = Behaviour(closure(one))
    assert known.digest() == known.digest() != Behaviour(closure(other)).digest()


def test_large_values_and_cycles_do_not_hold_up_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert digest(closure(cycle)) == digest(closure(cycle))
    monkeypatch.setattr(behaviour, "_MOST_PARTS", 50)
    known, alike = (Behaviour(closure(list(range(100)))) for _ in range(2))
    assert known.digest() == known.digest() != alike.digest(), "only the identity counts"


def test_values_that_cannot_be_looked_at_never_raise() -> None:
    class Broken(dict[str, int]):
        def __iter__(self) -> Any:
            raise RuntimeError("no")

    known = Behaviour(closure(Broken(a=1)))
    assert known.digest() == known.digest()
