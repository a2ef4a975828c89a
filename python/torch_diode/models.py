"""Which models are available, and which one serves a kind of hardware."""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from . import hub, messages
from ._core import DiodeError, Hardware, Model, known_hardware, shipped_models
from .errors import DiodeTypeError, DiodeValueError

_lock = threading.Lock()
_loaded: dict[str, Model] = {}


class Listed(NamedTuple):
    """An available model."""

    name: str
    model: Model
    origin: str


def hardware_named(hardware: Hardware | str) -> Hardware:
    """The hardware in the catalogue with this name, in any usual spelling."""
    if isinstance(hardware, Hardware):
        return hardware
    if not isinstance(hardware, str):
        raise DiodeTypeError(f"hardware: got {hardware!r:.60}, expected a device's name or a slug such as nvidia-h200")
    found = Hardware.find(hardware)
    if found is None:
        raise DiodeValueError(f"hardware: got `{hardware:.60}`, expected one of {', '.join(known_hardware())}")
    return found


def load(model: str | os.PathLike[str] | Model) -> Model:
    """A model from a file, or an available model by its name, such as ``NVIDIA-H200-matmul``."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise DiodeTypeError(f"model: got {model!r:.60}, expected a Model, a file or a model's name")
    return Model.load(model)


def named(name: str) -> Model:
    """An available model, by its hardware in any spelling or by its file's name."""
    hardware = Hardware.find(name.removesuffix(".safetensors").removeprefix("matmul-").lower().removesuffix("-matmul"))
    listed = available()
    for one in listed:
        if name == one.name or (hardware is not None and one.model.hardware.slug == hardware.slug):
            return one.model
    names = ", ".join(one.name for one in listed) or "none"
    raise DiodeError(f"model: got `{name}`, expected a file or one of: {names}; torch_diode.hub.pull fetches more")


def available() -> list[Listed]:
    """The newest model for each kind of hardware, from the hub's cache, `torch_diode_models` and this package."""
    best: dict[str, Listed] = {}
    for origin, name, content in _sources():
        try:
            model = _decode(name, content)
        except DiodeError as error:
            messages.log_once(f"{origin} {name}", logging.WARNING, "%s: %s", name, error)
            continue
        slug = model.hardware.slug
        if slug not in best or model.created_at > best[slug].model.created_at:
            best[slug] = Listed(f"{slug.upper()}-matmul", model, origin)
    return sorted(best.values())


def for_hardware(slug: str) -> Model | None:
    """The model for a kind of hardware. ``None`` if there is none."""
    return next((listed.model for listed in available() if listed.model.hardware.slug == slug), None)


def _sources() -> Iterator[tuple[str, str, bytes]]:
    for path in hub.cached_models():
        yield "hub", str(path), path.read_bytes()
    for path in _package_files():
        yield "torch_diode_models", str(path), path.read_bytes()
    for name, content in shipped_models():
        yield "torch_diode", name, content


def _package_files() -> list[Path]:
    # The package is found without importing it, because importing it would register its models.
    spec = importlib.util.find_spec("torch_diode_models")
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return sorted(path for folder in folders for path in Path(folder).rglob("*.safetensors"))


def _decode(name: str, content: bytes) -> Model:
    """Decodes a model. The same bytes give the same object, so that its cache of predictions is shared."""
    with _lock:
        key = f"{name}:{hash(content)}"
        if key not in _loaded:
            _loaded[key] = Model.from_bytes(content)
        return _loaded[key]
