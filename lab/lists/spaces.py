"""Chooses the configs that the lists are timed with, and writes what `diode` takes.

    python3 spaces.py choose --diode diode --model MODEL --lists . > tiles.json
    python3 spaces.py likely --diode diode --lists . > likely.json
    python3 spaces.py expand --lists . --out FOLDER [--only LIST ...]

`choose` has a model rank the `full` space for every problem and keeps, for each list, what is ranked high for
many of its problems, the default configs, and some at random. `likely` has the models that come with `diode` rank
`full` for every problem of `picks/`, and keeps what is picked most. `expand` writes, for each list and each power of
two that divides K, the problems and the configs with EVEN_K as such a K makes it, as `diode collect` takes them; and
for each list what a pack of its kernels is built from.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SEED = 20261122
# How many configs a list has: all default ones, then this many ranked ones, then this many at
# random.
RANKED, AT_RANDOM = {"validation": 370, "train": 170}, {"validation": 110, "train": 70}
# The same numbers for kernels that take long to compile or to run.
OF_SLOW = {"validation": 270, "train": 130}, {"validation": 70, "train": 40}
OF_BATCHES = {"validation": 200, "train": 120}, {"validation": 40, "train": 30}
FEWER = {
    "mm-fp32": OF_SLOW,
    "mm-bf16-unaligned": OF_SLOW,
    "bmm-bf16-unaligned": OF_BATCHES,
    "bmm-tf32": OF_BATCHES,
    "bmm-fp32": ({"validation": 60, "train": 40}, {"validation": 15, "train": 15}),
    "mm-tf32-unaligned": ({"validation": 150, "train": 100}, {"validation": 30, "train": 30}),
    "mm-fp32-unaligned": ({"validation": 30, "train": 30}, {"validation": 10, "train": 10}),
}
# The roles of problems that were added to train on. They are timed with the configs of the training
# list.
ADDED = ("more", "further", "extra", "weakest", "short", "middle")
# Problems that are timed with likely picks only, and how many tiles a list of them has.
PICKS, LIKELY, LIKELY_OF_SLOW = "picks", 96, 40
# The tiles of one list serve all lists whose names have the same word. Lists with a number of tiles of their own also
# have tiles of their own.
SHARED = {
    "bmm-fp16-unaligned": "bmm-bf16-unaligned",
    "tf32-unaligned": "mm-tf32-unaligned",
    "fp32-unaligned": "mm-fp32-unaligned",
    "unaligned": "mm-bf16-unaligned",
    "tf32": "mm-tf32",
    "fp32": "mm-fp32",
}
# fmt: off
DEFAULT = [
    (32, 32, 16, 1, 2), (32, 32, 128, 2, 4), (32, 64, 32, 5, 8), (64, 32, 32, 5, 8), (64, 32, 128, 5, 4), (64, 64, 16, 2, 4), (64, 64, 32, 2, 4),
    (64, 64, 64, 3, 8), (64, 64, 128, 5, 4), (64, 128, 32, 3, 4), (64, 128, 32, 4, 8), (64, 128, 64, 3, 4), (64, 128, 128, 4, 4), (128, 64, 32, 3, 4),
    (128, 64, 32, 4, 8), (128, 128, 32, 2, 8), (128, 128, 32, 3, 4), (128, 128, 64, 3, 4), (128, 128, 64, 5, 8), (128, 128, 128, 4, 8),
]
# fmt: on
SHARED_MEMORY, REGISTERS = 232_448, 256


def names(lists):
    return sorted(name[:-5] for name in os.listdir(os.path.join(lists, "train")) if name.endswith(".json"))


def read(lists, role, name):
    with open(os.path.join(lists, role, name + ".json")) as file:
        return json.load(file)


def scaled(tile, problem):
    """A default config, shrunk to small sizes like in Inductor."""
    m, n, k, stages, warps = tile
    clip = lambda size: max(16, 1 << (size - 1).bit_length())
    m, n, k = min(m, clip(problem["m"])), min(n, clip(problem["n"])), min(k, clip(problem["k"]))
    return m, n, k, stages, min(warps, m * n // 256)


def fits(tile, size):
    m, n, k, stages, warps = tile
    return (m + n) * k * size * stages <= SHARED_MEMORY and m * n <= REGISTERS * warps * 32


def full(size):
    sides = (16, 32, 64, 128, 256)
    tiles = [(m, n, k, s, w) for m in sides for n in sides for k in sides for s in (1, 2, 3, 4, 5) for w in (2, 4, 8)]
    return [tile for tile in tiles if fits(tile, size)]


def ranked(diode, model, problem, tf32):
    flags = [f"--{key}={problem[key]}" for key in ("op", "b", "m", "n", "k")] + [
        f"--dtype={problem['a_dtype']}",
        f"--a-layout={problem['a_layout']}",
        f"--b-layout={problem['b_layout']}",
    ]
    if problem["bias"] != "none":
        flags.append(f"--bias={problem['bias']}")
    if tf32:
        flags.append("--tf32")
    output = subprocess.run(
        [diode, "predict", "--json", "--model", model, "--top", "400", *flags], capture_output=True, text=True, check=True
    ).stdout
    return tiles_in(json.loads(output))


def tiles_in(prediction):
    rows = [c for c in prediction["candidates"] if c["template"] != "aten"]
    return [(c["block_m"], c["block_n"], c["block_k"], c["num_stages"], c["num_warps"]) for c in rows]


def choose(options):
    chosen: dict[str, Any] = {}
    for name in options.only or names(options.lists):
        if tiles_of(name) != name:
            continue
        both = {role: read(options.lists, role, name) for role in ("train", "validation")}
        size = 4 if "32" in name else 2
        problems = both["train"] + both["validation"]
        with ThreadPoolExecutor(2) as pool:
            rankings = list(pool.map(lambda p, tf32="tf32" in name: ranked(options.diode, options.model, p, tf32), problems))
        score: dict[Any, float] = {}
        for ranking in rankings:
            for rank, tile in enumerate(tile for tile in ranking if fits(tile, size)):
                score[tile] = score.get(tile, 0) + 1 / (rank + 8)
        best = sorted(score, key=lambda tile: (-score[tile], tile))
        rng = random.Random(f"{SEED} {name}")
        drawn = full(size)
        rng.shuffle(drawn)
        chosen[name] = {}
        for role in ("train", "validation"):
            if name == "mm-bf16-nn" and role == "validation":
                continue  # the whole space
            defaults = {tile for tile in DEFAULT if fits(tile, size)}
            if role == "validation":
                defaults |= {tile for p in both[role] for d in DEFAULT if fits(tile := scaled(d, p), size) and tile[4] >= 1}
            tiles = dict.fromkeys(sorted(defaults))
            most, more = FEWER.get(name, (RANKED, AT_RANDOM))
            tiles.update(dict.fromkeys(best[: most[role]]))
            tiles.update(dict.fromkeys([tile for tile in drawn if tile not in tiles][: more[role]]))
            chosen[name][role] = sorted(tiles)
    print("{")
    print(
        ",\n".join(
            f' "{name}": {{\n'
            + ",\n".join(f'  "{role}": {json.dumps(tiles, separators=(",", ":"))}' for role, tiles in roles.items())
            + "\n }"
            for name, roles in chosen.items()
        )
    )
    print("}")


def picked(diode, hardware, path, tf32):
    """The tiles that the hardware's model ranks first, for each problem of a list."""
    rounding = ["--tf32"] if tf32 else []
    command = [diode, "predict", "--json", "--list", path, "--top", "16", "--hardware", hardware, *rounding]
    predictions = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [tiles_in(prediction) for prediction in predictions]


