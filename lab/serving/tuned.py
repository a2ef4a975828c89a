"""How much faster `diode tune`'s files are than a server's defaults, with the server's own kernel on this GPU.

python3 tuned.py run DIODE OUT.json [--for vllm|sglang] [--consumer FOLDER] [--published FOLDER] [--seconds N]
python3 tuned.py report OUT.json

FOLDER holds the server's package, or its experts kernel's file and its configs. `run` measures six models that the H200's model has not
learnt, in two forms each, by `diode tune --measure`; the rounds of its journals compare what was predicted, what vLLM publishes
and what was chosen. Gains of measured files are of the rounds that chose them, so `run` ends with fresh times of those files.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

FORMS = ("bf16", "fp8-block")
CASES = {
    "bf16": ["OLMoE-1B-7B", "Qwen3-30B-A3B", "Mixtral-8x22B", "GLM-4.5-Air", "Qwen3-Next-80B-A3B", "MiniMax-M2"],
    "fp8-block": ["DeepSeek-V3", "MiniMax-M2", "Qwen3-30B-A3B", "Qwen3-Next-80B-A3B", "Mixtral-8x22B", "OLMoE-1B-7B"],
}
SPLIT = {("Qwen3-Next-80B-A3B", "bf16"): 2, "DeepSeek-V3": 8, "MiniMax-M2": 4, "Mixtral-8x22B": 4, "GLM-4.5-Air": 4}
TILE = ("block_m", "block_n", "block_k", "group_m", "num_warps", "num_stages")
PACKAGES = {
    "vllm": "vllm/model_executor/layers/fused_moe/configs",
    "sglang": "sglang/srt/layers/moe/moe_runner/triton_utils",
}
ENDS_BEFORE = 30  # seconds that one more case may take


def key(config):
    return tuple(config[name] for name in TILE)


def rounds_of(journal):
    """The rounds of each launch, by batch size, stage and config."""
    times = {}
    for line in journal.read_text().splitlines()[1:]:
        entry = json.loads(line)
        for launch, outcome in entry["launches"]:
            if "us" in outcome:
                times[entry["batch"], launch["stage"], key(launch["config"])] = outcome["us"]
    return times


def gains_of(predicted, measured, times):
    """The default's time over that of each file's configs, by batch size."""

    def total(batch, config, down=None):
        parts = [times.get((batch, stage, key(one))) for stage, one in enumerate((config, down or config))]
        return [up + down for up, down in zip(*parts, strict=True)] if all(parts) else None

    gains = {"predicted": {}, "published": {}, "measured": {}}
    for before, after in zip(predicted["layers"][0]["batches"], measured["layers"][0]["batches"], strict=True):
        batch = before["batch_size"]
        default = total(batch, before["default"])
        if default is None or not after.get("measured"):
            continue
        files = {"predicted": before, "measured": after, "published": after.get("published")}
        for name, file in files.items():
            if file and (mine := total(batch, file["config"], file.get("down"))):
                gains[name][batch] = statistics.median(a / b for a, b in zip(default, mine, strict=True))
    return gains


class Tuner:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.environment = {**os.environ, "PYTHONPATH": options.consumer or os.environ.get("PYTHONPATH", "")}

    def __call__(self, name, form, *more):
        split = SPLIT.get((name, form), SPLIT.get(name, 1))
        line = [self.options.diode, "tune", name, "--tp", str(split), "--quantization", form, "--hardware", "nvidia-h200"]
        line += ["--for", self.options.server]
        began = time.monotonic()
        done = subprocess.run(
            [*line, "--format", "json", *more], check=False, capture_output=True, text=True, env=self.environment, cwd=self.folder
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(line)} {' '.join(more)}: exit code {done.returncode}: {done.stderr[-800:]}")
        return json.loads(done.stdout), time.monotonic() - began


def run(options):
    folder = Path(tempfile.mkdtemp())
    tune, until = Tuner(options, folder), time.monotonic() + options.seconds
    published = ["--published", options.published] if options.published else []
    cases = []
    for name, form in [(name, form) for form, names in CASES.items() for name in names]:
        if time.monotonic() + ENDS_BEFORE > until:
            print(f"no time for {name} in {form}", flush=True)
            continue
        label = f"{name}-{form}"
        predicted, _ = tune(name, form, "--out", f"{label}/predicted")
        measured, seconds = tune(name, form, "--measure", "--out", f"{label}/measured", *published)
        gains = gains_of(predicted, measured, rounds_of(folder / label / "measured" / "measured.jsonl"))
        case = {
            "name": name,
            "form": form,
            "seconds": seconds,
            "kernel": measured.get("kernel"),
            "files": measured["files"],
            "gains": gains,
        }
        cases.append(case)
        print(f"{label}: {seconds:.1f} s, {case['kernel']}", flush=True)
        Path(options.out).write_text(json.dumps(cases))
    for case in cases:
        if time.monotonic() + ENDS_BEFORE / 2 > until:
            break
        # The files that were just measured stand in for the published ones.
        label = f"{case['name']}-{case['form']}"
        package = folder / label / "again" / PACKAGES[options.server]
        for file in case["files"]:
            copy = package / Path(file).relative_to(f"{label}/measured")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text((folder / file).read_text())
        again = ["--out", f"{label}/again-measured", "--published", f"{label}/again/{options.server}"]
        told, _ = tune(case["name"], case["form"], "--measure", "--picks", "1", *again)
        timed = [one for one in told["layers"][0]["batches"] if one.get("measured") and one["measured"]["published_us"]]
        case["gains"]["measured, again"] = {
            one["batch_size"]: one["measured"]["default_us"] / one["measured"]["published_us"] for one in timed
        }
        Path(options.out).write_text(json.dumps(cases))


def report(options):
    cases = json.loads(Path(options.out).read_text())
    for form in FORMS:
        for name in ("predicted", "published", "measured", "measured, again"):
            of_form = [case["gains"].get(name, {}) for case in cases if case["form"] == form]
            gains = [gain for found in of_form for gain in found.values()]
            if gains:
                mean = math.exp(statistics.fmean(map(math.log, gains)))
                slower = sum(gain < 0.985 for gain in gains)
                print(
                    f"{form:10} {name:16} {len(gains):4} batch sizes, {mean:.4f}, worst {min(gains):.4f}, below 0.985: {slower}"
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("diode")
    running.add_argument("out")
    running.add_argument("--for", dest="server", choices=PACKAGES, default="vllm")
    running.add_argument("--consumer")
    running.add_argument("--published")
    running.add_argument("--seconds", type=float, default=600)
    running.set_defaults(act=run)
    reporting = commands.add_parser("report")
    reporting.add_argument("out")
    reporting.set_defaults(act=report)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
