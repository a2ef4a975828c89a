"""How long `ptxas` takes for kernels whose sizes are part of their code, as in Inductor's kernels.

    python lab/timing/compile_times.py --seconds 600 > times.csv

needs Triton, and no GPU. Each line is a linear layer or an `mm` with random tile, K and type, and the seconds of processor time
that `ptxas` took. fp32 is rounded to TF32. If K is short enough, `ptxas` unrolls the loop over K, which takes long for kernels
with Hopper's warp-group instructions. `shared/model/src/epilogue/compiling.rs` has a formula for these seconds.
"""

import argparse
import csv
import os
import pathlib
import random
import sys
import tempfile
import time

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "collector" / "kernels"))

import triton
from triton.backends.nvidia.compiler import CUDABackend

import compile as kernels

ARCH = "sm_90"
BLOCKS_M, BLOCKS_N, BLOCKS_K = (64, 128), (16, 32, 64, 128, 256), (16, 32, 64, 128)
STAGES, WARPS = (2, 3, 4, 5), (4, 8)
DEPTHS = (64, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 8192)
TYPES = {"bf16": 2, "fp32": 4}
ROWS, COLUMNS = 4096, 2048
SHARED_MEMORY = 232_448


def request(tile, k, dtype, linear):
    block_m, block_n, block_k, stages, warps = tile
    wide = 16 // TYPES[dtype]
    return {
        "kernel": "mm_known",
        "arch": ARCH,
        "types": {
            **dict.fromkeys(("A", "B", "bias", "C"), f"*{dtype}"),
            **dict.fromkeys(("M", "N", "K"), "i32"),
            **dict.fromkeys(("lda", "ldb", "ldc", "batch_a", "batch_b", "batch_c"), "i64"),
        },
        "divisible": {
            **dict.fromkeys(("A", "B", "bias", "C"), 16),
            **dict.fromkeys(("M", "N", "K", "lda", "ldb", "ldc", "batch_a", "batch_b", "batch_c"), wide),
        },
        "constants": {
            "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8, "EVEN_K": k % block_k == 0,
            "A_ROW": True, "B_ROW": not linear, "BIAS": "vector" if linear else "none", "PRECISION": "tf32",
            "A_CONTIGUOUS": True, "B_CONTIGUOUS": True, "KNOWN_M": ROWS, "KNOWN_N": COLUMNS, "KNOWN_K": k,
        },
        "options": {"num_warps": warps, "num_stages": stages, "sanitize_overflow": False},
    }  # fmt: skip


def timed_assembly(times):
    """Notes the processor time of each call of `ptxas`, which is a process of its own."""
    make = CUDABackend.make_cubin

    def timed(*arguments, **named):
        before = os.times()
        binary = make(*arguments, **named)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return binary

    CUDABackend.make_cubin = timed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance, until = random.Random(arguments.seed), time.monotonic() + arguments.seconds
    times: list[float] = []
    timed_assembly(times)
    lines = csv.writer(sys.stdout)
    lines.writerow(["dtype", "linear", "block_m", "block_n", "block_k", "num_stages", "num_warps", "k", "steps", "seconds"])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        while time.monotonic() < until:
            tile = [chance.choice(values) for values in (BLOCKS_M, BLOCKS_N, BLOCKS_K, STAGES, WARPS)]
            dtype, linear, k = chance.choice(list(TYPES)), chance.random() < 0.5, chance.choice(DEPTHS)
            block_m, block_n, block_k, stages, _ = tile
            if (block_m + block_n) * block_k * stages * TYPES[dtype] > SHARED_MEMORY:
                continue
            asked = request(tile, k, dtype, linear)
            before = len(times)
            triton.compile(kernels.source(asked), target=kernels.target(ARCH), options=asked["options"])
            if len(times) == before:
                continue  # The same kernel was compiled before.
            lines.writerow([dtype, int(linear), *tile, k, -(-k // block_k), f"{times[-1]:.2f}"])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
