"""What importing did, and what there is."""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Any

from . import _log
from ._core import DISTRIBUTION, DiodeError, __version__

_INTEGRATION = "matmul_kernel_prediction"
_DISTRIBUTIONS = ("torch-diode", "torch-diode-lib")

_outcome = "not_started"
_errors: list[str] = []


def register(asked: bool = DISTRIBUTION == "torch-diode") -> None:
    """Registers where that is wanted and possible. Never raises: a program that only wants faster kernels goes on."""
    try:
        _settle(*_registered(asked))
    except Exception as error:  # Whatever goes wrong in somebody's torch must not end their program.
        _settle("failed", f"{type(error).__name__}: {error}", logging.WARNING)


def _registered(asked: bool) -> tuple[str, str, int]:
    both = _installed_twice()
    if both:
        return "refused", both, logging.WARNING
    if not asked:
        return "not_started", "torch-diode-lib waits for torch_diode.install()", logging.DEBUG
    if os.environ.get("DIODE_DISABLE", "0") not in ("", "0"):
        return "not_started", "DIODE_DISABLE is set", logging.INFO
    if not has_gpu():
        return "no_gpu", "there is no GPU; torch_diode.install() installs it all the same", logging.DEBUG
    if not torch_available():
        return "interface_unavailable", "there is no torch; pip install torch", logging.INFO
    from . import installation

    installation.install()
    return "success", "installed", logging.INFO


def _settle(outcome: str, words: str, level: int) -> None:
    global _outcome
    _outcome = outcome
    _errors[:] = [words] if outcome in ("refused", "failed", "interface_unavailable") else []
    _log.logger.log(level, "%s: %s", outcome, words)


def has_gpu() -> bool:
    """Whether the system shows a GPU, found without torch and without loading a driver."""
    return any(os.path.exists(node) for node in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))


def _installed_twice() -> str:
    import importlib.metadata

    there = []
    for name in _DISTRIBUTIONS:
        try:
            importlib.metadata.version(name)
            there.append(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    if len(there) < 2:
        return ""
    return (
        "torch-diode and torch-diode-lib are both installed and hold the same files; "
        "pip uninstall both, then install the one you want"
    )


def torch_available() -> bool:
    """Whether torch can be imported, found without importing it."""
    return importlib.util.find_spec("torch") is not None


def _installed() -> bool:
    if not torch_available():
        return False
    from . import installation

    return installation.is_installed()


def get_import_status() -> dict[str, Any]:
    """What importing the package did."""
    return {
        "distribution": DISTRIBUTION,
        "version": __version__,
        "torch_available": torch_available(),
        "integrations_attempted": 0 if _outcome in ("not_started", "no_gpu") else 1,
        "integrations_successful": int(_outcome == "success"),
        "status": _outcome,
        "errors": list(_errors),
    }


def get_integration_info() -> dict[str, Any]:
    """The state of the one integration, under the names that torch-diode used."""
    from . import models

    installed = _installed()
    found = [listed.name for listed in models.available()]
    return {
        _INTEGRATION: {
            "name": _INTEGRATION,
            "interface_name": "torch._inductor.choices",
            "integration_status": "success" if installed else _outcome,
            "models_available": found,
            "models_loaded": found if installed else [],
            "registration_status": installed,
            "dependencies": ["torch._inductor", "torch._inductor.choices"],
        }
    }


def get_model_info() -> dict[str, Any]:
    """The models that there are."""
    from . import models

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
    """Installs with every model there is. Says whether it worked instead of raising, as torch-diode did."""
    if not torch_available():
        _settle("interface_unavailable", "there is no torch; pip install torch", logging.WARNING)
        return {_INTEGRATION: False}
    from . import installation

    try:
        installation.install(fallback_to_autotune=enable_fallback)
    except DiodeError as error:
        _settle("failed", str(error), logging.WARNING)
        return {_INTEGRATION: False}
    _settle("success", "installed", logging.INFO)
    return {_INTEGRATION: True}


def get_diode_status() -> dict[str, Any]:
    """Everything in one: import, integration, models."""
    return {"import": get_import_status(), "integrations": get_integration_info(), "models": get_model_info()}
