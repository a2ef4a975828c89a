"""Compiles cold, and times what was compiled without the host in the way."""

from __future__ import annotations

import random
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
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], *, training: bool = False, **options: Any
) -> tuple[float, torch.cuda.CUDAGraph]:
    """The seconds of the first call with empty caches and warm compilers, and a CUDA graph of what it compiled."""
    for listed in models.available():
        listed.model.clear_cache()
    AsyncCompile.wait_pool_ready()
    with fresh_cache():
        return compiled(function, inputs, training=training, **options)


def compiled(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], *, training: bool = False, **options: Any
) -> tuple[float, torch.cuda.CUDAGraph]:
    """The seconds of the first call, and a CUDA graph of what it compiled. Training is a loss and its gradients.

    The graph outlives the next compile, which makes torch forget this one.
    """
    torch._dynamo.reset()
    forget_handler()
    with torch.set_grad_enabled(training):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call = torch.compile(function, options=options, dynamic=False)
        if training:
            call = _step(function, call)
        call(*inputs)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return seconds, _captured(call, inputs)


def _step(network: Any, loss: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def step(*inputs: torch.Tensor) -> None:
        network.zero_grad(set_to_none=True)
        loss(*inputs).backward()

    return step


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
    """The median of each with a cold cache, in turns of changing order so that all see the same clock and neighbours."""
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    times: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in graphs]
    for at in range(ROUNDS + ROUNDS // 4):
        for place in random.Random(at).sample(range(len(graphs)), len(graphs)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flushed.zero_()
            start.record()
            graphs[place].replay()
            end.record()
            times[place].append((start, end))
    torch.cuda.synchronize()
    # The first ones only bring the clock up.
    return [1e3 * statistics.median(start.elapsed_time(end) for start, end in one[ROUNDS // 4 :]) for one in times]