def likely(options):
    lines = []
    for file in sorted(os.listdir(os.path.join(options.lists, PICKS))):
        name, score = file[:-5], dict[Any, float]()
        if options.only and name not in options.only:
            continue
        for hardware in options.hardware:
            for ranking in picked(options.diode, hardware, os.path.join(options.lists, PICKS, file), "tf32" in name):
                for rank, tile in enumerate(ranking):
                    score[tile] = score.get(tile, 0) + 1 / (rank + 4)
        count = LIKELY_OF_SLOW if tiles_of(name) in FEWER else LIKELY
        kept = sorted(score, key=lambda tile: (-score[tile], tile))[:count]
        share = sum(score[tile] for tile in kept) / sum(score.values())
        print(
            f"{name}: {len(kept)} of {len(score)} tiles, {100 * share:.0f} % of the picks, of which the first count more",
            file=sys.stderr,
        )
        lines.append(f' "{name}": {json.dumps(sorted(kept), separators=(",", ":"))}')
    print("{\n" + ",\n".join(lines) + "\n}")


def tiles_of(name):
    """The list whose tiles a list is timed with."""
    return name if name in FEWER else next((of for word, of in SHARED.items() if word in name), name)


def divisor(k):
    """The power of two that says which blocks divide K."""
    power = math.gcd(k, 256)
    return power if power >= 16 else 1


