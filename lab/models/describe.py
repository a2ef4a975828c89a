"""Writes the manifest and the card of a shipped model as JSON, and prints the card's tables.

    python3 lab/models/describe.py trained_models/matmul/nvidia-h100 target/release/diode --learnt-from data data/further

The card's text, `card.md`, is written by hand around these tables. Its limits go in from `limits.json`, if that is there.
"""

import argparse
import hashlib
import json
import math
import pathlib
import struct
import subprocess
import tempfile

PICKS = ("1", "3", "5", "8")
# The rows of the card's table, and the kinds of problem in each: by the operator and the name of the kind.
ROWS = {
    "mm, addmm in bf16 and fp16, aligned rows": lambda op, kind: "bmm" not in op and "32" not in kind and "unaligned" not in kind,
    "bmm, baddbmm in bf16 and fp16, aligned rows": lambda op, kind: "bmm" in op and "32" not in kind and "unaligned" not in kind,
    "mm, addmm in bf16, unaligned rows": lambda op, kind: "bmm" not in op and "32" not in kind and "unaligned" in kind,
    "bmm in bf16, unaligned rows": lambda op, kind: "bmm" in op and "32" not in kind and "unaligned" in kind,
    "mm, addmm in fp32": lambda op, kind: "bmm" not in op and "fp32" in kind,
    "bmm in fp32": lambda op, kind: "bmm" in op and "fp32" in kind,
    "TF32, aligned rows": lambda op, kind: "tf32" in kind and "unaligned" not in kind,
    "TF32, rows aligned to 4 bytes": lambda op, kind: "tf32" in kind and "unaligned" in kind,
    "all": lambda op, kind: True,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="the folder of a kind of hardware")
    parser.add_argument("diode", help="the program, built")
    parser.add_argument("--trained-with", default="", metavar="FLAGS", help="flags that the training had beside the seed")
    parser.add_argument(
        "--learnt-from", nargs="+", default=["data"], metavar="FOLDER", help="where its timings to learn from are"
    )
    given = parser.parse_args()
    folder = given.folder
    model = next(folder.glob("*.safetensors"))
    header = read_header(model)
    about = json.loads(header["__metadata__"]["diode"])
    validation = {name: judge(given.diode, model, files) for name, files in groups(folder).items()}
    write(folder / "manifest.json", manifest(folder, model, about, given.learnt_from))
    write(folder / "card.json", card(model, header, about, validation, given))
    print(table(validation))


def read_header(model):
    content = model.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length])


def groups(folder):
    """The files to judge by. Files of the same kind of problem are grouped."""
    found = {}
    for path in sorted((folder / "data" / "validation").glob("*.msgpack.zst")):
        kind = path.name.removesuffix(".msgpack.zst").split("-", 1)[1]
        for ending in ("-more", "-lists", "-library"):
            kind = kind.removesuffix(ending)
        found.setdefault(kind, []).append(path)
    return found


def judge(diode, model, files):
    with tempfile.TemporaryDirectory() as together:
        for path in files:
            (pathlib.Path(together) / path.name).symlink_to(path.resolve())
        command = [diode, "evaluate", "--model", str(model), "--dataset", together, "--json"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    shares = lambda top_k: {k: {name: round(share, 4) for name, share in top_k[k].items()} for k in PICKS}
    return {
        "problems": report["problems"],
        "triton": shares(report["top_k"]),
        "everything": shares(report["with_library"]["top_k"]),
        "library": {name: round(share, 4) for name, share in report["baselines"]["library"]["with_library"].items()},
        "mape_within_2x": round(report["mape_within_2x"], 4),
    }


def manifest(folder, model, about, learnt_from):
    hardware = about["hardware"]["slug"]
    listed = [(model, "model"), (model.with_suffix(".unseen"), "models of the cross-validation")]
    listed += [(path, "training") for part in learnt_from for path in sorted((folder / part).glob("*.zst"))]
    listed += [(path, "validation") for path in sorted((folder / "data" / "validation").glob("*.zst"))]
    return {
        "heuristic": about["heuristic"],
        "hardware": hardware,
        "names": [f"{hardware.upper()}-matmul", f"{hardware}-matmul"],
        "feature_set": about["feature_set"],
        "created_at": about["training"]["created_at"],
        "cards": ["card.md", "card.json"],
        "licence": "MIT OR Apache-2.0",
        "files": [{"file": str(path.relative_to(folder)), "role": role, **checked(path)} for path, role in listed],
    }


def checked(path):
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def card(model, header, about, validation, given):
    # `tiles` says to which tiles the values belong.
    is_learnt = lambda name: name not in ("__metadata__", "tiles") and "normalisation" not in name
    trainable = [t for name, t in header.items() if is_learnt(name)]
    parameters = sum(product(tensor["shape"]) for tensor in trainable)
    limits = model.parent / "limits.json"
    created = about["training"]["created_at"]
    return {
        "file": model.name,
        **checked(model),
        "heuristic": about["heuristic"],
        "hardware": about["hardware"]["slug"],
        "feature_set": about["feature_set"],
        "parameters": parameters,
        "training": {**about["training"], "second_method": about.get("second_method")},
        "range": about.get("range"),
        "cross_validation": about["evaluation"],
        "confidence": about.get("confidence"),
        "validation": validation,
        "limits": json.loads(limits.read_text()) if limits.exists() else [],
        "reproduce": f"SOURCE_DATE_EPOCH=$(date -d {created} +%s) diode train --seed {about['training']['seed']} "
        f"{given.trained_with + ' ' if given.trained_with else ''}--model retrained.safetensors --data "
        + " ".join(f"{part}/*.msgpack.zst" for part in given.learnt_from),
        "licence": "MIT OR Apache-2.0",
    }


def product(shape):
    result = 1
    for size in shape:
        result *= size
    return result


def write(path, document):
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def table(validation):
    """The card's table: geometric mean and worst problem in per cent, of all kinds that belong together."""
    lines = ["| problems | how many | first pick | best of 5 | cuBLAS alone |", "|---" * 5 + "|"]
    for name, holds in ROWS.items():
        kinds = [judged for kind, judged in validation.items() if holds(kind.split("-")[0], kind)]
        parts = [
            [kind["everything"]["1"] for kind in kinds],
            [kind["everything"]["5"] for kind in kinds],
            [kind["library"] for kind in kinds],
        ]
        counts = [kind["problems"] for kind in kinds]
        lines.append(f"| {name} | {sum(counts)} | " + " | ".join(together(shares, counts) for shares in parts) + " |")
    return "\n".join(lines)


def together(shares, counts):
    logs = sum(count * math.log(share["geomean"]) for share, count in zip(shares, counts, strict=True))
    return f"{100 * math.exp(logs / sum(counts)):.1f} / {100 * min(share['worst'] for share in shares):.0f}"


if __name__ == "__main__":
    main()
