"""What follows a multiplication: its times of a comparison, beside the costs that the plug-in counts.

    python python/tests/gpu/costs.py nvidia-h200 times.jsonl

Says which costs fit the times best, where the plug-in's are furthest from the times, and what its decisions come to on
those cases. The file is one of `comparison.py`, of `epilogues` and `alone` with their tiles. No GPU is needed. Of a case
that the file has twice, the later line counts.
"""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compared import CLEARLY, NONE, geomean

from torch_diode import Config, Hardware, Problem, models
from torch_diode._core import Costs, Epilogue
from torch_diode.heuristics import Request
from torch_diode.heuristics.model import ModelHeuristic

FUNCTIONS = {"gelu": "erf", "tanh gelu": "tanh", "silu × gate": "exp"}
FITTED = ("gap_us", "bytes_per_us", "erfs_per_us", "read_us", "erf_us", "crowded_erf_us", "few_warps", "lost_occupancy")
WEIGHED = 8


@dataclasses.dataclass(frozen=True)
class Case:
    """A multiplication with or without an epilogue."""

    name: str
    alone: str | None
    problem: Problem
    rounds: bool
    """Whether float32 is rounded to TF32."""
    epilogue: Epilogue | None
    """``None`` also if a norm takes the epilogue into its own kernel."""
    none_us: float
    tiles: Mapping[str, tuple[Config, float]]


@dataclasses.dataclass(frozen=True)
class Added:
    """The time that an epilogue adds to a kernel."""

    name: str
    epilogue: Epilogue
    problem: Problem
    tile: Config | None
    """``None`` for the library."""
    alone_us: float
    us: float

    def error(self, costs: Costs) -> float:
        """By which share of the whole time the costs differ from the measured time."""
        if self.tile is None:
            counted = costs.separate_us(self.epilogue)
        else:
            counted = costs.fused_us(self.epilogue, self.problem, self.tile, self.alone_us)
        return (counted - self.us) / (self.alone_us + self.us)


def read(path: Path) -> dict[str, Case]:
    """The cases of a file for which tiles were timed."""
    found = {}
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        sizes = re.match(r"(linear|mm) (\d+)×(\d+)×(\d+) (\w+)(?:, (.*))?$", line["name"])
        tiles = dict(_tiles(line))
        if sizes and tiles and line["part"] != "prologues":
            linear, (m, n, k), rounds = sizes[1] == "linear", map(int, sizes.groups()[1:4]), sizes[5] == "tf32"
            dtype = "float32" if rounds else sizes[5]
            problem = Problem("mm", m, n, k, dtype)
            if linear:
                problem = Problem("addmm", m, n, k, dtype, b_layout="column", bias="vector")
            following = _epilogue(m * n, 4 if rounds else 2, sizes[6]) if sizes[6] else None
            found[line["name"]] = Case(line["name"], line["alone"], problem, rounds, following, line["times"][NONE], tiles)
    return found


def _tiles(line: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Config, float]]]:
    for method, us in line["times"].items():
        notes = (line["picks"] or {}).get(method)
        if method.startswith("tile ") and notes and isinstance(notes[0], list):
            m, n, k, stages, warps = map(int, re.findall(r"\d+", notes[0][2]))
            tile = Config(block_m=m, block_n=n, block_k=k, num_stages=stages, num_warps=warps, group_m=8)
            yield notes[0][2], (tile, us)


def _epilogue(elements: int, size: int, name: str) -> Epilogue | None:
    name = name.removeprefix("3-D ")
    if "norm" in name:
        return None
    function = (FUNCTIONS[name],) if name in FUNCTIONS else ("add",)
    product = size * elements
    read = product if name in ("residual", "silu × gate") else 0
    written = 2 * product if "fp32" in name else product
    return Epilogue(function, elements, product, read, written, keeps_product="both" in name)


