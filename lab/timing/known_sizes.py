"""How long Inductor's kernels take, which know their sizes, beside those of packs, which do not.

    python lab/timing/known_sizes.py build FOLDER --diode DIODE --model MODEL
    python lab/timing/known_sizes.py measure FOLDER --diode DIODE
    python lab/timing/known_sizes.py report FOLDER

`build` needs Triton (as `diode kernels build` does) and no GPU: for each kind of problem it takes the tiles that the model
ranks first, and compiles them for all sizes and for the exact sizes of each problem. `measure` times both on a GPU.
`report` prints a table: the time of a kernel that knows its sizes / the time of the pack's kernel of the same tile.
"""

from __future__ import annotations

import argparse
import collections
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compare_collections import read

Problem = dict[str, str | int]
Times = dict[tuple[str, ...], dict[tuple[str, ...], float]]

PACKS = ("all", "exact")
RANKED, TILES = 8, 24
"""How many tiles of each problem count, and how many each kind has."""
FIELDS = ("block_m", "block_n", "block_k", "num_stages", "num_warps")
LAYOUTS = {"n": "row", "t": "column"}

DECODERS = [(4096, 4096), (14336, 4096), (4096, 14336), (3584, 3584), (3584, 18944), (6144, 2560), (3072, 3072), (1024, 4096)]
# M, N and K of each kind, after its layout; batched products have the number of products before them. In a kind, a tile must
# divide the K of all problems or of none.
KINDS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "1 row": ("nt", [(1, n, k) for n, k in DECODERS]),
    "4 rows": ("nt", [(4, n, k) for n, k in DECODERS]),
    "16 rows": ("nt", [(16, n, k) for n, k in DECODERS]),
    "32 rows": ("nt", [(32, n, k) for n, k in DECODERS]),
    "64 rows": ("nt", [(64, n, k) for n, k in DECODERS]),
    "aligned, nt": ("nt", [(512, 4096, 4096), (1024, 768, 3072), (1568, 3072, 768), (4096, 4096, 1024), (256, 2048, 512), (8192, 4096, 256)]),
    "aligned, nn": ("nn", [(512, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (4096, 512, 512)]),
    "aligned, tn": ("tn", [(768, 3072, 4096), (4096, 4096, 512), (768, 768, 2048), (2304, 768, 2048)]),
    "M unaligned, tn": ("tn", [(50257, 768, 2048), (50257, 1024, 1024), (30522, 768, 1024), (32001, 512, 1024), (10001, 256, 4096), (1001, 1024, 8192)]),
    "N unaligned, tn": ("tn", [(768, 50257, 2048), (1024, 5003, 1024), (2048, 1001, 4096), (512, 3333, 2048)]),
    "K unaligned, nn": ("nn", [(2048, 768, 50257), (1024, 1024, 5003), (333, 2048, 777), (4096, 512, 1001), (256, 4096, 333)]),
    "N unaligned, nn": ("nn", [(1024, 5003, 1024), (2048, 1001, 4096), (512, 3333, 2048), (4096, 777, 512)]),
    "K unaligned, nt": ("nt", [(1024, 4096, 1001), (2048, 1024, 777), (512, 512, 3333), (4096, 256, 501)]),
    "all unaligned, nn": ("nn", [(1000, 1001, 1003), (2049, 777, 1025), (333, 5003, 2051)]),
    "M and N unaligned, tn": ("tn", [(1001, 1003, 2048), (5003, 333, 4096), (777, 777, 512)]),
    "batched, few rows, nt": ("nt", [(128, 4, 2048, 128), (128, 1, 2048, 128), (64, 4, 4096, 128), (256, 4, 2048, 128), (32, 8, 8192, 128), (64, 5, 1024, 128)]),
    "batched, few rows, nn": ("nn", [(128, 4, 128, 2048), (128, 1, 128, 2048), (64, 4, 128, 4096), (256, 4, 128, 2048), (32, 8, 128, 8192), (64, 5, 128, 1024)]),
    "batched, many rows, nt": ("nt", [(96, 128, 128, 64), (128, 256, 256, 64), (32, 512, 512, 64), (64, 1024, 1024, 64)]),
    "batched, many rows, nn": ("nn", [(96, 128, 64, 128), (128, 256, 64, 256), (32, 512, 64, 512), (64, 1024, 64, 1024)]),
    "batched, N unaligned, nt": ("nt", [(96, 197, 197, 64), (192, 77, 77, 64), (64, 577, 577, 64), (32, 1025, 1025, 64)]),
    "batched, K unaligned, nn": ("nn", [(96, 197, 64, 197), (192, 77, 64, 77), (64, 577, 64, 577), (32, 1025, 64, 1025)]),
}  # fmt: skip


def kind_problems(kind: str) -> list[Problem]:
    layout, sizes = KINDS[kind]
    types = dict.fromkeys(("a_dtype", "b_dtype", "out_dtype"), "bfloat16")
    layouts = {"a_layout": LAYOUTS[layout[0]], "b_layout": LAYOUTS[layout[1]]}
    return [
        {
            "op": "bmm" if batches else "mm",
            "b": batches[0] if batches else 1,
            "m": m,
            "n": n,
            "k": k,
            **types,
            **layouts,
            "bias": "none",
        }
        for *batches, m, n, k in sizes
    ]


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command[:3]))} … ended with {done.returncode}; what it said is above")
    return done.stdout


