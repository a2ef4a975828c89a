"""Records what a program compiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import installation
from .inductor import measuring
from .recording import Recording, added


@contextlib.contextmanager
def record() -> Iterator[Recording]:
    """Records every multiplication that is compiled in this context, in any thread, whatever decides its kernel.

        with torch_diode.record() as recording:
            torch.compile(model)(x)
        recording.save_problems("problems.json")

    In the context, this thread does not use Inductor's caches, because a graph from a cache is not compiled. What the
    process has compiled before is not compiled again. So begin with the recording, or call ``torch.compiler.reset()`` first.
    """
    installation.check_torch()
    recording = Recording()
    with installation.hooked(), measuring.uncached(), added(recording):
        yield recording
