"""Times every config of every problem of some kinds, coarsely and then finely, within a budget of seconds.

python3 measure.py --out FOLDER --cubins FOLDER scaled_mm_row=120 fused_moe_bf16=100 …     (seconds for each kind)

A file that is already in the folder is continued. METHOD says how times are taken; it is written into each file.
"""

import argparse
import json
import math
import os
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

import configs
import cubins
import problems
import work
from device import Device

METHOD = (
    "Operands, weights and outputs rotate through copies with at least five L2s of traffic between two uses (cold L2). Coarse: one "
    "batch of launches between two events. Fine (state 2): CUDA graphs of a row of launches, in rounds by turns, median of rounds, "
    "less the measured start of a graph; coarse times are shifted by the median difference on the configs that have both. "
    "Experts and groups: uniformly random top-k without repeats, 8 routings by turns, sorted lists made beforehand."
)
UNTRIED, COARSE, FINE, SLOW, FAILED, SPILLED, WRONG = range(7)
SPILL = 256  # bytes of stack per thread, above which a tile is left out; Inductor runs such tiles all the same


class Kind:
    """The results of a kind so far, and the configs' standing on like problems."""

    def __init__(self, name, folder):
        self.name, self.path = name, Path(folder) / f"{name}.npz"
        self.tiles = configs.tiles_of(name)
        self.groups = configs.KINDS[name]["groups"]
        self.configs = [(tile, group) for tile in self.tiles for group in self.groups]
        self.index = {
            (tuple(tile[1:6]), group): at for at, (tile, group) in enumerate(self.configs) if not tile[0].endswith("tma")
        }
        self.done, self.times, self.states, self.provenance = [], [], [], []
        self.standing = defaultdict(lambda: np.zeros((2, len(self.configs))))  # by rows: sum of log ratios to the best, count
        if self.path.exists():
            held = np.load(self.path)
            if json.loads(str(held["configs"])) == json.loads(json.dumps(self.configs)):
                self.done = json.loads(str(held["problems"]))
                self.times, self.states = list(held["times"]), list(held["states"])
                self.provenance = json.loads(str(held["provenance"]))
                for one, times in zip(self.done, self.times, strict=True):
                    self.learn(one, times)

    def learn(self, problem, times):
        total = times.sum(axis=0)
        if np.isfinite(total).any():
            ratio = np.log(total / np.nanmin(total))
            known = np.isfinite(ratio)
            sums = self.standing[bucket(problem)]
            sums[0, known] += np.minimum(ratio[known], 2)
            sums[1, known] += 1

    def save(self, provenance):
        if not self.done:
            return
        fields = {
            "configs": json.dumps(self.configs),
            "problems": json.dumps(self.done),
            "provenance": json.dumps([*self.provenance, provenance]),
        }
        new = self.path.with_suffix(".new.npz")
        np.savez_compressed(new, times=np.array(self.times, np.float32), states=np.array(self.states, np.uint8), **fields)
        new.rename(self.path)


def bucket(problem):
    rows = problem["m"] * problem.get("top_k", 1) / problem.get("experts", 1)
    return round(math.log2(max(rows, 0.25))), problem["stages"][0][0] >= 8192


