"""Draws the problems that GPUs are compared by, as lists for `diode collect --problems`.

    python3 trained_models/matmul/lists/draw.py --reuse H200.json --out trained_models/matmul/lists

Layers and attention of real networks, sizes from log-normal distributions, and
problems that an H200 was timed with before (`--reuse`, written by `reuse.py`). A
size (M, N and K, whatever else the problem is) is for training or for
validation, never for both: what was one on the H200 stays that, and of other
sizes a hash decides. The same seed gives the same lists.
"""

import argparse
import hashlib
import json
import math
import os
import random

SEED = 20261122
LIMIT = 2**31 - 1
BYTES_PER_SECOND = 2.8e12
# Roughly the rate of a good kernel, enough to aim at a range of times.
FLOPS = {"bfloat16": 600e12, "float16": 600e12, "float32": 35e12, "tf32": 250e12}
TINY_US, SHORT_US, LONG_US = 5, 110, 450
SHARE_OF_TINY, SHARE_OF_LONG = 0.3, 0.3

# hidden, heads, heads of keys and values, size of a head, intermediate, gated, vocabulary
NETWORKS = {
    "llama3-8b": (4096, 32, 8, 128, 14336, True, 128256),
    "llama3-70b": (8192, 64, 8, 128, 28672, True, 128256),
    "qwen2.5-7b": (3584, 28, 4, 128, 18944, True, 152064),
    "qwen2.5-32b": (5120, 40, 8, 128, 27648, True, 152064),
    "qwen3-0.6b": (1024, 16, 8, 128, 3072, True, 151936),
    "mixtral-8x7b": (4096, 32, 8, 128, 14336, True, 32000),
    "gpt2": (768, 12, 12, 64, 3072, False, 50257),
    "gpt2-xl": (1600, 25, 25, 64, 6400, False, 50257),
    "bert-base": (768, 12, 12, 64, 3072, False, 30522),
    "bert-large": (1024, 16, 16, 64, 4096, False, 30522),
    "vit-base": (768, 12, 12, 64, 3072, False, 1000),
    "vit-large": (1024, 16, 16, 64, 4096, False, 1000),
    "vit-huge": (1280, 16, 16, 80, 5120, False, 1000),
    "whisper-small": (768, 12, 12, 64, 3072, False, 51865),
    "whisper-large": (1280, 20, 20, 64, 5120, False, 51866),
}
DECODERS = ["llama3-8b", "llama3-70b", "qwen2.5-7b", "qwen2.5-32b", "qwen3-0.6b", "mixtral-8x7b"]
WITH_BIAS = ["gpt2", "gpt2-xl", "bert-base", "bert-large", "vit-base", "vit-large", "vit-huge", "whisper-small", "whisper-large"]
TOKENS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
DLRM = [(512, 13), (256, 512), (128, 256), (64, 256), (1024, 479), (1024, 1024), (512, 1024), (256, 512), (1, 256)]


def tokens_of(name, rng):
    """The rows of a layer's input. Decoders process prompts and sequences; other networks process images, sound and sentences."""
    if name.startswith("vit"):
        return rng.choice([1, 4, 8, 16, 32]) * (257 if "huge" in name else 197)
    if name.startswith("whisper"):
        return rng.choice([1, 5, 8, 16, 448, 1500, 3000, 6000])
    if name.startswith("bert"):
        return rng.choice([1, 4, 8, 16, 32]) * rng.choice([64, 128, 384, 512])
    return rng.choice(TOKENS)


