"""Gathers results into one JSON file for each kind: python3 gather.py --out data FOLDER…   A later folder's cases replace earlier ones."""

import argparse
import json
from pathlib import Path

import pool

LEFT_OUT = ("compile_s", "took_s", "case", "failed", "broken")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("folders", nargs="+")
    chosen = parser.parse_args()
    for kind in ("attention", "experts", "weights", "convolutions"):
        found = {one["case"]: one for folder in chosen.folders for one in pool.held(folder, kind) if one.get("us")}
        if not found:
            continue
        about = {
            "gpu": "NVIDIA H200",
            "torch": "2.11.0",
            "triton": "3.6.0",
            "dtype": "bfloat16",
            "unit": "µs",
            "method": pool.METHOD,
        }
        lines = [
            json.dumps({key: value for key, value in one.items() if key not in LEFT_OUT}, separators=(",", ":"))
            for one in found.values()
        ]
        text = json.dumps(about, ensure_ascii=False)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n"
        json.loads(text)
        (Path(chosen.out) / f"{kind}.json").write_text(text)
        print(kind, len(found), "cases", len(text), "bytes")


if __name__ == "__main__":
    main()
