"""Measures the same kernels' configs with Inductor and with diode, and compares.

    python lab/timing/compare_with_inductor.py --diode target/release/diode --kernels h200.pack

needs torch 2.11 and a GPU. For each problem, diode times the whole space. About a
hundred configs, the best of that ranking and others evenly over the rest of it, are
then compiled for the problem's sizes alone (`diode kernels build --exact-sizes`) and
timed once more. The same are benchmarked by Inductor's own autotuning and read off its
feedback savers. That is its first look, on a GPU that has idled through the compilation,
where many short kernels seem slower than they are. So the same choices are benchmarked
again, each time in another order, and those repeats are what counts. Inductor reports
the shortest of its launches, so diode's shortest is compared with it.

The table says how well the rankings agree, how well Inductor's repeats agree with one
another and its first look with them, and what diode's best config (by its median, which
is what diode reports) is worth to Inductor beside the best of these configs.
"""

import argparse
import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

PROBLEMS = [  # what, M, N, K, layout of B
    ("small", 512, 512, 512, "n"),
    ("decode", 16, 4096, 4096, "n"),
    ("decode, nn.Linear", 1, 11008, 4096, "t"),
    ("square", 4096, 4096, 4096, "n"),
    ("square, nn.Linear", 2048, 2048, 2048, "t"),
    ("tall K", 128, 128, 4096, "n"),
    ("K with a rest", 2384, 2304, 1072, "n"),
    ("skinny", 8192, 64, 1024, "n"),
    ("unaligned", 1000, 1001, 1003, "n"),
]
DENSE, SPREAD = 30, 70
REPEATS = 3
FIELDS = ("block_m", "block_n", "block_k", "num_stages", "num_warps")


class Failed(Exception):
    """What diode could not do."""


def diode(*command):
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode != 0:
        said = ran.stderr.strip().splitlines()
        raise Failed(said[-1] if said else f"it ended with {ran.returncode}")


def write_problem(folder, m, n, k, layout):
    path = os.path.join(folder, "problem.json")
    problem = {
        "op": "mm",
        "b": 1,
        "m": m,
        "n": n,
        "k": k,
        "a_dtype": "bfloat16",
        "b_dtype": "bfloat16",
        "out_dtype": "bfloat16",
        "a_layout": "row",
        "b_layout": "row" if layout == "n" else "column",
        "bias": "none",
    }
    with open(path, "w") as file:
        json.dump([problem], file)
    return path


def diode_times(options, folder, problem, space, packs):
    """Milliseconds by config, from diode: median and minimum."""
    output, table = os.path.join(folder, "out.msgpack.zst"), os.path.join(folder, "out.csv")
    for file in (output, table):
        if os.path.exists(file):
            os.remove(file)
    command = [options.diode, "collect", "--problems", problem, "--output", output, "--space", space]
    if options.cublas:
        command += ["--cublas", options.cublas]
    for number, pack in enumerate(packs, 1):
        try:
            diode(*command, "--kernels", pack)
            break
        except Failed:
            # A pack that was built without this problem's kernels measures nothing.
            if number == len(packs):
                raise
    diode(options.diode, "convert", output, table, "--lossy")
    with open(table, newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["template"] == "triton::mm" and row["time_ns"]]
    return {
        tuple(int(row[field]) for field in FIELDS): (float(row["time_ns"]) / 1e6, float(row["minimum_ns"]) / 1e6) for row in rows
    }


def exact_times(options, folder, problem, k, configs):
    """The same of kernels that are compiled for the problem's sizes alone."""
    space, pack = os.path.join(folder, "configs.json"), os.path.join(folder, "exact.pack")
    rest = {"template": "triton::mm", "group_m": 8, "allow_tf32": False, "use_fast_accum": False, "acc_type": "tl.float32"}
    rows = [dict(rest, **dict(zip(FIELDS, config, strict=True)), even_k=k % config[2] == 0) for config in configs]
    with open(space, "w") as file:
        json.dump(rows, file)
    diode(
        options.diode,
        "kernels",
        "build",
        "--arch",
        options.arch,
        "--problems",
        problem,
        "--exact-sizes",
        "--space",
        space,
        "--out",
        pack,
        "--python",
        sys.executable,
    )
    return diode_times(options, folder, problem, space, [pack])


