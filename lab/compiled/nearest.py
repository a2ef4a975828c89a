"""Makes the plug-in's table for FlexAttention of the measured cases, and judges it on the kept ones.

python3 nearest.py data/attention.json [TABLE]     judges; writes a table of all cases, if a name is given

An entry's options are those with the best mean gain over torch's, in logarithms, of the cases around it: a case d doublings away
counts exp(-d / WIDTH), and losses count more. The table has the measured cases, and a grid between them. The plug-in takes the
nearest entry and asks two more whether torch's own options are not the best. Decoding few keys, or a few blocks of documents' keys
per program, gains nothing, so such entries leave it to torch.
"""

import json
import math
import sys
from pathlib import Path

WIDTH, LOSS, GAIN, OTHER_MASK = 1.5, 10, 1.02, {"decode": 1.5, "forward": 1.0, "backward": 1.0}
FEW_KEYS = 128
FEW_BLOCKS = 2  # of 64 keys for a program: torch splits the keys so that about two programs run on each of 132 multiprocessors
FURTHEST = 3.0
NAMES = {"decode": ("BLOCK_N",), "forward": ("BLOCK_M", "BLOCK_N"), "backward": ("BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2")}
MASKS = ("full", "causal", "window", "documents")


def entry(kind, size, mask, heads, queries, keys, group):
    """`heads` as torch's kernels count them: in the batch, when decoding those of the keys."""
    return {
        "pass": kind,
        "dtype": "bfloat16",
        "head_dim": size,
        "group": group,
        "heads": heads,
        "q": queries,
        "kv": keys,
        "mask": mask,
    }


def entry_of(case):
    heads = case["batch"] * (case["kv"] if case["kind"] == "decode" else case["heads"])
    mask = "documents" if case["mask"] == "lengths" else case["mask"]
    group = case["heads"] / case["kv"]
    return entry(
        case["kind"], case["size"], mask, heads, case["queries"], case["keys"], int(group) if group == int(group) else group
    )


def distance(one, other):
    return sum(abs(math.log2(one[name] / other[name])) for name in ("heads", "q", "kv", "group"))


def few(one):
    blocks = one["kv"] / max(1, 264 // one["heads"]) / 64
    return one["pass"] == "decode" and (one["kv"] <= FEW_KEYS or (one["mask"] == "documents" and blocks <= FEW_BLOCKS))


def same_mask(one, other):
    """As the plug-in sees it: when decoding, only documents differ from other masks."""
    if one["pass"] == "decode":
        return (one["mask"] == "documents") == (other["mask"] == "documents")
    return one["mask"] == other["mask"]


def chosen(one, cases):
    """(options, expected gain) of the cases around an entry, or None."""
    if few(one):
        return None
    sums = {}
    for case in cases:
        other = case["entry"]
        if (other["pass"], other["head_dim"]) != (one["pass"], one["head_dim"]) or few(other):
            continue
        far = distance(one, other) + (OTHER_MASK[one["pass"]] if other["mask"] != one["mask"] else 0)
        weight = math.exp(-far / WIDTH)
        for name, time in case["us"].items():
            gain = max(-1.0, min(1.0, math.log(case["us"]["default"] / time)))
            held = sums.setdefault(name, [0.0, 0.0, 0.0])
            held[0] += weight
            held[1] += weight * gain
            held[2] += weight * max(0.0, -gain - 0.01)
    if not sums:
        return None
    scores = {
        name: (gain - LOSS * loss) / weight for name, (weight, gain, loss) in sums.items() if weight > 0.6 * sums["default"][0]
    }
    best = max(scores, key=scores.get)
    return (best, math.exp(sums[best][1] / sums[best][0])) if scores[best] > math.log(GAIN) else None


def answer(one, table):
    """What the plug-in answers: the name of options, or None."""
    alike = [other for other in table if all(one[name] == other[name] for name in ("pass", "head_dim"))]
    alike = [other for other in alike if same_mask(one, other)]
    near = sorted(((distance(one, other), at) for at, other in enumerate(alike)))[:3]
    some = [alike[at] for far, at in near if far <= FURTHEST]
    if not some or some[0]["best"] is None:
        return None
    if near[0][0] > 0 and sum(other["best"] is not None for other in some) * 2 < len(some):
        return None
    return some[0]["best"][0]


def grid():
    for size in (64, 128, 256):
        for keys in (128, 512, 2048, 8192, 32768):
            for heads in (2, 8, 32, 128, 512, 2048):
                for group in (1, 4):
                    for mask in ("full", "documents"):
                        yield entry("decode", size, mask, heads, 1, keys, group)
            for mask in MASKS:
                for heads in (12, 48, 192, 768):
                    yield entry("forward", size, mask, heads, keys, keys, 3)
                    if 128 < keys < 32768:
                        yield entry("backward", size, mask, heads, keys, keys, 3)


def table_of(cases):
    table = [{**case["entry"], "best": chosen(case["entry"], cases)} for case in cases]
    for one in grid():
        best = chosen(one, cases)
        if answer(one, table) != (best and best[0]) or one["pass"] == "decode":
            table.append({**one, "best": best})
    return table


def written(table):
    entries = []
    for held in table:
        one = dict(held)
        best = one.pop("best")
        if best:
            *blocks, stages, warps = map(int, best[0].split(","))
            names = NAMES[one["pass"]]
            one["options"] = {**dict(zip(names, blocks, strict=True)), "num_stages": stages, "num_warps": warps}
            one["us"], one["default_us"] = 1.0, round(best[1], 3)
        entries.append(json.dumps(one, separators=(",", ":")))
    head = '{"format": "torch_diode flex 1", "hardware": "nvidia-h200", "torch": "2.11.0", "entries": [\n'
    return head + ",\n".join(entries) + "\n]}\n"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    cases = json.loads(Path(sys.argv[1]).read_text())["cases"]
    for case in cases:
        case["entry"] = entry_of(case)
    table = table_of([case for case in cases if not case["kept"]])
    for kind in NAMES:
        for name, group in (
            ("kept", [case for case in cases if case["kept"]]),
            ("of them not few", [case for case in cases if case["kept"] and not few(case["entry"])]),
        ):
            some = [case for case in group if case["kind"] == kind]
            gains, best = [], []
            for case in some:
                times = case["us"]
                gains.append(times["default"] / times.get(answer(case["entry"], table) or "default", times["default"]))
                best.append(times["default"] / min(times.values()))
            print(f"{kind}, {len(some)} {name}: {mean(gains):.3f}x, from {min(gains):.3f} to {max(gains):.3f}, {sum(one < 0.98 for one in gains)} below 0.98; "
                  f"the best options {mean(best):.3f}x")  # fmt: skip
    if len(sys.argv) > 2:
        table = table_of(cases)
        Path(sys.argv[2]).write_text(written(table))
        print(
            len(table), "entries,", sum(one["best"] is not None for one in table), "with options,", len(written(table)), "bytes"
        )


if __name__ == "__main__":
    main()
