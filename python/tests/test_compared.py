"""The tables of a comparison on a GPU, made from written times."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "gpu"))

import compared

PICK = [["addmm 64×64×64 bfloat16 nt", "model", "64×64×64 s3 w4", []]]


def case(name: str, times: dict[str, float], part: str = "epilogues", **more: Any) -> str:
    return json.dumps(
        {"part": part, "name": name, "gpu": "NVIDIA H100", "torch": "2.11.0", "times": times, "picks": {"ours": PICK}, **more}
    )


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    lines = [
        case("linear, relu", {"no tuning": 20.0, "ours": 40.0, "tile 0": 10.0, "tile 1": 16.0}),
        case("linear, 3-D relu", {"no tuning": 20.0, "ours": 20.0, "tile 0": 40.0}),
    ]
    first.write_text("\n".join(lines))
    networks = case(
        "tower", {"no tuning": 12.0, "ours": 10.0, "max-autotune": 11.0}, "networks", seconds={"no tuning": 1.0, "ours": 2.0}
    )
    before = case("mm, int8 weights", {"no tuning": 30.0, "ours": 20.0}, "prologues")
    scores = case("baddbmm", {"no tuning": 6.0, "ours": 4.0}, "batched")
    second.write_text("\n".join([case("linear, relu", {"no tuning": 20.0, "ours": 12.5}), before, scores, networks]))
    return [first, second]


def test_a_case_is_as_the_last_file_has_it_and_tiles_as_any(files: list[Path]) -> None:
    cases = {case["name"]: case for case in compared.read(files)}
    assert (cases["linear, relu"]["speed"], cases["linear, relu"]["best"]) == (1.6, 2.0)
    assert cases["linear, 3-D relu"]["best"] == 1.0, "no tuning is one of the ways"


def test_the_report_has_what_was_found(files: list[Path], tmp_path: Path) -> None:
    compared.write(tmp_path / "report.md", files)
    text = (tmp_path / "report.md").read_text()
    assert "| with what follows | 2 | 1.265 | 1.00 (linear, 3-D relu) | 0 | 1.414 | 89.4% |" in text
    assert "| of these, with a bias | 1 | 1.500 | 1.50 (baddbmm) | 0 |  |  |" in text
    assert "| with what comes before | 1 | 1.500 | 1.50 (mm, int8 weights) | 0 |  |  |" in text
    assert "| linear, relu | 20.0 | 12.5 | 64×64×64 s3 w4 | 1.60 | 2.00 |" in text
    assert "| tower | 1 of 1 | 12.0 | 10.0 | 11.0 | 1.200 | 1.100 | 1.0 s | 2.0 s |  |" in text
    assert "Networks, geometric mean: 1.200 over no tuning, 1.100 over max-autotune." in text
