"""A first judgement: boosted trees on the models that are learnt pick for the models that are kept. Needs LightGBM, no GPU.

python3 judge.py FOLDER [KIND…]

A stand-in for the trained network, to see what the data can carry. Picks are among the configs that were timed.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

import configs
from cubins import up

BANDWIDTH = 4.3e6  # bytes in a µs
PEAK = {1: 1.5e9, 2: 7.9e8}  # operations in a µs, by bytes of an element


def mean(values):
    return float(np.exp(np.mean(np.log(values))))


class Data:
    def __init__(self, folder, kind):
        held = np.load(Path(folder) / f"{kind}.npz")
        self.kind, self.times, self.states = kind, held["times"].astype(float), held["states"]
        self.problems, self.configs = json.loads(str(held["problems"])), json.loads(str(held["configs"]))
        self.total = self.times.sum(axis=1)
        self.size = configs.SIZES[configs.KINDS[kind]["operand"]]
        self.tiles = np.array([[*tile[1:], tile[0].endswith("tma"), group] for tile, group in self.configs], float)

    def floor(self, problem, stage):
        return max(problem["touched"][stage] / BANDWIDTH, problem["operations"][stage] / PEAK[self.size]) + 2.0


def row_blocks(problem, heights):
    """Expected blocks of rows of all groups: rows of an expert are about Poisson distributed."""
    if "experts" not in problem:
        return np.ceil(problem["m"] / heights)
    experts, each = problem["experts"], problem["m"] * problem["top_k"] / problem["experts"]
    found = np.empty(len(heights))
    for height in np.unique(heights):
        if each > 200:
            blocks = each / height + 0.5
        else:
            counts = np.arange(int(each + 8 * math.sqrt(each) + 12))
            chance = np.exp(counts * math.log(each) - each - np.array([math.lgamma(count + 1) for count in counts]))
            blocks = float((chance * np.ceil(counts / height)).sum())
        found[heights == height] = experts * blocks
    return found


def features(data, problem, stage, which):
    """What a tile makes of a problem: blocks, waves, padding, traffic, bytes in flight."""
    rows, columns, depth, stages, warps, swap, tma, group = data.tiles[which].T
    (n, k), m = problem["stages"][stage], problem["m"]
    each = m * problem.get("top_k", 1) / problem.get("experts", 1)
    blocks, steps = row_blocks(problem, rows), np.ceil(k / depth)
    tiles = blocks * np.ceil(n / columns)
    wgmma = (warps >= 4) & ((rows >= 64) | ((swap == 1) & (columns >= 64)))
    step_bytes = (rows + columns) * depth * data.size
    shared = np.where(wgmma, stages, stages - 1) * step_bytes + 1024
    accumulators = rows * columns / (32 * warps)
    registers = 32 * warps * np.clip(40 + 1.3 * accumulators, 40, 255)
    resident = np.maximum(1, np.minimum(np.minimum(233472 // shared, 2048 // (32 * warps)), 65536 // registers))
    resident = np.where(tma == 1, 1, resident)
    waves = tiles / (132 * resident)
    memory, compute = problem["touched"][stage] / BANDWIDTH, problem["operations"][stage] / PEAK[data.size]
    least = max(memory, compute)
    whole = np.ceil(waves)
    own = [
        m,
        n,
        k,
        max(each, 1 / 64),
        problem["touched"][stage],
        problem["operations"][stage],
        problem.get("distinct", 1.0),
        compute / memory,
    ]
    columns_of = [np.full(len(which), math.log2(value)) for value in own] + [np.full(len(which), float(stage))]
    columns_of += [np.log2(one) for one in (rows, columns, depth, group, tiles, waves, steps, shared, blocks, accumulators)]
    columns_of += [
        stages,
        warps,
        swap,
        tma,
        resident,
        wgmma,
        waves / whole,
        tiles / (132 * np.ceil(tiles / 132)),
        np.minimum(blocks, group),
    ]
    columns_of += [np.log2(tiles * rows * columns * steps * depth * 2 / PEAK[data.size] / least), np.log2(tiles * steps * step_bytes / 7e6 / least),
                   np.log2((stages - 1) * step_bytes * resident * np.minimum(1, waves)), n % columns == 0, k % depth == 0,
                   whole * steps * step_bytes * resident / (BANDWIDTH / 132) / least]  # fmt: skip
    return np.stack(columns_of, axis=1).astype(float)


def of_library(problem):
    (n, k), m = problem["stages"][0], problem["m"]
    tiles = [up(m, rows) * up(n, columns) for rows, columns in ((64, 64), (64, 128), (128, 128), (128, 256), (64, 256))]
    shares = [count / 132 / math.ceil(count / 132) for count in tiles]
    sizes = [m, n, k, problem["touched"][0], problem["operations"][0], *tiles]
    return [
        *shares,
        *(math.log2(size) for size in sizes),
        m,
        n % 128 == 0,
        k % 128 == 0,
        problem.get("experts", 0),
        problem.get("distinct", 0),
    ]


def judge(folder, kind):
    import lightgbm

    data = Data(folder, kind)
    kept = np.array([one["kept"] for one in data.problems])
    parts = []
    for number, (problem, total) in enumerate(zip(data.problems, data.total, strict=True)):
        which = np.flatnonzero(np.isfinite(total))
        weight = np.clip((np.nanmin(total) / total[which]) ** 4, 0.02, 1)
        for stage in range(data.times.shape[1]):
            target = np.log(data.times[number, stage, which] / data.floor(problem, stage))
            parts.append(
                (
                    features(data, problem, stage, which),
                    target,
                    weight,
                    np.full(len(which), number),
                    which,
                    np.full(len(which), stage),
                )
            )
    x, y, weight, number, which, stage = (np.concatenate(one) for one in zip(*parts, strict=True))
    common = {"objective": "l2", "verbose": -1, "num_threads": 1}
    trees = {
        **common,
        "num_leaves": 63,
        "learning_rate": 0.06,
        "min_data_in_leaf": 40,
        "feature_fraction": 0.6,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
    }
    learnt = ~kept[number]
    some = [
        lightgbm.train({**trees, "seed": seed}, lightgbm.Dataset(x[learnt], y[learnt], weight=weight[learnt]), 600)
        for seed in range(2)
    ]
    rival = {"grouped_mm": "torch._grouped_mm"}.get(kind, "torch._scaled_mm")
    library = np.array([one["rivals"].get(rival, math.nan) for one in data.problems])
    if np.isfinite(library).any():
        inputs = np.array([of_library(one) for one in data.problems], float)
        floors = np.array([data.floor(one, 0) for one in data.problems])
        usable = np.isfinite(library) & ~kept
        few = {**common, "num_leaves": 15, "learning_rate": 0.04, "min_data_in_leaf": 8}
        model = lightgbm.train(few, lightgbm.Dataset(inputs[usable], np.log(library / floors)[usable]), 500)
        expected = np.exp(model.predict(inputs)) * floors
    first, five, over, over_file = [], [], {}, []
    for at in np.flatnonzero(kept):
        problem, predicted = data.problems[at], 0.0
        for one in range(data.times.shape[1]):
            rows = np.flatnonzero((number == at) & (stage == one))
            predicted = predicted + np.exp(np.mean([model_of.predict(x[rows]) for model_of in some], axis=0)) * data.floor(
                problem, one
            )
        times = data.total[at, which[rows]]
        order = np.argsort(predicted)
        best, pick, best_five = times.min(), times[order[0]], times[order[:5]].min()
        if np.isfinite(library[at]):
            best, best_five = min(best, library[at]), min(best_five, library[at])
            pick = library[at] if expected[at] < predicted[order[0]] else pick
        first.append(best / pick)
        five.append(best / best_five)
        untuned = (
            library[at]
            if np.isfinite(library[at])
            else data.total[at, problem["named"]["vllm default"]]
            if problem["named"]
            else math.nan
        )
        if "vllm file" in problem["named"]:
            over_file.append(data.total[at, problem["named"]["vllm file"]] / pick)
        if np.isfinite(untuned):
            over.setdefault(problem["m"], []).append(untuned / pick)
    print(
        f"{kind}: {len(first)} problems of kept models; first pick {100 * mean(first):.2f} / {100 * min(first):.1f} %, first five {100 * mean(five):.2f} %"
    )
    if over_file:
        print(
            f"  picks over vLLM's file: {mean(over_file):.3f} ({min(over_file):.3f}), at least as fast within 0.5 % on {np.mean(np.array(over_file) > 0.995):.0%} of {len(over_file)}"
        )
    print(
        "  picks over what runs untuned: "
        + ", ".join(f"{m}: {mean(ratios):.2f} ({min(ratios):.2f})" for m, ratios in sorted(over.items()))
    )


if __name__ == "__main__":
    for one in sys.argv[2:] or [one for one in configs.KINDS if (Path(sys.argv[1]) / f"{one}.npz").exists()]:
        judge(sys.argv[1], one)
