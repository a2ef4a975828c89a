"""The configs that are timed: which tiles each kind has, and which of them a problem tries.

A tile is (kernel, rows, columns, depth, stages, warps, swap). A config is a tile and a width of a group of row blocks, which
kernels take as an argument. `swap`: the transposes are multiplied, see kernels.py. Tiles are pruned by shared memory and by
accumulators per thread here, and by what the compiler really spilled in measure.py.
"""

import json
import os
from itertools import product
from pathlib import Path

from cubins import variant

SHARED = 232448  # bytes for one program on Hopper
KINDS = {
    "scaled_mm_row": {"operand": "fp8", "scaling": "row", "groups": (8, 1, 4, 16)},
    "scaled_mm_row_inductor": {"operand": "fp8", "scaling": "each", "groups": (8, 1, 4, 16)},
    "scaled_mm_tensor": {"operand": "fp8", "scaling": "tensor", "groups": (8, 1, 4, 16)},
    "scaled_mm_block": {"operand": "fp8", "scaling": "block", "groups": (8, 1, 32)},
    "grouped_mm": {"operand": "bf16", "scaling": "none", "groups": (1,)},
    "fused_moe_bf16": {"operand": "bf16", "scaling": "none", "groups": (1, 16, 32, 64)},
    "fused_moe_fp8_block": {"operand": "fp8", "scaling": "block", "groups": (1, 16, 32, 64)},
    "fused_moe_fp8_row": {"operand": "fp8", "scaling": "row", "groups": (1, 16, 32, 64)},
    "fused_moe_fp8_row_early": {"operand": "fp8", "scaling": "early", "groups": (1, 16, 32, 64)},
    "fused_moe_int8_row": {"operand": "int8", "scaling": "row", "groups": (1, 16, 32, 64)},
}
SIZES = {"fp8": 1, "int8": 1, "bf16": 2}


def fits(rows, columns, depth, stages, warps, swap, size):
    """Whether shared memory holds the stages (wgmma keeps one more than mma.sync), and registers the accumulators."""
    wgmma = warps >= 4 and (rows >= 64 or (swap and columns >= 64))
    held = stages if wgmma else stages - 1
    each = rows * columns / (32 * warps)
    return held * (rows + columns) * depth * size <= SHARED - 1024 and 2 <= each <= 128


def scaled_tiles(scaling):
    tiles = []
    for rows, columns, depth, stages, warps, swap in product(
        (16, 32, 64, 128, 256), (16, 32, 64, 128, 256), (64, 128, 256, 512), (2, 3, 4, 5, 6), (2, 4, 8), (0, 1)
    ):
        area, flying = rows * columns, (stages - 1) * (rows + columns) * depth
        good = fits(rows, columns, depth, stages, warps, swap, 1)
        good &= not swap or (rows < 64 and columns in (64, 128) and warps == 4)
        good &= warps != 2 or (rows < 64 and area <= 1024)
        good &= warps != 8 or area >= 128 * 128 or (rows < 64 and area >= 4096 and not swap)
        good &= warps != 4 or area <= 128 * 128
        good &= flying >= (24 if rows < 64 or columns < 64 else 20) * 1024  # Less in flight never keeps memory busy.
        good &= depth != 64 or area >= 8192
        good &= depth != 512 or rows + columns <= 96
        good &= depth != 256 or area <= 64 * 128
        good &= max(rows, columns) < 256 or (min(rows, columns) >= 32 and depth <= 128)
        good &= stages < 6 or depth <= (256 if swap else 128)
        if scaling == "block":
            good &= depth in (64, 128) and (not swap or depth == 128)
        good |= scaling == "block" and (rows, columns, depth, warps, swap) == (64, 128, 128, 4, 0) and stages in (2, 3)
        if good:
            tiles.append(("scaled_mm", rows, columns, depth, stages, warps, swap))
    if scaling == "each":
        tiles = [tile for tile in tiles if not tile[-1]]  # Inductor swaps nothing.
    if scaling != "block":
        for rows, columns, depth, stages, warps in product(
            (64, 128, 256), (32, 64, 128, 256), (64, 128, 256), (3, 4, 5, 6), (4, 8)
        ):
            held = stages * (rows + columns) * depth + rows * columns * 2
            deep = depth == 128 or (depth == 256 and columns <= 64) or (depth == 64 and rows * columns >= 128 * 256)
            if held <= SHARED - 1024 and 16 <= rows * columns / (32 * warps) <= 128 and deep and (warps == 4 or rows >= 128):
                tiles.append(("scaled_mm_tma", rows, columns, depth, stages, warps, 0))
    return tiles


def grouped_tiles():
    grid = product((16, 32, 64, 128), (64, 128, 256), (64, 128, 256), (2, 3, 4, 5), (4, 8))
    kept = [t for t in grid if fits(*t, 0, 2) and (t[4] == 4 or t[0] * t[1] >= 4096) and (t[0] * t[1] <= 16384 or t[4] == 8)]
    kept = [t for t in kept if t[2] < 256 or t[0] < 64]
    return [(name, *t, 0) for name in ("grouped_mm", "grouped_mm_tma") for t in kept if name == "grouped_mm" or t[3] > 2]


