"""Picks the matmul kernels of ``torch.compile`` without autotuning.

``torch-diode`` registers itself when it is imported on a machine with a GPU; ``torch-diode-lib``, the same package, waits
for ``install()``. Importing never raises: ``get_import_status()`` says what happened.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _log
from ._core import (
    DISTRIBUTION,
    Choice,
    Config,
    Dataset,
    DiodeError,
    Hardware,
    Model,
    Problem,
    Table,
    __version__,
    obstacle,
)
from ._log import set_log_level
from .status import get_diode_status, get_import_status, get_integration_info, get_model_info, register

if TYPE_CHECKING:
    from . import hub
    from .choices import DiodeInductorChoices, create_diode_choices
    from .collect import MatmulDatasetCollector
    from .questions import explain, get_stats, history, reset_stats
    from .installation import install, install_diode_choices, is_installed, uninstall
    from .status import install_diode_integrations

__all__ = [
    "DISTRIBUTION",
    "Choice",
    "Config",
    "Dataset",
    "DiodeError",
    "DiodeInductorChoices",
    "Hardware",
    "MatmulDatasetCollector",
    "Model",
    "Problem",
    "Table",
    "__version__",
    "create_diode_choices",
    "explain",
    "get_diode_status",
    "get_import_status",
    "get_integration_info",
    "get_model_info",
    "get_stats",
    "history",
    "hub",
    "install",
    "install_diode_choices",
    "install_diode_integrations",
    "is_installed",
    "obstacle",
    "reset_stats",
    "set_log_level",
    "uninstall",
]

# What needs torch is imported when it is first used.
_LATER = {
    "DiodeInductorChoices": "choices",
    "create_diode_choices": "choices",
    "MatmulDatasetCollector": "collect",
    "explain": "questions",
    "history": "questions",
    "get_stats": "questions",
    "reset_stats": "questions",
    "install": "installation",
    "install_diode_choices": "installation",
    "is_installed": "installation",
    "uninstall": "installation",
    "install_diode_integrations": "status",
}


def __getattr__(name: str) -> Any:
    if name == "hub":
        return importlib.import_module(".hub", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("torch", "triton"):
            raise
        if error.name in ("torch", "triton"):
            raise DiodeError(f"torch_diode.{name} needs torch ({error}); pip install torch") from None
        raise DiodeError(f"torch_diode.{name}: this torch is not supported ({error})") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


_log.from_environment()
register()
