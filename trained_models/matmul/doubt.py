"""How much faster must a tile be predicted to be before the plug-in prefers it to the library?

    python trained_models/matmul/doubt.py trained_models/matmul/nvidia-h100

Prints how fast single picks are on the problems in half precision that the model was judged by. Needs torch_diode, but no
GPU.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from torch_diode import Config, Dataset, DiodeError, Model, Problem


def judged(folder: Path) -> Iterator[tuple[Problem, dict[Config, float]]]:
    """The problems with their times. A file with several kinds of hardware is skipped."""
    for path in sorted((folder / "data/validation").iterdir()):
        try:
            dataset = Dataset.load(path)
        except DiodeError as error:
            print(f"passed over: {error}", file=sys.stderr)
            continue
        for problem in dataset.problems:
            times = dict(dataset.times(problem))
            if problem.dtype != "float32" and any(config.is_library for config in times):
                yield problem, times


def main() -> None:
    folder = Path(sys.argv[1])
    [file] = folder.glob("*.safetensors")
    model = Model.load(file)
    speeds: dict[float, list[float]] = {doubt: [] for doubt in (0.0, 0.02, 0.05, 0.07, 0.1)}
    for problem, times in judged(folder):
        choice = model.choose(problem)
        library = next(us for config, us in times.items() if config.is_library)
        for doubt, found in speeds.items():
            first, _ = min([*choice.picks, *choice.near], key=lambda one: one[1] * (1 if one[0].is_library else 1 + doubt))
            if first in times:
                found.append(library / times[first])
    print("| doubt | problems | over the library | worst | below 0.98 |\n| --- | --- | --- | --- | --- |")
    for doubt, found in speeds.items():
        mean = math.exp(statistics.fmean(map(math.log, found)))
        below = sum(speed < 0.98 for speed in found)
        print(f"| {doubt:.0%} | {len(found)} | {mean:.3f} | {min(found):.2f} | {below} |")


if __name__ == "__main__":
    main()
