"""Turns measured times into the lines that `cargo run -p diode-train --example serving -- data` makes datasets of.

python3 datasets.py FOLDER OUT        OUT/learnt.jsonl, and OUT/kept.jsonl of the models that are kept for judging

`scaled_mm_row_inductor` is left out: it imitates another kernel of the same problems.
"""

import contextlib
import json
import sys
from pathlib import Path

import numpy as np

import configs

OPS = {"scaled": "scaled_mm", "grouped": "grouped_mm", "fused": "fused_moe"}
TYPES = {"fp8": "float8_e4m3fn", "bf16": "bfloat16", "int8": "int8"}


def fields(kind, problem, stage):
    """A problem as Diode writes it."""
    about, op = configs.KINDS[kind], OPS[kind.split("_")[0]]
    (n, k), m = problem["stages"][stage], problem["m"]
    found = {"op": op, "b": 1, "m": m * problem["top_k"] if op == "grouped_mm" else m, "n": n, "k": k, "a_dtype": TYPES[about["operand"]],
             "b_dtype": TYPES[about["operand"]], "out_dtype": "bfloat16", "a_layout": "row", "b_layout": "column", "bias": "none",
             "scaling": about["scaling"]}  # fmt: skip
    if op != "scaled_mm":
        found["groups"] = {"count": problem["experts"], "top_k": problem["top_k"], "rows": "routed"}
    if op == "fused_moe":
        found["groups"]["stage"] = ("gate-up", "down")[stage]
    return found


def config(tile, group):
    kernel, rows, columns, depth, stages, warps, swap = tile
    template = "triton::mm_persistent_tma" if kernel.endswith("tma") else "triton::mm"
    return {"template": template, "block_m": rows, "block_n": columns, "block_k": depth, "group_m": group, "num_stages": stages,
            "num_warps": warps, **({"swap_ab": True} if swap else {})}  # fmt: skip


def main():
    folder, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as opened:
        files = {kept: opened.enter_context(open(out / f"{'kept' if kept else 'learnt'}.jsonl", "w")) for kept in (False, True)}
        for kind in configs.KINDS:
            path = folder / f"{kind}.npz"
            if not path.exists() or kind.endswith("inductor"):
                continue
            held = np.load(path)
            known = [config(*one) for one in json.loads(str(held["configs"]))]
            for file in files.values():
                print(json.dumps({"configs": known}), file=file)
            for problem, times in zip(json.loads(str(held["problems"])), held["times"], strict=True):
                whole = np.isfinite(times.sum(axis=0))
                for stage in range(len(times)):
                    which = np.flatnonzero(whole)
                    rival = problem["rivals"].get("torch._grouped_mm" if kind == "grouped_mm" else "torch._scaled_mm")
                    line = {"problem": fields(kind, problem, stage), "configs": which.tolist(),
                            "ns": [round(1e3 * float(us)) for us in times[stage, which]], "library_ns": rival and round(1e3 * rival),
                            "named": {name: at for name, at in problem["named"].items() if whole[at]}}  # fmt: skip
                    print(json.dumps(line), file=files[problem["kept"]])


if __name__ == "__main__":
    main()
