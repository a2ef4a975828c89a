"""The names of torch-diode's own package, with the results that its users expect. They are also names of ``torch_diode``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages import set_log_level
from ..status import get_import_status
from .integrations import get_diode_status, get_integration_info, get_model_info, install_diode_integrations

if TYPE_CHECKING:
    from ..collect import MatmulDatasetCollector
    from ..explaining import get_stats, reset_stats
    from .handler import DiodeInductorChoices, create_diode_choices, install_diode_choices

__all__ = [
    "DiodeInductorChoices",
    "MatmulDatasetCollector",
    "create_diode_choices",
    "get_diode_status",
    "get_import_status",
    "get_integration_info",
    "get_model_info",
    "get_stats",
    "install_diode_choices",
    "install_diode_integrations",
    "reset_stats",
    "set_log_level",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import torch_diode

        return getattr(torch_diode, name)
