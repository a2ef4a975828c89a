"""Whether split K pays for fp8 with few rows, scaled by row: in one launch, whose last program of a tile adds the parts.

python3 splitk.py --data FOLDER --cubins FOLDER --out FILE        (after scaled_mm_row is measured; writes JSON)

The first 20 measured problems of at most 32 rows. Each one's ten best tiles without split are timed again beside the split ones.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import configs
import cubins
import work
from device import Operand
from measure import Kind, Session

TILES = [(16, 64, 128, 6, 4, 1), (16, 64, 256, 5, 4, 1), (16, 64, 256, 6, 4, 1), (16, 64, 512, 4, 4, 1), (16, 64, 512, 5, 4, 1),
         (16, 128, 256, 4, 4, 1), (32, 64, 256, 5, 4, 1), (32, 64, 256, 6, 4, 1), (32, 128, 128, 5, 4, 1), (64, 64, 256, 5, 4, 0),
         (16, 32, 256, 5, 2, 0), (16, 64, 256, 4, 4, 0)]  # fmt: skip
PARTS = (2, 3, 4, 6, 8)


def variants():
    found = {}
    for *blocks, swap in TILES:
        for even in (True, False):
            constants = {"EVEN_K": even, "FAST": True, "SWAP": bool(swap)}
            found[(*blocks, swap, even)] = cubins.variant("scaled_mm_split", blocks, dtype="fp8", constants=constants)
    return found


def main():
    parser = argparse.ArgumentParser()
    for name in ("--data", "--cubins", "--out"):
        parser.add_argument(name, required=True)
    chosen = parser.parse_args()
    split = variants()
    kind = Kind("scaled_mm_row", chosen.data)
    few = [(one, times) for one, times in zip(kind.done, kind.times, strict=True) if one["m"] <= 32][:20]
    cubins.compile_all(chosen.cubins, [*split.values(), *configs.variants(kind.name, [one for one, _ in few])])
    session = Session(chosen.data, chosen.cubins, 300)
    device = session.device
    device.fill("fp8")
    turns = torch.zeros(1 << 16, dtype=torch.int32, device="cuda")
    results = []
    for problem, times in few:
        stage = work.Scaled(device, kind.name, problem)
        m, n, k = stage.m, stage.n, stage.k
        launches, names, error, reference = [], [], 0.0, stage.reference()
        for at in np.argsort(np.where(np.isfinite(times[0]), times[0], np.inf))[:10]:
            tile, group = kind.configs[at]
            handle, about = device.function(chosen.cubins, configs.variant_of(kind.name, tile, k % tile[3] == 0))
            launches.append(stage.launch(handle, about, tile, group))
            names.append([*tile[1:], 1])
        for *blocks, swap in TILES:
            for parts in PARTS:
                if blocks[0] > max(64, 2 * m) or parts * blocks[2] > k:
                    continue
                tiles = work.up(m, blocks[0]) * work.up(n, blocks[1])
                sums = Operand(device.pools["sums"], torch.float32, (tiles, parts, blocks[0] * blocks[1]), stage.c.copies)
                handle, about = device.function(chosen.cubins, split[(*blocks, swap, k % blocks[2] == 0)])
                strides = [m, n, k, k, k, n, 8]
                one = device.launch(
                    handle, about, [stage.a, stage.b, stage.sa, stage.sb, stage.c, sums, turns.data_ptr(), *strides], tiles, parts
                )
                if parts == 3:
                    for _ in range(2):
                        stage.c.tensor().fill_(float("nan"))
                        device.once(one)
                    error = max(error, float((stage.c.tensor().float() - reference).norm() / reference.norm()))
                launches.append(one)
                names.append([*blocks, swap, parts])
        best = float(np.nanmin(times))
        fine, _ = session.fine(stage, launches, *session.plan(best, len(launches)))
        order = np.argsort(fine)
        whole = min(value for value, name in zip(fine, names, strict=True) if name[-1] == 1)
        parted = min((value, name) for value, name in zip(fine, names, strict=True) if name[-1] > 1)
        results.append({"m": m, "n": n, "k": k, "model": problem["model"], "whole_us": float(whole), "split_us": float(parted[0]),
                        "split": parted[1], "all": [[names[at], round(float(fine[at]), 3)] for at in order[:20]]})  # fmt: skip
        print(
            f"{m}×{n}×{k}: {whole:.2f} µs, split {parted[0]:.2f} µs ({whole / parted[0]:.3f}×) by {parted[1]}, error at most {error:.2g}",
            flush=True,
        )
    ratio = np.array([one["whole_us"] / one["split_us"] for one in results])
    gain = float(np.exp(np.log(np.maximum(ratio, 1)).mean()))
    print(f"split K where it is faster: {gain:.3f}× in the geometric mean, faster on {int((ratio > 1).sum())} of {len(ratio)}")
    Path(chosen.out).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
