"""What Inductor's other kernels add to the best of the plain tile kernel and cuBLAS.

    python lab/timing/other_kernels.py --diode target/release/diode \\
        --timings trained_models/matmul/nvidia-h100/data/validation/h100-mm-bf16-nn.msgpack.zst

needs torch 2.11, Triton 3.6 and a Hopper GPU. The timings name the problems (mm, bf16, row-major) and the best plain
configs of each. These are timed anew, beside cuBLAS, the whole space of the persistent kernel that reads its operands
by the tensor memory accelerator (descriptors made on the host), and K cut into parts as `decompose_k` does: a batched
multiplication with sums in fp32, and their sum.

Every time is the median of launches with a cold cache, one method after the other in each round.
"""

import argparse
import csv
import importlib.util
import json
import math
import multiprocessing
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.jit import MockTensor
from triton.tools.tensor_descriptor import TensorDescriptor

SIDES, STAGES, WARPS = (16, 32, 64, 128, 256), (1, 2, 3, 4, 5), (4, 8)
SHARED_MEMORY, REGISTERS, GROUP_M = 232_448, 256, 8
# How many configs of each template are timed thoroughly, in how many rounds, with how many launches each.
PLAIN, PERSISTENT, SPLITS, ROUNDS, PER_ROUND = 8, 12, 4, 4, 6
# Overwriting this much memory empties the cache, and takes so long that the next launch is queued meanwhile.
FLUSH_BYTES = 512 << 20
SEED = 20261125


