"""Predictions without a compile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import machine, models, status
from ._core import Choice, DiodeError, Hardware, Model, Problem
from .errors import DiodeTypeError, DiodeValueError

if TYPE_CHECKING:
    import torch

# Another hardware's model stands in where there is none, as in `diode predict`.
_STANDS_IN = "nvidia-h200"


def predict(
    problem: Problem | str,
    *,
    hardware: Hardware | str | None = None,
    model: Model | str | os.PathLike[str] | None = None,
    dtype: str | torch.dtype | None = None,
    top: int = 1,
    tf32: bool = False,
) -> Choice:
    """Predicts the ``top`` best configs for a problem on this machine's GPU, or on any other that is named.

    ``dtype`` (bf16 by default) applies if the problem is a text that names none. ``tf32`` lets fp32 be rounded.

    >>> choice = torch_diode.predict("16x4096x4096", hardware="nvidia-h200")
    >>> choice.config.triton_config().kwargs["BLOCK_M"]
    16
    """
    if isinstance(problem, str):
        problem = Problem.parse(problem, dtype)
    elif not isinstance(problem, Problem):
        raise DiodeTypeError(f"problem: got {problem!r:.60}, expected a Problem or a text such as 16x4096x4096")
    if problem.obstacle is not None:
        raise DiodeValueError(problem.obstacle)
    chosen = models.load(model) if model is not None else None
    wanted = _hardware(hardware, chosen)
    return _model(wanted, chosen).choose(problem, top, tf32=tf32, library_tf32=tf32)


def _hardware(hardware: Hardware | str | None, model: Model | None) -> Hardware:
    if hardware is not None:
        return models.hardware_named(hardware)
    return model.hardware if model is not None else _this_gpu()


def _this_gpu() -> Hardware:
    if machine.has_gpu() and status.torch_available():
        import torch

        if torch.cuda.is_available():
            return Hardware(torch.cuda.get_device_name())
    raise DiodeError("hardware: this machine shows no GPU; name one, such as nvidia-h200")


def _model(hardware: Hardware, chosen: Model | None) -> Model:
    model = chosen or models.for_hardware(hardware.slug) or models.for_hardware(_STANDS_IN)
    if model is None:
        raise DiodeError(f"there is no model of {hardware.slug}; torch_diode.hub.pull fetches one")
    return model if model.hardware.slug == hardware.slug else model.standing_in_for(hardware)
