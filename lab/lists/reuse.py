"""Writes the problems of some datasets with their roles. `draw.py` reads this.

    python3 lab/lists/reuse.py trained_models/matmul/nvidia-h200/data > H200.json

Takes `.msgpack.zst` files, except those of the lists themselves: `-lists` or `-library` in the name, or a folder of
added problems or timings. Files under `validation/` are for validation. Needs the packages msgpack and zstandard.
"""

import io
import json
import pathlib
import sys

import msgpack
import zstandard

ADDED = {"further", "later", "extra", "picks", "wide"}


def main():
    seen, rows = set(), []
    folder = pathlib.Path(sys.argv[1])
    for path in sorted(folder.rglob("*.msgpack.zst")):
        if "-lists" in path.name or "-library" in path.name or ADDED & set(path.parts):
            continue
        data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes())).read()
        for record in msgpack.Unpacker(io.BytesIO(data), max_buffer_size=0):
            problem = record.get("problem")
            if problem is None or tuple(problem.values()) in seen:
                continue
            seen.add(tuple(problem.values()))
            which = "validation" if "validation" in path.parts else "train"
            rows.append({**problem, "role": which})
    print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")


if __name__ == "__main__":
    main()