def inductor_times(configs, m, n, k, layout):
    """Milliseconds by config, of several runs: Inductor's feedback, then its choices again in other orders."""
    import torch
    from torch._inductor import config, select_algorithm
    from torch._inductor.choices import InductorChoices
    from torch._inductor.kernel_template_choice import KernelTemplateChoice
    from torch._inductor.template_heuristics.params import DictKernelTemplateParams
    from torch._inductor.virtualized import V

    class Given(InductorChoices):
        def _finalize_template_configs(self, template_choices, kernel_inputs, templates, op_name, kwarg_overrides=None):
            base = next(template_choices["triton::mm"])
            made = []
            for block_m, block_n, block_k, stages, warps in configs:
                values = base.params.to_kwargs()
                values.update(
                    BLOCK_M=block_m,
                    BLOCK_N=block_n,
                    BLOCK_K=block_k,
                    GROUP_M=8,
                    num_stages=stages,
                    num_warps=warps,
                    EVEN_K=k % block_k == 0,
                )
                made.append(
                    KernelTemplateChoice(
                        base.template, DictKernelTemplateParams(values), base.extra_kwargs, base.layout, base.inputs
                    )
                )
            return made

    found, kept = {}, {}

    def config_of(choice):
        values = choice.annotations["ktc"].params.to_kwargs()
        return tuple(values[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps"))

    def save(timings, name, nodes, choices, profiled=None, precompile=None):
        for choice, time in timings.items():
            if math.isfinite(time):
                found[config_of(choice)], kept[config_of(choice)] = time, choice

    torch._dynamo.reset()
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    if layout == "t":
        b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).t()
    settings = {
        "max_autotune_gemm": True,
        "fx_graph_cache": False,
        "autotune_local_cache": False,
        "shape_padding": False,
        "autotune_num_choices_displayed": 0,
    }
    select_algorithm.add_feedback_saver(save)
    try:
        with config.patch(settings), V.set_choices_handler(Given()):
            torch.compile(lambda x, y: x @ y)(a, b)
        torch.cuda.synchronize()
    finally:
        select_algorithm.clear_feedback_savers()
    runs, c = [found], torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    for number in range(1, REPEATS + 1):
        order = list(kept)
        random.Random(number).shuffle(order)
        runs.append({config: kept[config].benchmark(a, b, out=c) for config in order})
    return runs


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            result[place] = (start + end) / 2
        start = end + 1
    return result


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    return product / math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))


def chosen(times):
    """The best configs, and others evenly over the ranking, to its end."""
    ranking = sorted(times, key=times.get)
    rest = ranking[DENSE:]
    if len(rest) <= SPREAD:
        return ranking
    return ranking[:DENSE] + [rest[place * (len(rest) - 1) // (SPREAD - 1)] for place in range(SPREAD)]


def row(what, m, n, k, _layout, times):
    """A row of the table: the median and the shortest time by packs and by exact sizes, and Inductor's runs."""
    packs, exact, first, repeats = times[:2], times[2:4], times[4], times[5:]
    mean = lambda values: sum(values) / len(values)
    itself = mean([spearman(a, b) for place, a in enumerate(repeats) for b in repeats[:place]])
    first_look = mean([spearman(first, run) for run in repeats])
    middle = [statistics.median(by_run) for by_run in zip(*repeats, strict=True)]
    cells = [f"{what} | {m}×{n}×{k} | {len(middle)} | {itself:.3f} | {first_look:.3f}"]
    for median, shortest in (packs, exact):
        best = min(range(len(median)), key=median.__getitem__)
        agreement = mean([spearman(shortest, run) for run in repeats])
        cells.append(f"{agreement:.3f} | {100 * min(middle) / middle[best]:.1f} %")
    return f"| {' | '.join(cells)} |"


def write_json(path, value):
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)


def measured(options, folder, m, n, k, layout):
    """The configs that all could time, and columns of times: median and shortest of both kinds of kernels, Inductor's."""
    problem = write_problem(folder, m, n, k, layout)
    packs = diode_times(options, folder, problem, options.space, options.kernels)
    configs = chosen({config: median for config, (median, _) in packs.items()})
    exact = exact_times(options, folder, problem, k, configs)
    random.Random(0).shuffle(configs)
    runs = inductor_times(configs, m, n, k, layout)
    common = [config for config in configs if config in exact and all(config in run for run in runs)]
    columns = [[kernels[config][which] for config in common] for kernels in (packs, exact) for which in (0, 1)]
    return common, columns + [[run[config] for config in common] for run in runs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diode", required=True, help="the diode program")
    parser.add_argument(
        "--kernels", required=True, action="append", help="a kernel pack for bfloat16 mm, nn and nt; several are tried in turn"
    )
    parser.add_argument("--arch", default="sm_90", help="what kernels of exact sizes are compiled for")
    parser.add_argument("--cublas", help="folder with cuBLAS")
    parser.add_argument("--space", default="full", help="which configs diode times")
    parser.add_argument("--json", help="file for every time, as they come; what it holds of the same space is not measured again")
    options = parser.parse_args()
    kept, failed = [], False
    if options.json and os.path.exists(options.json):
        with open(options.json) as file:
            kept = json.load(file)
    print(
        "| problem | M×N×K | configs | Inductor with itself | its first look | packs with Inductor | their best "
        "| exact sizes with Inductor | their best |"
    )
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for problem in PROBLEMS:
            asked = {"problem": list(problem), "space": options.space, "arch": options.arch}
            found = next((entry for entry in kept if all(entry.get(key) == asked[key] for key in asked)), None)
            if found is None:
                try:
                    configs, times = measured(options, folder, *problem[1:])
                except Failed as error:
                    what, m, n, k, _ = problem
                    print(f"| {what} | {m}×{n}×{k} | diode failed: {error} |", flush=True)
                    failed = True
                    continue
                found = {**asked, "configs": configs, "times": times}
                kept.append(found)
                if options.json:
                    write_json(options.json, kept)
            print(row(*problem, found["times"]), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
