"""FlexAttention in bf16: decoding (split K), forward and backward, with the blocks, stages and warps of `kernel_options`.

Kept cases, for judging, are chosen here by a hash of their sizes: one in four. Any prefix of the list is a balanced sample.
"""

import hashlib
import random

WINDOW = 1024
DOCUMENT = 1000  # rows of a document, on average
# by head size: (keys in a block, stages, warps); torch's default on Hopper is (64, 1, 2)
DECODE = {
    64: ((64, 3, 2), (64, 4, 2), (64, 4, 4), (64, 5, 4), (128, 3, 4), (128, 4, 4), (128, 3, 8), (32, 5, 2)),
    128: ((64, 3, 2), (64, 4, 2), (64, 3, 4), (64, 4, 4), (128, 3, 4), (128, 2, 4), (128, 3, 8), (32, 5, 2)),
    256: ((64, 2, 2), (64, 2, 4), (64, 3, 4), (64, 3, 8), (32, 4, 2), (32, 4, 4), (32, 6, 4), (128, 1, 8)),
}
# by head size: (queries, keys, stages, warps); torch's defaults: (128, 128, 3, 4), (128, 64, 3, 8), (64, 32, 3, 4)
FORWARD = {
    64: ((128, 64, 3, 4), (128, 64, 3, 8), (128, 128, 2, 4), (128, 128, 3, 8), (64, 128, 3, 4), (64, 64, 3, 4), (64, 64, 4, 4)),
    128: ((128, 128, 3, 8), (128, 128, 2, 8), (128, 64, 2, 8), (128, 64, 3, 4), (64, 128, 3, 4), (64, 64, 3, 4), (64, 64, 4, 4)),
    256: ((128, 64, 2, 8), (128, 64, 3, 8), (128, 32, 3, 8), (64, 64, 2, 4), (64, 64, 3, 4), (64, 32, 4, 4), (64, 64, 2, 8)),
}
# by head size: (queries 1, keys 1, queries 2, keys 2, stages, warps); torch's defaults: (64, 128, 128, 64, 3, 8), of 256 (64, 64, 64, 64, 2, 4)
BACKWARD = {
    64: (
        (64, 128, 128, 64, 2, 8),
        (64, 64, 64, 64, 3, 4),
        (64, 128, 128, 64, 3, 4),
        (32, 128, 128, 32, 3, 4),
        (64, 64, 64, 64, 2, 4),
    ),
    128: (
        (64, 128, 128, 64, 2, 8),
        (64, 64, 64, 64, 3, 4),
        (64, 64, 64, 64, 2, 4),
        (32, 128, 128, 32, 3, 8),
        (64, 128, 128, 64, 1, 8),
    ),
    256: ((64, 64, 64, 64, 1, 4), (64, 64, 64, 64, 2, 8), (32, 64, 64, 32, 2, 4), (32, 64, 64, 32, 2, 8), (32, 32, 32, 32, 2, 4)),
}
OPTIONS = {"decode": DECODE, "forward": FORWARD, "backward": BACKWARD}
HEADS = {64: ((32, 8), (16, 16), (64, 8), (12, 12), (24, 8)), 128: ((32, 8), (32, 32), (64, 8), (32, 4), (16, 2), (40, 8), (28, 4)), 256: ((16, 8), (8, 4), (16, 16), (8, 1))}  # fmt: skip
LENGTHS = {"decode": (128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536), "forward": (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
           "backward": (256, 512, 1024, 2048, 4096, 8192, 16384)}  # fmt: skip
MASKS = {"decode": ("full", "full", "full", "causal", "lengths", "window"), "forward": ("causal", "causal", "full", "window", "documents"),
         "backward": ("causal", "causal", "full", "window", "documents")}  # fmt: skip
COUNTS = {"decode": 90, "forward": 80, "backward": 45}


def cases():
    drawn = random.Random(60)
    found, seen = {kind: [] for kind in COUNTS}, set()
    for kind, wanted in COUNTS.items():
        step = 0
        while len(found[kind]) < wanted:
            size = (128, 64, 128, 256)[step % 4]
            mask = drawn.choice(MASKS[kind])
            keys = LENGTHS[kind][(step * 4 + step // 9) % len(LENGTHS[kind])]
            step += 1
            heads, kv = drawn.choice(HEADS[size])
            if kind == "decode":
                batch, queries = drawn.choice((1, 1, 2, 4, 8, 16, 32, 64, 128)), drawn.choice((1, 1, 1, 1, 4))
                if (heads // kv) & (heads // kv - 1) or 4 * batch * kv * keys * size > 3e9:
                    continue
            else:
                batch, queries = drawn.choice((1, 1, 2, 4, 8)), keys
                operations = 4.0 * batch * heads * queries * keys * size
                if kind == "forward" and drawn.random() < 0.1 and keys >= 1024:
                    queries = 128  # a piece of a prompt, with what came before
                    operations = 4.0 * batch * heads * queries * keys * size
                if operations > (4e13 if kind == "forward" else 6e12) or 2 * batch * (heads + kv) * keys * size > 2e9:
                    continue
                if mask in ("documents", "window") and keys > 32768:
                    continue
            one = {
                "kind": kind,
                "batch": batch,
                "heads": heads,
                "kv": kv,
                "queries": queries,
                "keys": keys,
                "size": size,
                "mask": mask,
            }
            name = "-".join(str(value) for value in one.values())
            if name not in seen:
                seen.add(name)
                kept = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 4 == 0
                found[kind].append({"case": name, **one, "kept": kept})
    order = []
    while any(found.values()):  # By turns: two of decoding, two forward, one backward.
        for kind in ("decode", "forward", "decode", "forward", "backward"):
            if found[kind]:
                order.append(found[kind].pop(0))
    return order


def held(case, keys=None):
    """Bytes of the operands."""
    rows = case["heads"] * case["queries"] * (2 if case["kind"] == "backward" else 1) + case["kv"] * (keys or case["keys"])
    return 4 * case["batch"] * rows * case["size"]


def touched(case):
    """Bytes that are read and written, roughly."""
    return held(case, min(case["keys"], case["queries"] + WINDOW) if case["mask"] == "window" else None)


def mask_of(case, device):
    """(mask_mod, batches it differs between), or None."""
    import torch

    queries, keys = case["queries"], case["keys"]
    ahead = torch.tensor(keys - queries, device=device)
    if case["mask"] == "full":
        return None
    if case["mask"] == "causal":
        return (lambda b, h, q, k: q + ahead >= k), None
    if case["mask"] == "window":
        return (lambda b, h, q, k: (q + ahead >= k) & (q + ahead - k < WINDOW)), None
    drawn = torch.Generator().manual_seed(keys)
    if case["mask"] == "lengths":
        filled = (torch.rand(case["batch"], generator=drawn) * keys).int().clamp(min=queries).to(device)
        return (lambda b, h, q, k: k < filled[b]), case["batch"]
    ends = (torch.rand(max(1, keys // DOCUMENT), generator=drawn) * keys).int().sort().values
    of_key = torch.searchsorted(ends, torch.arange(keys, dtype=torch.int32), right=True).to(torch.int32).to(device)
    return (lambda b, h, q, k: (q + ahead >= k) & (of_key[q + ahead] == of_key[k])), None


def inputs(case, sets):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    device = "cuda" if torch.cuda.is_available() else "cpu"
    backward = case["kind"] == "backward"
    make = lambda heads, rows, grad=backward: torch.randn(
        case["batch"], heads, rows, case["size"], dtype=torch.bfloat16, device=device, requires_grad=grad
    )
    tensors = [
        (make(case["heads"], case["queries"]), make(case["kv"], case["keys"]), make(case["kv"], case["keys"]),
         make(case["heads"], case["queries"], False) if backward else None)
        for _ in range(sets)
    ]  # fmt: skip
    found = mask_of(case, device)
    block = found and create_block_mask(found[0], found[1], None, case["queries"], case["keys"], device=device)
    return tensors, block


def options_of(case, choice):
    """The `kernel_options` of a choice; the names that the issue of a backward pass has begin with bwd_."""
    if choice is None:
        return None
    *blocks, stages, warps = choice
    if case["kind"] == "decode":
        return {"BLOCK_N": blocks[0], "num_stages": stages, "num_warps": warps}
    if case["kind"] == "forward":
        return {"BLOCK_M": blocks[0], "BLOCK_N": blocks[1], "num_stages": stages, "num_warps": warps}
    names = ("bwd_BLOCK_M1", "bwd_BLOCK_N1", "bwd_BLOCK_M2", "bwd_BLOCK_N2")
    return {**dict(zip(names, blocks, strict=True)), "bwd_num_stages": stages, "bwd_num_warps": warps}


def variants(case):
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    def build(choice):
        options = options_of(case, choice)

        def compiled(given):
            tensors, block = given
            many = case["heads"] != case["kv"]

            def attention(q, k, v):
                return flex_attention(q, k, v, block_mask=block, enable_gqa=many, kernel_options=options)

            function = torch.compile(attention, dynamic=False, fullgraph=True)
            if case["kind"] != "backward":
                return lambda turn: function(*tensors[turn][:3])
            outs = [function(q, k, v) for q, k, v, _ in tensors]
            return lambda turn: torch.autograd.grad(outs[turn], tensors[turn][:3], tensors[turn][3], retain_graph=True)[0]

        return compiled

    wanted = [None, *OPTIONS[case["kind"]][case["size"]]]
    if case["kind"] == "decode" and case["heads"] // case["kv"] * case["queries"] > 64:
        wanted = wanted[:6]
    return [("default" if one is None else ",".join(map(str, one)), build(one)) for one in wanted]


if __name__ == "__main__":
    from collections import Counter

    every = cases()
    print(len(every), Counter(one["kind"] for one in every), Counter(one["kept"] for one in every))
    for key in ("size", "mask", "keys", "batch"):
        print(key, {kind: dict(sorted(Counter(one[key] for one in every if one["kind"] == kind).items())) for kind in COUNTS})
    for one in every[:20]:
        print(one["case"], one["kept"])
