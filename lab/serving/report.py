"""The measured data in short: the best tile over what runs untuned, by batch size.

python3 report.py FOLDER [KIND…]
"""

import sys
from pathlib import Path

import numpy as np

import configs
from judge import Data, mean

SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def main():
    folder = sys.argv[1]
    for name in sys.argv[2:] or [one for one in configs.KINDS if (Path(folder) / f"{one}.npz").exists()]:
        data = Data(folder, name)
        ratios = {}
        for problem, times in zip(data.problems, data.total, strict=True):
            named = {key: times[at] for key, at in problem["named"].items() if not key.startswith("sglang file")}
            for rival, value in {**problem["rivals"], **named}.items():
                ratios.setdefault(rival, {}).setdefault(problem["m"], []).append(value / np.nanmin(times))
        kept = sum(one["kept"] for one in data.problems)
        timings = int(np.isfinite(data.times).sum())
        print(
            f"{name}: {len(data.problems)} problems, {kept} of them of kept models, {len(data.configs)} configs, {timings} times"
        )
        for rival, by_batch in ratios.items():
            shown = [
                f"{m}: {mean(by_batch[m]):.2f} ({min(by_batch[m]):.2f}–{max(by_batch[m]):.2f})" for m in SHOWN if m in by_batch
            ]
            print(f"  over {rival}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
