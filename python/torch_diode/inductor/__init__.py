"""All that touches Inductor's insides; nothing else does.

It serves torch 2.10 to 2.15. It looks for what a torch has, never at its version. `check` names what a torch lacks, and
the plug-in is not installed then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Undo: TypeAlias = Callable[[], None]
"""Takes back one change."""

OPS = ("mm", "addmm", "bmm", "baddbmm")

TORCH_TRIED = ("2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
"""The versions of torch that the tests were run with."""
