"""torch-diode's functions for installation and status, with the results that its users expect."""

from __future__ import annotations

import logging
from typing import Any

from .. import status
from .._core import DiodeError

_INTEGRATION = "matmul_kernel_prediction"


def get_integration_info() -> dict[str, Any]:
    """The state of the only integration, under torch-diode's names."""
    from .. import models

    installed = status.is_installed()
    found = [listed.name for listed in models.available()]
    return {
        _INTEGRATION: {
            "name": _INTEGRATION,
            "interface_name": "torch._inductor.choices",
            "integration_status": "success" if installed else status.outcome(),
            "models_available": found,
            "models_loaded": found if installed else [],
            "registration_status": installed,
            "dependencies": ["torch._inductor", "torch._inductor.choices"],
        }
    }


def get_model_info() -> dict[str, Any]:
    """The available models."""
    from .. import models

    listed = models.available()
    manifest = [
        {
            "name": one.name,
            "hardware": one.model.hardware.slug,
            "digest": one.model.digest,
            "created_at": one.model.created_at,
            "origin": one.origin,
            "parameters": one.model.parameters,
        }
        for one in listed
    ]
    return {
        "available_models": [one.name for one in listed],
        "model_manifest": {"version": "1.0", "total_models": len(listed), "models": manifest},
        "models_by_purpose": {"matmul": [one.name for one in listed]},
    }


def install_diode_integrations(enable_fallback: bool = True) -> dict[str, bool]:
    """Installs with every available model. Like torch-diode, it returns whether that worked and does not raise."""
    if not status.torch_available():
        status.set_outcome("interface_unavailable", "there is no torch; pip install torch", logging.WARNING)
        return {_INTEGRATION: False}
    from .. import installation

    try:
        installation.install(fallback_to_autotune=enable_fallback)
    except DiodeError as error:
        status.set_outcome("failed", str(error), logging.WARNING)
        return {_INTEGRATION: False}
    status.set_outcome("success", "installed", logging.INFO)
    return {_INTEGRATION: True}


def get_diode_status() -> dict[str, Any]:
    """The whole status: import, integration and models."""
    return {"import": status.get_import_status(), "integrations": get_integration_info(), "models": get_model_info()}