@triton.jit
def tile_of(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    across = tl.cdiv(N, BLOCK_N)
    group = tile // (GROUP * across)
    rows = min(tl.cdiv(M, BLOCK_M) - group * GROUP, GROUP)
    inside = tile % (GROUP * across)
    return group * GROUP + inside % rows, inside // rows


@triton.jit(do_not_specialize=["M", "K"])
def persistent(
    A, B, C, M, N, K, SMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr
):
    """One program per multiprocessor computes tile after tile, in one loop over the tiles' steps."""
    first = tl.program_id(0)
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    own = tiles // SMS
    if first < tiles % SMS:
        own += 1
    tile = first - SMS
    step = -1
    row, column = 0, 0
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(steps * own):
        step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            tile += SMS
            row, column = tile_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP)
        a = A.load([row * BLOCK_M, step * BLOCK_K])
        b = B.load([step * BLOCK_K, column * BLOCK_N])
        acc = tl.dot(a, b, acc)
        if step == steps - 1:
            i = (row * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
            j = (column * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
            tl.store(C + i * N + j, acc.to(C.dtype.element_ty), (i < M) & (j < N))
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)


@triton.jit
def add_parts(parts, C, SIZE, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(SPLITS):
        total += tl.load(parts + part * SIZE.to(tl.int64) + at, at < SIZE, other=0.0)
    tl.store(C + at, total.to(C.dtype.element_ty), at < SIZE)


def plain_kernel():
    """The kernel that packs hold, from its own file."""
    path = pathlib.Path(__file__).parents[2] / "collector" / "kernels" / "matmul.py"
    spec = importlib.util.spec_from_file_location("matmul", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded; expected the kernels of the packs")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.mm


PLAIN_KERNEL = plain_kernel()


def whole_space():
    """Inductor's exhaustive list for the persistent kernel, as far as it fits the GPU."""
    fits = lambda m, n, k, s, w: (m + n) * k * 2 * s + 8 * s <= SHARED_MEMORY and m * n <= REGISTERS * w * 32
    return [(m, n, k, s, w) for m in SIDES for n in SIDES for k in SIDES for s in STAGES for w in WARPS if fits(m, n, k, s, w)]


class Problem:
    """The operands of one problem, and how each kernel is launched on them."""

    def __init__(self, m, n, k, *, to_compile_plain=False):
        self.m, self.n, self.k = m, n, k
        if to_compile_plain:
            self.a = self.b = self.c = MockTensor(torch.bfloat16)
            return
        make = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        self.a, self.b = make(m, k), make(k, n)
        self.c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count

    def library(self):
        return lambda: torch.mm(self.a, self.b, out=self.c)

    def plain_arguments(self, tile):
        bm, bn, bk, stages, warps = tile
        sizes = (self.m, self.n, self.k, self.k, self.n, self.n, 0, 0, 0)
        constants = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": GROUP_M, "EVEN_K": self.k % bk == 0}
        constants |= {"A_ROW": True, "B_ROW": True, "BIAS": "none", "PRECISION": "ieee", "A_CONTIGUOUS": self.m >= bm}
        constants |= {"B_CONTIGUOUS": self.n >= bn, "ANEW": False, "num_stages": stages, "num_warps": warps}
        return (self.a, self.b, self.a, self.c, *sizes), constants

    def plain(self, tile):
        arguments, constants = self.plain_arguments(tile)
        grid = (triton.cdiv(self.m, tile[0]) * triton.cdiv(self.n, tile[1]),)
        return lambda: PLAIN_KERNEL[grid](*arguments, **constants)

    def persistent_arguments(self, tile):
        bm, bn, bk, stages, warps = tile
        a, b = TensorDescriptor.from_tensor(self.a, [bm, bk]), TensorDescriptor.from_tensor(self.b, [bk, bn])
        constants = {"SMS": self.sms, "BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP": GROUP_M}
        return (a, b, self.c, self.m, self.n, self.k), constants | {"num_stages": stages, "num_warps": warps}

    def persistent(self, tile):
        arguments, constants = self.persistent_arguments(tile)
        grid = (min(self.sms, triton.cdiv(self.m, tile[0]) * triton.cdiv(self.n, tile[1])),)
        return lambda: persistent[grid](*arguments, **constants)

    def splits(self):
        """As many parts as `decompose_k` would try: powers of two first, then multiples of 32, then others; ten at most."""
        most = min(self.k // self.m, self.k // self.n)
        all_ = [d for d in range(2, most + 1) if self.k % d == 0 and self.k // d >= 128]
        length = lambda d: self.k // d
        rank = lambda d: 0 if length(d) & (length(d) - 1) == 0 else 1 if length(d) % 32 == 0 else 2
        return sorted(all_, key=rank)[:10]

    def split(self, parts):
        a = self.a.view(self.m, parts, self.k // parts).transpose(0, 1)
        b = self.b.view(parts, self.k // parts, self.n)
        sums = torch.empty(parts, self.m, self.n, device="cuda", dtype=torch.float32)
        size = self.m * self.n

        def run():
            torch.bmm(a, b, out_dtype=torch.float32, out=sums)
            add_parts[(triton.cdiv(size, 1024),)](sums, self.c, size, parts, 1024)

        return run


class Clock:
    def __init__(self):
        self.flush = torch.empty(FLUSH_BYTES, device="cuda", dtype=torch.uint8)

    def launches(self, run, count):
        """Microseconds of some launches."""
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for start, end in events:
            self.flush.zero_()
            start.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in events]


def compile_one(task):
    kind, size, tile = task
    try:
        problem = Problem(*size, to_compile_plain=kind == "plain")
        if kind == "plain":
            arguments, constants = problem.plain_arguments(tile)
            PLAIN_KERNEL.warmup(*arguments, grid=(1,), **constants)
        else:
            arguments, constants = problem.persistent_arguments(tile)
            persistent.warmup(*arguments, grid=(1,), **constants)
    except Exception as error:  # A config that does not compile is left out when it is launched.
        return f"{kind} {tile}: {str(error).splitlines()[0][:100] if str(error) else type(error).__name__}"
    return None


def read(diode, timings):
    """The problems of a file, each with its plain tiles, the fastest first."""
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "timings.csv")
        subprocess.run([diode, "convert", timings, table, "--lossy"], check=True, capture_output=True)
        with open(table) as file:
            rows = list(csv.DictReader(file))
    problems: dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]] = {}
    for row in rows:
        size = tuple(int(row[name]) for name in ("m", "n", "k"))
        if row["block_m"] and not row["failure"]:
            tile = tuple(int(row[name]) for name in ("block_m", "block_n", "block_k", "num_stages", "num_warps"))
            problems.setdefault(size, []).append((float(row[next(name for name in row if name.startswith("time"))]), tile))
    return {size: [tile for _, tile in sorted(timed)] for size, timed in problems.items()}


def measure(problem, clock, plain, space):
    """Microseconds by kind and config."""
    runs = {("library", None): problem.library()}
    runs |= {("plain", tile): problem.plain(tile) for tile in plain[:PLAIN]}
    torch.mm(problem.a, problem.b, out=problem.c)
    right, largest = problem.c.clone(), problem.c.abs().max().item()
    looks = []
    for kind, choices, make in (("persistent", space, problem.persistent), ("split", problem.splits(), problem.split)):
        for choice in choices:
            try:
                run = make(choice)
                problem.c.zero_()
                run()
                torch.cuda.synchronize()
            except Exception:  # It does not fit the GPU after all.
                continue
            if (problem.c - right).abs().max().item() > 0.02 * largest:
                print(f"wrong: {kind} {choice} on {problem.m}x{problem.n}x{problem.k}", file=sys.stderr)
                continue
            looks.append((min(clock.launches(run, 2)), (kind, choice), run))
    looks.sort(key=lambda look: look[0])
    for kind, most in (("persistent", PERSISTENT), ("split", SPLITS)):
        runs |= {key: run for _, key, run in [look for look in looks if look[1][0] == kind][:most]}
    for run in runs.values():
        run()
    times: dict[Any, list[float]] = {key: [] for key in runs}
    order = list(runs)
    for _ in range(ROUNDS):
        random.shuffle(order)
        for key in order:
            times[key] += clock.launches(runs[key], PER_ROUND)
    return {key: statistics.median(values) for key, values in times.items()}, len(looks)


def best(times, kind):
    """The least time of a kind and its config."""
    return min(((us, choice) for (of, choice), us in times.items() if of == kind), default=(math.inf, None))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diode", default="diode")
    parser.add_argument("--timings", required=True, help="of mm in bf16, row-major, with plain configs")
    parser.add_argument("--problems", type=int, default=30, help="how many of them, evenly over their amounts of work")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--times", help="file that gets a line of JSON per problem")
    options = parser.parse_args()
    random.seed(SEED)
    torch.manual_seed(SEED)
    known = read(options.diode, options.timings)
    readable = sorted(
        (size for size in known if size[1] % 16 == 0 and size[2] % 8 == 0), key=lambda size: (math.prod(size), size)
    )
    chosen = [readable[i * len(readable) // options.problems] for i in range(min(options.problems, len(readable)))]
    space = whole_space()
    # One binary serves all sizes of which the compiler knows the same divisors, so one size is enough.
    tasks = [("persistent", (256, 256, 256), tile) for tile in space]
    tasks += [("plain", size, tile) for size in chosen for tile in known[size][:PLAIN]]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        failed = [said for said in pool.imap_unordered(compile_one, tasks, chunksize=4) if said]
    print(f"{len(space)} persistent configs, {len(tasks)} kernels compiled, {len(failed)} refused", file=sys.stderr)
    for said in failed[:5]:
        print(said, file=sys.stderr)
    clock = Clock()
    gains: dict[str, list[float]] = {"persistent": [], "split": [], "both": []}
    print("| problem | cuBLAS, µs | plain | persistent | its tile | K in parts | parts | what they add |")
    print("|---|---|---|---|---|---|---|---|")
    for size in chosen:
        problem = Problem(*size)
        times, looked_at = measure(problem, clock, known[size], space)
        (library, _), (plain, _), (tma, tile), (split, parts) = [
            best(times, kind) for kind in ("library", "plain", "persistent", "split")
        ]
        before = min(library, plain)
        for name, us in (("persistent", tma), ("split", split), ("both", min(tma, split))):
            gains[name].append(before / min(before, us))
        shown = "×".join(map(str, tile[:3])) + f" s{tile[3]} w{tile[4]}" if tile else ""
        cut = f"{split:.1f} | {parts}" if parts else " | "
        print(
            f"| {'×'.join(map(str, size))} | {library:.1f} | {plain:.1f} | {tma:.1f} | {shown} | {cut} | {gains['both'][-1]:.3f} |",
            flush=True,
        )
        if options.times:
            with open(options.times, "a") as file:
                line = {
                    "size": size,
                    "looked_at": looked_at,
                    "times": [[kind, choice, us] for (kind, choice), us in times.items()],
                }
                file.write(json.dumps(line) + "\n")
    for name, values in gains.items():
        geometric = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{name}: {geometric:.4f} in the geometric mean of {len(values)} problems, at most {max(values):.3f}")


if __name__ == "__main__":
    main()
