#!/usr/bin/env python3
"""Stands in for a Python with Triton: its binaries are ELF files that hold what was asked for and nothing that runs."""

import json
import os
import struct
import sys
import time

# The sizes of each kernel's arguments, without Triton's own two pointers.
ARGUMENTS = {
    "mm": [8] * 4 + [4] * 9,
    "bmm": [8] * 4 + [4] * 9,
    "scaled_mm": [8] * 9 + [4] * 15,
    "scaled_mm_tma": [8] * 9 + [4] * 15,
    "grouped_mm": [8] * 9 + [4] * 15,
    "fused_moe": [8] * 9 + [4] * 15,
    "fill": [8, 8, 4],
    "fill_scales": [8, 8, 4, 8, 8],
    "grouped_reference": [8] * 8 + [4] * 5 + [8] * 3,
    "reference": [8] * 4 + [4] * 3 + [8] * 9,
    "compare": [8] * 4 + [4] * 2,
}


def pack(value: object) -> bytes:
    """MessagePack, as far as it is needed."""
    if isinstance(value, int):
        return b"\xcd" + struct.pack(">H", value)
    if isinstance(value, str):
        return b"\xd9" + struct.pack(">B", len(value)) + value.encode()
    if isinstance(value, list):
        return b"\xdc" + struct.pack(">H", len(value)) + b"".join(map(pack, value))
    assert isinstance(value, dict)
    return b"\xde" + struct.pack(">H", len(value)) + b"".join(pack(part) for item in value.items() for part in item)


def metadata(kernel: str) -> bytes:
    """What AMD's code objects say of a kernel."""
    arguments, end = [], 0
    for size in [*ARGUMENTS[kernel], 8, 8]:
        offset = -(-end // size) * size
        end = offset + size
        arguments.append({".offset": offset, ".size": size})
    kernels = [{".name": kernel, ".args": arguments, ".kernarg_segment_size": end}]
    return pack({"amdhsa.kernels": kernels})


def elf(note: bytes, payload: bytes) -> bytes:
    section = struct.pack("<III", 0, len(note), 32) + note + bytes(-len(note) % 4)
    sections = 64 + len(section) + len(payload)
    header = b"\x7fELF\x02\x01" + bytes(10)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, sections, 0, 64, 56, 0, 64, 1, 0)
    table = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(section), 0, 0, 4, 0)
    return header + section + payload + table


def shared(request: dict) -> int:
    constants = request["constants"]
    if "num_stages" not in request["options"] or "EVEN_K" not in constants:
        return 0
    element = {"*fp32": 4, "*fp16": 2, "*bf16": 2}.get(request["types"]["A"], 1)
    rows = constants["BLOCK_M"] + constants["BLOCK_N"]
    stages = request["options"]["num_stages"]
    if request["arch"].startswith("gfx"):
        stages -= 1  # the last stage is in registers
    return rows * constants["BLOCK_K"] * element * stages


# How long each kernel takes, for tests of what happens meanwhile.
PAUSE = float(os.environ.get("STANDIN_SECONDS_PER_KERNEL", "0"))

print(json.dumps({"triton": "3.6.0"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    time.sleep(PAUSE)
    file = request.pop("file")
    with open(file, "wb") as binary:
        binary.write(elf(metadata(request["kernel"]), json.dumps(request).encode()))
    built = {
        "symbol": request["kernel"],
        "threads": (64 if request["arch"].startswith("gfx") else 32) * request["options"]["num_warps"],
        "shared": shared(request),
        "registers": 64,
        "stack": 0,
        "global_scratch": 384 if request["kernel"].endswith("tma") or request["constants"].get("TMA") else 0,
        "copies": [16],
    }
    print(json.dumps({"built": built}), flush=True)
