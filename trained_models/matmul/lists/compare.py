"""Compares two collections of the same problems and configs, file by file: `diode` converts them to CSV.

    python3 trained_models/matmul/lists/compare.py DIODE FIRST SECOND

Prints how many configs took more than 1.3 times as long the one time or the other, the same for those near the best
(within 5 % of it in either, more than 1.15 times as long), how far near-best times differ in the median, and between
which factors a problem's 40 best configs differ in the median.
"""

import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROBLEM = ("op", "b", "m", "n", "k", "a_dtype", "a_layout", "b_layout", "bias")
CONFIG = ("template", "block_m", "block_n", "block_k", "group_m", "num_stages", "num_warps", "even_k", "allow_tf32")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    first, second = (times(sys.argv[1], path) for path in sys.argv[2:])
    both = [problem for problem in first if problem in second]
    if not both:
        sys.exit("the files have no problem in common")
    configs, longer, near_longer, differences, factors = 0, [0, 0], [0, 0], [], []
    for problem in both:
        one, other = first[problem], second[problem]
        shared = [config for config in one if config in other]
        if not shared:
            continue
        best, other_best = min(one[c] for c in shared), min(other[c] for c in shared)
        for config in shared:
            ratio = one[config] / other[config]
            count(longer, ratio, 1.3)
            if one[config] <= 1.05 * best or other[config] <= 1.05 * other_best:
                count(near_longer, ratio, 1.15)
                differences.append(abs(ratio - 1))
        configs += len(shared)
        fastest = sorted(shared, key=other.get)[:40]
        factors.append(statistics.median(one[config] / other[config] for config in fastest))
    print(
        f"{len(both)} problems, {configs} configs; more than 1.3 times as long: {longer[0]} the first time, {longer[1]} the second"
    )
    print(
        f"near the best ({len(differences)}), more than 1.15 times as long: {near_longer[0]} the first time, {near_longer[1]} the second"
    )
    print(f"near-best times differ by {100 * statistics.median(differences):.2f} % in the median")
    print(
        f"first over second, median of a problem's 40 best: {min(factors):.3f} to {max(factors):.3f}, {statistics.median(factors):.3f} in the median"
    )


def count(longer, ratio, limit):
    longer[0] += ratio > limit
    longer[1] += ratio < 1 / limit


def times(diode, path):
    """Times in nanoseconds, by problem and config."""
    found: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "table.csv"
        subprocess.run([diode, "convert", path, str(table)], check=True, capture_output=True)
        with table.open(newline="") as rows:
            for row in csv.DictReader(rows):
                if not row["failure"]:
                    problem = tuple(row[name] for name in PROBLEM)
                    found.setdefault(problem, {})[tuple(row[name] for name in CONFIG)] = int(row["time_ns"])
    return found


if __name__ == "__main__":
    main()
