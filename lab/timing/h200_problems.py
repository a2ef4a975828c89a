"""Draws the problems of the H200 dataset, as lists for `diode collect --problems`.

    python lab/timing/h200_problems.py --shapeset operation_shapeset.json --known data.json --out FOLDER

Four kinds in about equal parts: sizes from log-normal distributions, prefill and
decode of transformers, shapes of real models (from an operation shape set), and
what the first data was short of: rows that are not aligned at 10 to 100 µs, few
columns, few rows, and more than 200 µs. `--known` lists problems that the
validation set must not hold. The same seed gives the same lists.
"""

import argparse
import json
import math
import os
import random

# Rough speed of the hardware: enough to aim at a range of times.
PEAK_FLOPS, BYTES_PER_SECOND = 600e12, 3.5e12
LARGEST_US = 3000
LIMIT = 2**31 - 1

# fmt: off
TRANSFORMERS = [  # hidden, intermediate, key/value width
    (768, 3072, 768), (1024, 4096, 1024), (1600, 6400, 1600), (2048, 5632, 256), (2048, 8192, 512), (2560, 10240, 2560),
    (3072, 8192, 1024), (3584, 18944, 512), (4096, 11008, 4096), (4096, 14336, 1024), (5120, 13824, 5120),
    (5120, 25600, 1024), (6144, 16384, 1024), (7168, 18432, 1536), (8192, 28672, 1024), (12288, 49152, 12288),
]
# fmt: on
TOKENS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192]


def micros(m, n, k):
    return max(2e6 * m * n * k / PEAK_FLOPS, 2e6 * (m * k + k * n + m * n) / BYTES_PER_SECOND) + 3


def fits(m, n, k):
    return min(m, n, k) >= 1 and max(m * k, k * n, m * n) <= LIMIT and micros(m, n, k) <= LARGEST_US


def log_normal(rng):
    draw = lambda mean, deviation: max(1, round(math.exp(rng.gauss(mean, deviation))))
    up = lambda size: max(8, round(size / 8) * 8)
    return draw(6.57, 2.2), up(draw(6.4, 1.7)), up(draw(6.6, 1.8))


