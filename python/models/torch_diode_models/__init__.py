"""Models for `torch_diode`. Importing this package detects the GPU and registers its model.

The code is in `torch-diode` or `torch-diode-lib`, whichever is installed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

try:
    import torch_diode
    from torch_diode import machine, models, status
except ModuleNotFoundError as error:
    if error.name != "torch_diode":
        raise
    raise ImportError("torch_diode_models holds models alone; pip install torch-diode or torch-diode-lib to use them") from None

from torch_diode import set_log_level

if TYPE_CHECKING:
    from torch_diode.picks import Explanation
    from torch_diode.statistics import Counts

__all__ = [
    "get_detected_hardware",
    "get_prediction_stats",
    "list_available_models",
    "profile_predictions",
    "register_model",
    "set_log_level",
]


def get_detected_hardware() -> str | None:
    """The name of this machine's GPU. None if there is no GPU."""
    if not machine.has_gpu() or not status.torch_available():
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def list_available_models() -> list[str]:
    """The names of the available models, such as ``NVIDIA-H200-matmul``."""
    return [listed.name for listed in models.available()]


def register_model(name: str) -> None:
    """Lets this model pick from now on, whatever GPU the machine has."""
    model = models.load(name)
    torch_diode.install(model=model, hardware=model.hardware.slug)


@contextlib.contextmanager
def profile_predictions() -> Iterator[Explanation]:
    """Wraps a compile. Afterwards, the list holds what was picked and why."""
    from torch_diode.picks import Explanation

    before = len(torch_diode.history())
    profile = Explanation()
    yield profile
    profile.extend(torch_diode.history()[before:])


def get_prediction_stats() -> Counts:
    """Counts since the installation: ``total_predictions``, ``avg_confidence``, ``fallbacks`` and others."""
    return torch_diode.get_stats()


status.register(asked=True)