def configs(tiles, power, name):
    template = "triton::bmm" if "bmm" in name else "triton::mm"
    return [
        {
            "template": template,
            "block_m": m,
            "block_n": n,
            "block_k": k,
            "group_m": 8,
            "num_stages": s,
            "num_warps": w,
            "even_k": power % k == 0,
            "allow_tf32": "tf32" in name,
            "use_fast_accum": False,
            "acc_type": "tl.float32",
        }
        for m, n, k, s, w in tiles
    ]


def expand(options):
    with open(os.path.join(options.lists, "tiles.json")) as file:
        chosen = json.load(file)
    with open(os.path.join(options.lists, "likely.json")) as file:
        likely_tiles = json.load(file)
    os.makedirs(options.out, exist_ok=True)

    def write(name, rows):
        with open(os.path.join(options.out, name + ".json"), "w") as file:
            json.dump(rows, file, separators=(",", ":"))

    for name in options.only or names(options.lists):
        roles = dict(chosen[tiles_of(name)])
        roles |= dict.fromkeys(ADDED, roles["train"])
        if name in likely_tiles:
            roles[PICKS] = likely_tiles[name]
        if options.tiles_of:
            if options.tiles_of not in roles:
                sys.exit(
                    f"error: {name} has tiles for {', '.join(roles)}, expected some for {options.tiles_of}; leave it out with --only"
                )
            roles = dict.fromkeys(roles, roles[options.tiles_of])
        if options.tile:
            roles = {role: [options.tile] for role in roles}
        kernels: dict[str, Any] = {}
        every: dict[str, Any] = {}
        for role in options.roles:
            if role in (*ADDED, PICKS) and not os.path.exists(os.path.join(options.lists, role, name + ".json")):
                continue
            problems = read(options.lists, role, name)
            if role not in roles:
                write(f"{name}.{role}.full.problems", problems)
                continue
            for power in sorted({divisor(p["k"]) for p in problems}):
                space = configs(roles[role], power, name)
                part = [p for p in problems if divisor(p["k"]) == power]
                # If K is not aligned, no kernel has EVEN_K, so these problems have packs of their
                # own.
                pack = f"{name}.{power}" if "unaligned" in name else name
                kernels.setdefault(pack, {}).update({json.dumps(config): config for config in space})
                every.setdefault(pack, []).extend(part)
                write(f"{name}.{role}.{power}.problems", part)
                write(f"{name}.{role}.{power}.space", space)
                print(f"{name} {role}: {len(part)} problems with K a multiple of {power}, {len(space)} configs")
        for pack, space in kernels.items():
            write(f"{pack}.pack.problems", every[pack])
            write(f"{pack}.pack.space", list(space.values()))
            print(f"{pack}: {len(space)} kernels of each variant")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    choosing = commands.add_parser("choose")
    choosing.add_argument("--diode", default="diode")
    choosing.add_argument("--model", required=True)
    choosing.add_argument("--lists", required=True)
    choosing.add_argument("--only", nargs="+", metavar="LIST", help="lists to choose tiles for, instead of all")
    choosing.set_defaults(run=choose)
    ranking = commands.add_parser("likely")
    ranking.add_argument("--diode", default="diode")
    ranking.add_argument("--lists", required=True)
    ranking.add_argument("--hardware", nargs="+", default=["nvidia-h100", "nvidia-h200"])
    ranking.add_argument("--only", nargs="+", metavar="LIST", help="lists to rank for, instead of all")
    ranking.set_defaults(run=likely)
    expanding = commands.add_parser("expand")
    expanding.add_argument("--lists", required=True)
    expanding.add_argument("--out", required=True)
    expanding.add_argument("--only", nargs="+", metavar="LIST", help="lists to write, instead of all")
    expanding.add_argument("--tile", nargs=5, type=int, metavar="N", help="only this tile, so that mainly the library is timed")
    expanding.add_argument(
        "--tiles-of", choices=["train", "validation"], help="the tiles of this role, for the problems of every role"
    )
    expanding.add_argument("--roles", nargs="+", default=["validation", "train", *ADDED])
    expanding.set_defaults(run=expand)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
