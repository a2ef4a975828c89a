"""What a user's function depends on, as far as it can be seen."""

from __future__ import annotations

import functools
import hashlib
import types
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

from .._core import Config, Problem

_MOST_PARTS = 10_000
"""Of values with more parts than this, only the identity counts, so that a compile does not read through a user's data."""


class Behaviour:
    """A function's code and the values that it uses: arguments that are bound, closures, defaults and globals.

    The digest is the same in every process if the function uses only numbers, texts, configs, containers, plain objects and functions
    of these. Classes and modules count by their names. Other values count by their identity, so a graph of another process is then
    not reused.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._identities: dict[int, tuple[Any, str]] = {}

    def digest(self) -> str:
        """The digest at the moment."""
        parts = hashlib.sha256()
        try:
            for number, part in enumerate(self._parts(self._function, set())):
                if number == _MOST_PARTS:
                    raise OverflowError
                parts.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
        except Exception:  # Looking runs code of the user's objects, which may raise anything.
            return self._identity(self._function)
        return parts.hexdigest()

    def _parts(self, value: Any, seen: set[int]) -> Iterator[str]:
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, Config, Problem)):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)):
            yield f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', value.__name__)}"
        elif id(value) in seen:
            yield "seen before"
        else:
            yield type(value).__qualname__
            yield from self._parts_of_object(value, seen | {id(value)})

    def _parts_of_object(self, value: Any, seen: set[int]) -> Iterator[str]:
        if isinstance(value, types.CodeType):
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            yield f"{value.co_code!r} {names} {value.co_flags} {value.co_argcount} {value.co_kwonlyargcount}"
            yield from self._parts(value.co_consts, seen)
        elif isinstance(value, types.FunctionType):
            yield from self._parts(value.__code__, seen)
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            used = {name: value.__globals__[name] for name in sorted(_names(value.__code__)) if name in value.__globals__}
            yield from self._parts((cells, value.__defaults__, value.__kwdefaults__, used), seen)
        elif isinstance(value, types.MethodType):
            yield from self._parts((value.__func__, value.__self__), seen)
        elif isinstance(value, functools.partial):
            yield from self._parts((value.func, value.args, value.keywords), seen)
        elif isinstance(value, Mapping):
            for key in value:
                yield from self._parts(key, seen)
                yield from self._parts(value[key], seen)
        elif isinstance(value, Set):
            yield from sorted("\0".join(self._parts(one, seen)) for one in value)
        elif isinstance(value, Sequence):
            for one in value:
                yield from self._parts(one, seen)
        elif hasattr(value, "__dict__") and type(value).__module__.split(".")[0] not in ("torch", "numpy"):
            call = type(value).__call__ if callable(value) else None
            yield from self._parts((call, vars(value)), seen)
        else:
            yield self._identity(value)

    def _identity(self, value: Any) -> str:
        # The value is kept, so that no other gets its address.
        return self._identities.setdefault(id(value), (value, uuid.uuid4().hex))[1]


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that code looks up, in inner functions, too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
