"""Draws the problems that GPUs are compared by, as lists for `diode collect --problems`.

    python3 lab/lists/draw.py --reuse H200.json --out lab/lists

Layers and attention of real networks, sizes from log-normal distributions, and
problems that an H200 was timed with before (`--reuse`, written by `reuse.py`). A
size (M, N and K, whatever else the problem is) is for training or for
validation, never for both: what was one on the H200 stays that, and of other
sizes a hash decides. The same seed gives the same lists.
"""

import argparse
import functools
import hashlib
import json
import math
import os
import random

from sizes import (
    DECODERS,
    any_layer,
    attention,
    batched,
    biased,
    dlrm,
    few_rows,
    gradient,
    layer,
    log_normal,
    middle,
    odd_attention,
    odd_batched,
    real_unaligned,
    short_batched,
    short_sums,
    short_sums_of_columns,
    squarish,
    unaligned,
    unaligned_columns,
    unaligned_input_gradient,
    unaligned_vocabulary,
    unaligned_weight_gradient,
)

SEED = 20261122
LIMIT = 2**31 - 1
BYTES_PER_SECOND = 2.8e12
# Roughly the rate of a good kernel, enough to aim at a range of times.
FLOPS = {"bfloat16": 600e12, "float16": 600e12, "float32": 35e12, "tf32": 250e12}
TINY_US, SHORT_US, LONG_US = 5, 110, 450
SHARE_OF_TINY, SHARE_OF_LONG = 0.3, 0.3


def micros(b, m, n, k, dtype):
    size = 4 if dtype in ("float32", "tf32") else 2
    return max(2e6 * b * m * n * k / FLOPS[dtype], size * 1e6 * b * (m * k + k * n + m * n) / BYTES_PER_SECOND) + 3


def role(m, n, k):
    """The role of a size that the H200 was not timed with. A fifth of these sizes is for validation."""
    return "validation" if hashlib.sha256(f"{m}x{n}x{k}".encode()).digest()[0] % 5 == 0 else "train"


def row_lengths(m, n, k, layout):
    """The lengths of the rows of A, of B and of the output."""
    return {"nn": (k, n, n), "nt": (k, k, n), "tn": (m, n, n)}[layout]


def is_aligned(m, n, k, layout, size):
    return all(length * size % 16 == 0 for length in row_lengths(m, n, k, layout))


