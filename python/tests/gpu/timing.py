"""Compiles cold, and times the result without the host in the way."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._inductor import virtualized
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.utils import fresh_cache

from torch_diode import models

ROUNDS = 60
GRAPHS = 2
"""How many graphs are captured of each function. Where results lie in memory changes the time of small ones by up to 3 %."""
GRAPHS_OF_COMPARED, GRAPHS_OF_NETWORKS = 12, 6
"""The same of what is compared with no tuning. With two, cases whose code is the same differ by up to 3 %, and with six by
up to 2 %."""
# More than the L2 cache of any GPU.
_FLUSHED_BYTES = 256 << 20


Graphs = Sequence[torch.cuda.CUDAGraph]
"""Several graphs of the same work."""


class _Turn:
    lock: str | os.PathLike[str] | None = None
    held = False


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """The right to use the GPU, which one process at a time has. It may be taken again by the process that has it."""
    if _Turn.lock is None or _Turn.held:
        yield
        return
    with open(_Turn.lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _Turn.held = True
        try:
            yield
            torch.cuda.synchronize()
        finally:
            _Turn.held = False


def take_turns(lock: str | os.PathLike[str]) -> None:
    """Makes this process use the GPU in turns with others that name the same file. It compiles meanwhile."""
    _Turn.lock = lock
    run = CompiledFxGraph.__call__

    @functools.wraps(run)
    def in_turn(self: Any, *inputs: Any, **named: Any) -> Any:
        with turn():
            return run(self, *inputs, **named)

    CompiledFxGraph.__call__ = in_turn


def compiled_cold(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], *, training: bool = False, graphs: int = GRAPHS, **options: Any
) -> tuple[float, Graphs]:
    """The seconds of the first call (with empty caches and warm compilers), and CUDA graphs of the compiled function."""
    for listed in models.available():
        listed.model.clear_cache()
    AsyncCompile.wait_pool_ready()
    with fresh_cache():
        return compiled(function, inputs, training=training, graphs=graphs, **options)


def compiled(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], *, training: bool = False, graphs: int = GRAPHS, **options: Any
) -> tuple[float, Graphs]:
    """The seconds of the first call, and CUDA graphs of the compiled function. Training means a loss and its gradients.

    The graphs stay valid after the next compile, which makes torch forget this one.
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
        with turn():
            return seconds, [_captured(call, inputs) for _ in range(graphs)]


def _step(network: Any, loss: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def step(*inputs: torch.Tensor) -> None:
        network.zero_grad(set_to_none=True)
        loss(*inputs).backward()

    return step


def forget_handler() -> None:
    """Lets the next compile of this thread make a new handler of choices."""
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


def microseconds(works: Sequence[Graphs]) -> list[float]:
    """The median time of each with a cold cache. The order changes each round, so that clocks and neighbours are alike for all."""
    with turn():
        return _microseconds(works)


def _microseconds(works: Sequence[Graphs]) -> list[float]:
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.int8, device="cuda")
    graphs = [graph for work in works for graph in work]
    events: dict[Any, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {graph: [] for graph in graphs}
    for at in range(ROUNDS + ROUNDS // 4):
        for graph in random.Random(at).sample(graphs, len(graphs)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flushed.zero_()
            start.record()
            graph.replay()
            end.record()
            events[graph].append((start, end))
    torch.cuda.synchronize()
    # The first launches only raise the clocks.
    median = lambda graph: statistics.median(start.elapsed_time(end) for start, end in events[graph][ROUNDS // 4 :])
    return [1e3 * statistics.fmean(map(median, work)) for work in works]
