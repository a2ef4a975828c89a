"""Compares two collections of the same problems: how well does a measurement repeat?

    diode convert first.msgpack.zst first.csv --lossy
    diode convert second.msgpack.zst second.csv --lossy
    python lab/timing/compare_collections.py first.csv second.csv

Near-best configs are those that either collection timed within 5 % of its best. Where
the best configs of the two collections differ, that is a tie if in each collection the
difference of their times is within their spread (interquartile range).
"""

import argparse
import csv
import statistics

SUBJECT = ("op", "b", "m", "n", "k", "a_dtype", "a_layout", "b_layout", "bias")
CONFIG = ("template", "block_m", "block_n", "block_k", "group_m", "num_stages", "num_warps", "even_k", "allow_tf32")
NEAR = 1.05


def read(path):
    """Time and spread in nanoseconds by config, by problem."""
    problems: dict[tuple[str, ...], dict[tuple[str, ...], tuple[float, float]]] = {}
    with open(path, newline="") as file:
        rows = csv.DictReader(file)
        missing = {*SUBJECT, *CONFIG, "time_ns", "spread_ns"} - set(rows.fieldnames or ())
        if missing:
            raise ValueError(f"{path}: got a CSV without {', '.join(sorted(missing))}, expected one that `diode convert` made")
        for row in rows:
            if row["time_ns"] and row["template"] != "aten":
                times = problems.setdefault(tuple(row[field] for field in SUBJECT), {})
                times[tuple(row[field] for field in CONFIG)] = int(row["time_ns"]), int(row["spread_ns"])
    return problems


def near(times):
    limit = NEAR * min(time for time, _ in times.values())
    return {config for config, (time, _) in times.items() if time <= limit}


def within_spread(times, one, other):
    (a, spread_a), (b, spread_b) = times[one], times[other]
    return abs(a - b) <= max(spread_a, spread_b)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", help="one collection, as CSV")
    parser.add_argument("second", help="the other")
    options = parser.parse_args()
    try:
        first, second = read(options.first), read(options.second)
    except (OSError, ValueError) as error:
        parser.exit(1, f"error: {error}\n")
    if not first.keys() & second.keys():
        parser.exit(1, f"error: {options.first} and {options.second} have no problem in common\n")
    differences, same, ties, others = [], 0, 0, []
    for problem in sorted(first.keys() & second.keys()):
        a, b = first[problem], second[problem]
        both = a.keys() & b.keys()
        for config in (near(a) | near(b)) & both:
            differences.append(abs(a[config][0] / b[config][0] - 1))
        best_a, best_b = (min(both, key=lambda config: times[config][0]) for times in (a, b))
        if best_a == best_b:
            same += 1
        elif within_spread(a, best_a, best_b) and within_spread(b, best_a, best_b):
            ties += 1
        else:
            others.append((problem, best_a, best_b, a[best_b][0] / a[best_a][0] - 1, b[best_a][0] / b[best_b][0] - 1))
    print(f"{same + ties + len(others)} problems, {len(differences)} near-best configs")
    print(f"near-best times differ by {100 * statistics.median(differences):.2f} % in the median")
    print(f"the best config is the same on {same}, within the spread of its times on {ties}, another on {len(others)}")
    for problem, _, _, loss_a, loss_b in others:
        print(f"  {' '.join(problem[:5])}: {100 * loss_a:.1f} % and {100 * loss_b:.1f} % apart")


if __name__ == "__main__":
    main()