def added(cases: Mapping[str, Case]) -> Iterator[Added]:
    """What the epilogues add, if the same kernel was timed without them."""
    for case in cases.values():
        alone = cases.get(case.alone or "")
        if alone is None or case.epilogue is None:
            continue
        yield Added(case.name, case.epilogue, case.problem, None, alone.none_us, case.none_us - alone.none_us)
        for label, (tile, us) in case.tiles.items():
            if label in alone.tiles:
                before = alone.tiles[label][1]
                yield Added(f"{case.name} in {label}", case.epilogue, case.problem, tile, before, us - before)


def loss(costs: Costs, times: Sequence[Added]) -> float:
    """The mean error. A time of the library weighs as much as those of its tiles, and no error counts as more than 15 %."""
    return statistics.fmean(min(abs(one.error(costs)), 0.15) * (WEIGHED if one.tile is None else 1) for one in times)


def changed(costs: Costs, name: str, factor: float) -> Costs:
    """The same costs with one of them changed."""
    return Costs(costs.hardware, **{other: getattr(costs, other) * (factor if other == name else 1) for other in FITTED})


def fitted(costs: Costs, times: Sequence[Added]) -> Costs:
    """Changes one cost after the other as long as that reduces the error."""
    best = loss(costs, times)
    for _ in range(6):
        for name in FITTED:
            for factor in (0.8, 0.9, 0.95, 1.05, 1.1, 1.25):
                other = changed(costs, name, factor)
                if (off := loss(other, times)) < best:
                    costs, best = other, off
    return costs


def decided(case: Case, heuristic: ModelHeuristic, hardware: Hardware) -> tuple[str, float | None]:
    """What is picked for a case, and its speed over no tuning. The speed is ``None`` if that tile was not timed."""
    request = Request(
        problem=case.problem,
        hardware=hardware,
        device_name=hardware.name,
        shared_memory=hardware.shared_memory,
        tf32=case.rounds,
        tiles_tf32=case.rounds,
        top_k=1,
        min_confidence=None,
        performance_threshold=None,
        cache_predictions=True,
        pick_unjudged=False,
        epilogue=case.epilogue,
    )
    answer = heuristic.answer(request)
    assert answer is not None
    first = answer.candidates[0].config
    timed = case.tiles.get(first.label)
    return first.label, 1.0 if first.is_library else case.none_us / timed[1] if timed else None


def main() -> None:
    slug, path = sys.argv[1], Path(sys.argv[2])
    hardware, model = Hardware.find(slug), models.for_hardware(slug)
    costs = Costs.of(hardware) if hardware else None
    if hardware is None or costs is None or model is None:
        raise SystemExit(f"{slug}: there are no costs or no model of it")
    heuristic = ModelHeuristic([model])
    cases = read(path)
    times = list(added(cases))
    best = fitted(costs, times)
    print(f"{len(times)} times; off by {loss(costs, times):.4f}, fitted ones by {loss(best, times):.4f}:")
    for name in FITTED:
        print(f"  {name}: {getattr(costs, name):.3g}, fitted {getattr(best, name):.3g}")
    print("furthest off, by shares of the whole time:")
    for one in sorted(times, key=lambda one: -abs(one.error(costs)))[:12]:
        print(f"  {one.error(costs):+.2f} {one.name}: adds {one.us:.2f} µs")
    for part in ("alone", "with what follows"):
        given = [case for case in cases.values() if (case.alone is None) == (part == "alone")]
        found = [(case, *decided(case, heuristic, hardware)) for case in given]
        speeds = [(speed, case.name, label) for case, label, speed in found if speed is not None]
        if speeds:
            print(f"{part}: {geomean(speed for speed, *_ in speeds):.3f} over no tuning, {len(speeds)} of {len(found)} cases")
            for speed, name, label in sorted(speeds):
                if speed < CLEARLY:
                    print(f"  {speed:.3f} {name}: {label}")


if __name__ == "__main__":
    main()