class Lists:
    def __init__(self, reuse):
        self.rows, self.seen, self.known, self.reuse = {}, set(), {}, reuse
        self.added = {}  # lists that only hold added problems, and their role
        for entry in reuse:
            self.known[entry["m"], entry["n"], entry["k"]] = entry["role"]

    def role(self, m, n, k):
        return self.known.get((m, n, k)) or role(m, n, k)

    def add(self, name, problem):
        key = tuple(problem.values())
        which = self.role(problem["m"], problem["n"], problem["k"])
        if name in self.added:
            which = {"train": self.added[name]}.get(which, "none")
        rows = self.rows[name].get(which, [])
        if key in self.seen or len(rows) >= self.quota.get(which, 0):
            return
        self.seen.add(key)
        rows.append(problem)

    def add_to(self, role, name, number, op, layouts, dtype, makers, **options):
        """Adds problems to train on to a list that has been drawn. They are short ones, because many are wanted."""
        self.added[f"{name} {role}"] = role
        self.draw(f"{name} {role}", op, layouts, dtype, 0, 0, makers, added=number, longest=SHORT_US, **options)

    def draw(
        self,
        name,
        op,
        layouts,
        dtype,
        train,
        validation,
        makers,
        *,
        bias="none",
        aligned=True,
        reused=0,
        tf32=False,
        added=0,
        longest=LONG_US,
    ):
        """Fills one list for each role. Problems that the H200 was timed with come first."""
        rng = random.Random(f"{SEED} {name}")
        roles = [self.added[name]] if added else ["train", "validation"]
        self.rows[name], speed = {which: [] for which in roles}, "tf32" if tf32 else dtype

        def problem(b, m, n, k, layout):
            a, b_ = ({"n": "row", "t": "column"}[letter] for letter in layout)
            return {
                "op": op,
                "b": b,
                "m": m,
                "n": n,
                "k": k,
                "a_dtype": dtype,
                "b_dtype": dtype,
                "out_dtype": dtype,
                "a_layout": a,
                "b_layout": b_,
                "bias": bias,
            }

        def fits(b, m, n, k, layout):
            size = 4 if dtype == "float32" else 2
            # Problems are grouped by the power of two that divides K. Without 16 and 32 there are fewer groups,
            # so that one list of configs serves many problems.
            # Tiles for picks have kernels for K of either sort anyway.
            any_power = aligned and self.added.get(name) == "picks"
            if not any_power and name.split()[0] not in ("mm-bf16-nn", "bmm-bf16") and math.gcd(k, 64) in (16, 32):
                return False
            # The heads of attention are 64 or 128 wide, so these two are left in for batched problems.
            if not aligned and math.gcd(k, 256) in ((16, 32, 256) if op == "bmm" else (16, 32, 64, 128)):
                return False
            # Each width of aligned loads needs kernels of its own, so rows in fp32 are aligned to 16 or to 4 bytes.
            if not aligned and dtype == "float32" and any(length % 4 == 2 for length in row_lengths(m, n, k, layout)):
                return False
            takes = micros(b, m, n, k, speed)
            return (
                max(b * m * k, b * k * n, b * m * n) <= LIMIT
                and is_aligned(m, n, k, layout, size) == aligned
                and takes <= longest
                and (takes > TINY_US or rng.random() < SHARE_OF_TINY)
                and (takes <= SHORT_US or rng.random() < SHARE_OF_LONG)
            )

        old = (
            [
                e
                for e in self.reuse
                if all(
                    e[key] == value
                    for key, value in problem(1, 0, 0, 0, layouts[0]).items()
                    if key not in ("b", "m", "n", "k", "a_layout", "b_layout")
                )
            ]
            if reused
            else []
        )
        layout_of = lambda e: (
            e["a_layout"][0].replace("r", "n").replace("c", "t") + e["b_layout"][0].replace("r", "n").replace("c", "t")
        )
        old = [e for e in old if layout_of(e) in layouts]
        rng.shuffle(old)
        self.quota = {"train": round(train * reused), "validation": round(validation * min(1.25 * reused, 1))}
        for e in old:
            if fits(1, e["m"], e["n"], e["k"], layout_of(e)):
                self.add(name, problem(1, e["m"], e["n"], e["k"], layout_of(e)))
        self.quota = {self.added[name]: added} if added else {"train": train, "validation": validation}
        turn = 0
        while any(len(rows) < self.quota[which] for which, rows in self.rows[name].items()):
            drawn = makers[turn % len(makers)](rng)
            turn += 1
            if turn > 400_000:
                raise SystemExit(f"{name}: no more problems to be found")
            if len(drawn) == 3:
                drawn = (1, *drawn, rng.choice(layouts))
            if drawn[4] in layouts and min(drawn[:4]) >= 1 and fits(*drawn):
                self.add(name, problem(*drawn))
        for rows in self.rows[name].values():
            rng.shuffle(rows)


def add_picks(lists):
    """Adds problems that are timed with models' picks only, so that many of them can be timed."""
    drawn = [any_layer, log_normal, log_normal, squarish, few_rows, log_normal]
    half, full = "bfloat16", "float32"
    add = functools.partial(lists.add_to, "picks")
    add("mm-bf16-nn", 900, "mm", ["nn"], half, drawn)
    add("mm-bf16-nt", 700, "mm", ["nt"], half, drawn)
    add("mm-bf16-tn", 300, "mm", ["tn"], half, [gradient, squarish, log_normal])
    add("addmm-bf16-vector", 700, "addmm", ["nt"], half, [biased, log_normal, any_layer, log_normal, dlrm], bias="vector")
    add("bmm-bf16", 300, "bmm", ["nn", "nt"], half, [attention, batched])
    add("mm-fp16", 200, "mm", ["nn", "nt"], "float16", drawn)
    add("mm-tf32", 500, "mm", ["nn", "nt"], full, [*drawn, dlrm], tf32=True)
    add("addmm-tf32-vector", 200, "addmm", ["nt"], full, [biased, log_normal, dlrm], bias="vector", tf32=True)
    add("mm-fp32", 300, "mm", ["nn", "nt"], full, [*drawn, dlrm])
    add("mm-bf16-unaligned", 400, "mm", ["nn"], half, [unaligned, unaligned, real_unaligned], aligned=False)
    add("mm-bf16-unaligned-nt", 400, "mm", ["nt"], half, [unaligned_vocabulary, unaligned], aligned=False)
    add("mm-bf16-unaligned-tn", 400, "mm", ["tn"], half, [unaligned_weight_gradient, unaligned], aligned=False)


