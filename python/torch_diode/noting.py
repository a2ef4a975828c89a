"""Notes what a program compiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import installation
from .inductor import measuring
from .recording import Recording, added


@contextlib.contextmanager
def record() -> Iterator[Recording]:
    """Notes every multiplication that is compiled meanwhile, in any thread, whatever decides its kernel.

        with torch_diode.record() as recording:
            torch.compile(model)(x)
        recording.save_problems("problems.json")

    This thread passes over Inductor's caches meanwhile, since a graph that is taken from them is not compiled. What the
    process has compiled before is not compiled again: begin with it, or call ``torch.compiler.reset()``.
    """
    installation.check_torch()
    recording = Recording()
    with installation.hooked(), measuring.uncached(), added(recording):
        yield recording
