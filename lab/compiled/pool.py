"""Compiles variants of many cases at once on all cores, and times one case at a time.

A case is a dictionary that JSON can hold. Its module has `cases()`, `inputs(case, sets)` and `variants(case)`: pairs of a name and
a function that compiles the variant and returns `call(set)`. All variants of a case are captured into CUDA graphs and replayed by
turns, each launch with the next set of inputs, so that what it reads is not in the L2. Finished cases are saved one after the other.
"""

import fcntl
import importlib
import json
import math
import multiprocessing
import os
import queue
import statistics
import time
import traceback
from pathlib import Path

METHOD = (
    "torch.compile of each variant by itself, static sizes. CUDA graphs of several calls, each with the next of several sets of inputs "
    "(at least five L2s of traffic between two uses, at most 32 sets or 8 GiB), replayed by turns: the median of the rounds, less the start of a graph. "
    "Other processes compile meanwhile; one process uses the GPU at a time."
)
L2 = 60 << 20
LOCK = os.environ.get("GPU_LOCK", "/tmp/gpu.lock")


class Turn:
    """The right to use the GPU, among all processes. A process may take it again while it has it."""

    depth, file = 0, None

    def __enter__(self):
        if Turn.depth == 0:
            Turn.file = open(LOCK, "w")
            fcntl.flock(Turn.file, fcntl.LOCK_EX)
        Turn.depth += 1

    def __exit__(self, *_):
        Turn.depth -= 1
        if Turn.depth == 0:
            import torch

            if torch.cuda.is_available():
                torch.cuda.synchronize()
            Turn.file.close()


def called_in_turn():
    """The first call of a function compiles it, for which the GPU is free for others, and then runs the code, for which it is not."""
    from torch._inductor.output_code import CompiledFxGraph

    run = CompiledFxGraph.__call__

    def in_turn(self, inputs):
        with Turn():
            return run(self, inputs)

    CompiledFxGraph.__call__ = in_turn


def quick():
    """Settings that save compile time and change no kernel."""
    import torch
    import torch._dynamo
    import torch._functorch.config
    import torch._inductor.config

    torch.set_num_threads(1)
    torch._functorch.config.donated_buffer = False  # A backward pass is run several times.
    torch._functorch.config.enable_autograd_cache = False
    torch._inductor.config.compile_threads = 1
    torch._inductor.config.fx_graph_cache = False


def sets_of(touched, held):
    return max(2, min(32, math.ceil(5 * L2 / touched), int(8 * 2**30 / held)))


def replayed(graphs, rounds):
    import torch

    times = [[] for _ in graphs]
    for turn in range(rounds + 1):
        events = []
        for graph in graphs:
            pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            pair[0].record()
            graph.replay()
            pair[1].record()
            events.append(pair)
        torch.cuda.synchronize()
        for one, (before, after) in zip(times, events, strict=True):
            if turn:
                one.append(before.elapsed_time(after) * 1000)
    return times


def captured(call, count, sets):
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="relaxed"):
        for turn in range(count):
            call(turn % sets)
    return graph


def graph_start():
    """µs between two events around a graph, besides its launches."""
    import torch

    small = torch.empty(1024, device="cuda")
    graphs = [captured(lambda turn: small.add_(1), times, 1) for times in (1, 33)]
    one, many = (statistics.median(rounds) for rounds in replayed(graphs, 20))
    return max(0.0, one - (many - one) / 32)


