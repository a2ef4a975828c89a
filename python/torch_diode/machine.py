"""What the machine shows without torch and without a driver."""

from __future__ import annotations

import os


def has_gpu() -> bool:
    """Whether the system shows a GPU."""
    return any(os.path.exists(node) for node in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))