class Session:
    def __init__(self, folder, cubins, seconds):
        self.folder, self.cubins, self.until = folder, cubins, time.time() + seconds
        self.device = Device()
        self.launches = 0
        self.start_us = 0.0
        self.start_us = self.graph_start()

    def graph_start(self):
        """µs between two events around a graph, besides its launches: from graphs of 1 and of 33 small copies."""
        small = torch.empty(1024, device="cuda")
        graphs = [self.device.torch_graph(lambda turn: small.add_(1), times) for times in (1, 33)]
        one, many = (float(np.median(rounds)) for rounds in self.device.replay(graphs, 30))
        each = (many - one) / 32
        print(f"a graph starts in {one - each:.2f} µs, an empty launch takes {each:.2f} µs", flush=True)
        return max(0.0, one - each)

    def functions(self, kind, problem):
        """(handle, facts) of each tile, for both stages."""
        found = []
        for _, k in problem["stages"]:
            variants = [configs.variant_of(kind.name, tile, k % tile[3] == 0) for tile in kind.tiles]
            found.append([self.device.function(self.cubins, one) for one in variants])
        return found

    def check(self, kind, problem):
        """Runs every tile once on a problem, and returns those whose result is wrong. Also loads all code."""
        wrong, worst = set(), 0.0
        functions = self.functions(kind, problem)
        for stage, found in zip(work.stages(self.device, kind.name, problem), functions, strict=True):
            reference = stage.reference()
            out = stage.c.tensor()
            for tile, (handle, about) in zip(kind.tiles, found, strict=True):
                if handle is None:
                    continue
                out.fill_(float("nan"))
                torch.cuda.synchronize()
                self.device.once(stage.launch(handle, about, tile, 4))
                error = float((out.float() - reference).norm() / reference.norm())
                worst = max(worst, error if error < 0.01 else 0.0)
                if not error < 0.01:
                    wrong.add(tile)
                    print(f"WRONG {kind.name} {tile} {problem['stages']}: {error:.3g}", flush=True)
            for name, call in stage.rivals().items():
                if kind.name in ("scaled_mm_row", "scaled_mm_tensor"):
                    call(0)
                    print(f"{name}: error {float((out.float() - reference).norm() / reference.norm()):.2g}", flush=True)
        print(
            f"{kind.name}: {len(kind.tiles)} tiles checked, {len(wrong)} wrong, error of the others at most {worst:.2g}",
            flush=True,
        )
        return wrong

    def measure(self, kind, problem, wrong):
        """(times, states) of all configs by stage, rivals and named configs."""
        stages, functions = work.stages(self.device, kind.name, problem), self.functions(kind, problem)
        size = len(kind.configs)
        times, states = np.full((len(stages), size), np.nan), np.zeros((len(stages), size), np.uint8)
        named = named_configs(kind, problem)
        good = []
        for at, (tile, group) in enumerate(kind.configs):
            found = [of_stage[at // len(kind.groups)] for of_stage in functions]
            state = UNTRIED
            if tile in wrong:
                state = WRONG
            elif any(handle is None for handle, _ in found):
                state = FAILED
            elif at not in named.values():
                if any(about["stack"] > (4 if "inductor" in kind.name else 1) * SPILL for _, about in found):
                    state = SPILLED
                elif not configs.sensible(kind.name, tile, problem) or (
                    group != kind.groups[0] and one_block(kind, tile, problem)
                ):
                    continue
            states[:, at] = state
            if state == UNTRIED:
                good.append(at)
        rate = 7e8 if configs.KINDS[kind.name]["operand"] == "bf16" else 1.4e9  # operations in a µs, at most
        floor = [max(one.touched / 4.2e6, one.operations / rate) + 2.5 for one in stages]
        first = [at for at in good if kind.configs[at][1] == kind.groups[0] or at in named.values()]
        if sum(floor) > 150:
            first = self.likely(kind, problem, first, set(named.values()), states, 80 if sum(floor) > 600 else 120)
        make = lambda at, stage: stages[stage].launch(
            *functions[stage][at // len(kind.groups)], kind.configs[at][0], kind.configs[at][1]
        )
        for stage in range(len(stages)):
            count = max(1, min(16, round(60 / floor[stage])))
            looked = self.device.look([make(at, stage) for at in first], count)
            self.launches += count * len(first)
            times[stage, first], states[stage, first] = looked, COARSE
        picked = self.candidates(kind, times, first, good, set(named.values()), floor)
        differences, spreads, counts = [], [], []
        for stage in range(len(stages)):
            best = np.nanmin(times[stage])
            count, rounds = self.plan(best, len(picked), hasattr(stages[0], "distinct"))
            counts.append(count)
            fine, spread = self.fine(stages[stage], [make(at, stage) for at in picked], count, rounds)
            spreads.append(spread)
            coarse = times[stage, picked]
            differences.append(float(np.nanmedian(fine - coarse)))
            times[stage, first] += differences[-1]
            times[stage, picked], states[stage, picked] = fine, FINE
        rivals, trouble = {}, {}
        for stage, one in enumerate(stages):
            count, rounds = self.plan(float(np.nanmin(times[stage])), 10)
            for name, call in one.rivals().items():
                try:
                    graph = self.device.torch_graph(call, count)
                    rounds_of = self.device.replay([graph], rounds + 1)[0][1:]
                    rivals[name] = (float(np.median(rounds_of)) - self.start_us) / count
                except Exception as error:
                    trouble[name] = " ".join(str(error).split())[:200]
        about = {"rivals": rivals, "trouble": trouble, "named": named, "touched": [one.touched for one in stages],
                 "operations": [one.operations for one in stages], "shift": differences, "spread": spreads,
                 "launches": counts}  # fmt: skip
        if hasattr(stages[0], "distinct"):
            about["distinct"], about["distinct_of"] = stages[0].distinct, stages[0].distinct_of
        return times, states, about

    def likely(self, kind, problem, first, named, states, most):
        """Of slow problems only the configs that stand best on like ones, a few others, and the named."""
        sums, counts = kind.standing[bucket(problem)]
        if len(first) <= most or counts.max(initial=0) < 4:
            return first
        order = sorted(first, key=lambda at: sums[at] / counts[at] if counts[at] else -1.0)
        kept = set(order[: most - 10]) | named
        others = [at for at in first if at not in kept]
        kept |= {others[(7 * problem["id"] + step * 13) % len(others)] for step in range(10)} if others else set()
        for at in first:
            if at not in kept:
                states[:, at] = SLOW
        return [at for at in first if at in kept]

    def candidates(self, kind, times, first, good, named, floor):
        """The configs of the fine round: the best of the coarse one, with all their groups, and the named ones."""
        total = times.sum(axis=0)
        best = np.nanmin(total)
        most = 64 if best < 300 else 40 if best < 1000 else 24
        order = sorted(first, key=lambda at: total[at])
        near = [at for at in order[:most] if total[at] < 1.35 * best]
        for stage in times if len(times) > 1 else []:
            near += sorted(first, key=lambda at: stage[at])[:10]
        allowed = set(good)
        wide = set(near) | (named & allowed)
        if best < 2000:
            for at in near[: most // 3]:
                tile = at // len(kind.groups) * len(kind.groups)
                wide |= {tile + step for step in range(len(kind.groups))} & allowed
        return sorted(wide)

    def plan(self, best, configs_count, routed=False):
        """(launches of a graph, rounds): 20 launches or more, unless they would take long. Several routings, if there are some."""
        count = max(1, min(32, round(160 / best)))
        if routed:
            count = max(count, min(work.ROUTINGS, math.ceil(1200 / best)))
        rounds = max(3, math.ceil(20 / count))
        while rounds > 3 and count * rounds * best * configs_count > 300_000:
            rounds -= 1
        return count, rounds

    def fine(self, stage, launches, count, rounds):
        graphs = [self.device.graph(one, count) for one in launches]
        found = self.device.replay(graphs, rounds)
        for graph in graphs:
            self.device.free(graph)
        self.launches += count * rounds * len(launches)
        spread = float(np.median([(max(one) - min(one)) / np.median(one) for one in found]))
        return np.array([(np.median(one) - self.start_us) / count for one in found]), spread

    def run(self, kind, seconds, limit, suits):
        started, launches = time.time(), self.launches
        until = min(self.until, started + seconds)
        self.device.fill(configs.KINDS[kind.name]["operand"])
        known = {problems.key(one) for one in kind.done}
        wanted = [one for one in problems.of_kind(kind.name) if problems.key(one) not in known and suits(kind, one)]
        wrong = set()
        for test in check_problems(kind.name):
            wrong |= self.check(kind, test)
        facts = {**self.device.facts(), "method": METHOD, "date": time.strftime("%Y-%m-%d"), "graph_start_us": self.start_us}
        saved = count = 0
        for problem in wanted:
            if time.time() > until or count >= limit:
                break
            try:
                times, states, about = self.measure(kind, problem, wrong)
            except MemoryError:
                continue
            kind.done.append({**problem, **about})
            kind.times.append(times)
            kind.states.append(states)
            kind.learn(problem, times)
            count += 1
            if count <= 5 or count % 25 == 0:
                print(line(kind, problem, times, about), flush=True)
            if time.time() - saved > 30:
                kind.save(facts)
                saved = time.time()
        taken = time.time() - started
        facts["seconds"], facts["problems"] = round(taken), count
        kind.save(facts)
        print(
            f"{kind.name}: {count} problems (of {len(wanted)} waiting) in {taken:.0f} s, {(self.launches - launches) / taken:.0f} timings/s",
            flush=True,
        )


def one_block(kind, tile, problem):
    """Whether the width of groups changes nothing."""
    return kind.name.startswith("scaled") and problem["m"] <= tile[1]


def named_configs(kind, problem):
    """Indices of the untuned defaults and of published files' entries."""
    named = {}
    if kind.name == "scaled_mm_block":
        named = {"vllm default": ((64, 128, 128, 2, 4), 32), "sglang default": ((64, 128, 128, 3, 4), 32)}
    elif kind.name.startswith("fused_moe"):
        m, experts, block = problem["m"], problem["experts"], kind.name.endswith("block")
        named["vllm default"] = configs.defaults(kind.name, m, experts)[0]
        named["sglang default"] = configs.sglang_default(kind.name, m, experts)
        word = {"bf16": None, "fp8": "fp8_w8a8"}.get(configs.KINDS[kind.name]["operand"], "none")
        for one in configs.published_files():
            if (one["E"], one["N"], one["dtype"], one["block"]) == (experts, problem["inner"], word, block):
                near = min(one["body"], key=lambda key: abs(int(key) - m))
                name = f"{one['project']} file" + ("" if one["project"] == "vllm" else " " + one["folder"])
                named[name] = configs.config_of_body(one["body"][near], block)
    return {name: kind.index[config] for name, config in named.items() if config in kind.index}


def check_problems(kind):
    if kind.startswith("scaled"):
        return [{"m": 200, "stages": [[1536 + 16, k]]} for k in (1024, 1024 + 128)]
    if kind == "grouped_mm":
        return [{"m": 150, "experts": 8, "top_k": 2, "stages": [[1040, k]]} for k in (512, 512 + 32)]
    return [{"m": 150, "experts": 8, "top_k": 2, "stages": [[1040, 640], [640, 1024]]}]


def line(kind, problem, times, about):
    total = times.sum(axis=0)
    best = int(np.nanargmin(total))
    rivals = {**about["rivals"], **{name: total[at] for name, at in about["named"].items()}}
    shown = ", ".join(f"{name} {value / total[best]:.3f}×" for name, value in rivals.items())
    rate = sum(about["touched"]) / total[best] / 1e6, sum(about["operations"]) / total[best] / 1e6
    return (f"{kind.name} {problem['id']} {problem['model']}/{problem['tp']} {problem['layer']} m={problem['m']} {problem['stages']}: "
            f"{total[best]:.1f} µs ({rate[0]:.2f} TB/s, {rate[1]:.0f} TFLOP/s) by {kind.configs[best]}; {shown} {about['trouble'] or ''}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--cubins", required=True)
    parser.add_argument("--problems", type=int, default=10**9, help="at most so many of each kind")
    parser.add_argument("--seconds", type=float, default=1e9, help="for everything, compiling included")
    parser.add_argument("--models", help="only of these models, separated by commas")
    parser.add_argument("--published", action="store_true", help="only what a published file of vLLM's serves")
    parser.add_argument("kinds", nargs="+", metavar="KIND=SECONDS")
    chosen = parser.parse_args()
    session_ends = time.time() + chosen.seconds
    wanted = [(name, float(seconds)) for name, seconds in (one.split("=") for one in chosen.kinds)]
    variants = [one for name, _ in wanted for one in configs.variants(name, problems.of_kind(name) + check_problems(name))]
    cubins.compile_all(chosen.cubins, variants, os.cpu_count(), session_ends - 30)
    os.makedirs(chosen.out, exist_ok=True)
    session = Session(chosen.out, chosen.cubins, session_ends - time.time() - 5)
    models = chosen.models.split(",") if chosen.models else None
    suits = lambda kind, one: (
        (not models or one["model"] in models) and (not chosen.published or "vllm file" in named_configs(kind, one))
    )
    for name, seconds in wanted:
        try:
            session.run(Kind(name, chosen.out), seconds, chosen.problems, suits)
        except Exception:
            import traceback

            traceback.print_exc()


if __name__ == "__main__":
    main()
