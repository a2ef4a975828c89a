"""All code that uses Inductor's internals. No other module does.

It serves torch 2.10 to 2.15. It looks for what a torch has, and never at its version. `check` names what a torch lacks; then
the plug-in is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Undo: TypeAlias = Callable[[], None]
"""Undoes one change."""

OPS = ("mm", "addmm", "bmm", "baddbmm")
"""The plain multiplications. Those that models are served with are in `served`."""

TMA = "triton::mm_persistent_tma"
SCALED_TMA = "triton::scaled_mm_device_tma_epilogue_scaling"
"""Inductor's TMA tiles: of plain multiplications, and of scaled ones."""

TORCH_TRIED = ("2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
"""The versions of torch with which the tests were run."""
