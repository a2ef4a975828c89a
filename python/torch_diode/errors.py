"""The exceptions of the package."""

from __future__ import annotations


class DiodeError(Exception):
    """What was given, what was expected and what to do.

    A wrong value is a ``ValueError``, too. Calls with other arguments or types than stated raise a ``TypeError``.

    >>> import torch_diode
    >>> torch_diode.Model.load("no-such-gpu")
    Traceback (most recent call last):
    torch_diode.DiodeError: model: got `no-such-gpu`, expected a file or one of: ...
    """


class DiodeValueError(DiodeError, ValueError):
    """A value of the right type that makes no sense."""


class DiodeTypeError(DiodeError, TypeError):
    """A value of another type than expected."""


DiodeError.__module__ = "torch_diode"