def moe_tiles(kind):
    operand, block = KINDS[kind]["operand"], KINDS[kind]["scaling"] == "block"
    size = SIZES[operand]
    grid = product((16, 32, 64, 128, 256), (32, 64, 128, 256), (64, 128) if block else (64, 128, 256), (2, 3, 4, 5), (4, 8))
    kept = set()
    for rows, columns, depth, stages, warps in grid:
        area = rows * columns
        good = warps == 4 or area >= 2048
        good &= warps == 8 or area <= 16384
        good &= rows < 256 or (columns in (64, 128) and depth == 64 * (1 + (size == 1)) and stages in (3, 4))
        good &= depth < 256 or area <= 64 * 128
        good &= depth > 64 or area >= (2048 if size == 2 else 8192) or stages >= 4
        if good:
            kept.add((rows, columns, depth, stages, warps))
    kept |= published_tiles(operand, block)
    kept |= {tile for tile, _ in defaults(kind)} | {sglang_default(kind, tokens, 8)[0] for tokens in (1, 100)}
    tiles = []
    for tile in sorted(kept):
        swap = int(operand == "fp8" and tile[0] < 64 and tile[1] >= 64)
        if fits(*tile, swap, size) and tile[0] >= 16:
            tiles.append(("fused_moe", *tile, swap))
    return tiles


def defaults(kind, tokens=None, experts=None):
    """What vLLM 0.33 runs without a file: ((rows, columns, depth, stages, warps), group). Of one problem, or of all."""
    found = []
    for m in [tokens] if tokens else (1, 4, 8, 16, 32, 64, 96, 128, 512, 8192):
        wide = experts is not None and m // experts > 128
        if KINDS[kind]["scaling"] == "block":
            low = (16, 64 if m <= 8 else 128, 128, 4 if m <= 4 else 3, 4)
            found.append((low if m <= 64 else (64, 128, 128, 3, 4), 1 if m <= 16 else 32))
            continue
        rows = 16 if m <= 32 else 32 if m <= 96 else 64 if m <= 512 else 128
        depth = 128 if KINDS[kind]["operand"] == "fp8" or m <= 64 else 64
        tile = (rows, 64 if m <= 64 else 128, depth, 4 if m <= 32 else 3, 4 if m <= 128 else 8)
        found.append((tile, 16 if wide else 1))
    return found


def sglang_default(kind, tokens, experts):
    if KINDS[kind]["scaling"] == "block":
        return (64, 128, 128, 3, 4), 32
    if KINDS[kind]["operand"] == "fp8":
        return ((64, 128, 128, 4, 4), 1) if tokens <= experts else ((128, 256, 128, 4, 8), 32)
    return ((16, 32, 64, 3, 4), 1) if tokens <= experts else ((64, 64, 32, 3, 4), 8)


def published_files():
    return json.loads(Path(os.environ.get("PUBLISHED", ".serving/published.json")).read_text())


def config_of_body(body, block):
    """A tile and a group from an entry of a published file. Depths over a block of scales are clamped, as vLLM does."""
    depth = min(body["BLOCK_SIZE_K"], 128) if block else body["BLOCK_SIZE_K"]
    tile = (body["BLOCK_SIZE_M"], body["BLOCK_SIZE_N"], depth, body.get("num_stages", 3), body.get("num_warps", 4))
    return tile, body["GROUP_SIZE_M"]


def published_tiles(operand, block):
    if operand == "int8":
        return set()
    word = "fp8_w8a8" if operand == "fp8" else None
    files = [one for one in published_files() if one["dtype"] == word and one["block"] == block]
    return {config_of_body(body, block)[0] for one in files for body in one["body"].values()}


def tiles_of(kind):
    if kind.startswith("scaled"):
        return scaled_tiles(KINDS[kind]["scaling"])
    return grouped_tiles() if kind == "grouped_mm" else moe_tiles(kind)


def variant_of(kind, tile, even):
    """What to compile for a tile. The experts' kernel always masks the depth, as vLLM's does, so `even` changes nothing there."""
    kernel, *blocks, swap = tile
    about = KINDS[kind]
    if kernel == "fused_moe":
        constants = {"SCALING": about["scaling"], "FAST": about["operand"] != "int8", "SWAP": bool(swap)}
    elif kernel.startswith("grouped"):
        constants = {"EVEN_K": even or kernel.endswith("tma"), "TMA": kernel.endswith("tma")}
        kernel = "grouped_mm"
    else:
        even, tma = even or kernel.endswith("tma"), kernel.endswith("tma")
        constants = {
            "EVEN_K": even,
            "SCALING": "row" if tma and about["scaling"] == "each" else about["scaling"],
            "FAST": True,
            "SWAP": bool(swap),
        }
    return variant(kernel, blocks, dtype=about["operand"], constants=constants)


def variants(kind, problems):
    """All that the problems of a kind need, without repeats."""
    depths = {stage[1] for one in problems for stage in one["stages"]}
    found = {}
    for tile in tiles_of(kind):
        for even in {k % tile[3] == 0 for k in depths}:
            one = variant_of(kind, tile, even)
            found[json.dumps(one, sort_keys=True)] = one
    return list(found.values())


def sensible(kind, tile, problem):
    """Whether a tile's height suits a problem's rows. Others are not tried, which the data says."""
    rows = tile[1]
    if kind.startswith("scaled"):
        m = problem["m"]
        return rows <= max(64, 2 * m) and rows >= min(64, m / 8) and (tile[2] >= 64 or m <= 512) and (tile[3] < 512 or m <= 128)
    each = problem["m"] * problem["top_k"] / problem["experts"]  # rows of an expert, on average
    return rows <= max(64, 4 * each) and rows >= min(64, each / 8)
