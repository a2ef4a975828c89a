"""The first 20 problems of each kind: lists for `diode collect --problems`, and a table of what it measured.

python3 first.py lists FOLDER              writes FOLDER/KIND.json
python3 first.py table FOLDER [DIODE]      prints FOLDER/KIND.msgpack.zst as a table, and how well `data` agrees

A cell of the table has M×N×K, the collector's best time in µs and, by `data`, what runs untuned over the best.
"""

import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import configs
import datasets

DATA = Path(__file__).parent / "data"
KINDS = ["scaled_mm_row", "scaled_mm_tensor", "scaled_mm_block", "grouped_mm", "fused_moe_bf16", "fused_moe_fp8_block", "fused_moe_fp8_row"]  # fmt: skip
SIZES = ("m", "n", "k")
TILE = ("block_m", "block_n", "block_k", "group_m", "num_stages", "num_warps")


def measured(kind):
    """The first problems of a kind in the order of the data: fields, times of configs, and that of what runs untuned."""
    held = np.load(DATA / f"{kind}.npz")
    known = [key(datasets.config(*one)) for one in json.loads(str(held["configs"]))]
    found = []
    for problem, times in zip(json.loads(str(held["problems"])), held["times"], strict=True):
        default = problem["named"].get("vllm default") if kind.startswith("fused") else None
        rivals = [us for name, us in problem["rivals"].items() if name in ("torch._scaled_mm", "torch._grouped_mm")]
        for stage, row in enumerate(times):
            some = {known[at]: float(row[at]) for at in np.flatnonzero(np.isfinite(row))}
            untuned = some.get(known[default]) if default is not None else next(iter(rivals), None)
            found.append((datasets.fields(kind, problem, stage), some, untuned))
        if len(found) >= 20:
            return found[:20]
    return found


def key(config):
    return (config["template"], *(int(config[name]) for name in TILE), str(config.get("swap_ab") or False).lower())


def collected(path, diode):
    """Times in µs by sizes and stage, then by tile."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "times.csv"
        subprocess.run([diode, "convert", path, text], check=True, capture_output=True)
        with open(text) as file:
            for row in csv.DictReader(file):
                of = found.setdefault((*(int(row[name]) for name in SIZES), row["stage"]), {})
                if row["time_ns"] and row["block_m"]:
                    of[key(row)] = float(row["time_ns"]) / 1e3
    return found


def mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def main():
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "lists":
        for kind in KINDS:
            assert kind in configs.KINDS, kind
            (folder / f"{kind}.json").write_text(json.dumps([fields for fields, _, _ in measured(kind)]))
        return
    diode = sys.argv[3] if len(sys.argv) > 3 else "diode"
    columns, agreement = [], []
    for kind in KINDS:
        ours, cells, ratios = collected(folder / f"{kind}.msgpack.zst", diode), [], []
        for fields, data, untuned in measured(kind):
            stage = fields.get("groups", {}).get("stage", "")
            tiles = ours.get((*(fields[name] for name in SIZES), stage))
            if tiles is None:
                cells.append("–")
                continue
            best, common = min(tiles.values()), [config for config in tiles if config in data]
            ratios.append(data[min(common, key=tiles.get)] / min(data[config] for config in common))
            over = "–" if untuned is None else f"{untuned / min(data.values()):.2f}"
            cells.append(f"{'×'.join(str(fields[name]) for name in SIZES)}<br>{float(f'{best:.3g}'):g},&nbsp;{over}")
        columns.append(cells)
        agreement.append(f"{kind} {mean(ratios):.3f} ({max(ratios):.3f})")
    print("|" + "|".join(KINDS) + "|\n|" + "---|" * len(KINDS))
    for row in zip(*columns, strict=True):
        print("|" + "|".join(row) + "|")
    print("\nthe collector's best over the best, by the times of `data`, mean (worst): " + "; ".join(agreement))


if __name__ == "__main__":
    main()
