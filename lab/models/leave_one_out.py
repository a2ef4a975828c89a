"""How many problems of a new GPU make a good model, when another GPU is known.

    python3 lab/models/leave_one_out.py target/release/diode nvidia-h100 --beside nvidia-h200

Draws problems from the data of one GPU, takes it for new, and trains models from them alone and beside all
data of the other GPU. Every model is judged by the new GPU's validation files, with the library, one pick.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import subprocess
import tempfile

MODELS = pathlib.Path(__file__).parents[2] / "trained_models/matmul"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("diode", type=pathlib.Path, help="the program, built")
    parser.add_argument("new", help="the GPU that is taken for new")
    parser.add_argument("--beside", required=True, help="the GPU that is known")
    parser.add_argument("--problems", type=int, nargs="+", default=[20, 50, 100, 300])
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--at-once", type=int, default=1, help="trainings that run side by side")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
        trials = Trials(given, pathlib.Path(folder))
        rows = [("none, the other's model stands in", [pool.submit(trials.stand_in)])]
        for count in [*given.problems, None]:
            name = str(count or "all")
            for words, beside in (("alone", False), ("beside", True)):
                trained = [pool.submit(trials.train, count, seed, beside) for seed in given.seeds]
                rows.append((f"{name}, {words}", trained))
        kinds = sorted(trials.validation)
        print("| problems | all |", " | ".join(kinds), "|")
        print("|---" * (len(kinds) + 2) + "|")
        for name, futures in rows:
            reports = [future.result() for future in futures]
            by_kind = " | ".join(mean(reports, kind) for kind in kinds)
            print(f"| {name} | {mean_of_all(reports)} | {by_kind} |", flush=True)


class Trials:
    def __init__(self, given, folder):
        self.diode, self.folder = given.diode.resolve(), folder
        self.new, self.known = MODELS / given.new, MODELS / given.beside
        self.name = given.new
        judged_by = sorted((self.new / "data/validation").glob("*.zst"))
        self.validation = {path.name.split(".")[0].split("-", 1)[1]: path for path in judged_by}
        self.files = {}
        for path in sorted((self.new / "data").glob("*.zst")):
            text = folder / f"{path.name}.csv"
            self.run("convert", path, text)
            self.files[path.name] = by_problem(text)

    def run(self, *arguments):
        return subprocess.run([self.diode, *map(str, arguments)], check=True, capture_output=True, text=True).stdout

    def stand_in(self):
        return self.judge(next(self.known.glob("*.safetensors")), "--as", self.name)

    def train(self, count, seed, beside):
        model = self.folder / f"{count}-{seed}-{beside}.safetensors"
        data = [*(self.new / "data").glob("*.zst")] if count is None else self.draw(count, seed, model.with_suffix(""))
        related = ["--related", *(self.known / "data").glob("*.zst")] if beside else []
        self.run("train", "--folds", 0, "--seed", seed, "--model", model, "--data", *data, *related)
        return self.judge(model)

    def draw(self, count, seed, folder):
        """Writes files with this many problems, drawn from all problems of the new GPU."""
        folder.mkdir()
        everything = [(name, problem) for name, (_, problems) in self.files.items() for problem in problems]
        drawn = random.Random(seed).sample(everything, count)
        written = []
        for name in sorted({name for name, _ in drawn}):
            heading, problems = self.files[name]
            rows = [row for other, problem in drawn if other == name for row in problems[problem]]
            written.append(folder / f"{name}.csv")
            written[-1].write_text("".join([heading, *rows]))
        return written

    def judge(self, model, *more):
        evaluate = ["evaluate", "--model", model, "--json", *more, "--dataset"]
        return {kind: json.loads(self.run(*evaluate, path)) for kind, path in self.validation.items()}


def by_problem(text):
    """The heading of a CSV file, and its rows by the two numbers that name the timings of one problem."""
    with text.open() as lines:
        heading, problems = next(lines), {}
        for line in lines:
            problems.setdefault(tuple(line.split(",", 2)[:2]), []).append(line)
    return heading, problems


def share(report):
    return report["with_library"]["top_k"]["1"]["geomean"]


def mean(reports, kind):
    return f"{100 * sum(share(report[kind]) for report in reports) / len(reports):.1f}"


def mean_of_all(reports):
    """The geometric mean over all problems of all kinds."""
    logs = [(report["problems"], math.log(share(report))) for reports_of in reports for report in reports_of.values()]
    return f"{100 * math.exp(sum(n * log for n, log in logs) / sum(n for n, _ in logs)):.2f}"


if __name__ == "__main__":
    main()
