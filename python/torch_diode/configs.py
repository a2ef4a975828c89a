"""Configs in the forms in which functions and tables give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._core import Config
from .errors import DiodeTypeError, DiodeValueError

SPELLINGS = {
    "BLOCK_M": "block_m",
    "BLOCK_N": "block_n",
    "BLOCK_K": "block_k",
    "GROUP_M": "group_m",
    "EVEN_K": "even_k",
    "ALLOW_TF32": "allow_tf32",
    "USE_FAST_ACCUM": "use_fast_accum",
    "ACC_TYPE": "acc_type",
}
FIELDS = {
    *SPELLINGS.values(), "template", "num_stages", "num_warps", "matrix_instr_nonkdim", "waves_per_eu", "kpack", "k_split",
    "swap_ab",
}  # fmt: skip


def as_config(value: Any) -> Config:
    """A config as a function may return it: a ``Config``, ``"aten"``, or a dict with Diode's or Inductor's names."""
    if isinstance(value, Config):
        return value
    if isinstance(value, str):
        return Config(value)
    if isinstance(value, Mapping):
        fields = {SPELLINGS.get(name, str(name)): setting for name, setting in value.items()}
        unknown = sorted(set(fields) - FIELDS)
        if unknown:
            raise DiodeValueError(f"config: got `{unknown[0]}`, expected one of {', '.join(sorted(FIELDS))}")
        return Config(**fields)
    raise DiodeTypeError(f'config: got {value!r:.60}, expected a Config, a dict, "aten" or None')