def add_extra(lists):
    """Adds problems to train on for the kinds with the worst first picks, or with the fewest problems."""
    half, full = "bfloat16", "float32"
    batches, odd_batches = [attention, attention, batched], [odd_attention, odd_batched, odd_batched]
    last_layer, any_gradient = [unaligned_vocabulary, unaligned], [unaligned_weight_gradient, unaligned, unaligned_columns]
    add = functools.partial(lists.add_to, "extra")
    add("bmm-bf16-unaligned", 350, "bmm", ["nn", "nt"], half, odd_batches, aligned=False)
    add("bmm-fp32", 200, "bmm", ["nn", "nt"], full, batches)
    add("bmm-tf32", 150, "bmm", ["nn", "nt"], full, batches, tf32=True)
    add("mm-bf16-unaligned-tn", 150, "mm", ["tn"], half, any_gradient, aligned=False)
    add("addmm-bf16-unaligned-matrix", 120, "addmm", ["tn"], half, any_gradient, bias="matrix", aligned=False)
    add("addmm-bf16-unaligned-vector", 80, "addmm", ["nt"], half, last_layer, bias="vector", aligned=False)
    add("mm-fp32-unaligned-tn", 80, "mm", ["tn"], full, [unaligned_columns, unaligned_weight_gradient], aligned=False)
    add("mm-tf32", 150, "mm", ["nn", "nt"], full, [any_layer, log_normal, squarish, few_rows, dlrm], tf32=True)
    add("mm-bf16-tn", 150, "mm", ["tn"], half, [gradient, squarish, log_normal])


def add_weakest(lists):
    """Adds problems to train on for the kinds whose first picks are still the worst."""
    half, full = "bfloat16", "float32"
    batches, odd_batches = [attention, attention, batched], [odd_attention, odd_batched]
    last_layer, any_gradient = [unaligned_vocabulary, unaligned], [unaligned_weight_gradient, unaligned, unaligned_columns]
    odd_columns = [unaligned_columns, unaligned_weight_gradient]
    add = functools.partial(lists.add_to, "weakest")
    add("bmm-bf16-unaligned", 300, "bmm", ["nn", "nt"], half, odd_batches, aligned=False)
    add("bmm-fp32", 200, "bmm", ["nn", "nt"], full, batches)
    add("bmm-tf32", 200, "bmm", ["nn", "nt"], full, batches, tf32=True)
    add("addmm-bf16-unaligned-vector", 150, "addmm", ["nt"], half, last_layer, bias="vector", aligned=False)
    add("mm-bf16-unaligned-tn", 150, "mm", ["tn"], half, any_gradient, aligned=False)
    add("mm-fp32-unaligned-tn", 120, "mm", ["tn"], full, odd_columns, aligned=False)
    add("mm-tf32-unaligned-tn", 150, "mm", ["tn"], full, odd_columns, aligned=False, tf32=True)
    add("mm-fp32", 150, "mm", ["nn", "nt"], full, [any_layer, log_normal, squarish, few_rows, dlrm])


def add_short(lists):
    """Adds problems to train on with short sums and unaligned rows, like those of the two worst first picks."""
    half, full = "bfloat16", "float32"
    add = functools.partial(lists.add_to, "short", aligned=False)
    add("bmm-bf16-unaligned", 200, "bmm", ["nn", "nt"], half, [short_batched])
    add("addmm-bf16-unaligned-vector", 120, "addmm", ["nt"], half, [short_sums], bias="vector")
    add("addmm-bf16-unaligned-matrix", 80, "addmm", ["tn"], half, [short_sums_of_columns], bias="matrix")
    add("mm-bf16-unaligned", 120, "mm", ["nn"], half, [short_sums])
    add("mm-bf16-unaligned-nt", 100, "mm", ["nt"], half, [short_sums])
    add("mm-bf16-unaligned-tn", 120, "mm", ["tn"], half, [short_sums_of_columns])
    add("mm-tf32-unaligned", 100, "mm", ["nn", "nt"], full, [short_sums], tf32=True)
    add("mm-tf32-unaligned-tn", 60, "mm", ["tn"], full, [short_sums_of_columns], tf32=True)
    add("addmm-tf32-unaligned-vector", 80, "addmm", ["nt"], full, [short_sums], bias="vector", tf32=True)


