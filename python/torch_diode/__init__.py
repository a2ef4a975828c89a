"""Picks the matmul kernels of ``torch.compile`` without autotuning.

``torch-diode`` registers itself when it is imported on a machine with a GPU. ``torch-diode-lib`` is the same package, but
waits for ``install()``. Importing never raises: ``get_import_status()`` says what happened.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import messages, pickling
from ._core import (
    DISTRIBUTION,
    Choice,
    Config,
    Dataset,
    Hardware,
    Model,
    Problem,
    Table,
    __version__,
    obstacle,
)
from .compat.integrations import get_diode_status, get_integration_info, get_model_info, install_diode_integrations
from .errors import DiodeError
from .messages import set_log_level
from .status import get_import_status, register

if TYPE_CHECKING:
    from . import hub
    from .collect import MatmulDatasetCollector
    from .compat.handler import DiodeInductorChoices, create_diode_choices, install_diode_choices
    from .explaining import explain, get_stats, history, reset_stats
    from .installation import install, is_installed, uninstall
    from .noting import record
    from .predicting import predict
    from .recording import Recording

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
    "Recording",
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
    "predict",
    "record",
    "reset_stats",
    "set_log_level",
    "uninstall",
]

# Names whose modules need torch, or others that take time. They are imported when they are first used.
_LATER = {
    "DiodeInductorChoices": "compat.handler",
    "create_diode_choices": "compat.handler",
    "MatmulDatasetCollector": "collect",
    "Recording": "recording",
    "predict": "predicting",
    "record": "noting",
    "explain": "explaining",
    "history": "explaining",
    "get_stats": "explaining",
    "reset_stats": "explaining",
    "install": "installation",
    "install_diode_choices": "compat.handler",
    "is_installed": "installation",
    "uninstall": "installation",
}


# Type checkers see the imports above instead. With this function they would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "hub":
            return importlib.import_module(".hub", __name__)
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
        except ImportError as error:
            if error.name is None or error.name.split(".")[0] not in ("torch", "triton"):
                raise
            if error.name in ("torch", "triton"):
                raise DiodeError(f"torch_diode.{name} needs torch ({error}); pip install torch") from None
            raise DiodeError(f"torch_diode.{name}: this torch is not supported ({error})") from None
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


pickling.register()
messages.set_level_from_environment()
register()
