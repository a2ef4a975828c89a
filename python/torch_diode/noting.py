"""Records what a program compiles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import installation
from .inductor import measuring
from .recording import Recording, added, note_traced


@contextlib.contextmanager
def record() -> Iterator[Recording]:
    """Records every multiplication that is compiled in this context, in any thread, whatever decides its kernel.

    It needs no GPU. On meta tensors, which hold no data, this thread's compiles are recorded with their backward passes.
    In the context, this thread does not use Inductor's caches, because a graph from a cache is not compiled. What the
    process has compiled before is not compiled again. So begin with the recording, or call ``torch.compiler.reset()`` first.

    >>> model = torch.nn.Linear(64, 32, device="meta")
    >>> with torch.no_grad(), torch_diode.record() as recording:
    ...     _ = torch.compile(model)(torch.empty(8, 64, device="meta"))
    >>> print(recording)
    1 × addmm 8×32×64 float32 nt, then output
    """
    installation.check_torch()
    recording = Recording()
    with installation.hooked(), measuring.traced(lambda graph: note_traced(recording, graph)), added(recording):
        yield recording