def ranked(options: argparse.Namespace, problems: Path) -> list[tuple[int, ...]]:
    """The tiles that are first for the problems of a list. The earlier a tile comes, the more it counts."""
    command = [options.diode, "predict", "--model", options.model, "--list", problems, "--top", str(RANKED + 1), "--json"]
    counts: dict[tuple[int, ...], float] = collections.defaultdict(float)
    for prediction in json.loads(run(*command)):
        tiles = [config for config in prediction["candidates"] if config["template"] != "aten"]
        for at, tile in enumerate(tiles):
            counts[tuple(tile[field] for field in FIELDS)] += 1 / (at + 1)
    return sorted(counts, key=counts.__getitem__, reverse=True)[:TILES]


def build(options: argparse.Namespace) -> None:
    for kind in options.only:
        folder = options.folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        problems, configs = folder / "problems.json", folder / "configs.json"
        listed = kind_problems(kind)
        problems.write_text(json.dumps(listed))
        rest = {
            "template": f"triton::{listed[0]['op']}",
            "group_m": 8,
            "allow_tf32": False,
            "use_fast_accum": False,
            "acc_type": "tl.float32",
        }
        ks = [sizes[-1] for sizes in KINDS[kind][1]]
        spaces = []
        for tile in ranked(options, problems):
            divided = {k % tile[2] == 0 for k in ks}
            if len(divided) != 1:
                sys.exit(
                    f"error: {kind}: got K {ks}, expected a block of {tile[2]} to divide all of them or none; choose other K"
                )
            spaces.append({**rest, **dict(zip(FIELDS, tile, strict=True)), "even_k": divided.pop()})
        configs.write_text(json.dumps(spaces))
        for pack in PACKS:
            exact = ["--exact-sizes"] if pack == "exact" else []
            python = ["--python", options.python] if options.python else []
            command = [options.diode, "kernels", "build", "--arch", options.arch, "--problems", problems, "--space", configs]
            run(*command, "--out", folder / f"{pack}.pack", *exact, *python)


def measure(options: argparse.Namespace) -> None:
    for kind in options.only:
        folder = options.folder / kind
        for pack in PACKS:
            output, table = folder / f"{pack}.msgpack.zst", folder / f"{pack}.csv"
            lists = ["--problems", folder / "problems.json", "--space", folder / "configs.json"]
            run(options.diode, "collect", "--output", output, "--resume", "--kernels", folder / f"{pack}.pack", *lists)
            run(options.diode, "convert", output, table, "--lossy", "--force")


def times(path: Path) -> Times:
    """Nanoseconds by config, by problem."""
    return {problem: {config: time for config, (time, _) in configs.items()} for problem, configs in read(path).items()}


def row(kind: str, general: Times, exact: Times) -> Sequence[str]:
    both = {
        problem: {tile: (time, exact[problem][tile]) for tile, time in tiles.items() if tile in exact[problem]}
        for problem, tiles in general.items()
        if problem in exact
    }
    ratios = [known / time for tiles in both.values() for time, known in tiles.values()]
    firsts = [min(tiles.values()) for tiles in both.values()]
    picks = [known / time for time, known in firsts]
    best = [min(known for _, known in tiles.values()) / time for tiles, (time, _) in zip(both.values(), firsts, strict=True)]
    return [
        kind, str(len(both)), str(len(ratios)), f"{statistics.geometric_mean(ratios):.3f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}",
        f"{statistics.geometric_mean(picks):.3f} (at most {max(picks):.2f})", f"{statistics.geometric_mean(best):.3f}",
    ]  # fmt: skip


HEAD = [
    "problems", "how many", "kernels", "in the mean", "from", "to", "the fastest tile by the pack",
    "the fastest kernel / the fastest of the pack",
]  # fmt: skip


def report(options: argparse.Namespace) -> None:
    lines = [HEAD, ["---"] * len(HEAD)]
    for kind in options.only:
        files = [options.folder / kind / f"{pack}.csv" for pack in PACKS]
        if all(file.exists() for file in files):
            lines.append(list(row(kind, *map(times, files))))
    if len(lines) == 2:
        sys.exit(f"error: {options.folder} has no times; run `measure` first")
    print("\n".join("| " + " | ".join(line) + " |" for line in lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for does in (build, measure, report):
        command = commands.add_parser(does.__name__)
        command.add_argument("folder", type=Path)
        command.add_argument(
            "--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help="kinds of problem, all by default"
        )
        command.set_defaults(does=does)
        if does is not report:
            command.add_argument("--diode", default="diode", help="the program")
        if does is build:
            command.add_argument("--model", required=True, help="the model that ranks tiles")
            command.add_argument("--arch", default="sm_90")
            command.add_argument("--python", help="a Python with Triton, as for `diode kernels build`")
    options = parser.parse_args()
    options.does(options)


if __name__ == "__main__":
    main()