class Worker:
    def __init__(self, until):
        import torch

        quick()
        called_in_turn()
        self.until, self.torch = until, torch
        self.gpu = torch.cuda.is_available()
        if self.gpu:
            with Turn():
                torch.cuda.set_stream(torch.cuda.Stream())

    def run(self, module, case):
        """The times of the variants of a case in µs by name, and what went wrong with others."""
        torch, found, failed, started = self.torch, {}, {}, time.time()
        with Turn():
            sets = sets_of(module.touched(case), getattr(module, "held", module.touched)(case)) if self.gpu else 2
            inputs = module.inputs(case, sets)
            if self.gpu:
                torch.cuda.synchronize()
        graphs, calls, reference = {}, [], None
        for name, build in module.variants(case):
            if time.time() > self.until:
                failed[name] = "no time"
                continue
            torch._dynamo.reset()
            begun = time.time()
            try:
                call = build(inputs)
                out = call(0)
                error = None
                with Turn():
                    out = (out[0] if isinstance(out, tuple) else out).float()
                    if reference is None:
                        reference = out
                    else:
                        error = float((out - reference).norm() / reference.norm())
                    if not self.gpu:
                        found[name] = [time.time() - begun, error]
                        continue
                    about = statistics.median(replayed([captured(call, 2, sets)], 2)[0]) / 2
                    count = max(2, min(32, round(600 / about))) if about < 20_000 else 1
                    graphs[name] = captured(call, count, sets), count, about
                calls.append(call)  # Keeps the loaded code.
                found[name] = [round(time.time() - begun, 2), error]
            except Exception as trouble:
                failed[name] = f"{type(trouble).__name__}: {' '.join(str(trouble).split())[:160]}"
                if not self.gpu or "out of memory" in failed[name]:
                    failed[name] = failed[name][:200]
        times, spread = {}, None
        if graphs:
            with Turn():
                total = sum(count * about for _, count, about in graphs.values())
                rounds = max(3, min(21, round(100_000 / total)))
                all_rounds = replayed([graph for graph, _, _ in graphs.values()], rounds)
                start = graph_start()
                times = {
                    name: round((statistics.median(one) - start) / count, 3)
                    for (name, (_, count, _)), one in zip(graphs.items(), all_rounds, strict=True)
                }
                spread = statistics.median((max(one) - min(one)) / statistics.median(one) for one in all_rounds)
        with Turn():
            graphs.clear()
            calls.clear()
            del inputs, reference
            torch._dynamo.reset()
            if self.gpu:
                torch.cuda.empty_cache()
        about = {"compile_s": {name: one[0] for name, one in found.items()},
                 "error": max([one[1] for one in found.values() if one[1] is not None], default=None)}  # fmt: skip
        return {
            **case,
            "us": times,
            "failed": failed,
            "spread": spread and round(spread, 4),
            **about,
            "took_s": round(time.time() - started, 1),
        }


def _work(name, jobs, done, until):
    worker = Worker(until)
    while time.time() < until:
        try:
            module_name, case = jobs.get_nowait()
        except queue.Empty:
            break
        try:
            done.put((module_name, worker.run(importlib.import_module(module_name), case)))
        except Exception:
            done.put((module_name, {**case, "broken": traceback.format_exc()[-1500:]}))
            if worker.gpu:
                worker.torch.cuda.empty_cache()
    done.put((None, name))


def held(folder, name):
    path = Path(folder) / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(folder, names, seconds, workers, limit=None, only=None):
    """Takes cases of the named modules by turns until the time is over. Appends to FOLDER/NAME.jsonl."""
    until = time.time() + seconds
    Path(folder).mkdir(parents=True, exist_ok=True)
    waiting = {}
    for one in names:
        name, _, weight = one.partition("=")
        known = {one["case"] for one in held(folder, name)}
        waiting[name] = [
            float(weight or 1),
            0,
            [
                one
                for one in importlib.import_module(name).cases()
                if one["case"] not in known and (not only or one["case"] in only)
            ][:limit],
        ]
    order = []
    while any(at < len(cases) for _, at, cases in waiting.values()):
        name = min(
            (one for one in waiting if waiting[one][1] < len(waiting[one][2])), key=lambda one: waiting[one][1] / waiting[one][0]
        )
        order.append((name, waiting[name][2][waiting[name][1]]))
        waiting[name][1] += 1
    context = multiprocessing.get_context("spawn")
    jobs, done = context.Queue(), context.Queue()
    for one in order:
        jobs.put(one)
    processes = [context.Process(target=_work, args=(at, jobs, done, until)) for at in range(workers)]
    for one in processes:
        one.start()
    print(f"{len(order)} cases wait", flush=True)
    running, counts, started = workers, {}, time.time()
    while running and time.time() < until + 20:
        try:
            name, result = done.get(timeout=1)
        except queue.Empty:
            if not any(one.is_alive() for one in processes):
                break
            continue
        if name is None:
            running -= 1
            continue
        with (Path(folder) / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(result) + "\n")
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= 4 or counts[name] % 25 == 0 or "broken" in result:
            print(f"{time.time() - started:.0f} s {name} {counts[name]}: {json.dumps(result)[:900]}", flush=True)
    for one in processes:
        if one.is_alive():
            one.terminate()
    print(f"{time.time() - started:.0f} s: {counts}", flush=True)
    os._exit(0)


def main():
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--only", help="a file with names of cases, one a line")
    parser.add_argument(
        "kinds", nargs="+", help="attention, experts, weights, convolutions; each with =WEIGHT, its share of the turns"
    )
    chosen = parser.parse_args()
    run(
        chosen.out,
        chosen.kinds,
        chosen.seconds,
        chosen.workers,
        chosen.limit,
        chosen.only and set(Path(chosen.only).read_text().split("\n")),
    )


if __name__ == "__main__":
    main()
