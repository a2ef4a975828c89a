"""Makes the sizes of problems, as real networks have them and as drawn from distributions.

Each function takes a generator of random numbers and returns M, N and K, or for batched products B, M, N, K and the layout.
"""

import math

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


def short_sums(rng):
    """Problems with few terms in each sum, in which rows of A or B are no multiple of 16 bytes."""
    m, n = (round(math.exp(rng.uniform(math.log(64), math.log(7000)))) for _ in range(2))
    which = rng.choice(["n", "k", "both"])
    return m, (n | 1 if which != "k" else n // 8 * 8), short_sum(rng, which)


def short_sums_of_columns(rng):
    """The same in layout tn, where rows of A are as long as M."""
    m, n, k = short_sums(rng)
    return (m | 1 if rng.random() < 0.5 else m // 8 * 8), n, k


def short_sum(rng, which):
    """A K of 24 to 328. If it is even, then it is a multiple of 8 but not of 16."""
    k = round(math.exp(rng.uniform(math.log(24), math.log(320))))
    return k | 1 if which != "n" else k // 16 * 16 + 8


def middle(rng):
    """Problems of middle size, where it depends on the tile how many of the last wave's multiprocessors have work."""
    side = lambda: round(math.exp(rng.uniform(math.log(400), math.log(4500))) / 8) * 8
    return side(), side(), side()


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


def short_batched(rng):
    """Batched products with few terms in each sum, in which rows of A or B are no multiple of 16 bytes."""
    m, n = (round(math.exp(rng.uniform(math.log(16), math.log(1500)))) for _ in range(2))
    which = rng.choice(["n", "k", "both"])
    n = n | 1 if which != "k" else max(n // 8 * 8, 8)
    return round(math.exp(rng.uniform(math.log(2), math.log(300)))), m, n, short_sum(rng, which), rng.choice(["nn", "nt"])