def layer(rng, names):
    """M, N and K of a linear layer. Large networks are split over up to eight devices."""
    name = rng.choice(names)
    hidden, heads, groups, size, wide, gated, vocabulary = NETWORKS[name]
    split = rng.choice([1, 2, 4, 8]) if hidden >= 4096 else 1
    heads, groups, wide = heads // split, max(groups // split, 1), wide // split
    m = tokens_of(name, rng)
    layers = [((heads + 2 * groups) * size, hidden), (hidden, heads * size), (wide * (2 if gated else 1), hidden), (hidden, wide)]
    if name == "mixtral-8x7b":
        m = max(m // 4, 1)  # each token goes to two of eight experts
        layers = [(2 * wide, hidden), (hidden, wide), (wide, hidden), *layers[:2]]
    if m <= 32:
        layers.append((vocabulary, hidden))
    return (m, *rng.choice(layers))


def any_layer(rng):
    return layer(rng, list(NETWORKS))


def biased(rng):
    return layer(rng, WITH_BIAS)


def dlrm(rng):
    return (rng.choice([128, 512, 2048, 8192]), *rng.choice(DLRM))


def gradient(rng):
    """The gradient of a weight: a product of the columns of two activations, summed over tokens."""
    m, n, k = layer(rng, list(NETWORKS))
    return n, k, max(m, 64)


def log_normal(rng):
    draw = lambda mean, deviation: max(1, round(math.exp(rng.gauss(mean, deviation))))
    up = lambda size: max(8, round(size / 8) * 8)
    return draw(6.57, 2.2), up(draw(6.4, 1.7)), up(draw(6.6, 1.8))


def few_rows(rng):
    return rng.randint(1, 16), rng.randrange(32, 1280) * 16, rng.randrange(8, 512) * 32


def squarish(rng):
    side = lambda: round(math.exp(rng.uniform(math.log(256), math.log(6000))) / 64) * 64
    return side(), side(), side()


def unaligned(rng):
    """Problems in which rows of A or B are no multiple of 16 bytes."""
    m, n, k = (round(math.exp(rng.uniform(math.log(64), math.log(5000)))) for _ in range(3))
    which = rng.choice(["n", "k", "both"])
    return m, (n | 1 if which != "k" else n // 8 * 8), (k | 1 if which != "n" else k // 8 * 8)


def unaligned_columns(rng):
    """Problems in layout tn in which rows of A, of B or of both are no multiple of 16 bytes."""
    m, n, k = unaligned(rng)
    return (m | 1 if rng.random() < 0.5 else m // 8 * 8), n, k


def real_unaligned(rng):
    # fmt: off
    return rng.choice([
        lambda: (rng.choice([128, 512, 2048]), 1024, 479), lambda: (rng.choice([512, 2048, 8192]), 512, 13),
        lambda: (rng.choice([1, 4, 16, 64]), 50257, 768), lambda: (rng.choice([1, 5, 8]), rng.choice([51865, 768]), rng.choice([768, 51865])),
        lambda: (rng.choice([197, 394, 1576]), 768, 197), lambda: (768, rng.choice([768, 3072]), 197), lambda: (257, 1280, 257), lambda: (27, 27, 128),
        lambda: (rng.choice([32, 256]), 1001, 2048), lambda: (768, 3072, rng.choice([197, 591, 1379])), lambda: (rng.choice([512, 4096]), 49, 1152),
    ])()
    # fmt: on


def unaligned_vocabulary(rng):
    """Tokens, vocabulary and width of a network's last layer where the vocabulary is no multiple of eight."""
    name = rng.choice(["gpt2", "gpt2", "gpt2-xl", "bert-base", "bert-large", "whisper-small", "whisper-large"])
    hidden, *_, vocabulary = NETWORKS[name]
    tokens = rng.choice([1, 5, 16, 64, 197, 256, 448, 512, 1024, 1500, 2048])
    return tokens, rng.choice([vocabulary, vocabulary // 2 | 1, vocabulary // 4 | 1, vocabulary // 8 | 1]), hidden


def unaligned_weight_gradient(rng):
    """The gradient of such a layer's weight: rows of the vocabulary, summed over tokens."""
    tokens, vocabulary, hidden = unaligned_vocabulary(rng)
    return vocabulary, hidden, max(tokens, 64)


def unaligned_input_gradient(rng):
    """The gradient of such a layer's input: summed over the vocabulary."""
    tokens, vocabulary, hidden = unaligned_vocabulary(rng)
    return tokens, hidden, vocabulary


def attention(rng, part=None):
    """B, M, N, K and layout of one of attention's two products, in prefill or decode, also with grouped heads."""
    name = rng.choice(list(NETWORKS))
    _, heads, groups, size, *_ = NETWORKS[name]
    batch = rng.choice([1, 1, 2, 4, 8, 16, 32])
    length = rng.choice([128, 256, 384, 512, 1024, 1500, 2048, 4096, 8192])
    if name.startswith("vit"):
        length = 257 if "huge" in name else 197
    grouped = groups < heads and rng.random() < 0.6
    decode = (name in DECODERS and rng.random() < 0.5) or rng.random() < 0.2
    rows = (1 if decode else length) * (heads // groups if grouped else 1)
    b = batch * (groups if grouped else heads)
    if part or rng.choice([True, False]):
        return b, rows, length, size, "nt"  # queries with keys
    return b, rows, size, length, "nn"  # weights with values


def batched(rng):
    """Products of experts, small products of many samples, and products of drawn sizes."""
    kind = rng.choice(["experts", "experts", "interaction", "drawn", "drawn", "drawn"])
    if kind == "experts":
        n, k = rng.choice([(3584, 4096), (4096, 1792), (1792, 4096), (1408, 2048), (2048, 1408), (1536, 2048), (2048, 768)])
        return rng.choice([2, 4, 8, 16]), rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]), n, k, rng.choice(["nn", "nt"])
    if kind == "interaction":
        return (
            rng.choice([128, 512, 2048]),
            rng.choice([8, 16, 24, 32, 64]),
            rng.choice([8, 16, 32, 64]),
            rng.choice([64, 128, 256]),
            "nt",
        )
    size = lambda: max(8, round(math.exp(rng.gauss(5.3, 1.3)) / 8) * 8)
    return round(math.exp(rng.uniform(math.log(2), math.log(300)))), size(), size(), size(), rng.choice(["nn", "nt"])


def odd_attention(rng):
    """Attention over a number of tokens that is no multiple of eight: images of patches, texts, and what is left of a prompt."""
    heads, size = rng.choice([(6, 64), (8, 64), (12, 64), (16, 64), (16, 80), (16, 88), (20, 64), (32, 128), (8, 128)])
    tokens = rng.choice([65, 77, 145, 197, 197, 257, 325, 577, 729, 1025, round(math.exp(rng.uniform(3, 7.3))) | 1])
    keys = tokens if rng.random() < 0.8 else rng.choice([77, 197, 257, 512, 1024])
    b = rng.choice([1, 2, 4, 8, 16, 32]) * heads
    return (b, tokens, keys, size, "nt") if rng.random() < 0.5 else (b, tokens, size, keys, "nn")


def odd_batched(rng):
    """Batched products of drawn sizes in which rows of A or B are no multiple of 16 bytes."""
    m, n, k = (round(math.exp(rng.uniform(math.log(16), math.log(1500)))) for _ in range(3))
    which = rng.choice(["n", "k", "both"])
    n, k = n | 1 if which != "k" else max(n // 8 * 8, 8), k | 1 if which != "n" else max(k // 8 * 8, 8)
    return round(math.exp(rng.uniform(math.log(2), math.log(300)))), m, n, k, rng.choice(["nn", "nt"])


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

    def add_to(self, name, role, number, op, layouts, dtype, makers, **options):
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
    add = lambda name, number, op, layouts, dtype, makers, **options: lists.add_to(
        name, "picks", number, op, layouts, dtype, makers, **options
    )
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
    add = lambda name, number, op, layouts, dtype, makers, **options: lists.add_to(
        name, "extra", number, op, layouts, dtype, makers, **options
    )
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
    """Adds problems to train on for the kinds whose first picks are still the worst. They are timed with models' picks among many tiles."""
    half, full = "bfloat16", "float32"
    batches, odd_batches = [attention, attention, batched], [odd_attention, odd_batched]
    last_layer, any_gradient = [unaligned_vocabulary, unaligned], [unaligned_weight_gradient, unaligned, unaligned_columns]
    odd_columns = [unaligned_columns, unaligned_weight_gradient]
    add = lambda name, number, op, layouts, dtype, makers, **options: lists.add_to(
        name, "weakest", number, op, layouts, dtype, makers, **options
    )
    add("bmm-bf16-unaligned", 300, "bmm", ["nn", "nt"], half, odd_batches, aligned=False)
    add("bmm-fp32", 200, "bmm", ["nn", "nt"], full, batches)
    add("bmm-tf32", 200, "bmm", ["nn", "nt"], full, batches, tf32=True)
    add("addmm-bf16-unaligned-vector", 150, "addmm", ["nt"], half, last_layer, bias="vector", aligned=False)
    add("mm-bf16-unaligned-tn", 150, "mm", ["tn"], half, any_gradient, aligned=False)
    add("mm-fp32-unaligned-tn", 120, "mm", ["tn"], full, odd_columns, aligned=False)
    add("mm-tf32-unaligned-tn", 150, "mm", ["tn"], full, odd_columns, aligned=False, tf32=True)
    add("mm-fp32", 150, "mm", ["nn", "nt"], full, [any_layer, log_normal, squarish, few_rows, dlrm])


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
    lists.add_to("mm-fp32", "more", 120, "mm", ["nn", "nt"], "float32", [*plain, few_rows, dlrm])
    lists.add_to("mm-bf16-unaligned", "more", 120, "mm", ["nn"], bf, odd, aligned=False)
    # Still more problems of these kinds, and some of all other kinds.
    lists.add_to("mm-bf16-unaligned", "further", 250, "mm", ["nn"], bf, [unaligned], aligned=False)
    lists.add_to("mm-fp32", "further", 150, "mm", ["nn", "nt"], "float32", [*plain, few_rows, dlrm])
    lists.add_to("mm-tf32", "further", 250, "mm", ["nn", "nt"], "float32", [*plain, few_rows, dlrm], tf32=True)
    lists.add_to("bmm-bf16", "further", 300, "bmm", ["nn", "nt"], bf, batches)
    lists.add_to("baddbmm-bf16", "further", 200, "baddbmm", ["nn", "nt"], bf, [scores, scores, batched], bias="matrix")
    lists.add_to("mm-bf16-tn", "further", 100, "mm", ["tn"], bf, [gradient, squarish, log_normal])
    lists.add_to("mm-bf16-nn", "further", 150, "mm", ["nn"], bf, plain)
    lists.add_to("mm-bf16-nt", "further", 150, "mm", ["nt"], bf, linear)
    lists.add_to("mm-fp16", "further", 80, "mm", ["nn", "nt"], half, plain)
    lists.add_to("bmm-fp16", "further", 100, "bmm", ["nn", "nt"], half, batches)
    lists.add_to("addmm-bf16-vector", "further", 60, "addmm", ["nt"], bf, [biased, log_normal, any_layer, dlrm], bias="vector")
    lists.add_to("addmm-bf16-matrix", "further", 60, "addmm", ["nn"], bf, plain, bias="matrix")
    lists.add_to("addmm-fp16-vector", "further", 40, "addmm", ["nt"], half, [biased, log_normal, dlrm], bias="vector")
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
        lists.add_to(name, "picks", 150, op, layouts, half, makers, aligned=False)
    lists.add_to("mm-bf16-unaligned-nt", "further", 100, "mm", ["nt"], bf, last_layer, aligned=False)
    lists.add_to("mm-bf16-unaligned-tn", "further", 100, "mm", ["tn"], bf, any_gradient, aligned=False)
    add_extra(lists)
    add_weakest(lists)
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
    for which in ("train", "more", "further", "extra", "weakest", "picks", "validation"):
        print(which, sum(len(rows.get(which, [])) for rows in lists.rows.values()))


if __name__ == "__main__":
    main()