def transformer(rng):
    hidden, wide, key_value = rng.choice(TRANSFORMERS)
    split = rng.choice([1, 1, 1, 2, 4, 8])
    n, k = rng.choice(
        [
            (hidden, hidden),
            ((hidden + 2 * key_value) // split, hidden),
            (hidden, hidden // split),
            (wide // split, hidden),
            (2 * wide // split, hidden),
            (hidden, wide // split),
            (key_value // split, hidden),
        ]
    )
    return rng.choice(TOKENS), n // 8 * 8, k // 8 * 8


def unaligned(rng):
    """Rows of A or B that are no multiple of 16 bytes, at 10 to 100 µs."""
    while True:
        m, n, k = (round(math.exp(rng.uniform(math.log(64), math.log(6000)))) for _ in range(3))
        which = rng.choice(["n", "k", "both"])
        n = n | 1 if which != "k" else n // 8 * 8
        k = k | 1 if which != "n" else k // 8 * 8
        if min(n, k) >= 64 and 7 <= micros(m, n, k) <= 70:
            return m, n, k


def few_columns(rng):
    return (
        rng.choice([256, 1000, 4096, 8192, 20000, 65536]),
        rng.choice([8, 16, 24, 32, 48, 64]),
        rng.choice([64, 128, 256, 512, 1024, 2048, 4096, 8192]),
    )


def few_rows(rng):
    return rng.randint(1, 16), rng.randrange(64, 2560) * 8, rng.randrange(32, 2048) * 8


def long(rng):
    while True:
        m, n, k = (rng.randrange(8, 2048) * 8 for _ in range(3))
        if 200 <= micros(m, n, k) <= 1500:
            return m, n, k


def real(rng, shapes):
    return rng.choice(shapes)


def aligned(shape):
    return shape[1] % 8 == 0 and shape[2] % 8 == 0


def draw(rng, count, makers, seen, keep=lambda shape: True):
    shapes: list[tuple[int, ...]] = []
    turn = 0
    while len(shapes) < count:
        shape = tuple(makers[turn % len(makers)](rng))
        turn += 1
        if fits(*shape) and keep(shape) and shape not in seen:
            seen.add(shape)
            shapes.append(shape)
    return shapes


def problems(shapes, op="mm", dtype="bfloat16", b_layout="row", bias="none"):
    return [
        {
            "op": op,
            "b": 1,
            "m": m,
            "n": n,
            "k": k,
            "a_dtype": dtype,
            "b_dtype": dtype,
            "out_dtype": dtype,
            "a_layout": "row",
            "b_layout": b_layout,
            "bias": bias,
        }
        for m, n, k in shapes
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapeset", required=True, help="torch-diode operation shape set")
    parser.add_argument("--known", help="JSON list of problems that are not to be drawn")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=20261121)
    options = parser.parse_args()
    try:
        with open(options.shapeset) as file:
            operations = json.load(file)["operations"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.exit(1, f"error: {options.shapeset}: {error}; expected torch-diode's operation shape set\n")
    listed = [entry for entries in operations.values() for entry in (entries["shapes"] if isinstance(entries, dict) else entries)]
    listed = [json.loads(entry) if isinstance(entry, str) else entry for entry in listed]
    plain = sorted({(s["M"], s["N"], s["K"]) for s in listed if s["B"] == 1 and fits(s["M"], s["N"], s["K"])})
    seen = set()
    if options.known:
        with open(options.known) as file:
            seen = {(p["m"], p["n"], p["k"]) for p in json.load(file)}
    rng = random.Random(options.seed)
    pick = lambda rng: real(rng, plain)
    common = [log_normal, transformer, pick, transformer, pick, few_columns, few_rows, long]
    linear = [transformer, pick, transformer, few_rows, transformer, long]
    odd = lambda shape: (
        (shape[1] % 8 == 0 or shape[1] % 2 == 1) and (shape[2] % 8 == 0 or shape[2] % 2 == 1) and not aligned(shape)
    )
    odd_real = [shape for shape in plain if odd(shape)]
    odd_makers = [unaligned, unaligned, lambda rng: real(rng, odd_real)]
    lists = {}
    for name, which in [("valid", 1), ("train", 0)]:  # Of each pair of counts, the first is for training.
        lists[f"{name}_bf16_nn"] = problems(draw(rng, (300, 60)[which], common, seen, aligned))
        lists[f"{name}_bf16_nt"] = problems(draw(rng, (120, 25)[which], linear, seen, aligned), b_layout="column")
        lists[f"{name}_fp16"] = problems(draw(rng, (60, 12)[which], common, seen, aligned), dtype="float16") + problems(
            draw(rng, (30, 6)[which], linear, seen, aligned), dtype="float16", b_layout="column"
        )
        lists[f"{name}_unaligned"] = problems(draw(rng, (80, 16)[which], odd_makers, seen, odd)) + problems(
            draw(rng, (30, 6)[which], odd_makers, seen, odd), b_layout="column"
        )
        lists[f"{name}_addmm"] = (
            problems(draw(rng, (40, 8)[which], linear, seen, aligned), op="addmm", b_layout="column", bias="vector")
            + problems(draw(rng, (20, 4)[which], common, seen, aligned), op="addmm", bias="matrix")
            + problems(
                draw(rng, (20, 4)[which], linear, seen, aligned), op="addmm", dtype="float16", b_layout="column", bias="vector"
            )
        )
        lists[f"{name}_fp32"] = problems(draw(rng, (20, 5)[which], common, seen, aligned), dtype="float32")
    os.makedirs(options.out, exist_ok=True)
    for name, rows in lists.items():
        with open(os.path.join(options.out, name + ".json"), "w") as file:
            json.dump(rows, file, separators=(",", ":"))
        print(f"{name}: {len(rows)}")


if __name__ == "__main__":
    main()