def add_middle(lists):
    """Adds problems to train on of middle sizes, like those of the worst tiles that were picked for aligned rows in bf16."""
    add = functools.partial(lists.add_to, "middle")
    add("mm-bf16-nn", 200, "mm", ["nn"], "bfloat16", [middle])
    add("mm-bf16-nt", 150, "mm", ["nt"], "bfloat16", [middle, few_rows])
    add("addmm-bf16-matrix", 150, "addmm", ["nn"], "bfloat16", [middle, middle, few_rows], bias="matrix")
    add("addmm-bf16-vector", 100, "addmm", ["nt"], "bfloat16", [middle], bias="vector")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reuse", required=True, help="problems that the H200 was timed with, as reuse.py writes them")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    with open(options.reuse) as file:
        lists = Lists(json.load(file))
    decoder = lambda rng: layer(rng, DECODERS)
    scores = lambda rng: attention(rng, "scores")
    plain = [any_layer, log_normal, decoder, log_normal, squarish, few_rows]
    linear = [any_layer, decoder, any_layer, log_normal, few_rows]
    odd = [unaligned, unaligned, real_unaligned]
    batches = [attention, attention, batched]
    half, bf = "float16", "bfloat16"
    lists.draw("mm-bf16-nn", "mm", ["nn"], bf, 250, 60, plain, reused=0.5)
    lists.draw("mm-bf16-nt", "mm", ["nt"], bf, 120, 30, linear, reused=0.5)
    lists.draw("mm-bf16-tn", "mm", ["tn"], bf, 45, 14, [gradient, gradient, squarish])
    lists.draw("bmm-bf16", "bmm", ["nn", "nt"], bf, 130, 32, batches)
    lists.draw("baddbmm-bf16", "baddbmm", ["nn", "nt"], bf, 60, 22, [scores, scores, batched], bias="matrix")
    lists.draw("addmm-bf16-vector", "addmm", ["nt"], bf, 90, 22, [biased, biased, any_layer, dlrm], bias="vector", reused=0.4)
    lists.draw("addmm-bf16-matrix", "addmm", ["nn"], bf, 45, 14, plain, bias="matrix", reused=0.4)
    lists.draw("mm-fp16", "mm", ["nn", "nt"], half, 80, 24, plain, reused=0.4)
    lists.draw("bmm-fp16", "bmm", ["nn", "nt"], half, 50, 14, batches)
    lists.draw("addmm-fp16-vector", "addmm", ["nt"], half, 40, 12, [biased, biased, dlrm], bias="vector", reused=0.4)
    lists.draw("mm-fp32", "mm", ["nn", "nt"], "float32", 75, 24, [*plain, dlrm], reused=0.35)
    lists.draw("mm-tf32", "mm", ["nn", "nt"], "float32", 75, 24, [*plain, dlrm], tf32=True)
    lists.draw("mm-bf16-unaligned", "mm", ["nn"], bf, 80, 26, odd, aligned=False, reused=0.4)
    # First picks were worst for these kinds.
    lists.add_to("more", "mm-fp32", 120, "mm", ["nn", "nt"], "float32", [*plain, few_rows, dlrm])
    lists.add_to("more", "mm-bf16-unaligned", 120, "mm", ["nn"], bf, odd, aligned=False)
    # Still more problems of these kinds, and some of all other kinds.
    lists.add_to("further", "mm-bf16-unaligned", 250, "mm", ["nn"], bf, [unaligned], aligned=False)
    lists.add_to("further", "mm-fp32", 150, "mm", ["nn", "nt"], "float32", [*plain, few_rows, dlrm])
    lists.add_to("further", "mm-tf32", 250, "mm", ["nn", "nt"], "float32", [*plain, few_rows, dlrm], tf32=True)
    lists.add_to("further", "bmm-bf16", 300, "bmm", ["nn", "nt"], bf, batches)
    lists.add_to("further", "baddbmm-bf16", 200, "baddbmm", ["nn", "nt"], bf, [scores, scores, batched], bias="matrix")
    lists.add_to("further", "mm-bf16-tn", 100, "mm", ["tn"], bf, [gradient, squarish, log_normal])
    lists.add_to("further", "mm-bf16-nn", 150, "mm", ["nn"], bf, plain)
    lists.add_to("further", "mm-bf16-nt", 150, "mm", ["nt"], bf, linear)
    lists.add_to("further", "mm-fp16", 80, "mm", ["nn", "nt"], half, plain)
    lists.add_to("further", "bmm-fp16", 100, "bmm", ["nn", "nt"], half, batches)
    lists.add_to("further", "addmm-bf16-vector", 60, "addmm", ["nt"], bf, [biased, log_normal, any_layer, dlrm], bias="vector")
    lists.add_to("further", "addmm-bf16-matrix", 60, "addmm", ["nn"], bf, plain, bias="matrix")
    lists.add_to("further", "addmm-fp16-vector", 40, "addmm", ["nt"], half, [biased, log_normal, dlrm], bias="vector")
    # The multiplications of trainings with a vocabulary that is no multiple of 8, and others with such rows.
    last_layer, any_gradient = [unaligned_vocabulary, unaligned], [unaligned_weight_gradient, unaligned]
    lists.draw("mm-bf16-unaligned-nt", "mm", ["nt"], bf, 110, 26, last_layer, aligned=False)
    lists.draw("mm-bf16-unaligned-tn", "mm", ["tn"], bf, 110, 26, any_gradient, aligned=False)
    lists.draw("mm-bf16-unaligned-sums", "mm", ["nn"], bf, 50, 14, [unaligned_input_gradient], aligned=False)
    lists.draw("addmm-bf16-unaligned-vector", "addmm", ["nt"], bf, 50, 14, last_layer, bias="vector", aligned=False)
    lists.draw("addmm-bf16-unaligned-matrix", "addmm", ["tn"], bf, 50, 14, any_gradient, bias="matrix", aligned=False)
    # Linear layers in fp32, with rounding to TF32 and without.
    lists.draw(
        "addmm-tf32-vector", "addmm", ["nt"], "float32", 120, 24, [biased, biased, log_normal, dlrm], bias="vector", tf32=True
    )
    lists.draw("addmm-fp32-vector", "addmm", ["nt"], "float32", 120, 24, [biased, biased, log_normal, dlrm], bias="vector")
    # Rows that are aligned to four bytes only, with rounding to TF32 and without.
    full, any_odd = "float32", [unaligned, unaligned, real_unaligned, unaligned_vocabulary]
    odd_columns = [unaligned_columns, unaligned_weight_gradient]
    lists.draw("mm-tf32-unaligned", "mm", ["nn", "nt"], full, 200, 40, any_odd, aligned=False, tf32=True)
    lists.draw("mm-tf32-unaligned-tn", "mm", ["tn"], full, 100, 20, odd_columns, aligned=False, tf32=True)
    lists.draw("addmm-tf32-unaligned-vector", "addmm", ["nt"], full, 100, 20, any_odd, bias="vector", aligned=False, tf32=True)
    lists.draw("mm-fp32-unaligned", "mm", ["nn", "nt"], full, 70, 16, any_odd, aligned=False)
    lists.draw("mm-fp32-unaligned-tn", "mm", ["tn"], full, 40, 8, odd_columns, aligned=False)
    add_picks(lists)
    # Attention over any number of tokens, batched products in fp32, and more of the kinds whose first picks are worst.
    lists.draw("bmm-bf16-unaligned", "bmm", ["nn", "nt"], bf, 150, 32, [odd_attention, odd_batched], aligned=False)
    lists.draw("bmm-tf32", "bmm", ["nn", "nt"], full, 110, 24, batches, tf32=True)
    lists.draw("bmm-fp32", "bmm", ["nn", "nt"], full, 60, 14, batches)
    for name, op, layouts, makers in [
        ("mm-fp16-unaligned", "mm", ["nn", "nt", "tn"], [unaligned, unaligned_vocabulary, unaligned_weight_gradient]),
        ("bmm-fp16-unaligned", "bmm", ["nn", "nt"], [odd_attention, odd_batched]),
    ]:
        lists.add_to("picks", name, 150, op, layouts, half, makers, aligned=False)
    lists.add_to("further", "mm-bf16-unaligned-nt", 100, "mm", ["nt"], bf, last_layer, aligned=False)
    lists.add_to("further", "mm-bf16-unaligned-tn", 100, "mm", ["tn"], bf, any_gradient, aligned=False)
    add_extra(lists)
    add_weakest(lists)
    add_short(lists)
    add_middle(lists)
    roles: dict[tuple[int, ...], str] = {}
    for drawn, all_roles in lists.rows.items():
        name = drawn.split()[0]
        for which, rows in all_roles.items():
            folder = os.path.join(options.out, which)
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name + ".json"), "w") as file:
                file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
            for row in rows:
                size = row["m"], row["n"], row["k"]
                use = "validation" if which == "validation" else "train"
                assert roles.setdefault(size, use) == use, size
            times = sorted(micros(r["b"], r["m"], r["n"], r["k"], "tf32" if "tf32" in name else r["a_dtype"]) for r in rows)
            print(
                f"{name:20} {which:10} {len(rows):4}  bound at {times[0]:.0f}, {times[len(times) // 2]:.0f}, {times[-1]:.0f} µs"
            )
    for which in ("train", "more", "further", "extra", "weakest", "short", "middle", "picks", "validation"):
        print(which, sum(len(rows.get(which, [])) for rows in lists.rows.values()))


if __name__ == "__main__":
    main()
