"""Inductor's config: the plug-in's own settings, and Inductor's settings that it reads or changes for a while."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from torch._inductor import config, utils
from torch.utils._config_module import Config, _ConfigEntry

from . import Undo


def entry(name: str, default: Any, value_type: Any) -> Any:
    """A setting that can be put into a config module."""
    setting = Config(default=default, value_type=value_type)
    # In some versions of torch, a setting has a variable with this name, for values of single threads.
    named = "name" in inspect.signature(_ConfigEntry.__init__).parameters
    return _ConfigEntry(setting, name) if named else _ConfigEntry(setting)


def add_settings(entries: Mapping[str, tuple[Any, Any]]) -> Undo:
    """Adds settings to Inductor's config. Each has a name, a default and a type."""
    for name, (default, value_type) in entries.items():
        config._config[name] = entry(name, default, value_type)
    _entries_changed()

    def undo() -> None:
        for name in entries:
            config._config.pop(name, None)
        _entries_changed()

    return undo


def _entries_changed() -> None:
    if not hasattr(config, "_get_dict_dirty_keys_var"):
        config._is_dirty = True
        return
    # Each thread keeps the values that it has changed. New variables discard them in all threads.
    config._hash_dirty_var = ContextVar("torch_diode._hash_dirty", default=True)
    config._get_dict_dirty_keys_var = ContextVar("torch_diode._get_dict_dirty_keys", default=None)
    config._get_dict_cache_var = ContextVar("torch_diode._get_dict_cache", default=None)


def setting(name: str) -> Any:
    """The current value of a setting in this thread."""
    return getattr(config, name)


def has_setting(name: str) -> bool:
    return name in config._config


def autotunes() -> bool:
    """Whether GEMMs are autotuned at the moment."""
    return bool(config.max_autotune or config.max_autotune_gemm)


def autotuning(on: bool) -> contextlib.AbstractContextManager[Any]:
    """A context in which GEMMs are lowered with or without templates, whatever the user has set."""
    return config.patch(max_autotune_gemm=True) if on else config.patch(max_autotune=False, max_autotune_gemm=False)


def is_deterministic() -> bool:
    """Whether Inductor must not benchmark."""
    return bool(config.deterministic)


def must_not_vary() -> bool:
    """Whether the user wants results that do not depend on the batch, or Triton's own products."""
    return bool(getattr(config, "batch_invariant", False) or config.triton.native_matmul)


def names_backend(backend: str) -> bool:
    """Whether ``max_autotune_gemm_backends`` names this backend."""
    return backend in (token.strip() for token in config.max_autotune_gemm_backends.upper().split(","))


def add_backend(backend: str) -> Undo:
    """Lets the name of a backend stand for Inductor's own two, among which the plug-in picks."""
    original: Callable[[str], bool] = utils._use_autotune_backend

    @functools.wraps(original)
    def use_backend(asked: str) -> bool:
        return (asked.upper() in ("ATEN", "TRITON") and names_backend(backend)) or original(asked)

    def put(old: Any, new: Any) -> None:
        modules: dict[str, Any] = dict(sys.modules)
        for name, module in modules.items():
            if name.startswith("torch._inductor") and getattr(module, "_use_autotune_backend", None) is old:
                module._use_autotune_backend = new

    put(original, use_backend)
    return lambda: put(use_backend, original)
