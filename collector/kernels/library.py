"""Times what torch runs for scaled and grouped problems, one JSON request a line, with answers likewise.

Launches take turns with the copies of their operands. Before each, the cache is flushed and the GPU kept busy, so that it
never waits for this process: as the collector does.
"""

import json
import sys

import torch

TYPES = {name: getattr(torch, name) for name in ("float8_e4m3fn", "float8_e4m3fnuz", "bfloat16", "float16")}
ROUNDS = 20
BUSY_CYCLES = 400_000  # Some 200 µs, longer than torch takes to launch.


def random(shape, dtype):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(dtype)


def scales(*shape):
    return torch.rand(shape, device="cuda") * 0.1 + 0.5


def scaled_mm(problem):
    """One call: operands of a copy, and what runs on them."""
    m, n, k, scaling = problem["m"], problem["n"], problem["k"], problem["scaling"]
    a, b = random((m, k), TYPES[problem["a_dtype"]]), random((n, k), TYPES[problem["b_dtype"]]).T
    up = lambda size: -(-size // 128)
    of_a, of_b = {
        "tensor": lambda: (scales(1)[0], scales(1)[0]),
        "row": lambda: (scales(m, 1), scales(1, n)),
        "block": lambda: (scales(up(k), m).T, scales(up(n), up(k)).T),
    }[scaling]()
    out = torch.empty((m, n), device="cuda", dtype=TYPES[problem["out_dtype"]])
    return lambda _: torch._scaled_mm(a, b, of_a, of_b, out_dtype=out.dtype, use_fast_accum=scaling != "block", out=out)


def grouped_mm(problem):
    rows, n, k, count = problem["m"], problem["n"], problem["k"], problem["groups"]["count"]
    a, b = random((rows, k), TYPES[problem["a_dtype"]]), random((count, n, k), TYPES[problem["b_dtype"]]).transpose(1, 2)
    out_dtype = TYPES[problem["out_dtype"]]
    if problem["op"] == "grouped_mm":
        return lambda ends: torch._grouped_mm(a, b, offs=ends, out_dtype=out_dtype)
    of_a, of_b = scales(rows), scales(count, n)
    return lambda ends: torch._scaled_grouped_mm(a, b, of_a, of_b, offs=ends, out_dtype=out_dtype, use_fast_accum=True)


def times(problem, copies, ends):
    """Nanoseconds of each launch."""
    make = scaled_mm if problem["op"] == "scaled_mm" else grouped_mm
    calls = [make(problem) for _ in range(copies)]
    routings = [torch.tensor(one, device="cuda", dtype=torch.int32) for one in ends] or [None]
    flush = torch.empty(torch.cuda.get_device_properties().L2_cache_size, dtype=torch.int8, device="cuda")
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(ROUNDS)]
    for turn in range(2):
        calls[turn % copies](routings[turn % len(routings)])
    for turn, (before, after) in enumerate(events):
        torch.cuda._sleep(BUSY_CYCLES)
        flush.zero_()
        before.record()
        calls[turn % copies](routings[turn % len(routings)])
        after.record()
    torch.cuda.synchronize()
    return [round(1e6 * before.elapsed_time(after)) for before, after in events]


def main():
    replies, sys.stdout = sys.stdout, sys.stderr
    torch.cuda.set_device(int(sys.argv[1]))
    print(json.dumps({"ready": torch.__version__}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"timed": times(**request)}
        except (RuntimeError, ValueError, TypeError, KeyError) as error:  # what torch does not run, or has no memory for
            answer = {"refused": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
        torch.cuda.empty_cache()
        print(json.dumps(answer), file=replies, flush=True)


if __name__ == "__main__":
    main()
