"""The tables of what `comparison.py` has measured. If several files have a case, the last one counts, except for its tiles.

python python/tests/gpu/compared.py report.md times.jsonl …
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

NONE, OURS, MAX = "no tuning", "ours", "max-autotune"
CLEARLY = 0.98
_SERVED = (
    *(("scaled", name) for name in ("by row", "by tensor", "by channel", "silu")),
    *(("served networks", name) for name in ("by row", "grouped_mm", "decoding", "training")),
)
"""Parts and what stands in the names of their cases, for a line of its own."""


def geomean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The cases. Each has its speed over no tuning, and that of the best tile or of no tuning, whichever is higher."""
    found: dict[str, dict[str, Any]] = {}
    best: dict[str, float] = {}
    for path in paths:
        for case in map(json.loads, path.read_text().splitlines()):
            times = case["times"]
            tiles = [times[NONE] / us for method, us in times.items() if method.startswith("tile ")]
            if tiles:
                best[case["name"]] = max(1.0, *tiles)
            if OURS in times and NONE in times:
                found[case["name"]] = {**case, "speed": times[NONE] / times[OURS]}
    return [{**case, "best": best.get(name)} for name, case in found.items()]


def table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Rows as Markdown."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([*row.values()] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def summary(name: str, cases: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A row that sums up many cases."""
    worst = min(cases, key=lambda case: float(case["speed"]))
    # `best` is the best speed of no tuning and 8 tiles, but a pick may be another tile. If the pick is
    # faster, its own speed counts as the best.
    known = [case for case in cases if case["best"] is not None]
    shares = [case["speed"] / max(case["best"], case["speed"]) for case in known]
    return {
        "cases": name,
        "how many": str(len(cases)),
        "over no tuning": f"{geomean(case['speed'] for case in cases):.3f}",
        "worst": f"{worst['speed']:.2f} ({worst['name']})",
        f"below {CLEARLY}": str(sum(case["speed"] < CLEARLY for case in cases)),
        "the best of no tuning and 8 tiles": f"{geomean(case['best'] for case in known):.3f}" if known else "",
        "share of that": f"{geomean(shares):.1%}" if shares else "",
    }


def groups(cases: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The groups of cases: alone, in batches, in a row, with what follows (also only what this torch can fuse), and with what
    comes before."""
    alone = [case for case in cases if case["part"] == "alone"]
    batched = [case for case in cases if case["part"] == "batched"]
    followed = [case for case in cases if case["part"] == "epilogues"]
    layers = [case for case in cases if case["part"] == "layers"]
    unfused = [case for case in followed if "norm" in case["name"]]
    rounded = lambda some: [case for case in some if "tf32" in case["name"]]
    found = [
        ("multiplications alone", alone),
        ("of these, in TF32", rounded(alone)),
        ("batched multiplications alone", batched),
        ("of these, with a bias", [case for case in batched if "baddbmm" in case["name"]]),
        ("a decoder's layers alone", [case for case in layers if case["name"] == case["alone"]]),
        ("the same in a row", [case for case in layers if case["name"] != case["alone"]]),
        ("with what follows", followed),
        ("of these, in TF32", rounded(followed)),
        ("of these, what a tile can fuse", [case for case in followed if case not in unfused]),
        ("of these, what it cannot (norms)", unfused),
        ("with what comes before", [case for case in cases if case["part"] == "prologues"]),
        ("with unaligned rows", [case for case in cases if case["part"] == "unaligned"]),
        *(
            (part, [case for case in cases if case["part"] == part])
            for part in ("served", "scaled", "grouped", "served networks")
        ),
        *(
            (f"of these, {name}", [case for case in cases if case["part"] == part and name in case["name"]])
            for part, name in _SERVED
        ),
    ]
    return [(name, some) for name, some in found if some]


def picked(case: Mapping[str, Any]) -> str:
    """What was picked for the only multiplication of a case."""
    notes = (case["picks"] or {}).get(OURS) or []
    return str(notes[0][2]) if notes and isinstance(notes[0], list) else "?"


def networks(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """A row for each network."""
    rows = []
    for case in cases:
        times, seconds = case["times"], case["seconds"]
        tiles = sum(note[2] != "library" for note in case["picks"][OURS])
        rows.append(
            {
                "network": case["name"],
                "tiles picked": f"{tiles} of {len(case['picks'][OURS])}",
                **{f"{name}, µs": f"{times[name]:.1f}" if name in times else "" for name in (NONE, OURS, MAX)},
                "over no tuning": f"{case['speed']:.3f}",
                "over max-autotune": f"{times[MAX] / times[OURS]:.3f}" if MAX in times else "",
                **{f"{name}, compile": f"{seconds[name]:.1f} s" if name in seconds else "" for name in (NONE, OURS, MAX)},
            }
        )
    return rows


def compile_times(nets: Sequence[Mapping[str, Any]]) -> list[str]:
    """How long networks take to compile, compared with no tuning and with max-autotune."""
    lines = []
    for name, over, under in (("no tuning", OURS, NONE), ("ours", MAX, OURS)):
        known = [case["seconds"][over] / case["seconds"][under] for case in nets if over in case["seconds"]]
        if known:
            whose = "Ours" if over == OURS else "Max-autotune"
            lines.append(
                f"{whose} compiles {geomean(known):.2f} times as long as {name}, from {min(known):.2f} to {max(known):.2f}; "
                f"{len(known)} networks."
            )
    return lines


def every(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """A row for each multiplication."""
    return [
        {
            "case": case["name"],
            "no tuning, µs": f"{case['times'][NONE]:.1f}",
            "ours, µs": f"{case['times'][OURS]:.1f}",
            "picked": picked(case),
            "over no tuning": f"{case['speed']:.2f}",
            "the best": f"{case['best']:.2f}" if case["best"] else "",
        }
        for case in cases
    ]


def report(cases: Sequence[Mapping[str, Any]]) -> str:
    """All tables."""
    alone = [case for case in cases if case["part"] != "networks"]
    nets = [case for case in cases if case["part"] == "networks"]
    lines = [f"{cases[0]['gpu']}, torch {cases[0]['torch']}.", ""]
    if alone:
        lines += [*table([summary(name, some) for name, some in groups(alone)]), ""]
    if nets:
        lines += [*table(networks(nets)), ""]
        over = {"no tuning": geomean(case["speed"] for case in nets)}
        tuned = [case for case in nets if MAX in case["times"]]
        if tuned:
            over["max-autotune"] = geomean(case["times"][MAX] / case["times"][OURS] for case in tuned)
        lines += ["Networks, geometric mean: " + ", ".join(f"{value:.3f} over {name}" for name, value in over.items()) + ".", ""]
        lines += [*compile_times(nets), ""]
    if alone:
        lines += [*table(every(alone)), ""]
    return "\n".join(lines)


def write(path: Path, times: Sequence[Path]) -> None:
    """Writes the tables."""
    path.write_text(report(read(times)), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), [Path(one) for one in sys.argv[2:]])
