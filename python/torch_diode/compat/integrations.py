"""torch-diode's functions for installation and status, with the results that its users expect."""

from __future__ import annotations

import logging
from typing import TypedDict

from .. import status
from .._core import DiodeError

_INTEGRATION = "matmul_kernel_prediction"


class Integration(TypedDict):
    """The state of an integration."""

    name: str
    interface_name: str
    integration_status: str
    models_available: list[str]
    models_loaded: list[str]
    registration_status: bool
    dependencies: list[str]


class ManifestEntry(TypedDict):
    """An available model."""

    name: str
    hardware: str
    digest: str
    created_at: str
    origin: str
    parameters: int


class Manifest(TypedDict):
    """The available models."""

    version: str
    total_models: int
    models: list[ManifestEntry]


class ModelInfo(TypedDict):
    """The available models, in three forms."""

    available_models: list[str]
    model_manifest: Manifest
    models_by_purpose: dict[str, list[str]]


# `import` is a word of the language.
DiodeStatus = TypedDict(
    "DiodeStatus", {"import": status.ImportStatus, "integrations": dict[str, Integration], "models": ModelInfo}
)


def get_integration_info() -> dict[str, Integration]:
    """Says how the only integration is, under torch-diode's names.

    >>> list(torch_diode.get_integration_info())
    ['matmul_kernel_prediction']
    """
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


def get_model_info() -> ModelInfo:
    """Lists the available models.

    >>> torch_diode.get_model_info()["available_models"]
    ['NVIDIA-H100-matmul', 'NVIDIA-H200-matmul']
    """
    from .. import models

    listed = models.available()
    manifest: list[ManifestEntry] = [
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
    """Installs with every available model.

    Like torch-diode, it returns whether that worked and does not raise.

    >>> torch_diode.install_diode_integrations()
    {'matmul_kernel_prediction': True}
    """
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


def get_diode_status() -> DiodeStatus:
    """Says everything: import, integration and models.

    >>> list(torch_diode.get_diode_status())
    ['import', 'integrations', 'models']
    """
    return {"import": status.get_import_status(), "integrations": get_integration_info(), "models": get_model_info()}
