"""Compiles cold, and times what was compiled without the host in the way."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import virtualized
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.utils import fresh_cache

from torch_diode import models

ROUNDS = 60
# More than the second-level cache of any GPU.
_FLUSHED_BYTES = 256 << 20


def compiled_cold(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], **options: Any
) -> tuple[float, torch.cuda.CUDAGraph]:
    """The seconds of the first call with empty caches and warm compilers, and a CUDA graph of what it compiled.

    The graph outlives the next compile, which makes torch forget this one.
    """
    torch._dynamo.reset()
    forget_handler()
    for listed in models.available():
        listed.model.clear_cache()
    AsyncCompile.wait_pool_ready()
    with fresh_cache(), torch.no_grad():
        torch.cuda.synchronize()
        start = time.perf_counter()
        compiled = torch.compile(function, options=options, dynamic=False)
        compiled(*inputs)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return seconds, _captured(compiled, inputs)


def forget_handler() -> None:
    """The next compile of this thread makes its handler of choices anew."""
    vars(virtualized.threadlocal).pop(virtualized._choices._key, None)


def _captured(compiled: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        compiled(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compiled(*inputs)
    return graph


def microseconds(graphs: Sequence[torch.cuda.CUDAGraph]) -> list[float]:
    """The median of each with a cold cache, in turns so that all see the same clock and neighbours."""
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    times: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in graphs]
    for at in range(ROUNDS + ROUNDS // 4):
        for turn in range(len(graphs)):
            place = (at + turn) % len(graphs)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flushed.zero_()
            start.record()
            graphs[place].replay()
            end.record()
            times[place].append((start, end))
    torch.cuda.synchronize()
    # The first ones only bring the clock up.
    return [1e3 * statistics.median(start.elapsed_time(end) for start, end in one[ROUNDS // 4 :]) for one in times]
